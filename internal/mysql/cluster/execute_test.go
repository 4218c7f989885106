// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	k8sclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/mysql/client"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// agents simulates the agents of a database. It records queries and orders.
type agents struct {
	mu      sync.Mutex
	reach   Reach
	answers map[int]*mysqlmember.Answer
	looks   []int
	limits  map[int]time.Duration // by member: the time limit of the last query
	needs   map[int]time.Duration // by member: the time that an answer takes
	orders  []string
	err     error // result of orders
}

func (a *agents) connect(r Reach) Members {
	a.reach = r
	return a
}

func (a *agents) Look(ctx context.Context, ordinal int) (mysqlmember.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	end, _ := ctx.Deadline()
	if a.limits == nil {
		a.limits = map[int]time.Duration{}
	}
	a.limits[ordinal] = time.Until(end)
	if a.limits[ordinal] < a.needs[ordinal] {
		return mysqlmember.Answer{}, context.DeadlineExceeded
	}
	a.looks = append(a.looks, ordinal)
	if a.answers[ordinal] == nil {
		return mysqlmember.Answer{}, errors.New("no answer")
	}
	return *a.answers[ordinal], nil
}

func (a *agents) Order(_ context.Context, s replication.Step) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.orders = append(a.orders, fmt.Sprintf("%s %d", s.Action, s.Member.Ordinal))
	return a.err
}

const gtids = "00000000-0000-0000-0000-000000000001:1-9"

func server(ordinal int) string { return fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", ordinal) }

func identity(ordinal int) replication.Identity {
	return replication.Identity{Ordinal: ordinal, Server: server(ordinal)}
}

// answer returns the answer of a healthy member. Member 0 is the primary of epoch 3 and revision 7. The others are voters.
func answer(ordinal int) *mysqlmember.Answer {
	a := &mysqlmember.Answer{Report: mysqlmember.Report{Instance: fmt.Sprint("i", ordinal), Volume: replication.VolumeOwn, Server: server(ordinal), Promised: 3, Revision: 7}}
	a.State = &mysqlmember.State{Role: replication.RoleReplica, Executed: gtids, Received: gtids, Acknowledges: true, Connected: true, ReadTo: replication.Position{File: "b", Offset: 9}}
	if ordinal == 0 {
		a.State = &mysqlmember.State{Role: replication.RolePrimary, Executed: gtids, Received: gtids, Writable: true, Epoch: 3, Demands: 1, End: replication.Position{File: "b", Offset: 9}}
	}
	return a
}

var recorded = replication.Record{
	Epoch: 3, Revision: 7, Formed: true, Primary: identity(0), Voters: []replication.Identity{identity(1), identity(2)}, Acknowledgements: 1,
}

var owner = object.Owner{Namespace: "data", Name: "db", UID: "u"}

// bench is an executor on a fake API server.
type bench struct {
	executor

	agents *agents
	api    k8sclient.Client
}

func newBench(t *testing.T, record replication.Record) *bench {
	t.Helper()
	o := owner
	o.Group, o.Version, o.Kind = "d3os-product.com.d3os", "v1alpha1", "MySQLCluster"
	text, err := json.Marshal(record)
	assert.NilError(t, err)
	labels := o.Labels("mysql.cluster")
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: "db-replication", UID: "cm", Labels: labels,
		Annotations: map[string]string{records.Annotation: string(text), object.AnnotationPolicy: object.PolicyKeep},
	}}
	objects := []k8sclient.Object{kept}
	for i := range 3 {
		objects = append(objects,
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: database.PodName("db", i), UID: types.UID(fmt.Sprint("p", i)), Labels: labels},
				Status:     corev1.PodStatus{PodIP: fmt.Sprint("10.0.0.", i)},
			},
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: database.ClaimName("db", i), Labels: labels}},
		)
	}
	b := &bench{agents: &agents{answers: map[int]*mysqlmember.Answer{0: answer(0), 1: answer(1), 2: answer(2)}}}
	b.api = fake.NewClientBuilder().WithObjects(objects...).Build()
	b.executor = executor{
		Cluster: database.Cluster{Client: b.api, Live: b.api, Owner: o}, connect: b.agents.connect,
		reach: Reach{TLS: &tls.Config{MinVersion: tls.VersionTLS13}, Host: func(ordinal int) string { return database.PodName("db", ordinal) }},
	}
	return b
}

// act runs a step while the lease is held.
func (b *bench) act(t *testing.T, step replication.Step) error {
	t.Helper()
	return b.take(reconcile.WithLease(t.Context(), leaseFunc(func() bool { return true })), step)
}

// member returns the observation of a member's answer.
func member(ordinal int) replication.Member {
	o := (&client.Observer{}).Observe(recorded, []client.Look{{Pod: client.Pod{Ordinal: ordinal, UID: fmt.Sprint("p", ordinal)}, Answer: *answer(ordinal)}}, metav1.Time{}.Time)
	return o.Members[0]
}

