// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/redis/rig"
)

// moves is after how many commands of a move of slots lives end, one after the other. The move gets on in the long ones.
var moves = []int{1, 2, 40, 3, 75, 5, 1, 110}

// mortal makes each life of a driver end after its first effect, and after some if they move slots.
type mortal struct {
	mu    sync.Mutex
	lives int
	left  int // lives that end before their time; the others do not
	last  *rig.Crash
	ends  map[string]int // the commands before which lives ended
}

func (m *mortal) next() server.Tap {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note()
	if m.last = nil; m.left == 0 {
		return nil
	}
	m.left--
	m.last = &rig.Crash{At: 1, Moves: moves[m.lives%len(moves)], Effects: true}
	m.lives++
	return m.last
}

func (m *mortal) note() {
	if m.last == nil || m.last.Where == "" {
		return
	}
	words := strings.Fields(m.last.Where)
	for i, word := range words { // slots, ids and addresses apart
		if strings.Trim(word, "0123456789abcdef.") == "" {
			words[i] = "_"
		}
	}
	where := strings.Join(words, " ")
	if strings.HasPrefix(where, "CLUSTER ADDSLOTS") || strings.HasPrefix(where, "MIGRATE") {
		where = strings.Join(words[:min(2, len(words))], " ")
	}
	m.ends[where]++
}

// An operator that is ended again and again, after each of its effects, brings every planned change about, and nobody
// who writes or reads meanwhile notices.
func TestOperatorEndsAfterEachEffect(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	m := &mortal{ends: map[string]int{}}
	lives := 5 * len(moves) // of each change
	if full {
		lives = 100_000
	}
	m.left = lives
	patience := 2 * time.Minute
	if full {
		patience = 20 * time.Minute
	}
	f := rig.NewFleet(t, rig.Options{Shards: []int{2, 2, 2}})
	d := rig.NewDriver(f)
	d.Tap = m.next
	t.Logf("forms: %s, %d lives", round(d.Settle(2*time.Minute, "the cluster forms")), d.Lives)
	before := fill(t, f, 3000)
	for _, change := range []struct {
		name   string
		change func()
	}{
		{"6 to 8 pods", func() { d.Wanted.Shards = []int{2, 2, 2, 2} }},
		{"all pods replaced", f.NewRevision},
		{"8 to 6 pods", func() { d.Wanted.Shards = []int{2, 2, 2} }},
	} {
		ledger := f.Keep(rig.LedgerOptions{})
		d.Wanted.Generation++
		change.change()
		began := d.Lives
		m.left = lives
		d.Restart()
		took := d.Settle(patience, change.name)
		ledger.Close().Nothing(t, change.name)
		unchanged(t, f, before)
		t.Logf("%s: %s, %d lives", change.name, round(took), d.Lives-began)
	}
	m.note()
	var ends []string
	for _, where := range slices.Sorted(maps.Keys(m.ends)) {
		ends = append(ends, fmt.Sprintf("%s: %d", where, m.ends[where]))
	}
	t.Logf("lives ended before %s", strings.Join(ends, ", "))
	for _, command := range []string{"DELETE POD", "CLUSTER MEET", "CLUSTER FAILOVER", "IMPORTING", "MIGRATING", "NODE", "MIGRATE"} {
		if !slices.ContainsFunc(ends, func(end string) bool { return strings.Contains(end, command) }) {
			t.Errorf("no life ended before %s", command)
		}
	}
}
