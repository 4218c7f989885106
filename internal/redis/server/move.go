// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// Slots are moved a few at a time, with about keysAtOnce keys together. Clients are redirected (ASK) only for open slots, and each slot is
// open only while its keys are moved.
const (
	slotsAtOnce = 32
	keysAtOnce  = 512
)

// mover moves slots from one master to another.
//
// A crash at any point leaves each slot repairable. The order is: IMPORTING on the target, MIGRATING on the source, the keys, NODE on the
// target, NODE on the source. NODE is sent when no master except the target has keys of the slot. The target broadcasts the new owner. The
// next pass finds the marks, or finds the target as the owner in the target's own view, and continues.
//
// The target claims a slot with a config epoch above all epochs that the target has seen. The source may have a higher epoch that the
// target has not seen, for example because the source has just received slots. In that case, the source's next message takes the slot back,
// and the target deletes the slot's keys. So no slot is opened or assigned before the target has the source's epoch.
type mover struct {
	*executor
	source, target *link
	others         []*link // every other living master
	until, hard    time.Time
	largest        int64        // maximum size of a value, in bytes
	resumed        map[int]bool // slots in which the target had keys before this step
}

// newMover proves the nodes of the step.
func (t *executor) newMover(ctx context.Context) (*mover, error) {
	places := []topology.Place{t.Step.Node, t.Step.Target}
	for _, place := range t.Step.On {
		if place.ID != t.Step.Node.ID && place.ID != t.Step.Target.ID {
			places = append(places, place)
		}
	}
	// Slots that are open at the end of the time slice are completed, within twice the time.
	const slice = 5 * time.Second // the time for which one step moves slots
	m := &mover{executor: t, until: time.Now().Add(slice), hard: time.Now().Add(2 * slice), largest: t.Step.Largest, resumed: map[int]bool{}}
	if m.largest == 0 {
		m.largest = topology.LargestValue
	}
	if deadline, ok := ctx.Deadline(); ok {
		for _, end := range []*time.Time{&m.until, &m.hard} {
			if last := deadline.Add(-time.Second); last.Before(*end) {
				*end = last
			}
		}
	}
	links, err := t.proveAll(ctx, places...)
	if err != nil {
		return nil, err
	}
	m.source, m.target, m.others = links[0], links[1], links[2:]
	return m, nil
}

func (t *executor) moveSlots(ctx context.Context) error {
	if t.Step.Mode == topology.ModeBack {
		return t.moveBack(ctx)
	}
	m, err := t.newMover(ctx)
	if err != nil {
		return err
	}
	rest := slices.Collect(t.Step.Slots.All)
	for len(rest) > 0 && m.more(ctx, m.until) {
		moved, err := m.moveBatch(ctx, rest[:min(len(rest), slotsAtOnce)])
		if err != nil {
			return fmt.Errorf("move slots from %s to %s: %w", t.Step.Node.Pod, t.Step.Target.Pod, err)
		}
		rest = rest[moved:]
	}
	return nil
}

func (m *mover) more(ctx context.Context, end time.Time) bool {
	return ctx.Err() == nil && time.Now().Before(end)
}

// moveBatch moves a prefix of slots and returns its length.
func (m *mover) moveBatch(ctx context.Context, slots []int) (int, error) {
	now, err := m.acquainted(ctx, slots)
	if err != nil {
		return 0, err
	}
	slots = now.batch(slots)
	var toOpen, toAccept, moving, toName []int
	for _, slot := range slots {
		state, err := m.judge(now, slot)
		switch {
		case err != nil:
			return 0, err
		case state == slotMoved:
			continue
		case state == slotAtTarget:
			toName = append(toName, slot)
			continue
		}
		if now.target.Importing[slot] == "" {
			toAccept = append(toAccept, slot)
		}
		if now.source.Migrating[slot] == "" {
			toOpen = append(toOpen, slot)
		}
		moving, m.resumed[slot] = append(moving, slot), now.stale[slot] > 0
	}
	// assign would fail at the end of the move if another master had keys of the slots. So all other masters are checked
	// before the slots are opened.
	if err := each(len(m.others), func(i int) error { return m.others[i].holdsNone(ctx, toOpen) }); err != nil {
		return 0, err
	}
	if _, err := m.target.do(ctx, setSlot(toAccept, "IMPORTING", m.source.place.ID)...); err != nil {
		return 0, err
	}
	if _, err := m.source.do(ctx, setSlot(toOpen, "MIGRATING", m.target.place.ID)...); err != nil {
		return 0, err
	}
	drained, err := m.drain(ctx, moving)
	if err != nil {
		return 0, err
	}
	if err := m.assign(ctx, drained, toName); err != nil {
		return 0, err
	}
	return len(slots), nil
}