func (b *bench) pod(t *testing.T, ordinal int) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	err := b.api.Get(t.Context(), k8sclient.ObjectKey{Namespace: "data", Name: database.PodName("db", ordinal)}, pod)
	if apierrors.IsNotFound(err) {
		return nil
	}
	assert.NilError(t, err)
	return pod
}

func (b *bench) record(t *testing.T) replication.Record {
	t.Helper()
	record, _, err := records.Observe(t.Context(), b.api, b.Owner)
	assert.NilError(t, err)
	return record
}

func next(change func(*replication.Record)) replication.Step {
	r := recorded
	r.Revision++
	change(&r)
	return replication.Step{Action: replication.ActionRecord, Was: recorded, Record: &r}
}

func order(action replication.Action, ordinal int) replication.Step {
	return replication.Step{Action: action, Member: member(ordinal), Epoch: 3, Revision: 7}
}

// Each action has one side effect.
func TestEffects(t *testing.T) {
	t.Parallel()
	for _, action := range []replication.Action{
		replication.ActionPromise, replication.ActionFollow, replication.ActionServe, replication.ActionDemote, replication.ActionHeartbeat,
	} {
		b := newBench(t, recorded)
		assert.NilError(t, b.act(t, order(action, 1)))
		assert.DeepEqual(t, b.agents.orders, []string{string(action) + " 1"})
		assert.DeepEqual(t, b.record(t), recorded)
	}

	b := newBench(t, recorded)
	both := order(replication.ActionPromise, 1)
	both.Others = []replication.Member{member(2)}
	assert.NilError(t, b.act(t, both))
	slices.Sort(b.agents.orders)
	assert.DeepEqual(t, b.agents.orders, []string{"Promise 1", "Promise 2"})

	b = newBench(t, recorded)
	ticket := order(replication.ActionTicket, 2)
	ticket.Ticket = "join:7:0:x"
	assert.NilError(t, b.act(t, ticket))
	assert.Equal(t, b.pod(t, 2).Annotations[object.AnnotationTicket], "join:7:0:x")

	assert.NilError(t, b.act(t, order(replication.ActionDeletePod, 2)))
	assert.Assert(t, b.pod(t, 2) == nil && b.pod(t, 1) != nil)

	step := next(func(r *replication.Record) { r.Voters = r.Voters[:1] })
	assert.NilError(t, b.act(t, step))
	assert.DeepEqual(t, b.record(t), *step.Record)
	assert.Equal(t, len(b.agents.orders), 0)

	b.agents.err = errors.New("the agent answers Busy")
	step = order(replication.ActionPromise, 1)
	step.Revision = 8
	assert.ErrorContains(t, b.act(t, step), "Busy")
}

// If the facts of a step have changed since the decision, the step has no side effect.
func TestChangedFactsRefuse(t *testing.T) {
	t.Parallel()
	promote := next(func(r *replication.Record) { r.Epoch, r.Primary, r.Voters = 4, identity(1), nil })
	promote.Proof = []replication.Proof{{Member: member(0), Fact: replication.FactSilent}}
	accept := next(func(r *replication.Record) { r.Epoch, r.Primary, r.Voters = 4, identity(1), nil })
	accept.Proof = []replication.Proof{{Member: member(0), Fact: replication.FactGone}}
	shrink := next(func(r *replication.Record) { r.Voters = r.Voters[:1] })
	shrink.Proof = []replication.Proof{{Member: member(1), Fact: replication.FactHasLog, Position: replication.Position{File: "b", Offset: 9}}}
	both := order(replication.ActionPromise, 1)
	both.Others = []replication.Member{member(2)}
	errant := order(replication.ActionTicket, 2)
	errant.Proof = []replication.Proof{{Member: member(2), Fact: replication.FactErrant}}
	for name, c := range map[string]struct {
		step   replication.Step
		change func(*testing.T, *bench)
		want   string
	}{
		"the record has another revision": {order(replication.ActionServe, 0), func(t *testing.T, b *bench) {
			assert.NilError(t, b.act(t, next(func(*replication.Record) {})))
		}, "revision 8"},
		"the record was edited": {next(func(*replication.Record) {}), func(t *testing.T, b *bench) {
			r := recorded
			r.Voters = nil
			_, at, err := records.Observe(t.Context(), b.api, b.Owner)
			assert.NilError(t, err)
			assert.NilError(t, records.Write(t.Context(), b.Cluster, at, r))
		}, "differs from the record of the decision"},
		"the record is gone": {order(replication.ActionServe, 0), func(t *testing.T, b *bench) {
			assert.NilError(t, b.api.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "db-replication"}}))
		}, "revision 0"},
		"the pod was replaced": {order(replication.ActionDeletePod, 1), func(t *testing.T, b *bench) {
			pod := b.pod(t, 1)
			assert.NilError(t, b.api.Delete(t.Context(), pod))
			pod.UID, pod.ResourceVersion = "another", ""
			assert.NilError(t, b.api.Create(t.Context(), pod))
		}, "member 1 has changed"},
		"another member's server started again": {both, func(_ *testing.T, b *bench) { b.agents.answers[2].Instance = "later" }, "member 2 has changed"},
		"the server started again":              {order(replication.ActionFollow, 1), func(_ *testing.T, b *bench) { b.agents.answers[1].Instance = "later" }, "member 1 has changed"},
		"the primary answers":                   {promote, func(*testing.T, *bench) {}, `the fact "Silent" is no longer proven`},
		"the primary answers slowly": {promote, func(_ *testing.T, b *bench) {
			b.agents.needs = map[int]time.Duration{0: 500 * time.Millisecond}
		}, `the fact "Silent" is no longer proven`},
		"the primary answers before its transactions are given up": {accept, func(_ *testing.T, b *bench) {
			b.agents.needs = map[int]time.Duration{0: time.Second}
		}, `the fact "Gone" is no longer proven`},
		"the voter is behind":              {shrink, func(_ *testing.T, b *bench) { b.agents.answers[1].State.ReadTo.Offset = 8 }, `the fact "HasLog" is no longer proven`},
		"the primary has the transactions": {errant, func(*testing.T, *bench) {}, `the fact "Errant" is no longer proven`},
	} {
		b := newBench(t, recorded)
		c.change(t, b)
		before := b.record(t)
		err := b.act(t, c.step)
		if !errors.Is(err, steps.ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		assert.DeepEqual(t, b.record(t), before)
		assert.Equal(t, len(b.agents.orders), 0, name)
		assert.Assert(t, b.pod(t, 1) != nil && b.pod(t, 2).Annotations[object.AnnotationTicket] == "", name)
	}
}

