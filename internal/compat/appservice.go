// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "d3os.com/d3os-operator/api/app/v1"
	shared "d3os.com/d3os-operator/api/compat"
	"d3os.com/d3os-operator/internal/render"
)

// NewAppServices returns the kind AppService.
func NewAppServices(renderer *render.Renderer, c client.Client) *Kind[*appv1.AppService] {
	return newKind(definition[*appv1.AppService]{
		gvk:    appv1.GroupVersion.WithKind(appv1.Kind),
		create: func() *appv1.AppService { return &appv1.AppService{} },
		status: func(a *appv1.AppService) *shared.Status { return &a.Status.Status },
		values: func(a *appv1.AppService, _ string) (string, map[string]any, error) {
			return "microservice", service(a.Spec.Size, &a.Spec.Container, a.Spec.Ports), nil
		},
	}, renderer, c, "")
}
