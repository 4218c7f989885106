// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/database/proof"
)

// Limits of the data of one slot that goes back to its owner in one step: keys and bytes.
const (
	mostBack      = 10000
	mostBytesBack = 16 << 20
)

// The three scripts of moveBack. Each is atomic. A command in a script reaches keys of an importing slot after ASKING.
const (
	// The target returns its keys and closes the slot, so that no client changes them from then on.
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
	// The owner closes the slot and restores the keys that it lacks: of a key on both nodes, the owner's value is the right one (see
	// migrate). If it cannot restore all, it restores none, and the slot stays open.
	scriptReturn = `
local slot, target, made = ARGV[1], ARGV[2], {}
redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE')
for i = 3, #ARGV, 3 do
  if redis.call('EXISTS', ARGV[i]) == 0 then
    local answer = redis.pcall('RESTORE', ARGV[i], ARGV[i + 1], ARGV[i + 2])
    if answer.err then
      for _, key in ipairs(made) do redis.call('DEL', key) end
      redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target)
      return answer
    end
    made[#made + 1] = ARGV[i]
  end;
end
return #made`
	// The target deletes its copies.
	scriptDrop = `
local slot, owner = ARGV[1], ARGV[2]
redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', owner)
for i = 3, #ARGV do redis.call('DEL', ARGV[i]) end
redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE')
return #ARGV - 2`
)

// moveBack undoes started moves: the target's keys of the slots go back to their owner, and the slots are closed.
//
// The owner redirects clients to the target for keys that it lacks (ASK), and accepts no such key: MIGRATE cannot move it back. A client
// that was redirected just before a key goes back must not create that key at the target again. So the target closes the slot when it
// returns its keys. Until the owner has them, clients are redirected between both nodes, and none reads or writes a copy. If the operator
// crashes between two scripts, the slot is still open at the owner, or it is closed there and has all keys.
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
	switch importing := now.target.Importing[slot]; {
	case !now.source.Master || !now.target.Master:
		return proof.Refuse("%s and %s are not both masters any more", owner.Pod, other.Pod)
	case !now.source.Owned.Has(slot) || now.target.Owned.Has(slot) || now.owner[slot] != owner.ID:
		return proof.Refuse("slot %d is not %s's in its own view and that of %s", slot, owner.Pod, other.Pod)
	case now.source.Migrating[slot] != other.ID:
		return proof.Refuse("slot %d of %s is not being moved to %s", slot, owner.Pod, other.Pod)
	case importing != "" && importing != owner.ID:
		return proof.Refuse("%s is taking slot %d from %s", other.Pod, slot, importing)
	case importing == "" && now.stale[slot] > 0:
		return proof.Refuse("%s holds %d keys of slot %d and does not take it from %s", other.Pod, now.stale[slot], slot, owner.Pod)
	case importing == "":
		_, err := m.source.do(ctx, setSlot([]int{slot}, "STABLE")...)
		return err
	}
	keys, err := m.giveBack(ctx, slot)
	if err != nil {
		// Clients reach the target's keys only while the slot is marked.
		_, again := m.target.do(ctx, setSlot([]int{slot}, "IMPORTING", owner.ID)...)
		return errors.Join(err, again)
	}
	if len(keys) > 0 {
		if _, err := m.script(ctx, m.target, scriptDrop, append([]any{slot, owner.ID}, keys...)); err != nil {
			return fmt.Errorf("drop the copies on %s: %w", other.Pod, err)
		}
	}
	return m.target.holdsNone(ctx, []int{slot})
}

// giveBack copies the target's keys of a slot to the owner, and returns their names. The target keeps its copies.
func (m *mover) giveBack(ctx context.Context, slot int) ([]any, error) {
	answers, err := m.target.do(ctx, command{"CLUSTER", "GETKEYSINSLOT", slot, mostBack})
	if err != nil {
		return nil, err
	}
	keys, err := answers[0].Slice()
	if err != nil {
		return nil, err
	}
	parcels, err := m.pack(ctx, m.target, []int{slot}, map[int][]any{slot: keys})
	if err != nil {
		return nil, err
	}
	bytes := int64(0)
	for _, p := range parcels {
		bytes += p.bytes
	}
	if bytes > mostBytesBack {
		return nil, proof.Refuse("%s holds %d MiB of slot %d, and %d MiB are the most that goes back in one go", m.target.place.Pod, bytes>>20, slot, mostBytesBack>>20)
	}
	taken, err := m.script(ctx, m.target, scriptTake, []any{slot, mostBack})
	if err != nil {
		return nil, err
	}
	all, err := taken.Slice()
	if err != nil {
		return nil, err
	}
	if _, err := m.script(ctx, m.source, scriptReturn, append([]any{slot, m.target.place.ID}, all...)); err != nil {
		return nil, fmt.Errorf("%s does not take its keys of slot %d back: %w", m.source.place.Pod, slot, err)
	}
	names := []any{}
	for i := 0; i < len(all); i += 3 {
		names = append(names, all[i])
	}
	return names, nil
}

// script runs a script on a node, after ASKING.
func (m *mover) script(ctx context.Context, on *link, text string, args []any) (*redis.Cmd, error) {
	answers, err := on.do(ctx, command{"ASKING"}, append(command{"EVAL", text, 0}, args...))
	if err != nil {
		return nil, err
	}
	return answers[1], nil
}