// If another operator writes the record between the proof and the side effect, the API server refuses the second write.
func TestRecordIsWrittenOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, recorded)
	first, second := next(func(r *replication.Record) { r.Epoch = 4 }), next(func(r *replication.Record) { r.Epoch = 5 })
	b.tap = tap{before: func() error {
		b.tap = nil
		return b.act(t, first)
	}}
	assert.Assert(t, apierrors.IsConflict(b.act(t, second)))
	assert.Equal(t, b.record(t).Epoch, int64(4))
}

type tap struct{ before, after func() error }

func (p tap) Before(replication.Action) error { return call(p.before) }
func (p tap) After(replication.Action) error  { return call(p.after) }
func call(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

// Without the lease, nothing is written and no order is sent.
func TestLease(t *testing.T) {
	t.Parallel()
	b := newBench(t, recorded)
	for _, step := range []replication.Step{next(func(*replication.Record) {}), order(replication.ActionServe, 0), order(replication.ActionDeletePod, 1)} {
		// The runner checks the lease before a step. Here, the operator loses the lease while the step reads its facts.
		held := true
		connect := b.connect
		b.connect = func(r Reach) Members { held = false; return connect(r) }
		run := reconcile.NewRunner(leaseFunc(func() bool { return held }))
		err := run.Run(t.Context(), []reconcile.Step{{Name: "n", Do: func(ctx context.Context) error { return b.take(ctx, step) }}})
		assert.ErrorIs(t, err, reconcile.ErrNotHeld)
		b.connect = connect
	}
	assert.DeepEqual(t, b.record(t), recorded)
	assert.Assert(t, len(b.agents.orders) == 0 && b.pod(t, 1) != nil)
}

type leaseFunc func() bool

func (f leaseFunc) Held() bool { return f() }

// The executor queries the primary after the other members, each within its limit, and does not query a pod without an address.
func TestLookOrder(t *testing.T) {
	t.Parallel()
	a := &agents{answers: map[int]*mysqlmember.Answer{0: answer(0)}}
	r := Reach{TLS: &tls.Config{MinVersion: tls.VersionTLS13}, IPs: map[int]string{0: "x", 2: "x"}}
	limit := func(ordinal int) time.Duration { return time.Duration(ordinal+1) * time.Hour }
	looks := lookAt(t.Context(), a, r, []client.Pod{{Ordinal: 0}, {Ordinal: 1}, {Ordinal: 2}}, 0, limit)
	assert.Assert(t, a.limits[0] <= time.Hour && a.limits[1] == 0 && a.limits[2] > 2*time.Hour, a.limits)
	assert.DeepEqual(t, a.looks, []int{2, 0})
	assert.Assert(t, looks[0].Err == nil && looks[0].Answer.Instance == "i0")
	assert.ErrorIs(t, looks[1].Err, errNoAddress)
	assert.ErrorContains(t, looks[2].Err, "no answer")
	r.TLS = nil
	assert.ErrorIs(t, lookAt(t.Context(), a, r, []client.Pod{{Ordinal: 0}}, 0, limit)[0].Err, errNoCertificate)
}
