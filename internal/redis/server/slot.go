// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/topology"
)

func countKeys(slots []int) []command {
	commands := make([]command, 0, len(slots))
	for _, slot := range slots {
		commands = append(commands, command{"CLUSTER", "COUNTKEYSINSLOT", slot})
	}
	return commands
}

func setSlot(slots []int, words ...any) []command {
	commands := make([]command, 0, len(slots))
	for _, slot := range slots {
		commands = append(commands, append(command{"CLUSTER", "SETSLOT", slot}, words...))
	}
	return commands
}

// counts returns a node's number of keys in each slot.
func (l *link) counts(ctx context.Context, slots []int) (map[int]int64, error) {
	answers, err := l.do(ctx, countKeys(slots)...)
	if err != nil {
		return nil, err
	}
	return readCounts(slots, answers)
}

func readCounts(slots []int, answers []*redis.Cmd) (map[int]int64, error) {
	found := map[int]int64{}
	for i, slot := range slots {
		n, err := answers[i].Int64()
		if err != nil {
			return nil, err
		}
		found[slot] = n
	}
	return found, nil
}

// holdsNone returns an error if a node holds keys of one of the slots.
func (l *link) holdsNone(ctx context.Context, slots []int) error {
	counts, err := l.counts(ctx, slots)
	if err != nil {
		return err
	}
	for _, slot := range slots {
		if n := counts[slot]; n > 0 {
			return &moveError{slot: slot, first: moveAgain, err: steps.Refuse("%s holds %d keys of slot %d, which it does not own: slot %d cannot get another owner while %s (%s) has these keys",
				l.place.Pod, n, slot, slot, l.place.Pod, l.place.ID)}
		}
	}
	return nil
}

// markSlot opens or closes slots on one node. It does not close a slot while keys depend on the mark: without the mark,
// clients could not reach keys on an importing node, or on the target of a migrating node.
func (t *executor) markSlot(ctx context.Context) error {
	slots := slices.Collect(t.Step.Slots.All)
	node, err := t.prove(ctx, t.Step.Node)
	if err != nil {
		return err
	}
	if t.Step.Mode != "STABLE" {
		_, err = node.do(ctx, setSlot(slots, t.Step.Mode, t.Step.ID)...)
		return err
	}
	own, _, err := node.self(ctx)
	if err != nil {
		return err
	}
	var foreign []int
	for _, slot := range slots {
		if !own.Owned.Has(slot) && own.Importing[slot] != "" {
			foreign = append(foreign, slot)
		}
	}
	if err := node.holdsNone(ctx, foreign); err != nil {
		return err
	}
	if t.Step.Target.ID != "" {
		target, err := t.prove(ctx, t.Step.Target)
		if err != nil {
			return err
		}
		if err := target.holdsNone(ctx, slots); err != nil {
			return err
		}
	}
	_, err = node.do(ctx, setSlot(slots, "STABLE")...)
	return err
}

// assignSlot sets the owner of slots on nodes. There are two cases:
//
//   - The owner is among the nodes and does not own the slots yet: the slots get a new owner. No other master may hold
//     a key of the slots, because that master would delete the key.
//   - Otherwise the nodes only adopt the owner's claim. A node that claims the slots itself may hold no key of them.
func (t *executor) assignSlot(ctx context.Context) error {
	slots := slices.Collect(t.Step.Slots.All)
	links, err := t.proveAll(ctx, t.Step.On...)
	if err != nil {
		return err
	}
	owner := slices.IndexFunc(links, func(l *link) bool { return l.place.ID == t.Step.ID })
	others := slices.DeleteFunc(slices.Clone(links), func(l *link) bool { return l.place.ID == t.Step.ID })
	fresh := false
	if owner >= 0 {
		own, all, err := links[owner].self(ctx)
		if err != nil {
			return err
		}
		if fresh = t.Step.Slots.Minus(own.Owned).Len() > 0; fresh {
			if err := t.knowsAll(all, links[owner].place); err != nil {
				return err
			}
		}
	}
	if err := each(len(others), func(i int) error {
		if fresh {
			return others[i].holdsNone(ctx, slots)
		}
		own, _, err := others[i].self(ctx)
		if err == nil && own.Owned.Intersect(t.Step.Slots).Len() > 0 {
			return others[i].holdsNone(ctx, slots)
		}
		return err
	}); err != nil {
		return err
	}
	for _, l := range links {
		if _, err := l.do(ctx, setSlot(slots, "NODE", t.Step.ID)...); err != nil {
			return err
		}
	}
	return nil
}

// knowsAll returns an error if a node's view contains a living master with slots that is not among the nodes of the step.
func (t *executor) knowsAll(view []topology.Entry, of topology.Place) error {
	known := ids(append([]topology.Place{t.Step.Node, t.Step.Target}, t.Step.On...))
	for _, entry := range view {
		if entry.Master && entry.Owned.Len() > 0 && !entry.Fail && !entry.Handshake && !entry.NoAddress && !known[entry.ID] {
			return steps.Refuse("%s sees master %s at %s, but this step does not check that master for keys", of.Pod, entry.ID, entry.IP)
		}
	}
	return nil
}
