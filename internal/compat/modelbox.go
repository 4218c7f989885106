// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shared "d3os.com/d3os-operator/api/compat"
	modelv1 "d3os.com/d3os-operator/api/model/v1"
	"d3os.com/d3os-operator/internal/render"
)

// NewModelBoxes returns the kind ModelBox.
func NewModelBoxes(renderer *render.Renderer, c client.Client) *Kind[*modelv1.ModelBox] {
	return newKind(definition[*modelv1.ModelBox]{
		gvk:    modelv1.GroupVersion.WithKind(modelv1.Kind),
		create: func() *modelv1.ModelBox { return &modelv1.ModelBox{} },
		status: func(m *modelv1.ModelBox) *shared.Status { return &m.Status.Status },
		values: func(m *modelv1.ModelBox, _ string) (string, map[string]any, error) {
			return "microservice", modelBox(&m.Spec), nil
		},
	}, renderer, c, "")
}

// modelBox returns the values of a ModelBox. If the first port is a TCP port, a probe that the spec lacks is the chart's default, which connects to
// that port.
func modelBox(spec *modelv1.ModelBoxSpec) map[string]any {
	v := service(spec.Replicas, &spec.Container, spec.Ports)
	v["minReadySeconds"] = spec.MinReadySeconds
	if pace := spec.RollingUpdate; pace != "" {
		v["rollingUpdate"] = map[string]any{"maxSurge": pace, "maxUnavailable": pace}
	}
	probes := v["probes"].(map[string]any)
	if len(spec.Ports) > 0 && spec.Ports[0].Protocol == corev1.ProtocolTCP {
		clear(probes) // removes the nil values that turn off the chart's default probes
	}
	for name, probe := range map[string]*corev1.Probe{"readiness": spec.ReadinessProbe, "liveness": spec.LivenessProbe} {
		if probe != nil {
			probes[name] = probe
		}
	}
	return v
}
