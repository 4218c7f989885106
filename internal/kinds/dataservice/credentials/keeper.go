// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/usersecret"
)

// Keeper plans Secrets. It remembers their values while the process lives, so that a Secret
// that somebody deletes comes back with the password that the data was created with.
type Keeper struct {
	generate func() (string, error)
	mu       sync.Mutex
	known    map[string]map[string]data // namespace/dataservice -> Secret -> data
	users    *usersecret.Reader
}

// NewKeeper returns a Keeper that generates values at random.
func NewKeeper() *Keeper { return newKeeper(random) }

// NewPreview returns a Keeper that puts a placeholder in the place of every generated value.
func NewPreview() *Keeper {
	return newKeeper(func() (string, error) { return "(generated)", nil })
}

func newKeeper(generate func() (string, error)) *Keeper {
	return &Keeper{generate: generate, known: map[string]map[string]data{}, users: usersecret.New()}
}

// Forget drops what is remembered of a DataService that is gone.
func (k *Keeper) Forget(namespace, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, namespace+"/"+name)
}

// Adopt replaces generated values by those of the live Secret, which the cache had not shown before, and reports whether
// anything changed. Without a live Secret it does nothing.
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

func (k *Keeper) recall(ds *dsv1.DataService, secret string) data {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[ds.Namespace+"/"+ds.Name][secret]
}

func (k *Keeper) remember(ds *dsv1.DataService, secret string, d data) {
	k.mu.Lock()
	defer k.mu.Unlock()
	owner := ds.Namespace + "/" + ds.Name
	if k.known[owner] == nil {
		k.known[owner] = map[string]data{}
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
