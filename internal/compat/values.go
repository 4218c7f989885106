// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	shared "d3os.com/d3os-operator/api/compat"
)

// container returns the chart values of a container. As with the operators that this one replaces, the container runs as the user of its
// image, and has no default limits.
func container(c *shared.Container) map[string]any {
	resources := c.Resources
	if resources == nil {
		resources = &corev1.ResourceRequirements{}
	}
	return map[string]any{
		"image": c.Image, "envs": c.Envs, "size": "custom", "resources": resources, "timeZone": "",
		"podSecurityContext": map[string]any{"runAsNonRoot": nil, "runAsUser": nil, "runAsGroup": nil, "fsGroup": nil, "fsGroupChangePolicy": nil},
		"securityContext":    map[string]any{"capabilities": nil, "readOnlyRootFilesystem": nil},
	}
}

// service returns the values of a Deployment with a Service of type NodePort, without probes.
func service(replicas *int32, c *shared.Container, ports []shared.Port) map[string]any {
	v := container(c)
	v["kind"], v["replicas"], v["serviceType"] = "Deployment", replicas, "NodePort"
	v["disruptionBudget"] = map[string]any{"disabled": true}
	v["probes"] = map[string]any{"startup": nil, "readiness": nil, "liveness": nil}
	var all []any
	for i := range ports {
		p := &ports[i]
		name := p.Name
		if name == "" {
			name = fmt.Sprintf("port-%d", p.Port)
			if p.Protocol != corev1.ProtocolTCP {
				name += "-" + strings.ToLower(string(p.Protocol))
			}
		}
		port := map[string]any{"name": name, "port": p.Port, "protocol": p.Protocol}
		if p.TargetPort != 0 {
			port["targetPort"] = p.TargetPort
		}
		if p.NodePort != 0 {
			port["nodePort"] = p.NodePort
		}
		all = append(all, port)
	}
	v["ports"] = all
	return v
}
