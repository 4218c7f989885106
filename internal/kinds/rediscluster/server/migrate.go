// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/kinds/stateful/proof"
)

// drain moves the keys of open slots, in rounds: each round moves Pipeline keys of each of some slots, and asks for
// the next. It returns the slots that have no keys left; when the time is up, those are not all.
func (m *mover) drain(ctx context.Context, slots []int) ([]int, error) {
	keys := map[int][]any{}
	if err := m.ask(ctx, slots, keys); err != nil {
		return nil, err
	}
	for {
		var round, left []int
		n := 0
		for _, slot := range slots {
			if len(keys[slot]) == 0 {
				continue
			}
			left = append(left, slot)
			// The source serves nobody else until it has answered all that came in one go.
			if n == 0 || n+len(keys[slot]) <= m.Pipeline {
				round = append(round, slot)
				n += len(keys[slot])
			}
		}
		if len(left) == 0 || !m.more(ctx, m.hard) {
			return slices.DeleteFunc(slices.Clone(slots), func(slot int) bool { return len(keys[slot]) > 0 }), nil
		}
		if err := m.migrate(ctx, round, keys, false); err != nil {
			return nil, err
		}
	}
}

// ask reads the next keys of slots at the source.
func (m *mover) ask(ctx context.Context, slots []int, keys map[int][]any) error {
	commands := make([]command, 0, len(slots))
	for _, slot := range slots {
		commands = append(commands, command{"CLUSTER", "GETKEYSINSLOT", slot, m.Pipeline})
	}
	answers, err := m.source.do(ctx, commands...)
	for i, slot := range slots {
		if err == nil {
			keys[slot], err = answers[i].Slice()
		}
	}
	return err
}

// migrate moves the keys, and reads the next ones of the same slots.
//
// After an error, some of the keys may be on both nodes (the source has not heard that the target has them). Then
// the target answers BUSYKEY. The source owns the slot, so it has what clients wrote last, and the target's copy can
// only have come from it, because the slot was opened for this source when the target had no key of it: REPLACE is right.
func (m *mover) migrate(ctx context.Context, slots []int, keys map[int][]any, replace bool) error {
	commands := make([]command, 0, 2*len(slots))
	for _, slot := range slots {
		commands = append(commands, m.migration(keys[slot], replace), command{"CLUSTER", "GETKEYSINSLOT", slot, m.Pipeline})
	}
	answers, err := m.source.all(ctx, commands)
	if err != nil {
		return err
	}
	var busy []int // those whose keys are on both
	for i, slot := range slots {
		moved, next := answers[2*i], answers[2*i+1]
		switch err := moved.Err(); {
		case err == nil:
		case strings.Contains(err.Error(), "BUSYKEY") && !replace:
			busy = append(busy, slot)
		default:
			return fmt.Errorf("slot %d: %s of %s: %w", slot, commands[2*i], m.source.place.Pod, err)
		}
		if keys[slot], err = next.Slice(); err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("slot %d: %s of %s: %w", slot, commands[2*i+1], m.source.place.Pod, err)
		}
	}
	if len(busy) == 0 {
		return nil
	}
	now, err := m.look(ctx, busy)
	if err != nil {
		return err
	}
	for _, slot := range busy {
		if state, err := m.judge(now, slot); err != nil || state != slotAtSource || now.target.Importing[slot] != m.source.place.ID {
			return errors.Join(err, proof.Refuse("keys of slot %d are on %s and on %s, and the slot is not open between them", slot, m.source.place.Pod, m.target.place.Pod))
		}
	}
	return m.migrate(ctx, busy, keys, true)
}

func (m *mover) migration(keys []any, replace bool) command {
	host, timeout := m.target.place.IP, commandTimeout/2
	c := command{"MIGRATE", host, strconv.Itoa(Port), "", 0, timeout.Milliseconds()}
	if replace {
		c = append(c, "REPLACE")
	}
	switch {
	case m.Access.Username != "":
		c = append(c, "AUTH2", m.Access.Username, m.Access.Password)
	case m.Access.Password != "":
		c = append(c, "AUTH", m.Access.Password)
	}
	return append(append(c, "KEYS"), keys...)
}
