// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
)

// Of two operators one works; when it ends the other takes over at once, with a full cache.
func TestStandbyTakesOver(t *testing.T) {
	e := alone(t)
	elect := func(_ *rest.Config, o *manager.Options) {
		o.LeaderElection, o.LeaderElectionNamespace = true, e.namespace
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 15*time.Second, 10*time.Second, 500*time.Millisecond
	}
	leader := e.startOperator(elect)
	standby := e.launch(elect)
	name := e.createReady(small())
	if writes := standby.since(0, request.Writes); len(writes) > 0 {
		t.Errorf("the standby wrote: %v", writes)
	}
	select {
	case <-standby.elected:
		t.Fatal("both lead")
	default:
	}
	leader.stop()
	released := time.Now()
	e.change(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	select {
	case <-standby.elected:
	case <-time.After(patience):
		t.Fatal("the standby does not take over")
	}
	took := time.Since(released)
	e.until("the change is made", func() error {
		return unless(pod(lookup[*appsv1.Deployment](e.journal, "auth")).Containers[0].Image == "registry.example/auth:v2", "it is not")
	})
	t.Logf("the standby led after %s and had made a change after %s", took, time.Since(released))
	if took > 2*time.Second {
		t.Errorf("the standby led after %s", took)
	}
	e.ready(name)
	last, first := leader.since(0, request.Writes), standby.since(0, request.Writes)
	if !last[len(last)-1].at.Before(first[0].at) {
		t.Error("both wrote at the same time")
	}
	e.equal("objects that the standby wrote", objects(standby.since(0, request.WritesObject)), []string{"Deployment/auth"})
}