// sight holds the present state of slots, as source and target report it.
type sight struct {
	source, target topology.Entry
	owner          map[int]string // of each slot, in the target's view
	epoch          uint64         // epoch of the source, in the target's view
	keys, stale    map[int]int64  // number of keys on the source and on the target, by slot
}

// look queries source and target in parallel.
func (m *mover) look(ctx context.Context, slots []int) (*sight, error) {
	now := &sight{owner: map[int]string{}}
	links := []*link{m.source, m.target}
	var view []topology.Entry
	err := each(len(links), func(i int) error {
		answers, err := links[i].do(ctx, append([]command{{"CLUSTER", "NODES"}}, countKeys(slots)...)...)
		if err != nil {
			return err
		}
		own, all, err := links[i].parse(answers[0])
		if err != nil {
			return err
		}
		counts, err := readCounts(slots, answers[1:])
		if err != nil {
			return err
		}
		if i == 0 {
			now.source, now.keys = own, counts
		} else {
			now.target, now.stale, view = own, counts, all
		}
		return m.knowsAll(all, links[i].place)
	})
	for _, entry := range view {
		if entry.ID == m.source.place.ID {
			now.epoch = entry.Epoch
		}
		for _, slot := range slots {
			if entry.Owned.Has(slot) {
				now.owner[slot] = entry.ID
			}
		}
	}
	return now, err
}

// acquainted repeats look until the target knows the source's config epoch. Nodes exchange epochs within a second.
func (m *mover) acquainted(ctx context.Context, slots []int) (*sight, error) {
	for tick := time.Tick(20 * time.Millisecond); ; {
		now, err := m.look(ctx, slots)
		if err != nil || now.epoch >= now.source.Epoch {
			return now, err
		}
		if !m.more(ctx, m.until) {
			return nil, steps.Refuse("%s does not know yet that %s has config epoch %d", m.target.place.Pod, m.source.place.Pod, now.source.Epoch)
		}
		select {
		case <-ctx.Done():
		case <-tick:
		}
	}
}

// batch returns a prefix of slots: the first slot, and further slots while they have at most keysAtOnce keys together.
func (s *sight) batch(slots []int) []int {
	keys := int64(0)
	for i, slot := range slots {
		keys += s.keys[slot]
		if i > 0 && keys > keysAtOnce {
			return slots[:i]
		}
	}
	return slots
}

// slotState is the progress of a slot's move.
type slotState int

const (
	slotAtSource slotState = iota // the source has its keys, or some of them
	slotAtTarget                  // the target owns it, but not yet in the source's view
	slotMoved                     // the target owns it, in both views
)

// judge returns the progress of a slot's move. It returns an error if the state cannot result from an interrupted move.
func (m *mover) judge(now *sight, slot int) (slotState, error) {
	state, err := m.judgeSlot(now, slot)
	if err != nil {
		refused := &moveError{slot: slot, err: err}
		if now.target.Importing[slot] == "" && now.stale[slot] > 0 {
			refused.first = moveAgain
		}
		return state, refused
	}
	return state, nil
}

