// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/slowdisk"
)

// scenario is a fault of a cluster with six pods and data. In the end the cluster is healthy and has all its data.
type scenario struct {
	name   string
	happen func(s *scene)
	alone  bool           // no operator runs during the fault
	end    func(s *scene) // further checks and actions before the cluster heals
	ledger bool           // writers and readers record all results; only for faults in which no server ends before it has written its file
	full   bool           // runs only in the full form
}

// After each fault of the tables, the cluster becomes healthy and holds all keys. The faults run one after the other, in an order that SEED
// determines.
func TestFaults(t *testing.T) {
	harness.Long(t)
	for group, faults := range map[string][]scenario{"servers": servers, "slots": slots, "addresses": addresses, "volumes": volumes} {
		t.Run(group, func(t *testing.T) {
			s := newScene(t)
			s.secret, s.password = "mine", "first" // another cluster has the same password
			s.Must(suite.API.Create(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.secret}, StringData: map[string]string{"password": s.password}}))
			s.operator = s.standing("{replicas: 6, repository: redis, credentialsSecret: mine}")
			s.suffer(faults)
		})
	}
}

// order returns an order of n faults. It is always the same unless SEED is set.
func (s *scene) order(n int) []int {
	s.Helper()
	seed := uint64(1)
	if text := os.Getenv("SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		s.Must(err)
	}
	s.Logf("SEED=%d repeats this order of the faults", seed)
	return rand.New(rand.NewPCG(seed, 0)).Perm(n) // #nosec G404 -- an order that can be repeated
}

// suffer runs the faults one after the other.
func (s *scene) suffer(faults []scenario) {
	s.Helper()
	whole := s.T
	for _, i := range s.order(len(faults)) {
		f := faults[i]
		if f.full && !full {
			continue
		}
		if !whole.Run(f.name, func(t *testing.T) {
			s.T = t
			defer func() { s.T = whole }()
			s.write()
			s.inStep()
			ledger := func() {}
			if f.ledger {
				kept := s.keep(fmt.Sprintf("ledger-%d", s.rounds))
				ledger = func() { kept.Close().Nothing(t, f.name) }
			}
			if f.alone {
				s.operator.Stop()
			}
			f.happen(s)
			if f.alone {
				s.T = whole // this operator also runs during the next faults
				s.operator = s.Start()
				s.T = t
			}
			if f.end != nil {
				f.end(s)
			}
			s.agree(6)
			s.ready(6)
			ledger()
			s.holds()
		}) {
			return
		}
	}
}

