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

	"d3os.com/d3os-operator/internal/database/proof"
)

// bytesAtOnce limits the bytes of one round of MIGRATE, if it has more than one key: both nodes serve no clients during a round.
const bytesAtOnce = 32 << 20

// drain moves the keys of open slots in rounds. Each round moves Pipeline keys of each of several slots, and reads the next ones. It
// returns the slots without keys left; if the time is up, these are not all.
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
			// The source serves no clients until it has answered the whole pipeline.
			if n == 0 || n+len(keys[slot]) <= m.Pipeline {
				round = append(round, slot)
				n += len(keys[slot])
			}
		}
		if len(left) == 0 || !m.more(ctx, m.hard) {
			return slices.DeleteFunc(slices.Clone(slots), func(slot int) bool { return len(keys[slot]) > 0 }), nil
		}
		parcels, err := m.pack(ctx, m.source, round, keys)
		if err != nil {
			return nil, err
		}
		for len(parcels) > 0 {
			count, bytes := 0, int64(0)
			for count < len(parcels) && (count == 0 || bytes+parcels[count].bytes <= bytesAtOnce) {
				bytes += parcels[count].bytes
				count++
			}
			if err := m.migrate(ctx, parcels[:count], false); err != nil {
				return nil, err
			}
			parcels = parcels[count:]
		}
		if err := m.ask(ctx, round, keys); err != nil {
			return nil, err
		}
	}
}

// ask reads the next keys of slots from the source.
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

// parcel holds keys of one slot that one MIGRATE moves.
type parcel struct {
	slot  int
	keys  []any
	bytes int64
}

// pack groups keys into parcels that block no node for long. A value that is too large for any parcel is an error that names its key:
// MIGRATE would block both nodes for longer than the node timeout, or the target would refuse it on each retry.
func (m *mover) pack(ctx context.Context, on *link, slots []int, keys map[int][]any) ([]parcel, error) {
	var commands []command
	for _, slot := range slots {
		for _, key := range keys[slot] {
			commands = append(commands, command{"MEMORY", "USAGE", key})
		}
	}
	answers, err := on.all(ctx, commands)
	if err != nil {
		return nil, err
	}
	var parcels []parcel
	for _, slot := range slots {
		fresh := true
		for _, key := range keys[slot] {
			bytes, err := answers[0].Int64() // an error: the key has just been deleted
			if answers = answers[1:]; err != nil {
				bytes = 0
			}
			if bytes > m.largest {
				return nil, &moveError{slot: slot, first: moveAgain, err: proof.Refuse("the value of key %.80q takes %d MiB, and %d MiB are the most that is moved between two nodes: "+
					"split it or delete it (slot %d stays where it is)", key, bytes>>20, m.largest>>20, slot)}
			}
			if last := len(parcels) - 1; !fresh && parcels[last].bytes+bytes <= bytesAtOnce {
				parcels[last].keys, parcels[last].bytes = append(parcels[last].keys, key), parcels[last].bytes+bytes
				continue
			}
			parcels, fresh = append(parcels, parcel{slot, []any{key}, bytes}), false
		}
	}
	return parcels, nil
}

// migrate moves keys to the target.
//
// After an error, some keys may be on both nodes, because the source did not receive the target's reply. The target then answers BUSYKEY.
// The source owns the slot, so it has the latest writes of clients. The target's copy can only be the source's, because the target had no
// key of the slot when it was opened for this source. So REPLACE is right.
func (m *mover) migrate(ctx context.Context, parcels []parcel, replace bool) error {
	commands := make([]command, 0, len(parcels))
	for _, p := range parcels {
		commands = append(commands, m.migration(p.keys, replace))
	}
	answers, err := m.source.all(ctx, commands)
	if err != nil {
		return err
	}
	var busy []parcel // keys on both nodes
	for i, p := range parcels {
		switch err := answers[i].Err(); {
		case err == nil:
		case strings.Contains(err.Error(), "BUSYKEY") && !replace:
			busy = append(busy, p)
		default:
			return refusal(p.slot, m.target, fmt.Errorf("slot %d: %s of %s: %w", p.slot, commands[i], m.source.place.Pod, err))
		}
	}
	if len(busy) == 0 {
		return nil
	}
	var slots []int
	for _, p := range busy {
		slots = append(slots, p.slot)
	}
	slots = slices.Compact(slots)
	now, err := m.look(ctx, slots)
	if err != nil {
		return err
	}
	for _, slot := range slots {
		if state, err := m.judge(now, slot); err != nil || state != slotAtSource || now.target.Importing[slot] != m.source.place.ID {
			return errors.Join(err, proof.Refuse("keys of slot %d are on %s and on %s, and the slot is not open between them", slot, m.source.place.Pod, m.target.place.Pod))
		}
	}
	return m.migrate(ctx, busy, true)
}

// lasting are error replies of a target that accepts no keys until a user changes something.
var lasting = []string{"MISCONF", "NOREPLICAS", "READONLY", "NOPERM", "NOAUTH", "WRONGPASS", "ERR max number of clients"}

// refusal converts an error reply to MIGRATE into a moveError with the consequence for later moves.
func refusal(slot int, target *link, err error) error {
	const refused = "Target instance replied with error: "
	_, answer, byTarget := strings.Cut(err.Error(), refused)
	pod := target.place.Pod
	switch {
	case byTarget && strings.HasPrefix(answer, "OOM"):
		return &moveError{slot: slot, full: true, first: moveAgain, err: fmt.Errorf("%s takes no more keys, its memory is full: raise maxmemory or delete data: %w", pod, err)}
	case byTarget && strings.Contains(answer, "DUMP payload"):
		return &moveError{slot: wholeStep, first: moveAgain, err: fmt.Errorf("%s cannot read what the other sends, which is another version of Redis: %w", pod, err)}
	case byTarget && slices.ContainsFunc(lasting, func(word string) bool { return strings.HasPrefix(answer, word) }):
		return &moveError{slot: slot, full: true, first: moveAgain, err: fmt.Errorf("%s takes no keys (%.100s): %w", pod, answer, err)}
	case byTarget && !strings.HasPrefix(answer, "ERR"), strings.Contains(err.Error(), "connecting"): // temporary, like CLUSTERDOWN and LOADING
		return &moveError{slot: slot, err: err}
	}
	return &moveError{slot: slot, first: moveAgain, err: fmt.Errorf("keys of slot %d do not get to %s: %w", slot, pod, err)}
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
