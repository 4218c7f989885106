// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"testing"
)

// exploration visits the reachable states of a world, up to a maximum number. It looks for harm, and for states from
// which the operator does not repair the cluster. It stores states as 64-bit hashes.
type exploration struct {
	t       *testing.T
	seed    maphash.Seed
	seen    map[uint64]bool
	good    map[uint64]bool
	parent  []int32 // index: the state's number
	how     []string
	queue   []numbered
	held    []mStep // stored steps, by their number
	most    int
	longest int
	decide  func(Want, View) Decision
	harm    []string // the first violation: the events that lead to it, the state, and the reason
}

type numbered struct {
	world
	number int32
}

func newWorld(replicas int, left budget) world {
	return world{replicas: replicas, left: left, usual: 1<<len(usualFaults) - 1}
}

// odd returns a world of healthy members in which odd faults happen.
func odd(t *testing.T, replicas int, faults uint16, left budget) world {
	t.Helper()
	w := newWorld(replicas, budget{})
	if faults&oddRotation != 0 {
		w.odd, w.secrets = oddRotation, mFiles{trusted: 1}
	}
	w.rest(t)
	w.odd, w.left = faults, left
	return w
}

// rest runs the operator until no step is left.
func (w *world) rest(t *testing.T) {
	t.Helper()
	for range 300 {
		for _, move := range w.progress() {
			if _, err := move(w); err != nil {
				t.Fatal(err)
			}
		}
		d := Decide(w.want(), w.view())
		for _, steps := range [][]Step{d.Steps, d.Positions} {
			if len(steps) == 0 {
				continue
			}
			if err := w.take(pack(steps[0])); err != nil && !errors.Is(err, errRefused) {
				t.Fatal(err)
			}
		}
	}
}

// rolledInVain returns a world of three members whose new template names a missing image: the pod of one member cannot start.
func rolledInVain(t *testing.T, faults uint16, left budget) world {
	t.Helper()
	w := odd(t, 3, faults, budget{})
	w.revision++
	w.spoiled = w.revision
	w.rest(t)
	if all, run, _ := w.voters(); all != 3 || run != 2 {
		t.Fatalf("the template names a missing image: %s", describe(w))
	}
	w.left = left
	return w
}

// cramped returns a world in which the pod of the last member cannot be scheduled.
func cramped(t *testing.T, replicas int, faults uint16, left budget) world {
	t.Helper()
	w := newWorld(replicas, budget{})
	w.room = uint8(replicas - 1)
	if faults&oddRotation != 0 {
		w.odd, w.secrets = oddRotation, mFiles{trusted: 1}
	}
	w.rest(t)
	if all, run, _ := w.voters(); all != replicas-1 || run != all || w.pods[replicas-1].phase != starting {
		t.Fatalf("a pod that cannot be scheduled: %s", describe(w))
	}
	w.odd, w.left = faults, left
	return w
}

// recovered returns a world of three members after a recovery from one of them. The spec still has the consent to that
// recovery.
func recovered(t *testing.T, left budget) world {
	t.Helper()
	w := odd(t, 3, oddRecord, budget{})
	for i := 1; i < 3; i++ {
		w.pods[i], w.volumes[i] = mPod{}, mVolume{}
	}
	w.elect()
	w.token = true
	w.rest(t)
	if all, run, _ := w.voters(); all != 3 || run != 3 || w.forces != 1 {
		t.Fatalf("the world after the recovery: %s", describe(w))
	}
	w.left = left
	return w
}

func explore(t *testing.T, first world, most int, decide func(Want, View) Decision) *exploration {
	t.Helper()
	e := &exploration{t: t, decide: decide, seed: maphash.MakeSeed(), seen: map[uint64]bool{}, good: map[uint64]bool{}, held: []mStep{{}}, most: most}
	e.add(first, 0, "begins")
	for len(e.queue) > 0 && len(e.how) < most && len(e.harm) == 0 {
		w := e.queue[0]
		e.queue = e.queue[1:]
		e.settles(w)
		e.operator(w)
		for i, move := range w.progress() {
			next := w.world
			changed, err := move(&next)
			if err != nil {
				e.fail(w, fmt.Sprintf("move %d: %v", i, err))
			}
			if changed {
				e.add(next, w.number, moved(i))
			}
		}
		for _, next := range w.faults() {
			e.add(next, w.number, "outside: "+difference(w.world, next))
		}
	}
	if len(e.queue) > 0 && len(e.harm) == 0 {
		t.Logf("%d known states were not visited", len(e.queue))
	}
	return e
}