func (m *mover) judgeSlot(now *sight, slot int) (slotState, error) {
	source, target := m.source.place, m.target.place
	importing, migrating := now.target.Importing[slot], now.source.Migrating[slot]
	switch {
	case !now.source.Master || !now.target.Master:
		return 0, steps.Refuse("%s and %s are not both masters any more", source.Pod, target.Pod)
	case now.target.Owned.Has(slot):
		if now.keys[slot] > 0 {
			return 0, steps.Refuse("%s owns slot %d, but %s still holds %d keys of this slot", target.Pod, slot, source.Pod, now.keys[slot])
		}
		if now.source.Owned.Has(slot) || migrating != "" {
			return slotAtTarget, nil
		}
		return slotMoved, nil
	case !now.source.Owned.Has(slot):
		return 0, steps.Refuse("%s does not own slot %d", source.Pod, slot)
	case now.owner[slot] != source.ID:
		return 0, steps.Refuse("slot %d belongs to %s (%s), but to %q in the view of %s", slot, source.Pod, source.ID, now.owner[slot], target.Pod)
	case migrating != "" && migrating != target.ID:
		return 0, steps.Refuse("slot %d of %s is being moved to %s", slot, source.Pod, migrating)
	case importing != "" && importing != source.ID:
		return 0, steps.Refuse("%s is importing slot %d from %s", target.Pod, slot, importing)
	case importing == "" && now.stale[slot] > 0:
		return 0, steps.Refuse("%s holds %d keys of slot %d that did not come from %s by this move", target.Pod, now.stale[slot], slot, source.Pod)
	}
	return slotAtSource, nil
}

// assign makes the target the owner of the drained slots. Before that, it checks again that the source owns these slots.
// Then it announces to the source and to all other masters that the target owns the slots in drained and in owned.
func (m *mover) assign(ctx context.Context, drained, owned []int) error {
	if len(drained) > 0 {
		now, err := m.look(ctx, drained)
		if err != nil {
			return err
		}
		for _, slot := range drained {
			if _, err := m.judge(now, slot); err != nil {
				return err
			}
			if now.target.Importing[slot] != m.source.place.ID || now.source.Migrating[slot] != m.target.place.ID || now.keys[slot] > 0 || now.epoch < now.source.Epoch {
				return steps.Refuse("slot %d changed while it was moved", slot)
			}
		}
		if err := each(len(m.others), func(i int) error { return m.others[i].holdsNone(ctx, drained) }); err != nil {
			return err
		}
	}
	if _, err := m.target.do(ctx, setSlot(drained, "NODE", m.target.place.ID)...); err != nil {
		return err
	}
	name := append(slices.Clone(drained), owned...)
	told := append([]*link{m.source}, m.others...)
	return each(len(told), func(i int) error {
		heard, err := m.heard(ctx, told[i], name)
		if err != nil || heard && told[i] != m.source {
			return err
		}
		// The source gets SETSLOT NODE in any case, because only this command removes its mark.
		_, err = told[i].do(ctx, setSlot(name, "NODE", m.target.place.ID)...)
		return err
	})
}

// heard waits until a node has received the target's broadcast claim of slots, and reports whether the node has
// received it.
//
// The broadcast should arrive before SETSLOT. If SETSLOT is first, and an older message of the target follows, the node
// stores that the target does not claim the slot. Redis 7.0 never removes that entry. If the node later owns the slot
// itself, the next message of the target takes the slot back, even with a lower config epoch. The keys are then
// deleted. So another master gets SETSLOT only if heard returns false.
func (m *mover) heard(ctx context.Context, l *link, slots []int) (bool, error) {
	end := time.Now().Add(patience)
	for tick := time.Tick(3 * time.Millisecond); ; {
		_, all, err := l.self(ctx)
		if err != nil {
			return false, err
		}
		for _, entry := range all {
			if entry.ID == m.target.place.ID && !slices.ContainsFunc(slots, func(slot int) bool { return !entry.Owned.Has(slot) }) {
				return true, nil
			}
		}
		if !m.more(ctx, end) {
			return false, nil
		}
		select {
		case <-ctx.Done():
		case <-tick:
		}
	}
}

// patience limits the wait for a node to receive a broadcast.
const patience = time.Second
