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

	"d3os.com/d3os-operator/internal/database/steps"
)

// bytesAtOnce limits the bytes of one round of MIGRATE, if the round moves more than one key: both nodes serve no clients during a round.
const bytesAtOnce = 32 << 20

// drain moves the keys of open slots in rounds. Each round moves at most Pipeline keys, of one slot or of several, and then reads the next
// keys of these slots. drain returns the slots that have no keys left. If the time limit was reached, other slots still have keys.
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
			if err := m.dropDuplicates(ctx, parcels[:count]); err != nil {
				return nil, err
			}
			if err := m.migrate(ctx, parcels[:count]); err != nil {
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

// pack groups keys into parcels that block no node for long. It returns an error that names the key if a value is too
// large to be moved: MIGRATE would block both nodes for longer than the node timeout, or the target would refuse the
// value on each retry.
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
				return nil, &moveError{slot: slot, first: moveAgain, err: steps.Refuse("the value of key %.80q has %d MiB, and at most %d MiB can be moved between two nodes: "+
					"split the value or delete the key (slot %d stays where it is)", key, bytes>>20, m.largest>>20, slot)}
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

// The scripts of dropDuplicates, for an importing target after ASKING.
const (
	// The target returns the digests of its values of the given keys.
	scriptDigests = `
local all = {}
for i, key in ipairs(ARGV) do
  local dump = redis.call('DUMP', key)
  all[i] = dump and redis.sha1hex(dump) or ''
end
return all`
	// The target deletes keys that still have the given values.
	scriptDelete = `
local deleted = 0
for i = 1, #ARGV, 2 do
  local dump = redis.call('DUMP', ARGV[i])
  if dump and redis.sha1hex(dump) == ARGV[i + 1] then deleted = deleted + redis.call('DEL', ARGV[i]) end;
end
return deleted`
)

// dropDuplicates deletes the target's copies of keys that the source also has. It does so only in slots in which the
// target had keys before this step. Without this deletion, a key that a client has deleted could return:
//
// (1) The source sends a key, and does not receive the target's reply. (2) The key is on both nodes, and clients reach
// the source. (3) A client deletes the key on the source. (4) The source redirects clients to the target, where the
// deleted key still exists. MIGRATE with REPLACE does not repair that: it skips a key that the source no longer has. So
// the copy is deleted while the source has the key.
//
// The order makes the deletion safe: first the target's value is read, then the source is checked for the key. While a
// slot is open, clients create a key that the source lacks only at the target. So if the source still has the key, no
// client wrote the value that was read at the target. The copy is deleted only if it still has that value.
func (m *mover) dropDuplicates(ctx context.Context, parcels []parcel) error {
	for _, p := range parcels {
		if !m.resumed[p.slot] {
			continue
		}
		if err := m.dropParcel(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (m *mover) dropParcel(ctx context.Context, p parcel) error {
	answer, err := m.script(ctx, m.target, scriptDigests, p.keys)
	if err != nil {
		return err
	}
	digests, err := answer.StringSlice()
	if err != nil || len(digests) != len(p.keys) {
		return errors.Join(err, fmt.Errorf("%s returned %d of %d digests", m.target.place.Pod, len(digests), len(p.keys)))
	}
	var commands []command
	var both, copies []any
	for i, key := range p.keys {
		if digests[i] != "" {
			commands, both = append(commands, command{"EXISTS", key}), append(both, key, digests[i])
		}
	}
	answers, err := m.source.all(ctx, commands)
	if err != nil {
		return err
	}
	for i, answer := range answers {
		if n, err := answer.Int64(); err == nil && n == 1 { // an error is a redirection: the source lacks the key
			copies = append(copies, both[2*i], both[2*i+1])
		}
	}
	if len(copies) == 0 {
		return nil
	}
	_, err = m.script(ctx, m.target, scriptDelete, copies)
	return err
}

// migrate moves keys to the target. If the reply to an earlier MIGRATE was lost, its keys may arrive at the target
// late. The target then answers BUSYKEY: migrate deletes the target's copy, and sends the key again.
func (m *mover) migrate(ctx context.Context, parcels []parcel) error {
	busy, err := m.send(ctx, parcels)
	if err != nil || len(busy) == 0 {
		return err
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
			return errors.Join(err, steps.Refuse("keys of slot %d are on %s and on %s, but the slot is not marked as moving between them", slot, m.source.place.Pod, m.target.place.Pod))
		}
	}
	for _, p := range busy {
		if err := m.dropParcel(ctx, p); err != nil {
			return err
		}
	}
	if busy, err = m.send(ctx, busy); err == nil && len(busy) > 0 {
		err = &moveError{slot: busy[0].slot, err: fmt.Errorf("keys of slot %d are on %s again, although the copies there were deleted", busy[0].slot, m.target.place.Pod)}
	}
	return err
}

// send sends MIGRATE for parcels, and returns the parcels with a key that the target has.
func (m *mover) send(ctx context.Context, parcels []parcel) (busy []parcel, err error) {
	commands := make([]command, 0, len(parcels))
	for _, p := range parcels {
		commands = append(commands, m.migration(p.keys))
	}
	answers, err := m.source.all(ctx, commands)
	if err != nil {
		return nil, err
	}
	for i, p := range parcels {
		switch err := answers[i].Err(); {
		case err == nil:
		case strings.Contains(err.Error(), "BUSYKEY"):
			busy = append(busy, p)
		default:
			return nil, refusal(p.slot, m.target, fmt.Errorf("slot %d: %s of %s: %w", p.slot, commands[i], m.source.place.Pod, err))
		}
	}
	return busy, nil
}

// lasting holds the beginnings of error replies with which a target refuses all keys until a user acts.
var lasting = []string{"MISCONF", "NOREPLICAS", "READONLY", "NOPERM", "NOAUTH", "WRONGPASS", "ERR max number of clients"}

// refusal converts an error reply to MIGRATE into a moveError. The moveError contains the delay before the first retry,
// and whether the target accepts no keys at all.
func refusal(slot int, target *link, err error) error {
	const refused = "Target instance replied with error: "
	_, answer, byTarget := strings.Cut(err.Error(), refused)
	pod := target.place.Pod
	switch {
	case byTarget && strings.HasPrefix(answer, "OOM"):
		return &moveError{slot: slot, full: true, first: moveAgain, err: fmt.Errorf("%s accepts no more keys, its memory is full: raise maxmemory or delete data: %w", pod, err)}
	case byTarget && strings.Contains(answer, "DUMP payload"):
		return &moveError{slot: wholeStep, first: moveAgain, err: fmt.Errorf("%s cannot read the keys that it is sent, because the sender runs another version of Redis: %w", pod, err)}
	case byTarget && slices.ContainsFunc(lasting, func(word string) bool { return strings.HasPrefix(answer, word) }):
		return &moveError{slot: slot, full: true, first: moveAgain, err: fmt.Errorf("%s accepts no keys (%.100s): %w", pod, answer, err)}
	case byTarget && !strings.HasPrefix(answer, "ERR"), strings.Contains(err.Error(), "connecting"): // temporary, like CLUSTERDOWN and LOADING
		return &moveError{slot: slot, err: err}
	}
	return &moveError{slot: slot, first: moveAgain, err: fmt.Errorf("keys of slot %d cannot be sent to %s: %w", slot, pod, err)}
}

func (m *mover) migration(keys []any) command {
	host, timeout := m.target.place.IP, commandTimeout/2
	c := command{"MIGRATE", host, strconv.Itoa(Port), "", 0, timeout.Milliseconds()}
	switch {
	case m.Access.Username != "":
		c = append(c, "AUTH2", m.Access.Username, m.Access.Password)
	case m.Access.Password != "":
		c = append(c, "AUTH", m.Access.Password)
	}
	return append(append(c, "KEYS"), keys...)
}
