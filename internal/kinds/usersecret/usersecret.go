// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usersecret reads the Secrets of users that plans depend on. Containers get their values in the environment, where
// a newline at the end cannot be cut off, so those that have one need a copy. It remembers what it read for some minutes, because a
// plan is made in each pass.
package usersecret

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/password"
)

// How long what was read is used: briefly where a copy has to follow the Secret, or where a person has to mend it.
const (
	untilClean  = 5 * time.Minute
	untilOthers = 10 * time.Second
)

// Lookup returns the live object of a kind and name, or nil.
type Lookup func(kind, name string) (*unstructured.Unstructured, error)

// Reader reads Secrets. It is safe for concurrent use.
type Reader struct {
	Now func() time.Time

	mu    sync.Mutex
	known map[string]seen
}

type seen struct {
	values map[string]string
	isCut  bool
	err    error
	at     time.Time
}

// New returns a Reader.
func New() *Reader { return &Reader{Now: time.Now, known: map[string]seen{}} }

// Read returns the clean values of the keys of a Secret. A key that begins with a question mark is optional. IsCut reports whether
// one of them has a newline behind it. An error names the Secret and the key. A Secret that does not exist has no values: pods wait for it.
func (r *Reader) Read(namespace, name string, lookup Lookup, keys ...string) (values map[string]string, isCut bool, err error) {
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
	known = seen{values: map[string]string{}, at: r.Now()}
	for _, key := range keys {
		key, optional := strings.CutPrefix(key, "?")
		value, cut, err := password.In(live, key)
		switch {
		case optional && errors.Is(err, password.ErrMissing):
		case err != nil:
			known.err = errors.Join(known.err, err)
		default:
			known.values[key], known.isCut = value, known.isCut || cut
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.known, func(_ string, old seen) bool { return known.at.Sub(old.at) >= untilClean }) // of resources that are gone, too
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
