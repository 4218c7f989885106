// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/database/steps"
)

// Limits of the data that one step moves back to the owner for one slot, in keys and bytes.
const (
	mostBack      = 10000
	mostBytesBack = 16 << 20
)

// The three scripts of moveBack. Each is atomic. Each is sent after ASKING, so that its commands reach keys of an
// importing slot.
const (
	// The target returns its keys and closes the slot: from then on no client changes these keys.
	scriptTake = `
local slot, most, all = ARGV[1], tonumber(ARGV[2]), {}
local keys = redis.call('CLUSTER', 'GETKEYSINSLOT', slot, most + 1)
if #keys > most then return redis.error_reply('more than ' .. most .. ' keys') end
for _, key in ipairs(keys) do
  local dump = redis.call('DUMP', key)
  if dump then
    all[#all + 1], all[#all + 2], all[#all + 3] = key, math.max(redis.call('PTTL', key), 0), dump
  end;
end
redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE')
return all`
	// The owner restores the keys that it lacks, and marks the slot as migrating to itself. If a key is on both nodes, the owner's value is
	// the valid one (see migrate). If the owner cannot restore all keys, it restores none, and the slot stays marked as migrating to the
	// target.
	scriptReturn = `
local slot, target, owner, made = ARGV[1], ARGV[2], ARGV[3], {}
local answer = redis.pcall('CLUSTER', 'SETSLOT', slot, 'MIGRATING', owner)
if answer.err then return answer end
redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE')
for i = 4, #ARGV, 3 do
  answer = redis.pcall('EXISTS', ARGV[i])
  if answer == 0 then
    answer = redis.pcall('RESTORE', ARGV[i], ARGV[i + 1], ARGV[i + 2])
    made[#made + 1] = ARGV[i]
  end
  if type(answer) == 'table' and answer.err then
    for _, key in ipairs(made) do redis.pcall('DEL', key) end
    redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target)
    return answer
  end;
end
redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', owner)
return #made`
	// The target deletes its copies.
	scriptDrop = `
local slot, owner, most = ARGV[1], ARGV[2], ARGV[3]
redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', owner)
local keys, answer = redis.call('CLUSTER', 'GETKEYSINSLOT', slot, most), 0
for _, key in ipairs(keys) do
  answer = redis.pcall('DEL', key)
  if type(answer) == 'table' then break end;
end
redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE')
return answer`
)

// moveBack undoes started moves: it moves the target's keys of the slots back to their owner, and closes the slots.
//
// MIGRATE cannot do that: the owner redirects requests for missing keys to the target (ASK), so it would accept none of
// these keys. A client that was redirected just before a key goes back must not create that key at the target again. So
// the target closes the slot when it returns its keys. Until the owner has also closed the slot, clients are
// redirected, and no client reads or writes a copy.
//
// The owner's mark on the slot shows the progress of a move back, so that the operator can finish it after a crash:
//
//	migrating to the target  the target's keys exist only there: they go back, or the move is continued
//	migrating to the owner   the owner has all keys, and clients may have deleted some: the target's copies are deleted
//	none                     no other node has a key of the slot
func (t *executor) moveBack(ctx context.Context) error {
	m, err := t.newMover(ctx)
	if err != nil {
		return err
	}
	for slot := range t.Step.Slots.All {
		if !m.more(ctx, m.until) {
			return nil
		}
		if err := m.back(ctx, slot); err != nil {
			if move := (*moveError)(nil); !errors.As(err, &move) {
				err = &moveError{slot: slot, first: moveAgain, err: err}
			}
			return fmt.Errorf("move slot %d back from %s to %s: %w", slot, t.Step.Target.Pod, t.Step.Node.Pod, err)
		}
	}
	return nil
}