// moved describes the i-th change of progress.
func moved(i int) string {
	return []string{"pod comes or goes: ", "agent: ", "reads its Secrets: ", "joins: "}[i%4] + names[i/4]
}

func (e *exploration) add(w world, from int32, how string) {
	hash := maphash.Comparable(e.seed, w)
	if e.seen[hash] {
		return
	}
	e.seen[hash] = true
	e.parent = append(e.parent, from)
	e.how = append(e.how, how)
	e.queue = append(e.queue, numbered{w, int32(len(e.how) - 1)})
}

// operator runs a pass of the operator. Its step is run now, or another operator delays it and runs it later. A crash
// before a step needs no event in the model: the state stays the same, and the next pass observes it again.
func (e *exploration) operator(w numbered) {
	decision := e.decide(w.want(), w.view())
	e.take(w, decision.Steps)
	e.take(w, decision.Positions)
	e.late(w)
}

// take runs the first of some steps, or delays it.
func (e *exploration) take(w numbered, steps []Step) {
	if len(steps) > 0 {
		step := pack(steps[0])
		if m := w.member(uint8(step.member)); step.action == ActionRemove && m != nil && !m.learner && int(m.place) < w.replicas && w.intact(m) {
			e.fail(w, fmt.Sprintf("member %d is removed, has its data and could come back", m.id))
		}
		next := w.world
		err := next.take(step)
		if err != nil && !errors.Is(err, errRefused) {
			e.fail(w, fmt.Sprintf("%s %s: %v", step.action, steps[0].Message, err))
		}
		if err == nil {
			e.add(next, w.number, steps[0].Message)
		}
		if w.left.stale > 0 && w.held == 0 && step.action != ActionWait {
			next := w.world
			next.left.stale--
			next.held = e.keep(step)
			e.add(next, w.number, "held back: "+steps[0].Message)
		}
	}
}

// late runs a delayed step.
func (e *exploration) late(w numbered) {
	if w.held != 0 {
		next := w.world
		next.held = 0
		step := e.held[w.held]
		couldCome := false
		if m := w.member(uint8(step.member)); step.action == ActionRemove && m != nil && !m.learner && int(m.place) < w.replicas {
			couldCome = w.intact(m)
		}
		err := next.take(e.held[w.held])
		if err != nil && !errors.Is(err, errRefused) {
			e.fail(w, fmt.Sprintf("late: %s: %v", e.held[w.held].action, err))
		}
		if err == nil && couldCome {
			e.fail(w, "late: a member is removed that has its data")
		}
		if err == nil {
			e.add(next, w.number, "late: "+string(e.held[w.held].action))
		}
	}
}

func (e *exploration) keep(step mStep) uint16 {
	for i, known := range e.held {
		if known == step {
			return uint16(i)
		}
	}
	e.held = append(e.held, step)
	return uint16(len(e.held) - 1)
}

// settles runs a world without faults until nothing changes. Then, if a quorum still has its data, all members must be
// healthy. Otherwise, the member list must be unchanged if no quorum ran at the beginning.
func (e *exploration) settles(begin numbered) {
	w := begin.world
	w.held = 0
	w.left = budget{}
	all, _, intact := w.voters()
	possible := all == 0 || intact >= quorum(all)
	if !possible && w.token {
		return // recoveries are explored separately
	}
	members := w.members
	var path []uint64
	for step := range 400 {
		hash := maphash.Comparable(e.seed, w)
		if e.good[hash] {
			break
		}
		path = append(path, hash)
		e.longest = max(e.longest, step)
		changed := false
		for _, move := range w.progress() {
			did, err := move(&w)
			if err != nil {
				e.fail(begin, "later: "+err.Error())
				return
			}
			changed = changed || did
		}
		decision := e.decide(w.want(), w.view())
		for _, steps := range [][]Step{decision.Steps, decision.Positions} {
			if len(steps) == 0 {
				continue
			}
			before := w
			if err := w.take(pack(steps[0])); err != nil && !errors.Is(err, errRefused) {
				e.fail(begin, "later: "+err.Error())
				return
			}
			changed = changed || w != before
		}
		if !changed {
			if possible {
				e.wellOr(begin, w, decision)
			} else if w.members != members && begin.recorded && !begin.quorate() {
				e.fail(begin, "the quorum is lost, but members were changed")
			}
			break
		}
		if step == 399 {
			e.fail(begin, "the operator never stops running steps, now with: "+decision.Model.Reason)
			return
		}
	}
	for _, hash := range path {
		e.good[hash] = true
	}
}

