// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// Keeper plans Secrets. It caches their values for the lifetime of the process, so that a deleted Secret is restored with the password of
// the data.
type Keeper struct {
	generate func() (string, error)
	mu       sync.Mutex
	known    map[string]map[string]secretData // namespace/dataservice -> Secret -> data
	users    *object.UserSecrets
}

// NewKeeper returns a Keeper that generates random values.
func NewKeeper() *Keeper { return newKeeper(random) }

// Generated is the placeholder for generated values in a preview.
const Generated = "(generated)"

// NewPreview returns a Keeper that uses a placeholder for every generated value.
func NewPreview() *Keeper {
	return newKeeper(func() (string, error) { return Generated, nil })
}

func newKeeper(generate func() (string, error)) *Keeper {
	return &Keeper{generate: generate, known: map[string]map[string]secretData{}, users: object.NewUserSecrets()}
}

// Forget drops the cached values of a deleted DataService.
func (k *Keeper) Forget(namespace, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, namespace+"/"+name)
}

// Adopt replaces generated values by the values of a live Secret that the operator's cache did not show before. It reports whether a value
// has changed. It does nothing if live is nil.
func (k *Keeper) Adopt(ds *dsv1.DataService, live *unstructured.Unstructured) bool {
	if live == nil {
		return false
	}
	adopted := maps.Clone(k.recall(ds, live.GetName()))
	changed := false
	for key, value := range decode(live) {
		if known, generated := adopted[key]; generated && value != "" && value != known {
			adopted[key], changed = value, true
		}
	}
	if changed {
		k.remember(ds, live.GetName(), adopted)
	}
	return changed
}

func (k *Keeper) recall(ds *dsv1.DataService, secret string) secretData {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[ds.Namespace+"/"+ds.Name][secret]
}

func (k *Keeper) remember(ds *dsv1.DataService, secret string, d secretData) {
	k.mu.Lock()
	defer k.mu.Unlock()
	owner := ds.Namespace + "/" + ds.Name
	if k.known[owner] == nil {
		k.known[owner] = map[string]secretData{}
	}
	k.known[owner][secret] = d
}

func random() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}
