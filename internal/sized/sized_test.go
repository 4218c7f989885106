// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package sized_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/sized"
)

// Whatever is added, the bytes stay within the limit; what was used last stays.
func TestTheLimitIsOfBytes(t *testing.T) {
	t.Parallel()
	var gone []string
	c := sized.New(100, func(key string, value int) {
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
	c.Add("4", 4, 10) // in its own place
	assert.Equal(t, c.Size(), 60)
	c.Add("5", 5, 101)
	assert.DeepEqual(t, gone, []string{"1", "2", "5"})
	_, ok = c.Get("5")
	assert.Assert(t, !ok, "it is larger than the cache")
	c.Remove("0")
	c.Remove("0")
	_, ok = c.Get("0")
	assert.Assert(t, !ok)
	assert.Equal(t, c.Size(), 35)
	assert.DeepEqual(t, gone, []string{"1", "2", "5"})
	c.Add("4", 4, 1000) // what was there is older, and so is gone too
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

// The estimate is what the heap grows by, or somewhat more.
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
		"a map of many": func() any {
			many := map[string]string{}
			for i := range 20000 {
				many[fmt.Sprint(i)] = text(16)
			}
			return many
		},
		"types": func() any {
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
			estimate := sized.Of(value)
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