// servers are faults of servers and of their views of each other.
var servers = []scenario{
	{name: "a master does not accept its replica", alone: true, happen: func(s *scene) {
		master, replica := s.pair(0)
		s.do(master, "ACL", "SETUSER", "replica:"+s.Namespace+"/"+name+"-0", "off")
		s.do(master, "CLIENT", "KILL", "TYPE", "replica")
		s.Eventually("the link is down", func() bool { return strings.Contains(s.info(replica, "replication"), "master_link_status:down") })
	}},
	{name: "a master is killed", happen: func(s *scene) { s.Must(s.Kill(s.master(1), syscall.SIGKILL, "redis")) }},
	{name: "a master hangs for longer than the node timeout", happen: func(s *scene) {
		master, replica := s.pair(1)
		s.Must(s.Kill(master, syscall.SIGSTOP, "redis"))
		s.elected(replica)
		s.Must(s.Kill(master, syscall.SIGCONT, "redis"))
	}},
	{name: "a replica hangs for longer than the node timeout", full: true, happen: func(s *scene) {
		replica := s.replica(1)
		s.Must(s.Kill(replica, syscall.SIGSTOP, "redis"))
		s.Eventually("it is missed", s.isUnready)
		s.Must(s.Kill(replica, syscall.SIGCONT, "redis"))
	}},
	{name: "a master loses its volume", happen: func(s *scene) { s.loseVolume(s.master(0), "") }},
	{name: "some nodes forget a node, and all forget another one", full: true, alone: true, happen: func(s *scene) {
		master, replica := s.master(0), s.replica(2)
		for _, pod := range []string{s.master(1), s.replica(1)} {
			s.do(pod, "CLUSTER", "FORGET", s.do(master, "CLUSTER", "MYID"))
		}
		for _, pod := range s.pods() {
			if pod.Name != replica {
				s.do(pod.Name, "CLUSTER", "FORGET", s.do(replica, "CLUSTER", "MYID"))
			}
		}
	}},
	{name: "a master is lost, and its replica never had the data", full: true, happen: func(s *scene) {
		master, replica := s.pair(0)
		back := s.holdAll(syscall.SIGKILL, replica)
		s.loseVolume(replica, "")
		s.Must(s.Kill(master, syscall.SIGSTOP, "redis"))
		back()
		s.Eventually("the empty replica answers", func() bool { return s.isA(replica, "master") == nil || s.isA(replica, "slave") == nil })
		s.judged("Unknown")
		s.Pass(20 * time.Second)
		if rc := s.get(); rc.Status.Slots == redisv1.Slots || rc.Status.Verdict != "Unknown" {
			s.Errorf("the master hangs, and the status is %+v", rc.Status)
		}
		s.Must(s.Kill(master, syscall.SIGCONT, "redis"))
	}},
	{name: "two of three masters are killed and do not start again", full: true, happen: func(s *scene) {
		before := s.orders.count("CLUSTER FAILOVER TAKEOVER")
		back := s.holdAll(syscall.SIGKILL, s.master(0), s.master(1))
		s.servesAll(time.Minute)
		if n := s.orders.count("CLUSTER FAILOVER TAKEOVER") - before; n != 1 {
			s.Errorf("%d takeovers, want 1", n)
		}
		back()
	}},
	{name: "two of three masters are killed and start again", happen: func(s *scene) {
		back := s.holdAll(syscall.SIGKILL, s.master(0), s.master(1))
		s.judged("MajorityLost")
		back()
	}},
	{name: "a shard loses both volumes", happen: func(s *scene) {
		master, replica := s.pair(0)
		lost := s.owned()[0]
		back := s.holdAll(syscall.SIGKILL, master, replica)
		s.loseVolume(master, "")
		s.loseVolume(replica, "")
		back()
		s.judged("SlotsLost")
		s.Pass(15 * time.Second) // the operator assigns no slot before a user consents
		if rc := s.get(); rc.Status.Phase != redisv1.PhaseFailed || rc.Status.Slots != int32(redisv1.Slots-lost.Len()) {
			s.Errorf("%d slots are lost, and the status is %+v", lost.Len(), rc.Status)
		}
		s.accepts(lost.String())
		s.ready(6)
		s.accepts("")
		s.eachKey("read", func(c *redis.ClusterClient, key string, i int) error {
			slot, err := c.ClusterKeySlot(s.Ctx, key).Result()
			if err != nil {
				return err
			}
			value, err := c.Get(s.Ctx, key).Int()
			if gone := errors.Is(err, redis.Nil); gone == lost.Has(int(slot)) && (gone || value == s.rounds*keys+i) {
				return nil
			}
			return fmt.Errorf("slot %d: %d (%w)", slot, value, err)
		})
		s.write()
	}},
	{name: "a master and a replica name another owner of a slot", alone: true, happen: func(s *scene) {
		slot, other := s.owned()[0].First(1)[0].From, s.master(1)
		s.do(other, "CLUSTER", "BUMPEPOCH")
		s.Pass(3 * time.Second) // all nodes get the epoch, so a node with a lower epoch cannot claim the slot
		s.do(s.master(2), "CLUSTER", "SETSLOT", slot, "NODE", s.do(other, "CLUSTER", "MYID"))
		s.do(s.replica(2), "CLUSTER", "DELSLOTS", slot) // a replica accepts DELSLOTS, and refuses SETSLOT
	}},
	// These two nodes forget each other for a minute, so neither gets the other's claim to the slot. The node with the data gets the higher
	// epoch, and keeps the slot when the nodes meet again.
	{name: "two masters own a slot", full: true, alone: true, happen: func(s *scene) {
		owner, other, slot := s.master(0), s.master(1), s.owned()[0].First(1)[0].From
		s.do(owner, "CLUSTER", "BUMPEPOCH")
		s.agree(6)
		id := s.do(owner, "CLUSTER", "MYID")
		s.do(owner, "CLUSTER", "FORGET", s.do(other, "CLUSTER", "MYID"))
		s.do(other, "CLUSTER", "FORGET", id)
		s.do(other, "CLUSTER", "ADDSLOTS", slot) // the owner has forgotten this node, so the node may take the slot
	}, end: func(s *scene) {
		s.judged("Inconsistent")
		before := s.orders.count("")
		s.Pass(10 * time.Second)
		if rc, sent := s.get(), s.orders.count("")-before; rc.Status.Phase != redisv1.PhaseFailed || sent > 0 && rc.Status.Verdict == "Inconsistent" {
			s.Errorf("two masters own a slot, %d commands were sent, and the status is %+v", sent, rc.Status)
		}
	}},
}

// `kubectl get`, `kubectl describe` and `kubectl dataservice why` name the cause at the start of their output.
func TestCauses(t *testing.T) {
	harness.Long(t)
	disks := slowdisk.New(t)
	s := newScene(t, func(o *emulator.Options) {
		o.Images["redis"].Executables["redis-server"] = disks.Program(o.Images["redis"].Executables["redis-server"])
	})
	s.standing(six)
	mend := s.Starve(s.replica(0), "redis")
	s.Names("redis", name, "a container without memory", "(OOMKilled)")
	mend()
	s.ready(6)

	master, c := s.master(0), s.clients()
	defer c.Close()
	disks.Fill(master, true)
	for i := range 100 {
		_ = c.Set(s.Ctx, fmt.Sprint("more-", i), i, 0).Err() // errors do not matter
	}
	s.Names("redis", name, "disk full", "No space left on device")
	disks.Fill(master, false)
	s.killContainer(master) // Redis 7.0 does not repeat a failed sync
	s.ready(6)
	s.holds()
}
