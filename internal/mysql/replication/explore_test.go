// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"testing"
)

// exploration visits the states of a world, those with the fewest changes first. It looks for lost transactions.
type exploration struct {
	decide Decider
	see    func(*Observation) // changes the observation for a negative control
	broken rules
	most   int
	seed   maphash.Seed
	seen   map[uint64]bool
	parent []int32
	how    []string
	queue  []world
	number []int32
	epochs uint8
	harm   []string
	rests  int32 // the check that a state recovers without further faults runs on every rests-th state
}

// Decider is Decide, or a negative control.
type Decider func(Want, Observation) Decision

var wanted = Want{Replicas: size, WhenAlone: Write, MaxVoters: 2}

func explore(first world, most int, rests int32, decide Decider, see func(*Observation), broken rules) *exploration {
	e := &exploration{decide: decide, see: see, broken: broken, most: most, rests: rests, seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
	e.add(first, 0, "begins", "")
	for head := 0; head < len(e.queue) && len(e.how) < most && e.harm == nil; head++ {
		w, number := e.queue[head], e.number[head]
		visit := func(how string, next world, harm string) { e.add(next, number, how, harm) }
		e.operator(w, number)
		w.moves(broken, visit)
		w.faults(broken, visit)
	}
	return e
}

func (e *exploration) add(w world, from int32, how, harm string) {
	hash := maphash.Comparable(e.seed, w)
	if e.harm != nil || e.seen[hash] && harm == "" {
		return
	}
	e.seen[hash] = true
	e.epochs = max(e.epochs, w.record.epoch)
	e.parent, e.how = append(e.parent, from), append(e.how, how)
	number := int32(len(e.how) - 1)
	if harm == "" {
		harm = w.lost()
	}
	if harm == "" && number%e.rests == 0 {
		harm = w.stuck()
	}
	if harm != "" {
		for at := number; at > 0; at = e.parent[at] {
			e.harm = append([]string{e.how[at]}, e.harm...)
		}
		e.harm = append(e.harm, fmt.Sprintf("%+v", w), harm)
		return
	}
	e.queue, e.number = append(e.queue, w), append(e.number, number)
}

// lost describes an acknowledged transaction that the record's primary lacks, or returns "". If the volume of the
// primary was lost, it finds nothing.
func (w *world) lost() string {
	if w.late != "" || !w.record.formed {
		return w.late
	}
	p := w.record.primary
	if w.members[p.ordinal].server == p.server {
		if missing := w.acked &^ w.members[p.ordinal].received; missing != 0 {
			return fmt.Sprintf("the primary lacks %b, which was acknowledged", missing)
		}
	}
	return ""
}

// want returns the desired state.
func (w *world) want() Want {
	want := wanted
	if w.wants > 0 {
		want.Replicas = int(w.wants)
	}
	if w.to > 0 {
		want.Switch, want.To = true, int(w.to-1)
	}
	return want
}

// stuck returns the reason why a world does not become healthy and settled after all faults have ended, or "". A world
// that waits for a user because data was lost is not stuck.
func (w world) stuck() string {
	w.held = mStep{}
	for i := range w.pods() {
		w.members[i].up = true
	}
	want := w.want()
	d := settle(&w, want)
	p := w.record.primary
	switch {
	case d.Model.State == StateHealthy && len(w.record.real().Voters) == want.Replicas-1 && (w.to == 0 || w.record.primary.ordinal == w.to-1) &&
		w.pods() == want.Replicas && !slices.ContainsFunc(w.members[:want.Replicas], func(m mMember) bool { return m.outdated }):
		return ""
	case w.record.formed && w.members[p.ordinal].server != p.server && (d.Model.State == StateLost || d.Model.State == StateQuorumLost):
		return "" // a user must act
	case !w.record.formed && d.Model.State == StateRecordLost:
		return "" // the only copy was lost before it was recorded
	}
	return fmt.Sprintf("it comes to rest with %+v: %+v", d.Model, w)
}

// operator runs one pass. Its step is run immediately, or it is delayed and runs later without proofs. If sessions
// wait, a second pass observes a primary that commits transactions between the queries.
func (e *exploration) operator(w world, number int32) {
	if w.record.epoch < 7 && w.record.revision < 60 {
		o := w.view()
		e.see(&o)
		e.step(w, number, o, e.decide(w.want(), o).Step, false)
		if o, is := w.busy(); is {
			e.see(&o)
			e.step(w, number, o, e.decide(w.want(), o).Step, true)
		}
	}
	if w.held.action != "" {
		next := w
		next.held = mStep{}
		if err := next.take(w.held, e.broken); err == nil {
			e.add(next, number, "late: "+string(w.held.action), "")
		}
	}
}

// step runs a decided step, or delays it. The step's facts must hold in the observation of its decision, unless isBusy:
// transactions of a busy primary may not have reached a member yet.
func (e *exploration) step(w world, number int32, o Observation, decided *Step, isBusy bool) {
	if decided == nil {
		return
	}
	if err := decided.Prove(o); err != nil && isBusy {
		return
	} else if err != nil {
		e.add(w, number, decided.Message, "the proof of the step does not hold in the observation of its decision: "+err.Error())
		return
	}
	if harm := w.needless(decided); harm != "" {
		e.add(w, number, decided.Message, harm)
		return
	}
	all := pack(decided)
	for arrive := range 1 << len(all) { // the orders that arrive
		next, taken := w, 0
		for i, step := range all {
			if arrive>>i&1 == 0 {
				continue
			}
			if err := next.take(step, e.broken); err == nil {
				taken++
			} else if !errors.Is(err, errRefused) {
				panic(err)
			}
		}
		if taken > 0 && next != w {
			e.add(next, number, decided.Message, "")
		}
		if w.left.stale == 0 || w.held.action != "" {
			continue
		}
		for i, step := range all {
			if late := next; arrive>>i&1 == 0 {
				late.left.stale--
				late.held = step
				e.add(late, number, "held back: "+decided.Message, "")
			}
		}
	}
}

// settle runs a world without faults until no step is left. It returns the last decision.
func settle(w *world, want Want) Decision {
	w.links, w.unseen = 0, 0
	var d Decision
	for range 400 {
		before := *w
		for {
			moved := false
			w.moves(rules{}, func(_ string, next world, _ string) {
				if !moved {
					*w, moved = next, true
				}
			})
			if !moved {
				break
			}
		}
		if d = Decide(want, w.view()); d.Step != nil {
			for _, step := range pack(d.Step) {
				_ = w.take(step, rules{})
			}
		}
		if *w == before {
			break
		}
	}
	return d
}

// formed returns a world of three healthy members.
func formed(t *testing.T, voters int, left budget) world {
	t.Helper()
	w, want := world{}, wanted
	want.MaxVoters = voters
	for i := range w.members {
		w.members[i].up = true
	}
	if d := settle(&w, want); d.Model.State != StateHealthy || len(w.record.real().Voters) != voters {
		t.Fatalf("%+v: %+v", d, w)
	}
	w.left = left
	return w
}

// TestExplore runs every sequence of faults, delays and writes that the budgets allow.
func TestExplore(t *testing.T) {
	t.Parallel()
	fresh := world{left: budget{crashes: 1, stale: 1, losses: 1, writes: 1}}
	most := 40_000
	if testing.Short() { // the short form (make test) explores only the nearest states
		most = 8_000
	}
	begins := map[string]world{
		"birth":                    fresh,
		"crashes":                  formed(t, 2, budget{crashes: 2, writes: 2}),
		"partitions":               formed(t, 2, budget{cuts: 2, writes: 2}),
		"a late step":              formed(t, 2, budget{crashes: 1, cuts: 1, stale: 1, writes: 2}),
		"a lost volume":            formed(t, 2, budget{losses: 1, crashes: 1, writes: 2}),
		"a torn relay log":         formed(t, 2, budget{tears: 1, crashes: 1, writes: 2}),
		"a torn log, a late step":  formed(t, 2, budget{tears: 1, stale: 1, writes: 2}),
		"a lost volume, cut links": formed(t, 2, budget{losses: 1, cuts: 1, writes: 2}),
	}
	for _, name := range []string{"a switchover, crashes", "a switchover, partitions", "a switchover, a late step"} {
		left := map[string]budget{"a switchover, crashes": {crashes: 2, writes: 2}, "a switchover, partitions": {cuts: 2, writes: 2}, "a switchover, a late step": {crashes: 1, stale: 1, writes: 2}}[name]
		w := formed(t, 2, left)
		w.to = 3
		begins[name] = w
	}
	for name, left := range map[string]budget{"crashes": {crashes: 1, writes: 2}, "partitions": {cuts: 1, writes: 2}, "a late step": {stale: 1, crashes: 1, writes: 1}} {
		roll, fewer, other := formed(t, 2, left), formed(t, 2, left), formed(t, 2, left)
		fewer.wants = 2
		for i := range roll.members {
			roll.members[i].outdated = true
		}
		other.to = 3
		other.left = budget{}
		settle(&other, other.want())
		other.to, other.wants, other.left = 0, 1, left
		begins["a roll, "+name], begins["two members, "+name], begins["one member, "+name] = roll, fewer, other
	}
	if os.Getenv("MYSQL_MODEL") == "full" {
		most = 2_000_000
		begins["all of it"] = formed(t, 2, budget{crashes: 2, cuts: 2, losses: 1, stale: 1, writes: 3})
		w := begins["all of it"]
		w.to = 2
		begins["a switchover, all of it"] = w
	}
	for name, w := range begins {
		t.Run(name, func(t *testing.T) {
			if most < 1_000_000 {
				t.Parallel()
			}
			e := explore(w, most, 20, Decide, func(*Observation) {}, rules{})
			for _, line := range e.harm {
				t.Log(line)
			}
			if e.harm != nil {
				t.Error("a transaction or a copy was lost")
			}
			t.Logf("%d states, up to epoch %d", len(e.how), e.epochs)
		})
	}
}

// The loss of two volumes is accepted once: the remaining copy becomes the primary. A later loss needs another consent.
func TestAcceptedLoss(t *testing.T) {
	t.Parallel()
	w, want := formed(t, 2, budget{}), wanted
	lose := func() string {
		for _, i := range []int{int(w.record.primary.ordinal), (int(w.record.primary.ordinal) + 1) % size} {
			w.members[i] = mMember{uid: w.members[i].uid + 1}
		}
		d := settle(&w, want)
		if d.Model.State != StateLost || d.Step != nil {
			t.Fatalf("%+v", d)
		}
		return d.Model.Token
	}
	want.AcceptLoss = lose()
	if d := settle(&w, want); d.Model.State != StateHealthy || w.record.primary.ordinal != 2 || len(w.record.real().Voters) != 2 {
		t.Fatalf("%+v: %+v", d, w)
	}
	if token := lose(); token == want.AcceptLoss {
		t.Error("the consent was used twice")
	}
}

func TestPods(t *testing.T) {
	t.Parallel()
	r := healthy().Record
	for _, c := range []struct {
		change func()
		wanted int
		pods   int
	}{
		{func() {}, 3, 3},
		{func() {}, 5, 5},
		{func() {}, 1, 3},
		{func() {}, 0, 0},
		{func() { r.Voters = r.Voters[:1] }, 1, 2},
		{func() { r.Voters, r.Primary.Ordinal = nil, 4 }, 1, 5},
		{func() { r = Record{} }, 3, 3},
	} {
		c.change()
		if got := r.Pods(c.wanted); got != c.pods {
			t.Errorf("Pods(%d) of %+v returns %d", c.wanted, r, got)
		}
	}
}
