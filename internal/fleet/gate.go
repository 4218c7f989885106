// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet lets resources take turns when a new version of the operator
// changes them: no more than a number at once, and no further one after one
// has become Degraded. It is pure: it decides from what it is told of all
// resources, and remembers only what they do not show yet.
package fleet

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Member is where a resource stands.
type Member struct {
	types.NamespacedName

	// HasTurn reports whether its status says that the operator's change is being rolled out to it.
	HasTurn bool
	// Degraded reports whether something of it is not well.
	Degraded bool
	// Away reports whether it is paused or being deleted: nothing is waited for.
	Away bool
}

// The reasons why a resource waits for its turn. They are part of the API: a condition carries them.
const (
	// ReasonWaitsForOthers: as many as may are being changed.
	ReasonWaitsForOthers = "WaitsForOthers"
	// ReasonStopped: one that was changed is Degraded.
	ReasonStopped = "Stopped"
)

// Wait is why a resource has to wait for its turn.
type Wait struct {
	Reason string
	// Others are those that it waits for, by namespace and name, sorted.
	Others []string
}

// namedAtMost bounds the resources that a message names.
const namedAtMost = 3

// Message says what a resource waits for.
func (w *Wait) Message(limit int) string {
	named := strings.Join(w.Others[:min(len(w.Others), namedAtMost)], ", ")
	if more := len(w.Others) - namedAtMost; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	if w.Reason == ReasonStopped {
		return "this version of the operator changes it, and that has stopped: " + named + " is Degraded since it was changed; " +
			"until that is mended everything runs on as it was"
	}
	return fmt.Sprintf("this version of the operator changes it, which waits for its turn (--max-rollouts=%d); being changed when it was looked at: %s", limit, named)
}

// Gate gives turns. It is safe for concurrent use.
type Gate struct {
	// Limit is how many may have a turn at once.
	Limit int

	mu      sync.Mutex
	granted map[types.NamespacedName]bool // given, and not seen in a status yet
	waiting map[types.NamespacedName]bool
}

// NewGate returns a Gate for that many at once, more than 0.
func NewGate(limit int) *Gate {
	return &Gate{Limit: limit, granted: map[types.NamespacedName]bool{}, waiting: map[types.NamespacedName]bool{}}
}

// Ask asks for a turn for a resource. look returns the resources as they are known now; it is called while nobody else asks
// or is forgotten: a turn that was forgotten because a status shows it would be in no older list. A nil Wait is a turn: it is
// to be written into the status of the resource before anything else is. The error is that of look.
func (g *Gate) Ask(key types.NamespacedName, look func() ([]Member, error)) (*Wait, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, err := look()
	if err != nil {
		return nil, err
	}
	return g.ask(key, all), nil
}

func (g *Gate) ask(key types.NamespacedName, all []Member) *Wait {
	var changing, broken []string
	there := map[types.NamespacedName]bool{}
	for _, m := range all {
		there[m.NamespacedName] = true
		if m.HasTurn {
			delete(g.granted, m.NamespacedName)
		}
		if m.Away || m.NamespacedName == key || !m.HasTurn && !g.granted[m.NamespacedName] {
			continue
		}
		changing = append(changing, m.String())
		if m.Degraded {
			broken = append(broken, m.String())
		}
	}
	for given := range g.granted {
		if !there[given] {
			delete(g.granted, given)
		}
	}
	slices.Sort(changing)
	slices.Sort(broken)
	switch {
	case len(broken) > 0:
		g.waiting[key] = true
		return &Wait{Reason: ReasonStopped, Others: broken}
	case len(changing) >= g.Limit:
		g.waiting[key] = true
		return &Wait{Reason: ReasonWaitsForOthers, Others: changing}
	}
	delete(g.waiting, key)
	g.granted[key] = true
	return nil
}

// Forget drops what is remembered of a resource that is gone, or that needs no turn.
func (g *Gate) Forget(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.granted, key)
	delete(g.waiting, key)
}

// Next are those that may ask again when a turn is over, in the order of their names.
func (g *Gate) Next() []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := make([]types.NamespacedName, 0, len(g.waiting))
	for key := range g.waiting {
		next = append(next, key)
	}
	slices.SortFunc(next, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return next[:min(len(next), g.Limit)]
}
