// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"container/list"
	"sync"
)

// Cache keeps the most recently used values, up to a total number of bytes. A limit on the number of entries would not limit the memory,
// because users decide the size of an entry. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	limit   int
	evicted func(K, V)

	mu      sync.Mutex
	size    int
	entries map[K]*list.Element
	recent  *list.List // of *entry[K, V], the most recently used first
}

type entry[K comparable, V any] struct {
	key   K
	value V
	size  int
}

// NewCache returns an empty Cache of at most limit bytes. evicted, which may be nil, is called with each evicted entry, and with values
// that are larger than the cache. The function evicted may use any cache.
func NewCache[K comparable, V any](limit int, evicted func(K, V)) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, evicted: evicted, entries: map[K]*list.Element{}, recent: list.New()}
}

// Add stores a value that counts as size bytes, and replaces the key's former value.
func (c *Cache[K, V]) Add(key K, value V, size int) {
	for _, e := range c.add(&entry[K, V]{key, value, size}) {
		if c.evicted != nil {
			c.evicted(e.key, e.value)
		}
	}
}

// add returns the evicted entries.
func (c *Cache[K, V]) add(added *entry[K, V]) (gone []*entry[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(added.key)
	if added.size > c.limit {
		return append(gone, added)
	}
	c.entries[added.key] = c.recent.PushFront(added)
	for c.size += added.size; c.size > c.limit; {
		oldest := c.recent.Back().Value.(*entry[K, V])
		c.remove(oldest.key)
		gone = append(gone, oldest)
	}
	return gone
}

// Get returns the value of a key, if it is cached.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[key]
	if !ok {
		return value, false
	}
	c.recent.MoveToFront(element)
	return element.Value.(*entry[K, V]).value, true
}

// Remove removes the value of a key.
func (c *Cache[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

func (c *Cache[K, V]) remove(key K) {
	element, ok := c.entries[key]
	if !ok {
		return
	}
	delete(c.entries, key)
	c.size -= c.recent.Remove(element).(*entry[K, V]).size
}

// Size returns the bytes of all cached values.
func (c *Cache[K, V]) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}
