// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import "testing"

// Each control breaks one rule of the design, and the model then finds a lost transaction or a lost copy. So the model
// can detect such an error.
func TestControls(t *testing.T) {
	if testing.Short() {
		t.Skip("it tests the model alone: make verify runs it, and go test without -short")
	}
	t.Parallel()
	one := func(want Want, o Observation) Decision {
		want.MaxVoters = 1
		return Decide(want, o)
	}
	crash := budget{crashes: 2, writes: 2}
	for name, c := range map[string]struct {
		left   budget
		decide Decider
		broken rules
		voters int
		begin  func(*world)
		see    func(*Observation)
	}{
		"one promise of two": {budget{cuts: 2, crashes: 1, writes: 1}, func(want Want, o Observation) Decision {
			d := Decide(want, o)
			if d.Model.State != StateSwitching && d.Model.State != StateQuorumLost || d.Step != nil && d.Step.Action == ActionRecord {
				return d
			}
			for _, m := range o.Members {
				if o.Record.IsVoter(m.Identity) && m.Promised > o.Record.Epoch && m.drained() {
					c := &cluster{want: want, record: o.Record, members: o.Members}
					return *c.promote([]Member{m}, m.Promised)
				}
			}
			return d
		}, rules{}, 2, nil, nil},
		"candidates chosen by applied transactions": {left: crash, decide: Decide, voters: 2, see: func(o *Observation) {
			for i := range o.Members {
				o.Members[i].Received = o.Members[i].Executed
			}
		}},
		"a timeout of semi-sync": {crash, Decide, rules{timeout: true}, 2, nil, nil},
		"semi-sync off at a demotion": {budget{writes: 1}, Decide, rules{gracefulDemotion: true}, 2, func(w *world) {
			w.unseen, w.links = 1, link(0, 1)|link(0, 2)
		}, nil},
		"members judged although the primary is busy": {left: budget{writes: 2}, decide: one, voters: 1, see: func(o *Observation) {
			for i := range o.Members {
				o.Members[i].Busy = false
			}
		}},
		"a learner that acknowledges": {budget{crashes: 1, cuts: 1, writes: 1}, one, rules{learnerAcknowledges: true}, 1, func(w *world) {
			w.members[2].acknowledges = true
		}, nil},
		"a promise that a restart forgets": {budget{crashes: 1, cuts: 1, stale: 1, writes: 1}, Decide, rules{noPromiseOnDisk: true}, 2, func(w *world) {
			w.restart(1)
			w.links = link(0, 2)
		}, nil},
		"a demotion that does not wait": {budget{writes: 1}, Decide, rules{hastyDemotion: true}, 2, func(w *world) {
			w.to, w.links = 3, link(0, 1)
			w.left.stale, w.left.cuts, w.left.crashes = 1, 2, 0
		}, nil},
		"orders of any revision": {budget{crashes: 1, stale: 1, writes: 1}, Decide, rules{anyRevision: true}, 0, func(w *world) {
			w.record.revision++
		}, nil},
		"a voter that is removed without a cut": {left: budget{crashes: 2, cuts: 1, writes: 2}, decide: Decide, voters: 2, see: withoutCuts},
		"voters of an epoch that have not caught up": {budget{crashes: 2, cuts: 1, losses: 1, writes: 2}, func(want Want, o Observation) Decision {
			d := Decide(want, o)
			if s := d.Step; s != nil && s.Action == ActionRecord && s.Record.Primary != o.Record.Primary {
				for _, p := range s.Proof {
					if p.Fact == FactPromised && p.Member.Identity != s.Record.Primary && !s.Record.IsVoter(p.Member.Identity) {
						s.Record.Voters = append(s.Record.Voters, p.Member.Identity)
					}
				}
			}
			return d
		}, rules{}, 2, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := formed(t, c.voters, c.left)
			if c.begin != nil {
				c.begin(&w)
			}
			if c.see == nil {
				c.see = func(*Observation) {}
			}
			e := explore(w, 400_000, 1<<30, c.decide, c.see, c.broken)
			if e.harm == nil {
				t.Errorf("nothing is lost in %d states", len(e.how))
			}
			t.Logf("%d states; %d steps: %s", len(e.how), len(e.harm), e.harm[max(0, len(e.harm)-1):])
		})
	}
}

// withoutCuts makes the operator see two things that have not happened: a serving primary refuses all its bad voters,
// and all members have received all written transactions.
func withoutCuts(o *Observation) {
	for i := range o.Members {
		m := &o.Members[i]
		if m.Role != RolePrimary {
			m.ReadTo = Position{File: "b", Offset: 99}
			continue
		}
		for _, v := range o.Record.Voters {
			if o.Members[v.Ordinal].Bad {
				m.Cut = append(m.Cut, v.Ordinal)
			}
		}
	}
}
