// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops knows by its marks which tool keeps a resource as a repository
// has it. What such a tool manages is changed in the repository.
package gitops

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tool keeps a resource as a repository has it.
type Tool struct {
	// Name is the tool's and that of what it manages the resource with: Flux Kustomization apps/platform.
	Name string
	// Suspend is the command that makes the tool leave the resource alone for a while.
	Suspend string
}

// Find returns the tool that manages a resource, or nil.
func Find(resource metav1.Object) *Tool {
	labels, annotations := resource.GetLabels(), resource.GetAnnotations()
	for _, kind := range []struct{ group, title, command string }{
		{"kustomize.toolkit.fluxcd.io", "Flux Kustomization", "kustomization"},
		{"helm.toolkit.fluxcd.io", "Flux HelmRelease", "helmrelease"},
	} {
		if name := labels[kind.group+"/name"]; name != "" {
			namespace := labels[kind.group+"/namespace"]
			return &Tool{fmt.Sprintf("%s %s/%s", kind.title, namespace, name), fmt.Sprintf("flux suspend %s %s -n %s", kind.command, name, namespace)}
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
			return &Tool{"Flux (kustomize-controller)", "flux suspend kustomization NAME"}
		case entry.Manager == "helm-controller":
			return &Tool{"Flux (helm-controller)", "flux suspend helmrelease NAME"}
		}
	}
	return nil
}

func argo(application string) *Tool {
	return &Tool{"Argo CD application " + application, "argocd app set " + application + " --sync-policy none"}
}
