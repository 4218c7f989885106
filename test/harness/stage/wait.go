// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
)

// Unless returns nil when something holds, and otherwise an error with these words.
func Unless(holds bool, otherwise string) error {
	if holds {
		return nil
	}
	return errors.New(otherwise)
}

// Eventually waits until something is so. It is for what says by its name what is missing; Until is for the rest.
func (s *Stage) Eventually(what string, is func() bool) {
	s.Helper()
	s.Until(what, func() error { return Unless(is(), "it is not so yet") })
}

// Pass lets a while pass.
func (s *Stage) Pass(while time.Duration) {
	_ = s.Within(while, func() error { return errors.New("it is not over") })
}

// Rests waits until an operator has written no object for a while.
func (s *Stage) Rests(op *Operator, while time.Duration) {
	s.Helper()
	s.Until("the operator rests", func() error {
		mark := op.Mark()
		wrote := func() error { return Unless(len(op.Since(mark, harness.Sent.WritesObject)) > 0, "not yet") }
		return Unless(s.Within(while, wrote) != nil, "it goes on writing")
	})
}

// AsksNothing fails the test if an operator asks the API server for something, or tells it something, for a while.
func (s *Stage) AsksNothing(op *Operator, while time.Duration) {
	s.Helper()
	mark := op.Mark()
	s.Pass(while)
	sent := op.Since(mark, func(r harness.Sent) bool { return r.Reads() || r.Writes() })
	s.Logf("%d requests to the API server in %s at rest", len(sent), while)
	if len(sent) > 0 {
		s.Errorf("at rest: %v", sent)
	}
}

// Events returns the events of the namespace.
func (s *Stage) Events() []eventsv1.Event {
	s.Helper()
	list := &eventsv1.EventList{}
	s.Must(s.Suite.API.List(s.Ctx, list, client.InNamespace(s.Namespace)))
	return list.Items
}

// Story logs what a status said since a mark of the journal, in order. line is what an object says; "" for those that do not count.
func (s *Stage) Story(from int, line func(client.Object) string) {
	last, began := "", time.Time{}
	for _, c := range s.Since(from) {
		text := line(c.Object)
		if text == "" || text == last {
			continue
		}
		if began.IsZero() {
			began = c.At
		}
		s.Logf("%6.1f %s", c.At.Sub(began).Seconds(), text)
		last = text
	}
}

// LastWords logs what the containers of pods that are not ready printed last. log returns what a container has printed.
func (s *Stage) LastWords(log func(pod, container string) (string, error)) {
	for _, pod := range harness.Every[*corev1.Pod](s.Journal) {
		if IsReady(pod) {
			continue
		}
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			text, _ := log(pod.Name, c.Name)
			lines := strings.Split(strings.TrimSpace(text), "\n")
			s.Logf("%s %s: %s %v\n%s", pod.Name, c.Name, pod.Status.Phase, pod.Annotations, strings.Join(lines[max(0, len(lines)-12):], "\n"))
		}
	}
}
