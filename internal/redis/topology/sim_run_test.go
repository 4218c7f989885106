// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// run runs the operator for a while, or until no step is left.
type run struct {
	*operator
	t       *testing.T
	planned bool // no fault may lose a write: each read at a slot's owner must return the last write
	last    Decision
	passes  int
	between func(Step) // called between a decision and its step, unless nil
}

func newRun(t *testing.T, seed uint64, shards ...int) *run {
	r := &run{operator: newOperator(seed, shards...), t: t, planned: true}
	t.Cleanup(func() {
		if t.Failed() {
			logged := 60
			if os.Getenv("REDIS_MODEL_SEED") != "" {
				t.Log(r.dump())
				logged = 2000
			}
			t.Logf("seed %d; the last events:\n%s", seed, strings.Join(r.log[max(0, len(r.log)-logged):], "\n"))
		}
	})
	return r
}

// dump returns each server's view.
func (r *run) dump() string {
	var b strings.Builder
	for _, n := range r.observe() {
		fmt.Fprintf(&b, "%s %s %s reached=%v running=%v keys=%d ok=%v %+v\n", n.Pod, n.IP, short(n.ID), n.Reached, n.Running, n.Keys, n.StateOK, n.Replication)
		for _, e := range n.View {
			fmt.Fprintf(&b, "    %s %s my=%v master=%v of=%s fail=%v/%v hs=%v conn=%v epoch=%d %s %v %v\n", short(e.ID), e.IP, e.Myself, e.Master,
				short(e.MasterID), e.Fail, e.PossiblyFail, e.Handshake, e.Connected, e.Epoch, e.Owned, e.Migrating, e.Importing)
		}
	}
	return b.String()
}

// onePass runs one pass of the operator, and then lets the time until the next pass go by.
func (r *run) onePass() Decision {
	r.t.Helper()
	r.sets()
	nodes := r.observe()
	d := Decide(r.wanted, r.record, nodes)
	r.check(nodes, d)
	r.last = d
	r.passes++
	if len(d.Steps) > 0 {
		if r.passes%20 == 1 || d.Steps[0].Action != ActionWait {
			r.logf("%s %s: %s", d.Model.Verdict, d.Steps[0].Action, d.Steps[0].Message)
		}
		if r.between != nil {
			r.between(d.Steps[0])
		}
		before, demotions := r.copies(), r.demotions
		err := r.take(d.Steps[0])
		if err != nil {
			r.logf("  %v", err)
		}
		if r.demotions == demotions {
			r.checkCopies(before, d)
		}
	}
	for until := r.now + min(d.LookAgain, 2*time.Second); r.now < until; {
		r.pass(simTick)
		r.write()
		r.read()
	}
	return d
}

// check asserts the invariants of every decision.
func (r *run) check(nodes []Node, d Decision) {
	r.t.Helper()
	again := Decide(r.wanted, r.record, nodes)
	if !reflect.DeepEqual(again.Steps, d.Steps) {
		r.t.Fatalf("the same input gives another plan:\n%v\n%v", d.Steps, again.Steps)
	}
	if d.Model.Phase == PhaseRunning && (d.Model.Served < Slots || !d.Model.Redundant) {
		r.t.Fatalf("Running with %d slots served, redundant: %v", d.Model.Served, d.Model.Redundant)
	}
	if d.Model.Settled != (len(d.Steps) == 0) || d.LookAgain <= 0 {
		r.t.Fatalf("settled: %v, with steps %v, look again in %s", d.Model.Settled, d.Steps, d.LookAgain)
	}
	if len(d.Steps) == 0 {
		return
	}
	s := d.Steps[0]
	if s.Message == "" {
		r.t.Fatalf("step %s has no message", s.Action)
	}
	bad := []Verdict{Unknown, SlotsLost, Inconsistent, MajorityLost, DisconnectedIntact}
	takes := []Action{ActionFlush, ActionReset, ActionMoveSlots, ActionForget, ActionAddSlots, ActionAssignSlot}
	if slices.Contains(bad, d.Model.Verdict) && slices.Contains(takes, s.Action) && r.record.Formed && len(r.wanted.Consent) == 0 {
		r.t.Fatalf("%s on %s: %s", s.Action, d.Model.Verdict, s.Message)
	}
}

