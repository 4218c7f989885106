// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gitOpsTool is a tool that synchronizes a resource with a repository. Users must make changes in the repository.
type gitOpsTool struct {
	// Name names the tool and its resource, such as "Flux Kustomization apps/platform".
	Name string
	// Suspend is the command that stops the tool from managing the resource.
	Suspend string
}

// managedBy returns the tool that manages a resource, or nil. It recognizes the tool by the labels and annotations that the tool sets.
func managedBy(resource metav1.Object) *gitOpsTool {
	labels, annotations := resource.GetLabels(), resource.GetAnnotations()
	for _, kind := range []struct{ group, title, command string }{
		{"kustomize.toolkit.fluxcd.io", "Flux Kustomization", "kustomization"},
		{"helm.toolkit.fluxcd.io", "Flux HelmRelease", "helmrelease"},
	} {
		if name := labels[kind.group+"/name"]; name != "" {
			namespace := labels[kind.group+"/namespace"]
			return &gitOpsTool{fmt.Sprintf("%s %s/%s", kind.title, namespace, name), fmt.Sprintf("flux suspend %s %s -n %s", kind.command, name, namespace)}
		}
	}
	if id := annotations["argocd.argoproj.io/tracking-id"]; id != "" {
		application, _, _ := strings.Cut(id, ":")
		return argo(application)
	}
	if application := labels["argocd.argoproj.io/instance"]; application != "" {
		return argo(application)
	}
	for _, entry := range resource.GetManagedFields() {
		switch {
		case strings.HasPrefix(entry.Manager, "argocd-"):
			return argo("APPLICATION")
		case entry.Manager == "kustomize-controller":
			return &gitOpsTool{"Flux (kustomize-controller)", "flux suspend kustomization NAME"}
		case entry.Manager == "helm-controller":
			return &gitOpsTool{"Flux (helm-controller)", "flux suspend helmrelease NAME"}
		}
	}
	return nil
}

func argo(application string) *gitOpsTool {
	return &gitOpsTool{"Argo CD application " + application, "argocd app set " + application + " --sync-policy none"}
}
