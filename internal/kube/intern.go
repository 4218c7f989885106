// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math"
	"reflect"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// interner shares only small parts, up to sharedBytes in total. The size of a part includes its content. A large part is
// usually a user's text that occurs in only one object, and would stay in memory after the deletion of that object. A
// DataService shares about 500 parts with other DataServices. Parts that occur in only one object evict one another.
const (
	sharedBytes = 16 << 20
	largestPart = 16 << 10
	largestText = 256
	perPart     = 200 // the size of an entry in the cache
)

// interner lets the objects of a cache share equal parts, such as the probes of all Deployments. This saves memory: the
// objects of DataServices are similar, and each map takes at least 300 bytes. Because the objects share parts, a reader
// must not change an object of the cache.
type interner struct {
	seed  maphash.Seed
	parts *object.Cache[uint64, any] // hash -> map or slice
}

func newInterner() *interner {
	return &interner{seed: maphash.MakeSeed(), parts: object.NewCache[uint64, any](sharedBytes, nil)}
}

// transform prepares an object for the cache, and removes the field managers, because no code reads them from the cache. It must not modify
// its input: an informer may pass the same object twice, and the second time the object's maps are shared with other cached objects.
func (s *interner) transform(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	content := make(map[string]any, len(u.Object))
	for key, value := range u.Object {
		if metadata, ok := value.(map[string]any); ok && key == "metadata" {
			value = withoutManagers(metadata)
		}
		content[sharedText(key)], _, _ = s.share(value)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

func withoutManagers(metadata map[string]any) map[string]any {
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	return metadata
}

// share returns a shared part that equals the given part, its hash, and the number of bytes to which the part refers.
func (s *interner) share(part any) (shared any, hash uint64, size int) {
	switch p := part.(type) {
	case string:
		return sharedText(p), maphash.String(s.seed, p), len(p)
	case map[string]any:
		shared, sum, size := make(map[string]any, len(p)), uint64(len(p)), object.SizeOfMap(len(p))
		for key, value := range p {
			child, hash, more := s.share(value)
			shared[sharedText(key)] = child
			sum += s.mix(maphash.String(s.seed, key), hash)
			size += len(key) + more
		}
		return s.known(shared, s.mix(1, sum), size)
	case []any:
		shared, sum, size := make([]any, len(p)), uint64(len(p)), object.SizeOfSlice(len(p))
		for i, value := range p {
			child, hash, more := s.share(value)
			shared[i] = child
			sum = s.mix(sum, hash)
			size += more
		}
		return s.known(shared, s.mix(2, sum), size)
	case int64:
		return p, s.mix(3, uint64(p)), 8 //nolint:gosec // its bits
	case float64:
		return p, s.mix(4, math.Float64bits(p)), 8
	case bool:
		if p {
			return p, 5, 0
		}
		return p, 6, 0
	default:
		return p, 7, 0 // nil
	}
}

// sharedText returns an equal text. A short text is shared.
func sharedText(text string) string {
	if len(text) > largestText {
		return text
	}
	return unique.Make(text).Value()
}

func (s *interner) mix(a, b uint64) uint64 {
	var both [16]byte
	binary.LittleEndian.PutUint64(both[:], a)
	binary.LittleEndian.PutUint64(both[8:], b)
	return maphash.Bytes(s.seed, both[:])
}

// known returns the shared part with this hash if it equals the given part, and otherwise the given part.
func (s *interner) known(part any, hash uint64, size int) (shared any, sum uint64, bytes int) {
	if size > largestPart {
		return part, hash, size
	}
	if known, ok := s.parts.Get(hash); ok && holdsTheSame(known, part) {
		return known, hash, size
	}
	s.parts.Add(hash, part, size+perPart)
	return part, hash, size
}

// holdsTheSame reports whether two parts are equal. Their inner parts must already be shared.
func holdsTheSame(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			if other, ok := b[key]; !ok || !same(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// same reports whether two values are equal; maps and slices must be identical.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
	default:
		return a == b
	}
}
