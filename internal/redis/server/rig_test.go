// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness/process"
)

// rig is a cluster of real redis-servers, with an operator that consists of Read, Decide and Take. Pod cache-i-0 is the only pod of shard
// i.
type rig struct {
	*testing.T

	guard   *process.Guard
	dir     string
	next    func() string // the next address
	program string
	nodes   []*rigNode
	wanted  topology.Wanted
	record  topology.Record
	servers *Servers
}

type rigNode struct {
	topology.Place

	dir     string
	options []string // options of the program
	process *process.Process
	client  *redis.Client
}

// newRig starts one master for each shard, and forms the cluster.
func newRig(t *testing.T, shards int) *rig {
	t.Helper()
	program, err := redistest.Program("redis-server")
	assert.NilError(t, err)
	dir, err := os.MkdirTemp("", "redis")
	assert.NilError(t, err)
	silence()
	r := &rig{T: t, program: program, dir: dir, next: addresses(t)}
	r.guard, err = process.NewGuard(dir)
	assert.NilError(t, err)
	t.Cleanup(func() {
		for _, n := range r.nodes {
			if n.process.Runs() {
				n.process.Kill()
			}
		}
		assert.NilError(t, r.guard.End())
	})
	r.wanted = topology.Wanted{NodeTimeout: 15 * time.Second, Generation: 1}
	r.record = topology.Record{Formed: true, Nodes: map[string]string{}}
	for i := range shards {
		pod := fmt.Sprintf("cache-%d-0", i)
		n := r.start(pod)
		r.wanted.Shards, r.record.Shards, r.record.Nodes[pod] = append(r.wanted.Shards, 1), append(r.record.Shards, 1), n.ID
	}
	for i, n := range r.nodes {
		r.do(n, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		r.do(n, "CLUSTER", "ADDSLOTSRANGE", i*topology.Slots/shards, (i+1)*topology.Slots/shards-1)
		if i > 0 {
			r.do(r.nodes[0], "CLUSTER", "MEET", n.IP, Port)
		}
	}
	r.operator(nil)
	r.settle()
	return r
}

// start starts a server on a new volume.
func (r *rig) start(pod string, options ...string) *rigNode {
	r.Helper()
	dir, ip := filepath.Join(r.dir, pod), r.next()
	assert.NilError(r, os.Mkdir(dir, 0o700))
	n := &rigNode{Place: topology.Place{Pod: pod, UID: "uid-" + pod, IP: ip}, dir: dir, options: options}
	n.client = redis.NewClient(&redis.Options{
		Addr: fmt.Sprintf("%s:%d", ip, Port), Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	r.Cleanup(func() { _ = n.client.Close() })
	r.nodes = append(r.nodes, n)
	r.run(n)
	n.ID = fmt.Sprint(r.do(n, "CLUSTER", "MYID"))
	return n
}

// run starts the process of a server, and waits until it answers.
func (r *rig) run(n *rigNode) {
	r.Helper()
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	assert.NilError(r, err)
	defer func() { assert.NilError(r, log.Close()) }()
	// r.guard finds processes by their environment, which a process title would overwrite.
	argv := append([]string{r.program, "--set-proc-title", "no", "--bind", n.IP, "--port", fmt.Sprint(Port), "--dir", n.dir, "--save", "", "--appendonly", "yes",
		"--cluster-enabled", "yes", "--cluster-announce-ip", n.IP, "--cluster-node-timeout", fmt.Sprint(r.wanted.NodeTimeout.Milliseconds())}, n.options...)
	n.process, err = r.guard.Start(argv, nil, n.dir, log)
	assert.NilError(r, err)
	r.until("it answers", func() error { return n.client.Ping(r.Context()).Err() })
}

// restart kills servers and starts them again.
func (r *rig) restart(nodes ...*rigNode) {
	r.Helper()
	for _, n := range nodes {
		n.process.Kill()
	}
	for _, n := range nodes {
		r.run(n)
	}
}

// serve returns an error unless all nodes serve clients.
func (r *rig) serve() error {
	for _, n := range r.nodes {
		info, err := n.client.ClusterInfo(r.Context()).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = errors.New("its cluster is down")
		}
		if err != nil {
			return fmt.Errorf("%s does not serve: %w", n.Pod, err)
		}
	}
	return nil
}

func (r *rig) until(what string, holds func() error) {
	r.Helper()
	if err := process.Wait(r.Context(), 2*time.Minute, holds); err != nil {
		r.Fatalf("%s: %v", what, err)
	}
}

// do sends a command, which must succeed.
func (r *rig) do(n *rigNode, words ...any) any {
	r.Helper()
	answer, err := n.client.Do(r.Context(), words...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.Fatalf("%v of %s: %v", words, n.Pod, err)
	}
	return answer
}

// asking sends ASKING and a command, as a redirected client does.
func (r *rig) asking(n *rigNode, words ...any) error {
	_, err := n.client.Pipelined(r.Context(), func(pipe redis.Pipeliner) error {
		pipe.Do(r.Context(), "ASKING")
		pipe.Do(r.Context(), words...)
		return nil
	})
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// sends acts as a client: it sends a command, follows redirections, and reports whether the command was acknowledged.
func (r *rig) sends(n *rigNode, words ...any) bool {
	r.Helper()
	err := n.client.Do(r.Context(), words...).Err()
	for range 8 {
		if err == nil || errors.Is(err, redis.Nil) {
			return true
		}
		kind, rest, _ := strings.Cut(err.Error(), " ")
		_, address, _ := strings.Cut(rest, " ")
		i := slices.IndexFunc(r.nodes, func(other *rigNode) bool { return address == other.client.Options().Addr })
		if i < 0 || kind != "ASK" && kind != "MOVED" {
			r.Fatalf("%v: %v", words, err)
		}
		if n = r.nodes[i]; kind == "ASK" {
			err = r.asking(n, words...)
		} else {
			err = n.client.Do(r.Context(), words...).Err()
		}
	}
	return false
}

// keys returns the keys of a slot on a node.
func (r *rig) keys(n *rigNode, slot int) (names []string) {
	r.Helper()
	names, err := n.client.ClusterGetKeysInSlot(r.Context(), slot, 1000).Result()
	assert.NilError(r, err)
	slices.Sort(names)
	return names
}

// operator simulates a restart of the operator.
func (r *rig) operator(tap Tap) {
	if r.servers != nil {
		r.servers.Close()
	}
	r.servers = New(Options{Tap: tap})
	r.Cleanup(r.servers.Close)
}

// Pod, Record and DeletePod implement Kubernetes.
func (r *rig) Pod(_ context.Context, name string) (steps.Pod, error) {
	for _, n := range r.nodes {
		if n.Pod == name {
			return steps.Pod{UID: n.UID, IP: n.IP}, nil
		}
	}
	return steps.Pod{}, nil
}

func (r *rig) Record(_ context.Context, record topology.Record) error {
	r.record = record
	return nil
}

func (r *rig) DeletePod(context.Context, topology.Place) error { return errors.New("a pod is deleted") }

// Held reports that the operator holds the lease.
func (r *rig) Held() bool { return true }

func (r *rig) take(step topology.Step) error {
	return r.servers.Take(reconcile.WithLease(r.Context(), r), Request{Cluster: "cache", Step: step, Kubernetes: r})
}

func (r *rig) read() (nodes []topology.Node) {
	for _, n := range r.nodes {
		var shard, ordinal int
		_, err := fmt.Sscanf(n.Pod, "cache-%d-%d", &shard, &ordinal)
		assert.NilError(r, err)
		nodes = append(nodes, topology.Node{Pod: n.Pod, UID: n.UID, Host: n.Pod, IP: n.IP, Shard: shard, Ordinal: ordinal, Running: true, Ready: true})
	}
	r.servers.Read(r.Context(), "cache", Access{}, nodes, nil)
	return nodes
}

// settle runs passes of the operator until it has nothing to do.
func (r *rig) settle() {
	r.Helper()
	var last topology.Decision
	r.until("the operator settles", func() error {
		last = topology.Decide(r.wanted, r.record, r.read())
		if last.Model.Settled {
			return nil
		}
		if err := r.take(last.Steps[0]); err != nil {
			r.Logf("%s: %v", last.Steps[0].Message, err)
		}
		return fmt.Errorf("%s: %s; next: %s", last.Model.Verdict, last.Model.Reason, last.Steps[0].Message)
	})
}

// move returns the step that moves slots from one node to another.
func (r *rig) move(from, to *rigNode, mode string, slots ...int) topology.Step {
	step := topology.Step{Action: topology.ActionMoveSlots, Mode: mode, Node: from.Place, Target: to.Place}
	for _, slot := range slots {
		step.Slots = step.Slots.Union(topology.NewSlotSet(topology.Range{From: slot, To: slot}))
	}
	for _, n := range r.nodes {
		if n != from && n != to {
			step.On = append(step.On, n.Place)
		}
	}
	return step
}

// slotsOf returns a function that returns, with each call, a tag of keys in another slot of a node.
func (r *rig) slotsOf(n *rigNode) func() (tag string, slot int) {
	next, used := 0, map[int]bool{}
	return func() (string, int) {
		for ; ; next++ {
			tag := fmt.Sprintf("{%d}", next)
			slot := int(r.do(n, "CLUSTER", "KEYSLOT", tag).(int64))
			_, err := n.client.Exists(r.Context(), tag).Result()
			if err == nil && !used[slot] {
				used[slot] = true
				return tag, slot
			}
		}
	}
}

// breaker interrupts the operator at one of the pipelines that have an effect: before it is sent, or after its effect,
// so that its answer is lost.
type breaker struct {
	mu     sync.Mutex
	at     int
	before bool
	broken string
}

func hasEffect(commands []string) bool { return slices.ContainsFunc(commands, redistest.HasEffect) }

func (b *breaker) Send(_ topology.Place, commands []string) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != "" {
		return 0, ErrBrokenOff
	}
	if !hasEffect(commands) {
		return len(commands), nil
	}
	if b.at--; b.at == 0 && b.before {
		b.broken = "before " + strings.Join(commands, ", ")
		return 0, ErrBrokenOff
	}
	return len(commands), nil
}

func (b *breaker) Received(_ topology.Place, commands []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == 0 && hasEffect(commands) && b.broken == "" {
		b.broken = "after " + strings.Join(commands, ", ")
	}
	if b.broken != "" {
		return ErrBrokenOff
	}
	return nil
}
