// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sized bounds what is remembered by its bytes. A bound on the number of entries says
// nothing about memory where users decide how large an entry is.
package sized

import (
	"container/list"
	"sync"
)

// Cache remembers the values that were used last, up to a number of bytes in all. It is safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	limit   int
	evicted func(K, V)

	mu      sync.Mutex
	size    int
	entries map[K]*list.Element
	recent  *list.List // of *entry[K, V], the one used last in front
}

type entry[K comparable, V any] struct {
	key   K
	value V
	size  int
}

// New returns an empty Cache of at most limit bytes. Where evicted is not nil, it is called with
// each entry that has to make room, and with values that are larger than the cache; it may use
// any cache.
func New[K comparable, V any](limit int, evicted func(K, V)) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, evicted: evicted, entries: map[K]*list.Element{}, recent: list.New()}
}

// Add remembers a value of that many bytes in place of the one that the key had.
func (c *Cache[K, V]) Add(key K, value V, size int) {
	for _, e := range c.add(&entry[K, V]{key, value, size}) {
		if c.evicted != nil {
			c.evicted(e.key, e.value)
		}
	}
}

// add returns what had to make room.
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

// Get returns the value of a key, if it is remembered.
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

// Remove forgets the value of a key.
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

// Size returns the bytes of all values that are remembered.
func (c *Cache[K, V]) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}
