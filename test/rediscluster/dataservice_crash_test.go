// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"testing"

	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The operator crashes as it creates the RedisCluster of a DataService, as it pauses it, and as it removes it: before the
// request is sent, after it took effect, and with its answer lost (the short form). The next one goes on, and no data is lost.
func TestCrashesWithADataService(t *testing.T) {
	harness.Long(t)
	for name, crash := range stage.Crashes {
		if name != "lost" && !full {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.crashing("apply", crash, func() { s.Create(s.NewPlatform(withService)) })
			s.Ready(platform)
			s.ready(6)
			s.write()
			s.crashing("patch", crash, func() { s.ChangePlatform("{paused: true}") })
			s.Eventually("Redis is paused", func() bool { return s.get().Spec.Pause })
			s.Become("{paused: false}")
			s.crashing("delete", crash, func() { s.ChangePlatform("{redis: null, additionalServices: null}") })
			s.keptData()
			s.Become(withService)
			s.ready(6)
			s.holds()
			s.serviceWorks()
		})
	}
}

// crashing lets the operator crash at its next write of the RedisCluster itself that is of a sort, and starts the next one.
func (s *scene) crashing(verb string, crash fault.Action, act func()) {
	s.Helper()
	point := fault.Point{Verb: verb, Resource: "redisclusters", Name: name, Nth: 1}
	s.operator = s.CrashAt(s.operator, s.Start, point.Rule(crash), act)
}
