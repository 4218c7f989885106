// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// Platform is the name of the DataService of tests that have one beside the kind that they are about.
const Platform = "platform"

// NewPlatform is a DataService with a spec in YAML.
func (s *Stage) NewPlatform(spec string) *unstructured.Unstructured {
	s.Helper()
	ds := &unstructured.Unstructured{Object: harness.Fields{}}
	s.Must(yaml.Unmarshal([]byte("spec: "+spec), &ds.Object))
	ds.SetGroupVersionKind(dsv1.GroupVersion.WithKind(dsv1.Kind))
	ds.SetName(Platform)
	return ds
}

// ChangePlatform patches the spec of the DataService (JSON merge patch in YAML), and returns its generation.
func (s *Stage) ChangePlatform(spec string) int64 {
	s.Helper()
	fields := harness.Fields{}
	s.Must(yaml.Unmarshal([]byte(spec), &fields))
	return s.Change(Platform, fields)
}

// Become patches the spec of the DataService and waits until it is ready.
func (s *Stage) Become(spec string) {
	s.Helper()
	generation := s.ChangePlatform(spec)
	s.Until("ready after the change", func() error { return s.IsReady(Platform, generation) })
}

// DeletePlatform deletes the DataService.
func (s *Stage) DeletePlatform() {
	s.Helper()
	s.Must(s.Suite.API.Delete(s.Ctx, &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: Platform}}))
}

// Stalls waits until the DataService is stalled for a reason, in these words.
func (s *Stage) Stalls(reason string, words ...string) {
	s.Helper()
	s.Until("it is told", func() error {
		return harness.HasCondition(s.DataService(Platform), dsv1.ConditionStalled, metav1.ConditionTrue, reason, words...)
	})
}

// Component returns what the status of the DataService says of a component.
func (s *Stage) Component(name string) dsv1.ComponentStatus {
	if ds := s.DataService(Platform); ds != nil {
		for _, c := range ds.Status.Components {
			if c.Name == name {
				return c
			}
		}
	}
	return dsv1.ComponentStatus{}
}

// AwaitsThirdParty waits until the status says that a component was moved elsewhere, and does not answer there.
func (s *Stage) AwaitsThirdParty(component string) {
	s.Helper()
	s.Until("it is said that the other does not answer", func() error {
		c := s.Component(component)
		return Unless(c.Kind == "ThirdParty" && c.Phase != dsv1.PhaseRunning, fmt.Sprintf("%+v", c))
	})
}

// WaitsFor fails the test if an object of a component was there before an object said that it is ready.
func (s *Stage) WaitsFor(component string, isReady func(harness.Change) bool) {
	s.Helper()
	ready := false
	for _, c := range s.Since(0) {
		ready = ready || isReady(c)
		if c.Object.GetLabels()["app.kubernetes.io/name"] == component && !ready {
			s.Errorf("%s was there before what it uses was ready", c.ID)
		}
	}
	if !ready {
		s.Errorf("what %s uses was never ready", component)
	}
}
