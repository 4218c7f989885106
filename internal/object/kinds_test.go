// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/object"
)

// Kinds contains each kind once, and each kind has a Go type and a list type.
func TestKinds(t *testing.T) {
	t.Parallel()
	seen := map[schema.GroupVersionKind]bool{}
	for _, gvk := range object.Kinds {
		assert.Assert(t, !seen[gvk], "%s is there twice", gvk)
		assert.Assert(t, scheme.Scheme.Recognizes(gvk) && scheme.Scheme.Recognizes(gvk.GroupVersion().WithKind(gvk.Kind+"List")), "%s", gvk)
		assert.Equal(t, object.Empty(gvk).GroupVersionKind(), gvk)
		seen[gvk] = true
	}
}

// Objects of a RedisCluster are not mistaken for objects of a DataService of the same name, and vice versa.
func TestOwnersOfOneNameAreKeptApart(t *testing.T) {
	t.Parallel()
	platform := object.Owner{
		GroupVersionKind: schema.GroupVersionKind{Group: "d3os-product.com.d3os", Version: "v1", Kind: "DataService"},
		Namespace:        "a", Name: "platform", UID: "1",
	}
	redis := object.Owner{
		GroupVersionKind: schema.GroupVersionKind{Group: "redis.middleware.hc.cn", Version: "v1alpha1", Kind: "RedisCluster"},
		Namespace:        "a", Name: "platform", UID: "2",
	}
	for owner, other := range map[object.Owner]object.Owner{platform: redis, redis: platform} {
		o := object.Empty(object.ClaimKind)
		o.SetNamespace("a")
		labels := map[string]string{object.LabelInstance: owner.Name}
		if kind := owner.KindLabel(); kind != "" {
			labels[object.LabelKind] = kind
		}
		o.SetLabels(labels)
		assert.Assert(t, owner.Names(o))
		assert.Assert(t, !other.Names(o))
		assert.Equal(t, object.OwnerOf(owner.GroupKind(), o).Name, "platform")
		assert.Equal(t, object.OwnerOf(other.GroupKind(), o).Name, "")

		_, err := object.Finish(o, other) // the controller decides, not the labels
		assert.NilError(t, err)
		assert.Equal(t, object.OwnerOf(other.GroupKind(), o).Name, "platform")
		assert.Assert(t, other.Controls(o) && !owner.Controls(o))
	}
	assert.Equal(t, platform.KindLabel(), "", "objects of DataServices have no label for the kind, as in earlier versions")
}

// The cached bytes never exceed the limit, and the most recently used values stay.
func TestTheLimitIsOfBytes(t *testing.T) {
	t.Parallel()
	var gone []string
	c := object.NewCache(100, func(key string, value int) {
		assert.Equal(t, key, fmt.Sprint(value))
		gone = append(gone, key)
	})
	for i := range 4 {
		c.Add(fmt.Sprint(i), i, 25)
	}
	assert.Equal(t, c.Size(), 100)
	assert.Equal(t, len(gone), 0)
	_, ok := c.Get("0")
	assert.Assert(t, ok)
	c.Add("4", 4, 50)
	assert.DeepEqual(t, gone, []string{"1", "2"})
	assert.Equal(t, c.Size(), 100)
	c.Add("4", 4, 10) // replaces the entry itself, and evicts no other entry
	assert.Equal(t, c.Size(), 60)
	c.Add("5", 5, 101)
	assert.DeepEqual(t, gone, []string{"1", "2", "5"})
	_, ok = c.Get("5")
	assert.Assert(t, !ok, "a value that is larger than the cache is not cached")
	c.Remove("0")
	c.Remove("0")
	_, ok = c.Get("0")
	assert.Assert(t, !ok)
	assert.Equal(t, c.Size(), 35)
	assert.DeepEqual(t, gone, []string{"1", "2", "5"})
	c.Add("4", 4, 1000) // larger than the limit: the earlier entry of this key is removed, and no other entry is evicted
	_, ok = c.Get("4")
	assert.Assert(t, !ok)
	assert.Equal(t, c.Size(), 25)
}

type declared struct {
	Name   string
	Raw    []byte
	Nested *declared
	Labels map[string]string
	Any    any
	Few    [2]string
}

// SizeOf returns between 0.8 and 1.6 times the growth of the heap.
func TestTheEstimateIsHonest(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, build := range map[string]func() any{
		"nothing": func() any { return nil },
		"text":    func() any { return text(1 << 20) },
		"bytes":   func() any { return make([]byte, 1<<20) },
		"an object": func() any {
			containers := make([]any, 0, 1000)
			for i := range 1000 {
				containers = append(containers, map[string]any{"name": text(20), "port": int64(i + 1000), "nested": map[string]any{"a": text(10), "b": true, "c": nil}})
			}
			return map[string]any{"spec": map[string]any{"containers": containers}}
		},
		"a map of many texts": func() any {
			many := map[string]string{}
			for i := range 20000 {
				many[fmt.Sprint(i)] = text(16)
			}
			return many
		},
		"a chain of structs": func() any {
			var chain *declared
			for i := range 1000 {
				chain = &declared{
					Name: text(100), Raw: make([]byte, 200), Nested: chain, Labels: map[string]string{"a": text(40)}, Any: int64(i + 1000),
					Few: [2]string{text(30), text(30)},
				}
			}
			return chain
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			value := build()
			grown := heap() - before
			estimate := object.SizeOf(value)
			t.Logf("estimate %d, heap %d", estimate, grown)
			assert.Assert(t, float64(estimate) > 0.8*float64(grown)-16384 && float64(estimate) < 1.6*float64(grown)+16384)
			runtime.KeepAlive(value)
		})
	}
}

func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// Each kind in Resources has the field that pauses it.
func TestResourcesCanBePaused(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	assert.NilError(t, err)
	fields := map[schema.GroupVersionKind]apiextensionsv1.JSONSchemaProps{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		assert.NilError(t, yaml.UnmarshalStrict(data, crd))
		version := crd.Spec.Versions[0]
		fields[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = version.Schema.OpenAPIV3Schema.Properties["spec"]
	}
	assert.Equal(t, object.PauseField(object.Empty(object.Foreign)), "")
	for _, kind := range object.Resources {
		if kind == object.Foreign {
			continue
		}
		assert.Equal(t, fields[kind].Properties[object.PauseField(object.Empty(kind))].Type, "boolean", "%s", kind)
	}
}
