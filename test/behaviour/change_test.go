// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The operator writes a change of the spec once to each object that depends on it, and to no other object. It reads no object for
// this. A component that is removed from the spec is removed from the cluster. A component that is added again is created again.
func TestChangesReachOnlyWhatTheyTouch(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(sample())
	deployment := func(name string) *appsv1.Deployment { return harness.Lookup[*appsv1.Deployment](e.Journal, name) }
	gone := func(component string) func() bool {
		return func() bool { return len(e.pods(component)) == 0 && e.componentStatus(name, component).Name == "" }
	}
	adapter := []string{"ConfigMap/trd-adapter", "ConfigMap/trd-adapter-py", "Service/trd-adapter", "Deployment/trd-adapter"}
	proxy := []string{"ConfigMap/proxy", "Service/proxy", "Deployment/proxy", "ConfigMap/web-template", "Deployment/web"}
	const unusual = "a\x7fb\u0085c\u2028d\ufeffe\uffff: # f" // JSON allows these characters unescaped, YAML does not
	for _, c := range []struct {
		what    string
		change  fields
		reaches []string
		holds   func() bool
	}{
		{"scale", fields{"auth": fields{"replica": 2}}, []string{"Deployment/auth", "PodDisruptionBudget/auth"},
			func() bool { return deployment("auth").Status.ReadyReplicas == 2 }},
		{"env", fields{"api-manager": fields{"env": fields{"writer": nil, "reader": unusual}}}, []string{"Deployment/api-manager"},
			func() bool {
				env := deployment("api-manager").Spec.Template.Spec.Containers[0].Env
				stays := slices.ContainsFunc(env, func(v corev1.EnvVar) bool { return v.Name == "writer" })
				return !stays && slices.Contains(env, corev1.EnvVar{Name: "reader", Value: unusual})
			}},
		{"url of uuc", fields{"uuc": fields{"thirdParty": fields{"url": "https://login.example.org/uuc/"}}},
			[]string{"Service/uuc", "Deployment/uuc-probe", "ConfigMap/auth", "Deployment/auth", "ConfigMap/web", "Deployment/web"}, nil},
		{"rollout order", fields{"rollout": fields{"order": "Sequential"}}, nil, nil},
		{"port of proxy", fields{"proxy": fields{"port": 9194}}, proxy, nil},
		{"component", fields{"trd-adapter": nil}, adapter, gone("trd-adapter")},
		{"component again", fields{"trd-adapter": sample().Object["spec"].(fields)["trd-adapter"]}, adapter,
			func() bool { return len(e.pods("trd-adapter")) == 1 }},
		{"component that others refer to", fields{"proxy": nil}, proxy, gone("proxy")},
	} {
		before, mark := versions(e.made()...), op.Mark()
		e.ChangeReady(name, c.change)
		if c.holds != nil {
			e.Until(c.what, func() error { return stage.Unless(c.holds(), "it is not what runs") })
		}
		e.equal(c.what+": objects that have changed", e.touchedOrNew(before), c.reaches)
		e.cost(c.what, op, mark, c.reaches)
		if seen := e.eventCount("DriftCorrected"); seen > 0 {
			e.Fatalf("%s: %d corrections have events", c.what, seen)
		}
	}
}

// touchedOrNew returns the operator's objects whose version has changed, that were deleted, or that are new.
func (e *env) touchedOrNew(before map[string]any) []string {
	changed := e.touched(before)
	for _, id := range harness.IDs(e.made()) {
		if before[id] == nil {
			changed = append(changed, id)
		}
	}
	return changed
}

// cost compares an operator's requests for a change with the objects that the change affects.
func (e *env) cost(what string, op *stage.Operator, mark int, reaches []string) {
	e.Helper()
	// A reconciliation whose cache still shows a deleted object requests the deletion once more. The API server then writes nothing.
	writes := op.Since(mark, func(r harness.Sent) bool {
		return r.WritesObject() && (r.Verb != "delete" || r.Code != http.StatusNotFound)
	})
	e.equal(what+": objects written", harness.Objects(writes), reaches)
	if len(writes) != len(harness.Objects(writes)) {
		e.Errorf("%s: %d writes for %d objects: %v", what, len(writes), len(harness.Objects(writes)), writes)
	}
	// If the history is full, the operator reads it once for each spec, to delete the oldest entry.
	if reads := readsOfOthers(op.Since(mark, func(r harness.Sent) bool { return r.Reads() && !r.ReadsHistory() }), writes); len(reads) > 0 {
		e.Errorf("%s: %v", what, reads)
	}
	if reads := op.Since(mark, func(r harness.Sent) bool { return r.ReadsHistory() }); len(reads) > 1 {
		e.Errorf("%s: the history is read %d times", what, len(reads))
	}
	if statuses := op.Since(mark, harness.Sent.WritesStatus); len(statuses) > 3+4*len(reaches) { // the status shows each step of a rollout
		e.Errorf("%s: %d status writes", what, len(statuses))
	}
}

// readsOfOthers returns the reads of objects that the operator has not written. The operator reads objects that it has written if its cache does not
// show the write in time (internal/kube), as on a busy machine.
func readsOfOthers(reads, writes []harness.Sent) []harness.Sent {
	return slices.DeleteFunc(reads, func(r harness.Sent) bool {
		return slices.ContainsFunc(writes, func(w harness.Sent) bool { return w.Resource == r.Resource && w.Name == r.Name })
	})
}

// runs reports whether all pods of a component run an image.
func (e *env) runs(component, image string) bool {
	pods := e.pods(component)
	for _, p := range pods {
		if p.Spec.Containers[0].Image != image {
			return false
		}
	}
	return len(pods) > 0
}

// pods returns the pods of a component that are not being deleted.
func (e *env) pods(component string) []*corev1.Pod {
	var found []*corev1.Pod
	for _, p := range harness.Every[*corev1.Pod](e.Journal) {
		if p.Labels["app.kubernetes.io/name"] == component && p.DeletionTimestamp == nil {
			found = append(found, p)
		}
	}
	return found
}

// costs reports whether a request is one that an idle operator must not send.
func costs(r harness.Sent) bool { return r.Verb != "watch" && r.Resource != "leases" }

// An operator of any version that finds healthy DataServices at its start writes nothing, if the charts have not
// changed. When it reconciles all of them again, it sends no request.
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
	for _, version := range []string{"0.4.0", "0.0.0-dev", "0.3.0"} { // an upgrade, a development build, and a downgrade
		op.Stop()
		seen = e.reconciled()
		op = e.Start(ofVersion(version), func(_ *rest.Config, o *manager.Options) { o.ResyncPeriod = 1200 * time.Millisecond })
		e.Until("all are looked at", func() error { return e.reconciledSince(seen, others+1) })
		e.equal("writes of "+version, asText(op.Since(0, func(r harness.Sent) bool { return costs(r) && !r.Reads() && r.Resource != "selfsubjectaccessreviews" })), nil)
	}
	started := op.Mark()
	for range 2 {
		seen = e.reconciled()
		if err := e.Within(patience, func() error { return e.reconciledSince(seen, others+1) }); err != nil {
			t.Errorf("not all DataServices are reconciled again: %v", err)
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

// reconciled returns the number of reconciliations in this process.
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
