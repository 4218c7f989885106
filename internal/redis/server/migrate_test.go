// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/redis/topology"
)

// client calls acts right before the operator sends a certain pipeline: the nth one that contains a command beginning with word.
type client struct {
	word  string
	nth   int
	acts  func()
	acted bool
}

func (c *client) Send(_ topology.Place, commands []string) (int, error) {
	for _, text := range commands {
		if !strings.HasPrefix(text, c.word) {
			continue
		}
		if c.nth--; c.nth == 0 {
			c.acted = true
			c.acts()
		}
		break
	}
	return len(commands), nil
}

func (*client) Received(topology.Place, []string) error { return nil }

// The target's reply to a MIGRATE was lost, so keys are on both nodes. Clients change these keys during the move. After
// the move, the target has the source's value, no deleted key has returned, and later writes at the target remain.
func TestKeysOnBothNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	source, target := r.nodes[0], r.nodes[1]
	next := r.slotsOf(source)
	for _, c := range []struct {
		name  string
		at    client
		acts  func(key string)
		fresh bool // the target has no key when the move begins
		want  string
	}{
		{name: "no client", want: "newer"},
		{name: "a client deletes a key", at: client{word: "MIGRATE", nth: 1}, acts: func(key string) { assert.Assert(t, r.sends(source, "DEL", key)) }},
		{name: "a client deletes a key and writes it again, before the copy is deleted", at: client{word: "EVAL", nth: 2}, acts: func(key string) {
			assert.Assert(t, r.sends(source, "DEL", key))
			assert.Assert(t, r.sends(source, "SET", key, "second"))
		}, want: "second"},
		{name: "a client deletes a key and writes it again, after the copy is deleted", at: client{word: "MIGRATE", nth: 1}, acts: func(key string) {
			assert.Assert(t, r.sends(source, "DEL", key))
			assert.Assert(t, r.sends(source, "SET", key, "second"))
		}, want: "second"},
		{name: "the target receives the key late", at: client{word: "MIGRATE", nth: 1}, fresh: true, want: "newer", acts: func(key string) {
			assert.NilError(t, r.asking(target, "SET", key, "first"))
		}},
	} {
		tag, slot := next()
		var keys []any
		for i := range 25 { // more than one MIGRATE
			keys = append(keys, fmt.Sprint(tag, i))
		}
		for _, key := range keys {
			r.do(source, "SET", key, "first")
		}
		r.do(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", source.ID)
		r.do(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.ID)
		// These are the keys of the MIGRATE whose reply was lost. The first MIGRATE of the step has the same keys.
		first := r.do(source, "CLUSTER", "GETKEYSINSLOT", slot, 10).([]any)
		if !c.fresh {
			r.do(source, append([]any{"MIGRATE", target.IP, Port, "", 0, 5000, "COPY", "KEYS"}, first...)...)
		}
		for _, key := range keys {
			r.do(source, "SET", key, "newer") // the source serves the keys that it has
		}
		c.at.acts = func() { c.acts(first[7].(string)) }
		r.operator(&c.at)
		assert.NilError(t, r.take(r.move(source, target, "", slot)), c.name)
		assert.Equal(t, c.at.acted, c.acts != nil, c.name)
		assert.Equal(t, len(r.keys(source, slot)), 0, c.name)
		for _, key := range keys {
			want := "newer"
			if key == first[7] {
				want = c.want
			}
			got, _ := target.client.Get(t.Context(), key.(string)).Result()
			assert.Equal(t, got, want, "%s: %s", c.name, key)
		}
	}
}
