// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// A failed step is skipped for a delay, in which other steps are taken. The delay doubles with each consecutive
// failure. The first failure causes a delay only if a move of slots was refused. Any other step is first retried once
// without a delay, because its preconditions may just have changed. A restart of the operator resets the delays.
const (
	moveAgain = 15 * time.Second
	stepAgain = 2 * time.Second
	lastAgain = 2 * time.Minute

	// mostSlots limits the recorded slots with failed moves per pair of nodes. Above this number, a failure counts for the whole pair.
	mostSlots = 64
)

// wholeStep is the slot number of a failure that concerns the whole step, not a single slot.
const wholeStep = -1

// failureKey identifies a failed step on a pod. into is true if the target accepts no keys at all. In that case, all
// moves to that target wait.
type failureKey struct {
	action topology.Action
	mode   string
	target string
	into   bool
	slot   int
}

// errNotDue reports that a step was not taken because its interval has not passed.
var errNotDue = errors.New("not due")

// moveError explains why slots could not be moved.
type moveError struct {
	slot int  // wholeStep: no particular slot
	full bool // the target accepts no keys at all
	// first is the delay before the first retry; 0: retry at once.
	first time.Duration
	err   error
}

func (e *moveError) Error() string { return e.err.Error() }

func (e *moveError) Unwrap() error { return e.err }

// note records the success or failure of a step.
func (s *Servers) note(ctx context.Context, cluster string, access Access, step topology.Step, err error) {
	place := step.Node
	if place.Pod == "" && len(step.On) > 0 {
		place = step.On[0]
	}
	if place.UID == "" || step.Action == topology.ActionRecord || step.Action == topology.ActionWait {
		return
	}
	// An interruption by the operator's own exit proves nothing about the step.
	if errors.Is(err, errNotDue) || err != nil && (errors.Is(err, ErrBrokenOff) || errors.Is(err, reconcile.ErrNotHeld) || errors.Is(ctx.Err(), context.Canceled)) {
		return
	}
	on := s.peer(cluster, access, place.UID, place.IP)
	key := failureKey{action: step.Action, mode: step.Mode, target: step.Subject(), slot: wholeStep}
	if err == nil {
		s.succeeded(on, key, step)
		if step.Action == topology.ActionMoveSlots {
			s.succeeded(s.peer(cluster, access, step.Target.UID, step.Target.IP), failureKey{action: step.Action, mode: step.Mode, into: true, slot: wholeStep}, step)
		}
		return
	}
	first, cause := time.Duration(0), err.Error()
	if move := (*moveError)(nil); errors.As(err, &move) {
		first, cause = move.first, move.Error()
		if key.slot = move.slot; move.full {
			on, key = s.peer(cluster, access, step.Target.UID, step.Target.IP), failureKey{action: step.Action, mode: step.Mode, into: true, slot: wholeStep}
		}
	}
	s.failed(on, key, first, cause)
}

// succeeded deletes the recorded failures of a step.
func (s *Servers) succeeded(on *peer, key failureKey, step topology.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on.failures.Forget(func(known failureKey) bool {
		same := known.action == key.action && known.mode == key.mode && known.target == key.target && known.into == key.into
		// A new setting may remove the cause of a failed move.
		moves := step.Action == topology.ActionConfigure && known.action == topology.ActionMoveSlots
		return moves || same && (known.slot == wholeStep || step.Slots.Has(known.slot))
	})
}

// failed records a failure. first is the delay before the first retry; 0: retry at once.
func (s *Servers) failed(on *peer, key failureKey, first time.Duration, cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := on.failures.Count(func(known failureKey) bool {
		return known.action == key.action && known.target == key.target && known.slot != wholeStep
	})
	if slots >= mostSlots && key.slot != wholeStep {
		key.slot = wholeStep
	}
	on.failures.Fail(key, time.Now(), cause, func(times int) time.Duration {
		if times == 1 && first == 0 {
			return 0
		}
		return steps.Doubled(max(first, stepAgain), times-1, lastAgain)
	})
}

// failures returns the failed steps on a pod that are not due again, in a fixed order.
func (s *Servers) failures(on *peer) []topology.Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []topology.Failure
	for key, cause := range on.failures.Held(time.Now()) {
		one := topology.Failure{Action: key.action, Mode: key.mode, Target: key.target, Into: key.into, Cause: cause}
		if key.slot != wholeStep {
			one.Slots = topology.NewSlotSet(topology.Range{From: key.slot, To: key.slot})
		}
		all = append(all, one)
	}
	slices.SortFunc(all, topology.Failure.Compare)
	return all
}
