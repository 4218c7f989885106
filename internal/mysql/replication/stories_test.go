// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"slices"
	"strings"
	"testing"
)

// teller runs a story in the model: a sequence of faults, writes and actions of agents. After each line, it checks that
// no acknowledged transaction is lost.
type teller struct {
	*testing.T
	world

	decide Decider
	harm   string
}

// passes runs the operator and the agents until nothing changes any more. Clients write nothing, and no fault ends. It
// skips changes whose names begin with a text in without.
func (s *teller) passes(without ...string) State {
	s.Helper()
	for range 400 {
		before := s.world
		for s.move(func(how string) bool {
			return !strings.Contains(how, "writes") && !slices.ContainsFunc(without, func(w string) bool { return strings.HasPrefix(how, w) })
		}, false) {
		}
		if d := s.step(); s.world == before {
			return d.Model.State
		}
	}
	s.Fatal("the operator and the agents do not come to rest")
	return ""
}

// step runs one pass of the operator.
func (s *teller) step() Decision {
	d := s.decide(s.want(), s.view())
	if d.Step != nil {
		for _, step := range pack(d.Step) {
			_ = s.take(step, rules{}) // a refused step is decided again
		}
	}
	s.judge("")
	return d
}

// happens applies changes, in order. Each line is the beginning of the name of a move or fault.
func (s *teller) happens(lines ...string) {
	s.Helper()
	for _, line := range lines {
		if !s.move(func(how string) bool { return strings.HasPrefix(how, line) }, true) {
			s.Fatalf("%q cannot happen: %+v", line, s.world)
		}
	}
}

// move applies the first move whose name the given function accepts. If it accepts no move and faults is true, move
// applies the first fault whose name the function accepts. move reports whether it applied a move or a fault.
func (s *teller) move(is func(how string) bool, faults bool) (moved bool) {
	now := s.world
	visit := func(how string, next world, harm string) {
		if !moved && is(how) {
			s.world, moved = next, true
			s.judge(harm)
		}
	}
	now.moves(rules{}, visit)
	if faults {
		now.faults(rules{}, visit)
	}
	return moved
}

func (s *teller) judge(harm string) {
	if harm == "" {
		harm = s.lost()
	}
	if s.harm == "" {
		s.harm = harm
	}
}

// onePromise promotes a member after only one of the two required promises.
func onePromise(want Want, o Observation) Decision {
	d := Decide(want, o)
	if d.Model.State != StateSwitching && d.Model.State != StateQuorumLost || d.Step != nil && d.Step.Action == ActionRecord {
		return d
	}
	for _, m := range o.Members {
		if o.Record.IsVoter(m.Identity) && m.Answers && (m.Promised > o.Record.Epoch || d.Step == nil) && m.drained() {
			c := &cluster{want: want, record: o.Record, members: o.Members}
			return *c.promote([]Member{m}, max(m.Promised, o.Record.Epoch+1))
		}
	}
	return d
}

