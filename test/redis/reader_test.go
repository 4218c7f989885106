// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/redis/rig"
)

// One node that hangs delays no other, and less each time it is asked; the others are read as ever.
func TestNodesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{Shards: []int{1, 1, 1, 1}, NodeTimeout: 20 * time.Second})
	servers := server.New(server.Options{})
	defer servers.Close()
	hung, down := f.Pod(1, 0), f.Pod(2, 0)
	hung.Pause()
	defer hung.Resume()
	down.Kill()
	var times []time.Duration
	for range 6 {
		nodes := f.Observed()
		began := time.Now()
		servers.Read(t.Context(), "rec", f.Access(), nodes, []string{"maxmemory", "no-such-setting"})
		times = append(times, time.Since(began))
		for i, node := range nodes {
			wantReached := i == 0 || i == 3
			if node.Reached != wantReached {
				t.Errorf("%s is reached: %v (%s)", node.Pod, node.Reached, node.Problem)
			}
		}
		if got := nodes[1].Problem; !strings.HasPrefix(got, "no answer within") {
			t.Errorf("of a node that hangs it is said: %s", got)
		}
		if got := nodes[2].Problem; got != "connection refused" {
			t.Errorf("of a node that is down it is said: %s", got)
		}
		first := nodes[0]
		if first.Version != "7.0.15" || len(first.View) != 1 || first.ID == "" || first.Settings["maxmemory"] != "0" || len(first.Settings) != 1 || first.At.IsZero() ||
			!first.Replication.Master || first.UsedMemory == 0 {
			t.Errorf("a node is read as %+v", first)
		}
	}
	t.Logf("reads beside a node that hangs took %v", times)
	if times[0] < 2*time.Second || slices.Min(times) > 1500*time.Millisecond {
		t.Errorf("reads beside a node that hangs took %v: want about 2s, then less", times)
	}
	nodes := f.Observed()
	servers.Read(t.Context(), "rec", server.Access{Password: "wrong"}, nodes, nil)
	if got := nodes[0].Problem; !strings.Contains(got, "does not accept the password") {
		t.Errorf("with a wrong password it is said: %s", got)
	}
}

// A node that loads its data is not taken for one that is gone.
func TestNodeThatLoads(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{Shards: []int{1}})
	pod := f.Pod(0, 0)
	for _, args := range [][]any{{"CLUSTER", "ADDSLOTSRANGE", 0, topology.Slots - 1},
		// It answers between any two keys, and takes a second or two.
		{"CONFIG", "SET", "loading-process-events-interval-bytes", 1024}, {"CONFIG", "SET", "key-load-delay", 1000}} {
		assert.NilError(t, pod.Client().Do(t.Context(), args...).Err())
	}
	rig.Until(t, "it takes keys", func() error { return f.Fill(t.Context(), 2000, 10) })
	servers := server.New(server.Options{})
	defer servers.Close()
	var node topology.Node
	var loads atomic.Bool
	rig.Until(t, "it loads", func() error {
		if loads.CompareAndSwap(false, true) {
			go func() {
				// It answers when it has loaded, at once if it cannot.
				pod.Client().Do(t.Context(), "DEBUG", "LOADAOF")
				loads.Store(false)
			}()
		}
		nodes := f.Observed()
		servers.Read(t.Context(), "rec", f.Access(), nodes, nil)
		if node = nodes[0]; !node.Loading {
			return fmt.Errorf("it is reached: %v (%s)", node.Reached, node.Problem)
		}
		return nil
	})
	if node.Reached || node.Problem != "it is loading its data" {
		t.Errorf("of a node that loads it is said: reached %v, %s", node.Reached, node.Problem)
	}
}

// At rest nothing but reads is sent, each node is asked for the same few things once in each pass, through one
// connection, which a pod that is gone does not keep.
func TestAtRest(t *testing.T) {
	t.Parallel()
	const passes = 20
	f, d, _ := formed(t, 2, 2, 2)
	for _, pod := range f.Pods() {
		assert.NilError(t, pod.Client().ConfigResetStat(t.Context()).Err())
	}
	steps := d.Steps
	for range passes {
		if decision := d.Pass(t.Context()); len(decision.Steps) > 0 || decision.LookAgain < 30*time.Second {
			t.Errorf("at rest %+v is to be done, and looked again after %s", decision.Steps, decision.LookAgain)
		}
	}
	if d.Steps != steps {
		t.Errorf("%d steps were taken at rest", d.Steps-steps)
	}
	for _, pod := range f.Pods() {
		text, err := pod.Client().Info(t.Context(), "commandstats", "clients").Result()
		assert.NilError(t, err)
		seen := map[string]int{}
		for line := range strings.Lines(text) {
			if name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls="); ok {
				count, _, _ := strings.Cut(rest, ",")
				if seen[name], err = strconv.Atoi(count); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, own := range []string{"replconf", "ping", "psync", "select", "config|resetstat"} {
			delete(seen, own) // replication's own, and the test's
		}
		for _, read := range []string{"cluster|myid", "cluster|nodes", "cluster|info", "info", "time"} {
			if seen[read] != passes {
				t.Errorf("%s was sent %s %d times in %d passes", pod.Name, read, seen[read], passes)
			}
			delete(seen, read)
		}
		if len(seen) > 0 {
			t.Errorf("%s was also sent %v", pod.Name, seen)
		}
		if list, err := pod.Client().ClientList(t.Context()).Result(); err != nil || strings.Count(list, "cmd=time") > 1 {
			t.Errorf("%s has more than one connection of the operator (%v):\n%s", pod.Name, err, list)
		}
	}
}
