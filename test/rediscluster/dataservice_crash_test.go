// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"errors"
	"testing"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
)

// The operator crashes as it creates the RedisCluster of a DataService, as it pauses it, and as it removes it: before the
// request is sent, after it took effect, and with its answer lost (the short form). The next one goes on, and no data is lost.
func TestCrashesWithADataService(t *testing.T) {
	harness.Long(t)
	crashes := map[string]fault.Action{"lost": fault.CrashLost}
	if full {
		crashes["before"], crashes["after"] = fault.CrashBefore, fault.CrashAfter
	}
	for name, crash := range crashes {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.crashing("apply", crash, func() { s.Create(dataService(t, withService)) })
			s.Ready(platform)
			s.ready(6)
			s.write()
			s.crashing("patch", crash, func() { s.patch("{paused: true}") })
			s.Until("Redis is paused", func() error {
				if !s.get().Spec.Pause {
					return errors.New("it is not")
				}
				return nil
			})
			s.become("{paused: false}")
			s.crashing("delete", crash, func() { s.patch("{redis: null, additionalServices: null}") })
			s.keptData()
			s.become(withService)
			s.ready(6)
			s.holds()
			s.serviceWorks()
		})
	}
}

// crashing lets the operator crash at its next write of the RedisCluster itself that is of a sort, and starts the next one.
func (s *scene) crashing(verb string, crash fault.Action, act func()) {
	s.Helper()
	if s.operator != nil {
		s.operator.Stop()
	}
	process := fault.New()
	rule := fault.Point{Verb: verb, Resource: "redisclusters", Name: name, Nth: 1}.Rule(crash)
	process.Rule(rule)
	s.operator = s.Start(func(config *rest.Config, _ *manager.Options) { config.Wrap(process.Wrap) })
	act()
	s.Until("the operator crashes", func() error {
		select {
		case <-process.Crashed():
			return nil
		default:
			return errors.New("it does not")
		}
	})
	s.operator.Stop()
	s.operator = s.Start()
}