func (e *exploration) wellOr(begin numbered, w world, decision Decision) {
	if strings.HasPrefix(decision.Model.Reason, "the claims of ") || strings.Contains(decision.Model.Reason, "the pod template may be wrong") || w.spoiled != 0 && w.spoiled == w.revision {
		return // Reason names the cause, and a user must act
	}
	all, run, _ := w.voters()
	if w.lacksRoom(w.replicas-1) && all == run && w.members != ([spots + 1]mMember{}) {
		// The last pod cannot be scheduled, but all voters run. Their pods must be up to date. The exception is a cluster of
		// one or two voters, because replacing a pod would stop it.
		unfinished := w.rotation.wanted || w.rotation.phase != 0
		for i := range w.pods {
			unfinished = unfinished || w.pods[i].phase != none && w.pods[i].revision != w.revision
		}
		if unfinished && all > 2 {
			e.fail(begin, "a pod that cannot be scheduled keeps other pods from their change: "+decision.Model.Reason)
		}
		return
	}
	if w.alarm != 0 && w.replicas > 0 {
		e.fail(begin, "it comes to rest with an alarm")
	}
	if w.replicas == 0 {
		for i := range w.pods {
			if w.pods[i].phase != none {
				e.fail(begin, "the cluster is parked, but pods run")
			}
		}
		return
	}
	if !decision.Model.Settled || all != w.replicas || run != w.replicas {
		e.fail(begin, fmt.Sprintf("it comes to rest with %d of %d voters, but %d are wanted: %s, %s; %s", run, all, w.replicas,
			decision.Model.Verdict, decision.Model.Reason, describe(w)))
	}
}

func (e *exploration) fail(at numbered, why string) {
	if len(e.harm) > 0 {
		return
	}
	for number := at.number; number > 0; number = e.parent[number] {
		e.harm = append([]string{e.how[number]}, e.harm...)
	}
	e.harm = append(e.harm, describe(at.world), why)
}

func describe(w world) string {
	return fmt.Sprintf("members %v leader %d pods %+v volumes %+v record %+v wanted %d", w.members, w.leader, w.pods, w.volumes, w.record, w.replicas)
}

func difference(a, b world) string {
	switch {
	case a.replicas != b.replicas:
		return fmt.Sprintf("%d replicas are wanted", b.replicas)
	case a.revision != b.revision:
		return "another revision"
	case a.mixed != b.mixed:
		return fmt.Sprintf("pods %d and %d exchange their addresses", b.mixed-1, b.mixed)
	case a.rotation != b.rotation:
		return "other authorities are wanted"
	case a.token != b.token:
		return "consent"
	}
	for i := range a.pods {
		switch {
		case a.volumes[i].uid != b.volumes[i].uid:
			return fmt.Sprintf("claim and pod %d are gone", i)
		case a.volumes[i].data != b.volumes[i].data:
			return fmt.Sprintf("volume %d is wiped", i)
		case a.volumes[i].terminating != b.volumes[i].terminating:
			return fmt.Sprintf("claim %d is being deleted", i)
		case a.volumes[i].old != b.volumes[i].old:
			return fmt.Sprintf("volume %d is put back", i)
		case a.volumes[i].wrong != b.volumes[i].wrong:
			return fmt.Sprintf("the keys of member %d are wrong", i)
		case a.volumes[i].bad != b.volumes[i].bad:
			return fmt.Sprintf("volume %d is broken", i)
		case a.pods[i].uid != b.pods[i].uid:
			return fmt.Sprintf("pod %d is deleted", i)
		case a.pods[i].phase != b.pods[i].phase:
			return fmt.Sprintf("container %d is killed", i)
		}
	}
	return "something"
}

