// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"d3os.com/d3os-operator/internal/object"
)

// Secret returns a Secret of a part of a resource. suffix follows the resource's name.
func Secret(owner object.Owner, part, suffix string, data map[string][]byte) *unstructured.Unstructured {
	s := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
	s.SetName(owner.Name + suffix)
	s.SetNamespace(owner.Namespace)
	s.SetLabels(owner.Labels(part))
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString(value)
	}
	s.Object["type"], s.Object["data"] = string(corev1.SecretTypeOpaque), encoded
	return s
}

// SecretData returns the decoded data of a Secret, which may be nil, or nil if a value cannot be decoded.
func SecretData(secret *unstructured.Unstructured) map[string][]byte {
	if secret == nil {
		return nil
	}
	encoded, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	data := map[string][]byte{}
	for name, value := range encoded {
		text, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return nil
		}
		data[name] = text
	}
	return data
}

// LostError reports that a Secret of a database with data is lost. The servers still use the lost values.
type LostError struct{ Secret, Database string }

func (e *LostError) Error() string {
	return fmt.Sprintf("Secret %s of %s is missing, but the servers still use the values of this Secret: restore the Secret from a backup", e.Secret, e.Database)
}

// Secrets caches the data of generated Secrets for the lifetime of the process: a deleted Secret is restored unchanged. It is safe for
// concurrent use.
type Secrets struct {
	mu    sync.Mutex
	known map[types.NamespacedName]map[string][]byte
	made  map[types.NamespacedName]bool // true until a live Secret was observed
}

// Content describes the data of a generated Secret.
type Content struct {
	// IsValid reports whether servers can use the data.
	IsValid func(data map[string][]byte) bool
	// IsFixed reports whether the servers use the cached data and cannot change to other data. If it is true, an edit of
	// the Secret is reverted.
	IsFixed bool
	// Lost is the error that Data returns instead of new data, because servers use the lost values. It is nil if new
	// data is allowed.
	Lost error
	// Create returns new data.
	Create func() (map[string][]byte, error)
}

// NewSecrets returns Secrets with an empty cache.
func NewSecrets() *Secrets {
	return &Secrets{known: map[types.NamespacedName]map[string][]byte{}, made: map[types.NamespacedName]bool{}}
}

// Data returns the valid data of the live Secret (live may be nil), or else valid cached data, or else new data. If
// c.IsFixed is true, valid cached data comes before the live data. Instead of new data, Data returns the error c.Lost
// if it is set.
func (s *Secrets) Data(key types.NamespacedName, live *unstructured.Unstructured, c Content) (map[string][]byte, error) {
	known, found := s.Known(key), SecretData(live)
	if found != nil && !c.IsValid(found) {
		found = nil
	}
	if live != nil {
		s.keep(key, known, false)
	}
	switch {
	case known != nil && (c.IsFixed || found == nil) && c.IsValid(known):
		return known, nil
	case found != nil:
		s.keep(key, found, false)
		return found, nil
	case c.Lost != nil:
		return nil, c.Lost
	}
	made, err := c.Create()
	if err != nil {
		return nil, fmt.Errorf("make the content of Secret %s: %w", key.Name, err)
	}
	s.keep(key, made, true)
	return made, nil
}

// Adopt replaces cached data with the valid data of a live Secret, if this process created the cached data before it observed the Secret.
// It reports whether the data, and with it the plan, has changed.
func (s *Secrets) Adopt(live *unstructured.Unstructured, isValid func(data map[string][]byte) bool) bool {
	key := types.NamespacedName{Namespace: live.GetNamespace(), Name: live.GetName()}
	s.mu.Lock()
	known, made := s.known[key], s.made[key]
	s.mu.Unlock()
	found := SecretData(live)
	if !made || found == nil || !isValid(found) || maps.EqualFunc(found, known, slices.Equal) {
		return false
	}
	s.keep(key, found, false)
	return true
}

// Known returns the cached data of a Secret, or nil.
func (s *Secrets) Known(key types.NamespacedName) map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key]
}

// keep caches the data of a Secret. Without data, the cached data stays. made reports whether this process created the
// data and has not observed the Secret yet.
func (s *Secrets) keep(key types.NamespacedName, data map[string][]byte, made bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data != nil {
		s.known[key] = data
	}
	delete(s.made, key)
	if made {
		s.made[key] = true
	}
}

// Forget drops the data of a Secret.
func (s *Secrets) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
	delete(s.made, key)
}
