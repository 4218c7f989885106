// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/server"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness"
)

// hand runs steps of the operator on a cluster while no operator runs.
type hand struct {
	*scene

	servers *server.Servers
}

func (s *scene) hand() hand {
	h := hand{s, server.New(server.Options{})}
	s.Cleanup(h.servers.Close)
	return h
}

// Pod returns the UID and the address of a pod, for the checks of a step.
func (h hand) Pod(_ context.Context, name string) (steps.Pod, error) {
	if pod := h.pod(name); pod != nil {
		return steps.Pod{UID: string(pod.UID), IP: pod.Status.PodIP}, nil
	}
	return steps.Pod{}, nil
}

// Record and DeletePod fail: no step of these tests may call them.
func (h hand) Record(context.Context, topology.Record) error {
	return errors.New("a record is written")
}
func (h hand) DeletePod(context.Context, topology.Place) error { return errors.New("a pod is deleted") }

// Held reports that this process may write.
func (h hand) Held() bool { return true }

func (h hand) take(step topology.Step) error {
	return h.servers.Take(reconcile.WithLease(h.Ctx, h), server.Request{Cluster: name, Access: server.Access{Password: h.taken()}, Step: step, Kubernetes: h})
}

// place returns the topology.Place of a pod.
func (s *scene) place(pod string) topology.Place {
	s.Helper()
	object := s.pod(pod)
	return topology.Place{Pod: pod, UID: string(object.UID), IP: object.Status.PodIP, ID: fmt.Sprint(s.do(pod, "CLUSTER", "MYID"))}
}

// A step is refused if the facts on which it was decided have changed. The error names the difference, and the step changes nothing.
func TestStepsAreRefused(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing(six).Stop()
	h := s.hand()
	var masters, replicas []topology.Place
	for shard := range 3 {
		m, r := s.pair(shard)
		masters, replicas = append(masters, s.place(m)), append(replicas, s.place(r))
	}
	s.inStep()
	master, second, third, replica := masters[0], masters[1], masters[2], replicas[0]
	with := func(p topology.Place, change func(*topology.Place)) topology.Place { change(&p); return p }
	own := func(shard int) topology.SlotSet { return s.owned()[shard].First(1) }
	history := field(s.info(replica.Pod, "replication"), "master_replid")
	force := func(target topology.Place, proof topology.Proof) topology.Step {
		return topology.Step{Action: topology.ActionFailover, Mode: "FORCE", Node: replica, Target: target, Proof: proof}
	}
	move := func(from, to topology.Place, slots topology.SlotSet, on ...topology.Place) topology.Step {
		return topology.Step{Action: topology.ActionMoveSlots, Node: from, Target: to, Slots: slots, On: on}
	}
	lost := topology.Place{ID: master.ID}
	opened := own(2)
	s.do(third.Pod, "CLUSTER", "SETSLOT", opened[0].From, "MIGRATING", second.ID)
	for _, c := range []struct {
		why  string
		step topology.Step
		want string
	}{
		{"another UID", topology.Step{Action: topology.ActionSetEpoch, Node: with(master, func(p *topology.Place) { p.UID = "uid-0" })}, "has been replaced"},
		{"another address", topology.Step{Action: topology.ActionReset, Node: with(master, func(p *topology.Place) { p.IP = "127.0.0.1" })}, "has address"},
		{"no pod", topology.Step{Action: topology.ActionFlush, Node: with(master, func(p *topology.Place) { p.Pod = name + "-9-9" })}, "is gone"},
		{"another node", topology.Step{Action: topology.ActionFailover, Node: with(replica, func(p *topology.Place) { p.ID = master.ID })}, "was decided for"},
		{"no id", topology.Step{Action: topology.ActionFlush, Node: with(master, func(p *topology.Place) { p.ID = "" })}, "names no node"},
		{"a foreign server", topology.Step{Action: topology.ActionMeet, Node: master, Target: with(second, func(p *topology.Place) { p.IP = "127.0.0.1" })}, "has address"},
		{"reset of an owner", topology.Step{Action: topology.ActionReset, Node: master}, "owns slots"},
		{"flush of an owner", topology.Step{Action: topology.ActionFlush, Node: second}, "owns slots"},
		{"flush of a replica", topology.Step{Action: topology.ActionFlush, Node: replica}, "is a replica"},
		{"failover of a master", topology.Step{Action: topology.ActionFailover, Node: second, Mode: "TAKEOVER"}, "not a replica"},
		{"promotion with another history", force(lost, topology.Proof{History: strings.Repeat("0", 40)}), "has the replication ID"},
		{"promotion with a lower replication offset", force(lost, topology.Proof{History: history, Offset: 1 << 60}), "has the replication offset"},
		{"promotion while its master answers", force(lost, topology.Proof{History: history}), "reaches its master"},
		{"promotion over a master that has its data", force(master, topology.Proof{History: history, Run: "of-another-start"}), "does not take over from"},
		{"forgetting an owner", topology.Step{Action: topology.ActionForget, ID: master.ID, On: []topology.Place{second, third}}, "owns slots"},
		{"deletion of the pod of an owner", topology.Step{Action: topology.ActionDeletePod, Node: second}, "owns slots"},
		{"replica of another shard", topology.Step{Action: topology.ActionReplicate, Node: replica, Target: second}, "do not belong to one shard"},
		{"admission of a master that has restarted", topology.Step{Action: topology.ActionAdmit, Node: second, Target: second, Proof: topology.Proof{Run: "of-another-start"}}, "has restarted"},
		{"reset of a copy, and some slots have no owner", topology.Step{Action: topology.ActionReset, Node: replica, On: []topology.Place{second, third}}, "keeps its keys"},
		{"replica of a replica", topology.Step{Action: topology.ActionReplicate, Node: third, Target: replica}, "not a master"},
		{"a slot of another master", move(master, second, s.owned()[2].Minus(opened).First(1), third), "does not own"},
		{"a slot that is being moved to another master", move(third, master, opened, second), "being moved"},
		{"a master that is not checked for keys", move(master, second, own(0)), "does not check that master for keys"},
		{"a replica as target", move(master, replica, own(0), second, third), "not both masters"},
		{"an owner that is not checked for keys", topology.Step{Action: topology.ActionAssignSlot, ID: second.ID, On: []topology.Place{second, third}, Slots: own(0)}, "does not check that master for keys"},
	} {
		before := fmt.Sprint(s.owned())
		if err := h.take(c.step); !errors.Is(err, steps.ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the step returns %v, want a refusal with %q", c.why, err, c.want)
		}
		if after := fmt.Sprint(s.owned()); after != before {
			t.Errorf("%s: the cluster changed from\n%s\nto\n%s", c.why, before, after)
		}
	}
	s.do(third.Pod, "CLUSTER", "SETSLOT", opened[0].From, "STABLE")

	// A slot gets no new owner in two cases: a master other than the target has a key of the slot, or the target has a
	// key of the slot and does not import the slot.
	key := s.here(0, 1)[0]
	slot := topology.SlotSet{{From: s.slot(key), To: s.slot(key)}}
	for _, holder := range []topology.Place{second, third} {
		s.do(holder.Pod, "CLUSTER", "SETSLOT", slot[0].From, "IMPORTING", master.ID)
		s.put(holder.Pod, key, "wrong") // as on a master that lost a slot but kept its keys
		s.do(holder.Pod, "CLUSTER", "SETSLOT", slot[0].From, "STABLE")
		if err := h.take(move(master, second, slot, third)); !errors.Is(err, steps.ErrRefused) || !strings.Contains(err.Error(), holder.Pod) {
			t.Errorf("%s has a key, and the move returns %v", holder.Pod, err)
		}
		if !s.owned()[0].Has(slot[0].From) {
			t.Errorf("%s has a key, but the slot was moved", holder.Pod)
		}
		s.do(holder.Pod, "FLUSHALL")
	}
}

