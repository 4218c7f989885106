// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
)

// story logs what the status said, in order.
func (s *scene) story() {
	s.Story(0, func(o client.Object) string {
		rc, ok := o.(*redisv1.RedisCluster)
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s %s %d %s: %s", rc.Status.Phase, rc.Status.Ready, rc.Status.Slots, rc.Status.Reason, rc.Status.Message)
	})
}

// tellsAsItHappens fails the test unless the status, as kubectl get shows it, followed a new shard while it got its slots.
func (s *scene) tellsAsItHappens() {
	s.Helper()
	var slots []int
	told := map[string]bool{}
	for _, c := range s.Since(0) {
		rc, ok := c.Object.(*redisv1.RedisCluster)
		if !ok || rc.Status.Phase != redisv1.PhaseScaling {
			continue
		}
		told[rc.Status.Message] = true
		for _, i := range rc.Status.Instances {
			owned, err := topology.ParseSlotSet(i.Slots)
			s.Must(err)
			if i.Name == name+"-3-0" && (len(slots) == 0 || slots[len(slots)-1] != owned.Len()) {
				slots = append(slots, owned.Len())
			}
		}
	}
	s.Logf("while it scaled out, the status said that the new shard has %v slots, and %d different messages", slots, len(told))
	if !slices.IsSorted(slots) || len(slots) < 3 {
		s.Errorf("the status told of the new shard's slots as %v: want them to rise as they move", slots)
	}
	for _, text := range []string{"record cache-3-", "make cache-3-1 a replica of cache-3-0", "move 1365 slots (0-1364) from cache-0-0 to cache-3-0"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(told)), func(m string) bool { return strings.Contains(m, text) }) {
			s.Errorf("the status never said: %s", text)
		}
	}
}

// tells fails the test unless an event of a reason says something that a regular expression matches.
func (s *scene) tells(text, reason string) {
	s.Helper()
	wanted := regexp.MustCompile(text)
	err := s.Within(patience, func() error {
		var said []string
		for _, e := range s.Events() {
			if e.Reason == reason && wanted.MatchString(e.Note) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Note)
		}
		return fmt.Errorf("events: %s", strings.Join(said, "\n"))
	})
	if err != nil {
		s.Errorf("no event says %s: %v", text, err)
	}
}