// The stories of the design: a primary is killed while a commit waits, a volume is lost while the operator cannot reach
// another member, an older record is restored, and an operator ends after a promise. `make verify GROUPS=mysql` runs
// other stories with real servers.
func TestStories(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, decide Decider) *teller {
		t.Helper()
		return &teller{T: t, world: formed(t, 2, budget{crashes: 2, cuts: 4, losses: 1, writes: 3, tears: 2}), decide: decide}
	}
	healthy := func(s *teller) {
		s.Helper()
		if state := s.passes(); state != StateHealthy || s.harm != "" || len(s.record.real().Voters) != 2 {
			s.Errorf("%s, %s: %+v", state, s.harm, s.world)
		}
		for i := range s.members {
			if s.members[i].written != s.members[0].written || s.acked&^s.members[i].written != 0 {
				s.Errorf("member %d has %b, and %b was acknowledged: %+v", i, s.members[i].written, s.acked, s.world)
			}
		}
	}
	t.Run("killed while a commit waits", func(t *testing.T) {
		t.Parallel()
		s := begin(t, Decide)
		s.happens("0 writes", "1 receives", "2 receives", "1 applies", "2 applies", "link 1 is cut", "link 2 is cut", "0 writes", "0 crashes", "link 1 is back", "link 2 is back")
		former := s.members[0].server
		s.passes("0 starts")
		if p := s.record.primary.ordinal; p == 0 || s.acked != 1 {
			t.Fatalf("member %d is the primary, and %b is acknowledged", p, s.acked)
		}
		s.happens([]string{"", "1 writes", "2 writes"}[s.record.primary.ordinal])
		healthy(s)
		if s.members[0].server == former || s.acked != 5 {
			t.Errorf("the former primary keeps a transaction that was never acknowledged: %+v", s.world)
		}
	})
	lostVolume := func(t *testing.T, decide Decider) *teller {
		t.Helper()
		s := begin(t, decide)
		s.happens("link 1 is cut", "0 writes", "2 receives", "the operator does not reach 2", "the volume of 0 is lost", "link 1 is back")
		if s.acked != 1 {
			t.Fatalf("%b is acknowledged", s.acked)
		}
		return s
	}
	t.Run("a lost volume and a member out of reach", func(t *testing.T) {
		t.Parallel()
		s := lostVolume(t, Decide)
		if state := s.passes(); state != StateQuorumLost || s.record.primary.ordinal != 0 {
			t.Fatalf("%s: the only member with the transaction is out of reach: %+v", state, s.world)
		}
		s.happens("the operator reaches 2")
		healthy(s)
		control := lostVolume(t, onePromise)
		if control.passes(); control.harm == "" {
			t.Error("with one promise of two, the story finds no loss")
		}
	})
	olderRecord := func(t *testing.T, decide Decider) *teller {
		t.Helper()
		s := begin(t, decide)
		s.happens("2 crashes")
		s.passes("2 starts")
		older := s.record // member 1 is the only voter
		s.passes()
		s.happens("1 crashes")
		s.passes("1 starts")
		s.happens("0 writes", "2 receives")
		if s.acked != 1 || len(older.real().Voters) != 1 || len(s.record.real().Voters) != 1 {
			t.Fatalf("%b is acknowledged; the older record: %+v; %+v", s.acked, older, s.world)
		}
		s.record = older
		s.happens("the volume of 0 is lost")
		return s
	}
	t.Run("an older record is restored", func(t *testing.T) {
		t.Parallel()
		s := olderRecord(t, Decide)
		if state := s.passes(); state != StateRecordLost || s.harm != "" {
			t.Errorf("%s, %s: %+v", state, s.harm, s.world)
		}
		control := olderRecord(t, func(want Want, o Observation) Decision {
			for i := range o.Members {
				o.Members[i].Revision = min(o.Members[i].Revision, o.Record.Revision)
			}
			return Decide(want, o)
		})
		if control.passes(); control.harm == "" {
			t.Error("without the comparison of revisions, the story finds no loss")
		}
	})
	t.Run("relay logs are torn", func(t *testing.T) {
		t.Parallel()
		s := begin(t, Decide)
		s.happens("0 writes", "1 receives", "2 receives", "2 applies", "the relay log of 1 is torn", "0 writes", "1 receives", "2 receives")
		data := s.members[1].server
		healthy(s)
		if s.members[1].server != data || s.acked != 3 {
			t.Errorf("the member copies the data, although only its relay log is lost: %+v", s.world)
		}
		s.happens("0 writes", "1 receives", "2 receives", "1 applies", "the relay log of 2 is torn")
		data = s.members[2].server
		s.decide = func(want Want, o Observation) Decision {
			for i := range o.Members {
				o.Members[i].Orders = 0 // agents that cannot renew a relay log
			}
			return Decide(want, o)
		}
		healthy(s)
		if s.members[2].server == data || s.acked != 7 {
			t.Errorf("the member does not join again: %+v", s.world)
		}
	})
	t.Run("the operator ends after a promise", func(t *testing.T) {
		t.Parallel()
		s := begin(t, Decide)
		s.happens("0 writes", "1 receives", "2 receives", "the operator does not reach 0", "link 1 is cut", "link 2 is cut")
		for s.members[1].promised == s.record.epoch && s.members[2].promised == s.record.epoch {
			if d := s.step(); d.Step == nil {
				t.Fatalf("no member promises: %+v", d)
			}
		}
		s.happens("the operator reaches 0", "link 1 is back", "link 2 is back")
		healthy(s)
		if s.record.primary.ordinal != 0 || s.record.epoch != 2 {
			t.Errorf("the primary answers, but was replaced: %+v", s.record)
		}
	})
}
