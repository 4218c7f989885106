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
)

// costs reports whether a request is one that an idle operator must not send.
func costs(r harness.Sent) bool { return r.Verb != "watch" && r.Resource != "leases" }

// An operator that starts over healthy DataServices, and one that looks at all of them again,
// sends nothing.
func TestHealthyDataServicesCostNothing(t *testing.T) {
	e := alone(t)
	op := e.Start()
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
	op.Stop()

	seen := e.reconciled()
	op = e.Start(func(_ *rest.Config, o *manager.Options) { o.ResyncPeriod = 1200 * time.Millisecond })
	e.Until("all are looked at", func() error { return e.reconciledSince(seen, others+1) })
	e.equal("writes after a restart", asText(op.Since(0, func(r harness.Sent) bool { return costs(r) && !r.Reads() })), nil)
	started := op.Mark()
	for range 2 {
		seen = e.reconciled()
		if err := e.Within(10*time.Second, func() error { return e.reconciledSince(seen, others+1) }); err != nil {
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
	return unless(done >= float64(n), fmt.Sprintf("%v of %d reconciliations", done, n))
}

// A change costs the writes that it needs, a few status writes and no read.
func TestChangeCosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change fields
		writes int
	}{
		{"image", fields{"auth": fields{"image": "registry.example/auth:v2"}}, 1},
		{"scale", fields{"proxy": fields{"replica": 3}}, 1},
		{"scale beyond one, which gives a disruption budget", fields{"auth": fields{"replica": 2}}, 2},
		{"removed variable", fields{"auth": fields{"env": fields{"ONE": nil}}}, 1},
		{"port", fields{"web": fields{"port": 8080}}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := parallel(t)
			op := e.Start()
			name := e.CreateReady(small(fields{"auth": fields{"env": fields{"ONE": "1", "TWO": "2"}}, "proxy": fields{"replica": 2}}))
			mark := op.Mark()
			e.ChangeReady(name, c.change)
			e.never("more is written than needed", func() bool { return len(op.Since(mark, harness.Sent.WritesObject)) > c.writes })
			if n := len(op.Since(mark, harness.Sent.WritesObject)); n != c.writes {
				t.Errorf("%d object writes", n)
			}
			if writes := op.Since(mark, harness.Sent.WritesStatus); len(writes) > 3 {
				t.Errorf("%d status writes", len(writes))
			}
			e.equal("reads", asText(op.Since(mark, harness.Sent.Reads)), nil)
			e.Ready(name)
		})
	}
}
