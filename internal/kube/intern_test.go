// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"d3os.com/d3os-operator/internal/platform/plan"
)

// objectsIn renders everything.yaml for a namespace.
func objectsIn(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile("../../config/samples/everything.yaml")
	assert.NilError(t, err)
	ds, err := plan.Parse(data)
	assert.NilError(t, err)
	ds.Namespace = namespace
	objects, err := plan.Objects(ds, "v1.36.0")
	assert.NilError(t, err)
	return objects
}

// nodes counts the maps and slices of values, and how many of them are distinct in memory.
func nodes(values ...any) (all, distinct int) {
	seen := map[uintptr]bool{}
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			all, seen[reflect.ValueOf(v).Pointer()] = all+1, true
			for _, child := range v {
				walk(child)
			}
		case []any:
			all, seen[reflect.ValueOf(v).Pointer()] = all+1, true
			for _, child := range v {
				walk(child)
			}
		}
	}
	for _, value := range values {
		walk(value)
	}
	return all, len(seen)
}

func TestObjectsShareWhatTheyHaveAlike(t *testing.T) {
	s := newInterner()
	var first, both []any
	for _, namespace := range []string{"a", "b"} {
		for _, object := range objectsIn(t, namespace) {
			want := object.DeepCopy()
			object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody"}})
			given := object.DeepCopy()
			shared, err := s.transform(object)
			assert.NilError(t, err)
			assert.DeepEqual(t, shared, want)
			assert.DeepEqual(t, object, given)
			content := shared.(*unstructured.Unstructured).Object
			if both = append(both, content); namespace == "a" {
				first = append(first, content)
			}
		}
	}
	all, distinct := nodes(first...)
	_, more := nodes(both...)
	t.Logf("of %d maps and lists %d are distinct; the objects of another namespace add %d", all, distinct, more-distinct)
	assert.Assert(t, distinct < all*2/3)
	assert.Assert(t, more-distinct < all/5)
}

// Informers pass some objects to the transform twice, while readers use its first result. If the transform writes to that result, the race detector
// fails this test. Sometimes, the runtime's check for concurrent map writes fails it, too.
func TestSharingTwiceWritesNothing(t *testing.T) {
	s := newInterner()
	objects := objectsIn(t, "a")
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for _, object := range objects {
				shared, err := s.transform(object)
				if err != nil {
					t.Error(err)
					return
				}
				again, err := s.transform(shared)
				if err != nil || !reflect.DeepEqual(again, shared) {
					t.Errorf("the second transform failed or changed the object: %v", err)
				}
			}
		})
	}
	work.Wait()
}

func TestOnlyTheSameIsShared(t *testing.T) {
	s := newInterner()
	for _, value := range []any{
		map[string]any{"a": "1"}, map[string]any{"a": int64(1)}, map[string]any{"a": 1.0}, map[string]any{"a": true}, map[string]any{"a": nil},
		map[string]any{"a": map[string]any{}}, map[string]any{"a": []any{}}, map[string]any{"b": "1"}, map[string]any{"1": "a"},
		map[string]any{"a": "b", "c": "d"}, map[string]any{"a": "d", "c": "b"}, []any{"a", "b"}, []any{"b", "a"}, []any{"a", []any{"b"}}, []any{},
		map[string]any{},
	} {
		want, copied := k8sruntime.DeepCopyJSONValue(value), k8sruntime.DeepCopyJSONValue(value)
		shared, hash, _ := s.share(value)
		assert.DeepEqual(t, shared, want)
		again, same, _ := s.share(copied)
		assert.Equal(t, same, hash)
		assert.Equal(t, reflect.ValueOf(again).Pointer(), reflect.ValueOf(shared).Pointer())
	}
	other := map[string]any{"another": "part"}
	_, hash, size := s.share(map[string]any{"a": "1"})
	s.parts.Add(hash, other, size) // as if both values had the same hash
	shared, _, _ := s.share(map[string]any{"a": "1"})
	assert.DeepEqual(t, shared, map[string]any{"a": "1"})
}

// Parts that occur in only one object take bounded memory in the interner. The cases: large texts, many small texts, and
// small maps.
func TestWhatIsSharedIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares bytes of memory: make verify runs it, and go test without -short")
	}
	heap := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	for name, test := range map[string]struct {
		objects, bound int
		data           func(i int) map[string]any
	}{
		"large texts": {500, 2 << 20, func(i int) map[string]any {
			return map[string]any{"a": fmt.Sprint(i) + strings.Repeat("x", 1_000_000)}
		}},
		"many texts": {50, 2 << 20, func(i int) map[string]any {
			data := map[string]any{}
			for n := range 1000 {
				data[fmt.Sprintf("%d-%d", i, n)] = fmt.Sprint(n) + strings.Repeat("x", 100)
			}
			return data
		}},
		"small parts": {20000, sharedBytes * 5 / 4, func(i int) map[string]any {
			return map[string]any{"a": fmt.Sprint(i) + strings.Repeat("x", 3000)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newInterner()
			before := heap()
			for i := range test.objects {
				_, err := s.transform(&unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "b"}, "data": test.data(i),
				}})
				assert.NilError(t, err)
			}
			grown := heap() - before
			// Package unique releases texts in the background, some time after a collection.
			for end := time.Now().Add(10 * time.Second); grown >= test.bound && time.Now().Before(end); {
				grown = heap() - before
			}
			t.Logf("%d KiB after %d objects", grown>>10, test.objects)
			assert.Assert(t, grown < test.bound)
			runtime.KeepAlive(s)
		})
	}
}
