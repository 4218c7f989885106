// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestManagedBy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want *gitOpsTool
	}{
		"nobody": {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl-edit"}}}, nil},
		"a kustomization of Flux": {metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "platform", "kustomize.toolkit.fluxcd.io/namespace": "apps"}},
			&gitOpsTool{"Flux Kustomization apps/platform", "flux suspend kustomization platform -n apps"}},
		"a release of Flux": {metav1.ObjectMeta{Labels: map[string]string{"helm.toolkit.fluxcd.io/name": "platform", "helm.toolkit.fluxcd.io/namespace": "apps"}},
			&gitOpsTool{"Flux HelmRelease apps/platform", "flux suspend helmrelease platform -n apps"}},
		"Argo CD by annotation": {metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "data:d3os-product.com.d3os/DataService:a/platform"}},
			&gitOpsTool{"Argo CD application data", "argocd app set data --sync-policy none"}},
		"Argo CD by label":           {metav1.ObjectMeta{Labels: map[string]string{"argocd.argoproj.io/instance": "data"}}, &gitOpsTool{"Argo CD application data", "argocd app set data --sync-policy none"}},
		"Argo CD by managed fields":  {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "argocd-controller"}}}, &gitOpsTool{"Argo CD application APPLICATION", "argocd app set APPLICATION --sync-policy none"}},
		"Flux by managed fields":     {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kustomize-controller"}}}, &gitOpsTool{"Flux (kustomize-controller)", "flux suspend kustomization NAME"}},
		"Flux's Helm, by the fields": {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm-controller"}}}, &gitOpsTool{"Flux (helm-controller)", "flux suspend helmrelease NAME"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.DeepEqual(t, managedBy(&test.meta), test.want)
		})
	}
}
