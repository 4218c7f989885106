// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// CreateWith creates a resource with a spec in YAML, which is read strictly into that field of it.
func (s *Stage) CreateWith(resource client.Object, field any, spec string) {
	s.Helper()
	s.Must(yaml.UnmarshalStrict([]byte(spec), field))
	resource.SetNamespace(s.Namespace)
	s.Must(s.Suite.API.Create(s.Ctx, resource))
}

// Patch patches the spec of a resource (JSON merge patch in YAML).
func (s *Stage) Patch(resource client.Object, spec string) {
	s.Helper()
	patch, err := yaml.YAMLToJSON([]byte("spec: " + spec))
	s.Must(err)
	resource.SetNamespace(s.Namespace)
	s.Must(s.Suite.API.Patch(s.Ctx, resource, client.RawPatch(types.MergePatchType, patch)))
}

// Read reads the resource of that name as it is.
func (s *Stage) Read(resource client.Object) {
	s.Helper()
	s.Must(s.Suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: resource.GetName()}, resource))
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