// back undoes the move of one slot.
func (m *mover) back(ctx context.Context, slot int) error {
	now, err := m.look(ctx, []int{slot})
	if err != nil {
		return err
	}
	owner, other := m.source.place, m.target.place
	importing, migrating := now.target.Importing[slot], now.source.Migrating[slot]
	switch {
	case !now.source.Master || !now.target.Master:
		return steps.Refuse("%s and %s are not both masters any more", owner.Pod, other.Pod)
	case !now.source.Owned.Has(slot) || now.target.Owned.Has(slot) || now.owner[slot] != owner.ID:
		return steps.Refuse("slot %d is not owned by %s in both its own view and the view of %s", slot, owner.Pod, other.Pod)
	case importing != "" && importing != owner.ID:
		return steps.Refuse("%s is importing slot %d from %s", other.Pod, slot, importing)
	case migrating == owner.ID:
		return m.closeBack(ctx, slot)
	case migrating != other.ID:
		return steps.Refuse("slot %d of %s is not being moved to %s", slot, owner.Pod, other.Pod)
	case importing == "" && now.stale[slot] > 0:
		return steps.Refuse("%s has %d keys of slot %d, but is not importing the slot from %s", other.Pod, now.stale[slot], slot, owner.Pod)
	case importing == "":
		_, err := m.source.do(ctx, setSlot([]int{slot}, "STABLE")...)
		return err
	}
	if err := m.giveBack(ctx, slot); err != nil {
		return err
	}
	return m.closeBack(ctx, slot)
}

// giveBack copies the target's keys of a slot to the owner. The target keeps its copies.
func (m *mover) giveBack(ctx context.Context, slot int) error {
	answers, err := m.target.do(ctx, command{"CLUSTER", "GETKEYSINSLOT", slot, mostBack})
	if err != nil {
		return err
	}
	keys, err := answers[0].Slice()
	if err != nil {
		return err
	}
	parcels, err := m.pack(ctx, m.target, []int{slot}, map[int][]any{slot: keys})
	if err != nil {
		return err
	}
	bytes := int64(0)
	for _, p := range parcels {
		bytes += p.bytes
	}
	if bytes > mostBytesBack {
		return steps.Refuse("%s has keys of %d MiB of slot %d, but at most %d MiB can be moved back in one command", m.target.place.Pod, bytes>>20, slot, mostBytesBack>>20)
	}
	taken, err := m.script(ctx, m.target, scriptTake, []any{slot, mostBack})
	if err != nil {
		return err
	}
	all, err := taken.Slice()
	if err != nil {
		return err
	}
	if _, err := m.script(ctx, m.source, scriptReturn, append([]any{slot, m.target.place.ID, m.source.place.ID}, all...)); err != nil {
		err = fmt.Errorf("%s did not accept its keys of slot %d again: %w", m.source.place.Pod, slot, err)
		if isAnswer(err) {
			// Clients reach the target's keys only while the slot is marked.
			_, again := m.target.do(ctx, setSlot([]int{slot}, "IMPORTING", m.source.place.ID)...)
			err = errors.Join(err, again)
		}
		return err
	}
	return nil
}

// closeBack deletes the target's copies of keys that the owner has, and then closes the slot at the owner.
func (m *mover) closeBack(ctx context.Context, slot int) error {
	if _, err := m.script(ctx, m.target, scriptDrop, []any{slot, m.source.place.ID, mostBack}); err != nil {
		return fmt.Errorf("delete the copies of keys on %s: %w", m.target.place.Pod, err)
	}
	others := append([]*link{m.target}, m.others...)
	if err := each(len(others), func(i int) error { return others[i].holdsNone(ctx, []int{slot}) }); err != nil {
		return err
	}
	_, err := m.source.do(ctx, setSlot([]int{slot}, "STABLE")...)
	return err
}

// script runs a script on a node, after ASKING.
func (m *mover) script(ctx context.Context, on *link, text string, args []any) (*redis.Cmd, error) {
	answers, err := on.do(ctx, command{"ASKING"}, append(command{"EVAL", text, 0}, args...))
	if err != nil {
		return nil, err
	}
	return answers[1], nil
}
