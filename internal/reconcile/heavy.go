// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

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
	// A spec with more bytes, or with more values, is heavy. (With its defaults, config/samples/production.yaml has
	// 3,700 bytes and 162 values.) test/bundle measures that a spec within these limits is planned in a tenth of a
	// second.
	heavyBytes, heavyValues = 16 << 10, 256
	// A spec is also heavy if it has more replicas, or if its bytes times its replicas exceed heavyProduct: a
	// RedisCluster has one StatefulSet for two replicas.
	heavyReplicas, heavyProduct = 60, 8 * heavyBytes
	// The delay before a resource tries again: heavyWait for each waiting resource, at most heavyLongest.
	heavyWait, heavyLongest = 50 * time.Millisecond, 5 * time.Second
)

// errBusy reports that another large resource is being planned or applied.
var errBusy = errors.New("another large resource is being planned or applied")

// Heavy lets the operator plan and apply only one large resource at a time, of any kind. The plan of a large resource
// takes up to a second of processor time, and hundreds of writes follow. A hundred large resources at once would occupy
// all workers, and small resources would wait. Heavy decides by the size of the spec and its number of replicas: both
// are known before the first plan. If another large resource has the turn, enter returns an error at once, so that no
// worker waits.
type Heavy struct {
	mu      sync.Mutex
	sizes   map[heavyKey]size
	waiting map[heavyKey]bool
	busy    bool
}

// heavyKey identifies a resource of any kind.
type heavyKey struct {
	kind string
	name types.NamespacedName
}

// size is the size of a resource's spec in a generation.
type size struct {
	uid        types.UID
	generation int64
	isHeavy    bool
}

// NewHeavy returns a Heavy that no resource has entered.
func NewHeavy() *Heavy { return &Heavy{sizes: map[heavyKey]size{}, waiting: map[heavyKey]bool{}} }

// enter starts the turn of a large resource. It returns a function that ends the turn, or errBusy.
func (h *Heavy) enter(kind string, resource client.Object) (leave func(), err error) {
	key := heavyKey{kind, client.ObjectKeyFromObject(resource)}
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

// again returns the time until the next try.
func (h *Heavy) again() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(heavyLongest, time.Duration(len(h.waiting)+1)*heavyWait)
}

func (h *Heavy) isHeavy(key heavyKey, resource client.Object) bool {
	h.mu.Lock()
	known := h.sizes[key]
	h.mu.Unlock()
	if known.uid == resource.GetUID() && known.generation == resource.GetGeneration() {
		return known.isHeavy
	}
	known = size{resource.GetUID(), resource.GetGeneration(), IsHeavy(resource)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sizes[key] = known
	return known.isHeavy
}

// IsHeavy reports whether a resource has a large spec, or many objects.
func IsHeavy(resource client.Object) bool {
	spec := reflect.ValueOf(resource).Elem().FieldByName("Spec")
	if !spec.IsValid() {
		return false
	}
	data, err := json.Marshal(spec.Interface())
	if err != nil || len(data) > heavyBytes {
		return true
	}
	var value map[string]any
	if json.Unmarshal(data, &value) != nil || valuesIn(value) > heavyValues {
		return true
	}
	replicas, _ := value["replicas"].(float64)
	return replicas > heavyReplicas || len(data)*int(replicas) > heavyProduct
}

// valuesIn counts a JSON value and all values below it.
func valuesIn(value any) int {
	n := 1
	switch value := value.(type) {
	case map[string]any:
		for _, below := range value {
			n += valuesIn(below)
		}
	case []any:
		for _, below := range value {
			n += valuesIn(below)
		}
	}
	return n
}

func (h *Heavy) forget(kind string, name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sizes, heavyKey{kind, name})
	delete(h.waiting, heavyKey{kind, name})
}