// TestExplore runs the sequences of faults, changes and delayed steps that the budgets allow. The search is
// breadth-first. It stops after a maximum number of states, which is smaller with -short (make test). ETCD_MODEL=full
// has a higher maximum and larger budgets.
func TestExplore(t *testing.T) {
	t.Parallel()
	type begin struct {
		name string
		w    world
	}
	begins := []begin{
		{"one member, faults", newWorld(1, budget{faults: 2, changes: 1})},
		{"one member, two operators", newWorld(1, budget{faults: 1, stale: 2})},
		{"three members, a fault", newWorld(3, budget{faults: 1})},
		{"three members, changes", newWorld(3, budget{changes: 2})},
		{"three members, a delayed step", newWorld(3, budget{stale: 1, changes: 1})},
		{"an old copy of a volume", odd(t, 3, oddPast, budget{faults: 2})},
		{"an old copy of a volume, one member", odd(t, 1, oddPast, budget{faults: 2, changes: 1})},
		{"claims are deleted", odd(t, 3, oddClaims, budget{faults: 2})},
		{"claims are deleted, and a change", odd(t, 3, oddClaims, budget{faults: 1, changes: 1})},
		{"claims are deleted, and a delayed step", odd(t, 3, oddClaims, budget{faults: 1, changes: 1, stale: 1})},
		{"a corrupt member", odd(t, 3, oddCorrupt, budget{faults: 2})},
		{"a corrupt member, and a change", odd(t, 3, oddCorrupt, budget{faults: 1, changes: 1})},
		{"another record", odd(t, 3, oddRecord, budget{faults: 2})},
		{"another record, and a change", odd(t, 3, oddRecord, budget{faults: 1, changes: 1})},
		{"a wrong template", odd(t, 3, oddTemplate, budget{faults: 1, changes: 2})},
		{"an image that does not exist", odd(t, 3, oddImage, budget{changes: 2})},
		{"a corrupt member while a pod cannot start", rolledInVain(t, oddCorrupt|oddImage, budget{faults: 1, changes: 1})},
		{"a pod that cannot be scheduled, and changes", cramped(t, 4, oddRotation, budget{changes: 2})},
		{"one of three pods cannot be scheduled, and a fault", cramped(t, 3, oddRotation, budget{faults: 1, changes: 1})},
		{"addresses are exchanged", odd(t, 3, oddMixed, budget{faults: 2})},
		{"authorities are replaced", odd(t, 3, oddRotation, budget{changes: 1})},
		{"authorities are replaced, and a delayed step", odd(t, 3, oddRotation, budget{changes: 1, stale: 1})},
		{"authorities of one member are replaced", odd(t, 1, oddRotation, budget{faults: 1, changes: 1})},
		{"a damaged member that recovers by itself, and a delayed step", odd(t, 3, oddMends, budget{faults: 2, stale: 1})},
		{"a recovery, and a new record", recovered(t, budget{faults: 3})},
	}
	most, mostOdd := 100_000, 30_000
	if testing.Short() {
		most, mostOdd = 15_000, 5_000
	}
	if os.Getenv("ETCD_MODEL") == "full" {
		most, mostOdd = 12_000_000, 12_000_000
		begins = append(begins, []begin{
			{"a corrupt member, and a delayed step", odd(t, 3, oddCorrupt, budget{faults: 2, stale: 1})},
			{"several odd faults", odd(t, 3, oddPast|oddClaims|oddCorrupt|oddRecord|oddMends|oddMixed, budget{faults: 2})},
			{"an image that does not exist, and a fault", odd(t, 3, oddImage, budget{faults: 1, changes: 2})},
			{"pods exchange addresses, and a delayed step", odd(t, 3, oddMixed, budget{faults: 2, stale: 1})},
			{"authorities are replaced, and a fault", odd(t, 3, oddRotation, budget{faults: 1, changes: 1})},
			{"authorities of one member are replaced, and a change", odd(t, 1, oddRotation, budget{faults: 1, changes: 2})},
			{"three members, two faults", newWorld(3, budget{faults: 2})},
			{"three members, two faults and a change", newWorld(3, budget{faults: 2, changes: 1})},
			{"three members, a fault and a delayed step", newWorld(3, budget{faults: 1, stale: 1})},
			{"three members, everything", newWorld(3, budget{faults: 1, stale: 1, changes: 1})},
		}...)
	}
	for _, begin := range begins {
		t.Run(begin.name, func(t *testing.T) {
			if most < 1_000_000 {
				t.Parallel()
			}
			most := most
			if begin.w.odd != 0 {
				most = mostOdd
			}
			e := explore(t, begin.w, most, Decide)
			for _, line := range e.harm {
				t.Log(line)
			}
			if len(e.harm) > 0 {
				t.Error("the operator did harm, or did not repair the cluster")
			}
			t.Logf("%d states, at most %d passes until all was well", len(e.how), e.longest)
		})
	}
}
