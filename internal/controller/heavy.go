// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// heavyBytes is the size of a spec from which on its resource is planned alone.
	heavyBytes = 64 << 10
	// heavyWait is how long a resource waits for each one that waits already, and heavyLongest how long at most.
	heavyWait, heavyLongest = 50 * time.Millisecond, 5 * time.Second
)

// errBusy says that another large resource is being planned.
var errBusy = errors.New("another large resource is being planned")

// heavy lets one large resource of the operator be planned at a time: its plan takes up to a second, and a hundred of them at once would take
// every worker and all processors from the small ones. It never blocks a worker.
type heavy struct {
	mu      sync.Mutex
	sizes   map[types.NamespacedName]size
	waiting map[types.NamespacedName]bool
	busy    bool
}

// size is the size of a resource's spec in a generation.
type size struct {
	uid        types.UID
	generation int64
	isHeavy    bool
}

func newHeavy() *heavy {
	return &heavy{sizes: map[types.NamespacedName]size{}, waiting: map[types.NamespacedName]bool{}}
}

// enter returns what ends the turn of a resource, or errBusy.
func (h *heavy) enter(resource client.Object) (leave func(), err error) {
	key := client.ObjectKeyFromObject(resource)
	isHeavy := h.isHeavy(key, resource)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !isHeavy {
		delete(h.waiting, key)
		return func() {}, nil
	}
	if h.busy {
		h.waiting[key] = true
		return nil, errBusy
	}
	delete(h.waiting, key)
	h.busy = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.busy = false
	}, nil
}

// again returns when to try again.
func (h *heavy) again() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(heavyLongest, time.Duration(len(h.waiting)+1)*heavyWait)
}

func (h *heavy) isHeavy(key types.NamespacedName, resource client.Object) bool {
	h.mu.Lock()
	known := h.sizes[key]
	h.mu.Unlock()
	if known.uid == resource.GetUID() && known.generation == resource.GetGeneration() {
		return known.isHeavy
	}
	known = size{resource.GetUID(), resource.GetGeneration(), false}
	if spec := reflect.ValueOf(resource).Elem().FieldByName("Spec"); spec.IsValid() {
		data, err := json.Marshal(spec.Interface())
		known.isHeavy = err != nil || len(data) > heavyBytes
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sizes[key] = known
	return known.isHeavy
}

func (h *heavy) forget(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sizes, key)
	delete(h.waiting, key)
}
