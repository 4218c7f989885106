// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// costs reports whether a request is one that an idle operator must not send.
func costs(r harness.Sent) bool { return r.Verb != "watch" && r.Resource != "leases" }

// An operator that starts over healthy DataServices writes nothing, whichever version it is as long as the charts did not
// change, and one that looks at all of them again sends nothing.
func TestHealthyDataServicesCostNothing(t *testing.T) {
	e := alone(t)
	op := e.Start(ofVersion("0.3.0"))
	const others = 19
	name := e.CreateReady(sample())
	for i := range others {
		ds := small(fields{"mysql": nil, "uuc": nil, "auth": nil, "proxy": nil, "web": nil,
			"eureka": fields{"name": fmt.Sprintf("eureka-%d", i)}})
		ds.SetName(fmt.Sprintf("other-%d", i))
		e.Create(ds)
	}
	for i := range others {
		e.Ready(fmt.Sprintf("other-%d", i))
	}
	e.equal("written by", e.writers(), []string{"0.3.0"})
	var seen float64
	for _, version := range []string{"0.4.0", "0.0.0-dev", "0.3.0"} { // an upgrade, a developer's, and the way back
		op.Stop()
		seen = e.reconciled()
		op = e.Start(ofVersion(version), func(_ *rest.Config, o *manager.Options) { o.ResyncPeriod = 1200 * time.Millisecond })
		e.Until("all are looked at", func() error { return e.reconciledSince(seen, others+1) })
		e.equal("writes of "+version, asText(op.Since(0, func(r harness.Sent) bool { return costs(r) && !r.Reads() })), nil)
	}
	started := op.Mark()
	for range 2 {
		seen = e.reconciled()
		if err := e.Within(patience, func() error { return e.reconciledSince(seen, others+1) }); err != nil {
			t.Errorf("all are looked at again: %v", err)
		}
	}
	e.equal("requests while nothing happens", asText(op.Since(started, costs)), nil)
	e.Ready(name)
}

func asText(requests []harness.Sent) []string {
	var found []string
	for _, r := range requests {
		found = append(found, r.String())
	}
	return found
}

// reconciled is how many reconciliations there were in this process.
func (e *env) reconciled() float64 {
	e.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	e.Must(err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func (e *env) reconciledSince(before float64, n int) error {
	done := e.reconciled() - before
	return stage.Unless(done >= float64(n), fmt.Sprintf("%v of %d reconciliations", done, n))
}