// checkCopies asserts for every key: if any server had the last write before the step, some server still has it after
// the step. It is not called if a former master learned of a promotion during the step, and dropped writes that it had not
// replicated. The earlier fault causes that loss, not the step.
func (r *run) checkCopies(before map[int]int, d Decision) {
	r.t.Helper()
	if len(r.wanted.Consent) > 0 {
		return
	}
	after := r.copies()
	for key, value := range before {
		if after[key] < value {
			r.t.Fatalf("%s destroyed the last copy of key %d, on %s: %s", d.Steps[0].Action, key, d.Model.Verdict, d.Steps[0].Message)
		}
	}
}

// read asserts that, in planned operations, clients read each acknowledged write or a later one.
func (r *run) read() {
	r.t.Helper()
	if !r.planned {
		return
	}
	for _, s := range r.servers {
		if !s.alive() || !s.me().master || !s.ok() {
			continue
		}
		for key, want := range r.acked {
			slot := slotOfKey(key)
			if !s.owns(slot) {
				continue
			}
			got := s.data[key]
			if target := s.moving[slot]; target != "" && got == 0 {
				for _, o := range r.servers {
					if o.alive() && o.id == target {
						got = max(got, o.data[key])
					}
				}
			}
			if got < want {
				r.t.Fatalf("%.2fs: key %d reads %d at %s, and %d was acknowledged", r.now.Seconds(), key, got, short(s.id), want)
			}
		}
	}
}

// settle runs until no step is left, and checks the result.
func (r *run) settle(limit time.Duration) {
	r.t.Helper()
	for end := r.now + limit; ; {
		d := r.onePass()
		if d.Model.Settled {
			break
		}
		if r.now > end {
			r.t.Fatalf("not settled within %s: %s, %s, steps %v", limit, d.Model.Verdict, d.Model.Reason, d.Steps)
		}
	}
	r.oracle()
}

// oracle asserts that the cluster is complete and running. It checks each server's own state, not the model of Decide.
func (r *run) oracle() {
	r.t.Helper()
	m := r.last.Model
	assert.Equal(r.t, m.Verdict, Complete)
	assert.Equal(r.t, m.Phase, PhaseRunning, m.Reason)
	assert.Equal(r.t, m.Served, Slots)
	total := 0
	for _, n := range r.wanted.Shards {
		total += n
	}
	assert.Equal(r.t, len(r.pods), total)
	var first *server
	owned := map[int]int{}
	for _, p := range r.pods {
		s := p.s
		assert.Assert(r.t, p.running && s.alive())
		assert.Equal(r.t, len(s.peers), total, "the number of nodes in the view of %s", p.name)
		assert.Equal(r.t, len(s.moving)+len(s.imports), 0)
		for _, q := range s.peers {
			assert.Assert(r.t, !q.fail && !q.possibly && q.met == 0, "%s: peer %s", p.name, short(q.id))
		}
		if first == nil {
			first = s
		}
		assert.Assert(r.t, first.slotOf == s.slotOf, "views differ")
		if s.me().master {
			owned[p.shard] += s.count(s.id)
			continue
		}
		assert.Assert(r.t, s.linked && s.synced, "%s has no link", p.name)
		master := r.byIP[s.masterHost]
		assert.Assert(r.t, master != nil && master.id == s.me().masterID, "%s follows another node than its master", p.name)
		assert.Assert(r.t, slicesContains(r.pods, master, p.shard), "%s follows another shard", p.name)
	}
	if r.wanted.Assign == nil {
		for i := range r.wanted.Shards {
			even := Slots / len(r.wanted.Shards)
			assert.Assert(r.t, owned[i] == even || owned[i] == even+1, "shard %d owns %d slots", i, owned[i])
		}
	}
	_, err := json.Marshal(r.record)
	assert.NilError(r.t, err)
}

func slicesContains(pods map[string]*pod, s *server, shard int) bool {
	for _, p := range pods {
		if p.s == s {
			return p.shard == shard
		}
	}
	return false
}

// seeds returns the seeds of the model test: the given number of them (few), or half of it in the short form.
// REDIS_MODEL_RUNS sets another number. REDIS_MODEL_SEED selects a single seed.
func seeds(t *testing.T, few int) []uint64 {
	t.Helper()
	if text := os.Getenv("REDIS_MODEL_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		assert.NilError(t, err)
		return []uint64{seed}
	}
	if text := os.Getenv("REDIS_MODEL_RUNS"); text != "" {
		n, err := strconv.Atoi(text)
		assert.NilError(t, err)
		few = n
	} else if testing.Short() {
		few = (few + 1) / 2
	}
	all := make([]uint64, few)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	return all
}

func name(seed uint64) string { return fmt.Sprint("seed=", seed) }