// field returns a field of INFO.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

// The operator moves slots in at most 1.25 times the time that redis-cli takes in the same run for the same slots.
func TestMovesSlotsAsFastAsRedisCLI(t *testing.T) {
	harness.FullForm(t, full)
	const bound, keys, slots = 1.25, 100_000, 2000
	s := newScene(t)
	s.standing(six).Stop()
	c := s.clients()
	defer c.Close()
	value := strings.Repeat("v", 100)
	for from := 0; from < keys; from += 500 {
		_, err := c.Pipelined(s.Ctx, func(pipe redis.Pipeliner) error {
			for i := from; i < from+500; i++ {
				pipe.Set(s.Ctx, fmt.Sprint("fill-", i), value, 0)
			}
			return nil
		})
		s.Must(err)
	}
	a, b, other := s.place(s.master(0)), s.place(s.master(1)), s.place(s.master(2))
	before := s.owned()[1]
	began := time.Now()
	program, err := redistest.Program("redis-cli")
	s.Must(err)
	reshard := exec.CommandContext(s.Ctx, program, "--cluster", "reshard", a.IP+":6379", "--cluster-from", a.ID, "--cluster-to", b.ID,
		"--cluster-slots", fmt.Sprint(slots), "--cluster-pipeline", "10", "--cluster-yes")
	reshard.Env = append(os.Environ(), "REDISCLI_AUTH="+s.taken())
	out, err := reshard.CombinedOutput()
	theirs := time.Since(began)
	moved := s.owned()[1].Minus(before)
	if err != nil || moved.Len() != slots {
		t.Fatalf("redis-cli moved %d slots: %v\n%s", moved.Len(), err, out[max(0, len(out)-2000):])
	}
	h := s.hand()
	began = time.Now()
	s.Until("they move back", func() error {
		left := moved.Intersect(s.owned()[1])
		if left.Len() == 0 {
			return nil
		}
		return errors.Join(h.take(topology.Step{Action: topology.ActionMoveSlots, Node: b, Target: a, Slots: left, On: []topology.Place{other}}), errors.New("slots are left"))
	})
	ours := time.Since(began)
	s.holds()
	ratio := ours.Seconds() / theirs.Seconds()
	t.Logf("%d keys: redis-cli --cluster reshard moved %d slots in %s, the operator in %s: %.2f times as long (bound %.2f)",
		keys, slots, theirs.Round(time.Millisecond), ours.Round(time.Millisecond), ratio, bound)
	if ratio > bound {
		t.Errorf("moving a slot takes %.2f times as long as redis-cli takes, more than %.2f", ratio, bound)
	}
}
