// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Cache durations. untilOthers applies to a Secret that is copied because of a trailing newline, or that a user must fix.
const (
	untilClean  = 5 * time.Minute
	untilOthers = 10 * time.Second
)

// Lookup returns the live object of a kind and name, or nil.
type Lookup func(kind, name string) (*unstructured.Unstructured, error)

// UserSecrets reads users' Secrets that plans depend on. Containers get the values in the environment, where a trailing
// newline cannot be removed, so a Secret with such a value is copied. UserSecrets caches values for some minutes,
// because each reconciliation makes a plan. It is safe for concurrent use.
type UserSecrets struct {
	Now func() time.Time

	mu    sync.Mutex
	known map[string]userSecret
}

type userSecret struct {
	values map[string]string
	isCut  bool
	err    error
	at     time.Time
}

// NewUserSecrets returns UserSecrets with an empty cache.
func NewUserSecrets() *UserSecrets {
	return &UserSecrets{Now: time.Now, known: map[string]userSecret{}}
}

// Read returns the values of the keys of a Secret without a trailing newline. A key that begins with a question mark is optional. isCut
// reports whether a value has a trailing newline. An error names the Secret and the key. A missing Secret has no values and is no error:
// pods wait for the Secret.
func (r *UserSecrets) Read(namespace, name string, lookup Lookup, keys ...string) (values map[string]string, isCut bool, err error) {
	id := strings.Join(append([]string{namespace, name}, keys...), "/")
	r.mu.Lock()
	known, ok := r.known[id]
	r.mu.Unlock()
	until := untilOthers
	if known.err == nil && !known.isCut {
		until = untilClean
	}
	if ok && r.Now().Sub(known.at) < until {
		return known.values, known.isCut, known.err
	}
	live, err := lookup("Secret", name)
	if live == nil || err != nil {
		return nil, false, err
	}
	known = userSecret{values: map[string]string{}, at: r.Now()}
	for _, key := range keys {
		key, optional := strings.CutPrefix(key, "?")
		value, cut, err := PasswordIn(live, key)
		switch {
		case optional && errors.Is(err, ErrMissing):
		case err != nil:
			known.err = errors.Join(known.err, err)
		default:
			known.values[key], known.isCut = value, known.isCut || cut
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.known, func(_ string, old userSecret) bool { return known.at.Sub(old.at) >= untilClean }) // drops outdated values, also those of deleted resources
	r.known[id] = known
	return known.values, known.isCut, known.err
}

// IsReferenced reports whether a container of a workload gets a variable from a Secret.
func IsReferenced(workload *unstructured.Unstructured, secret string) bool {
	return refers(workload.Object, secret)
}

func refers(value any, secret string) bool {
	switch v := value.(type) {
	case map[string]any:
		if reference, ok := v["secretKeyRef"].(map[string]any); ok && reference["name"] == secret {
			return true
		}
		for _, inner := range v {
			if refers(inner, secret) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return refers(inner, secret) })
	}
	return false
}
