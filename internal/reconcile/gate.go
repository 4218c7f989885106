// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Member is the state of a resource in the rollout queue.
type Member struct {
	types.NamespacedName

	// HasTurn reports whether the resource's status shows a rollout of the operator's change.
	HasTurn bool
	// Degraded reports whether the resource is not healthy.
	Degraded bool
	// Away reports whether the resource is paused, hibernates or is being deleted. Other resources do not wait for it.
	Away bool
}

// The reasons why a resource waits for its turn. They are part of the API: a condition contains them.
const (
	// ReasonWaitsForOthers: as many resources as the limit allows are being changed.
	ReasonWaitsForOthers = "WaitsForOthers"
	// ReasonStopped: a changed resource is Degraded.
	ReasonStopped = "Stopped"
)

// Wait is the reason why a resource waits for its turn.
type Wait struct {
	Reason string
	// Others are the resources that the waiting resource waits for, by namespace and name, sorted.
	Others []string
}

// namedAtMost bounds the resources that a message names.
const namedAtMost = 3

// Message describes the reason why a resource waits.
func (w *Wait) Message(limit int) string {
	named := strings.Join(w.Others[:min(len(w.Others), namedAtMost)], ", ")
	if more := len(w.Others) - namedAtMost; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	if w.Reason == ReasonStopped {
		return "the rollout of this version of the operator has stopped: " + named + " has been Degraded since the operator changed it: " +
			"repair it, pause it, or install another version; until then the operator changes no further DataService"
	}
	return fmt.Sprintf("this version of the operator changes the resource, and the change waits for its turn (--max-rollouts=%d); being changed at the last check: %s", limit, named)
}

// Gate gives turns: a resource has a turn while the operator rolls out its own change to it. Gate is safe for
// concurrent use.
type Gate struct {
	// Limit is the maximum number of concurrent turns.
	Limit int

	mu      sync.Mutex
	granted map[types.NamespacedName]bool // granted turns that no status shows yet
	waiting map[types.NamespacedName]bool
}

// NewGate returns a Gate for a number of parallel changes. The number must be above 0.
func NewGate(limit int) *Gate {
	return &Gate{Limit: limit, granted: map[types.NamespacedName]bool{}, waiting: map[types.NamespacedName]bool{}}
}

// Ask requests a turn for a resource. If the Wait is nil, the turn is granted, and the caller writes it to the
// resource's status before any other write. look returns the current state of all resources; Ask returns its error. Ask
// calls look while it holds the lock. An earlier list could miss a turn: the list does not show the turn yet, but
// Forget has dropped the granted turn, because the status shows it now.
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

// Forget removes a resource that was deleted, or that needs no turn.
func (g *Gate) Forget(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.granted, key)
	delete(g.waiting, key)
}

// Next returns the resources that may ask again after a turn ends, sorted by name.
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
