// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/why"
)

// keys is the number of keys. The keys are spread over all slots, and must exist at the end.
const keys = 300

// write writes the keys with new values, as a client of a Redis cluster.
func (s *scene) write() {
	s.Helper()
	s.rounds++
	s.eachKey("write", func(c *redis.ClusterClient, key string, i int) error {
		return c.Set(s.Ctx, key, s.rounds*keys+i, 0).Err()
	})
}

// holds fails the test unless all keys have their last written values.
func (s *scene) holds() {
	s.Helper()
	s.eachKey("read", func(c *redis.ClusterClient, key string, i int) error {
		value, err := c.Get(s.Ctx, key).Int()
		if want := s.rounds*keys + i; err == nil && value != want {
			s.Fatalf("%s is %d, but %d was written", key, value, want)
		}
		return err
	})
}

// keyNumber returns the name of a key. Three keys share a slot.
func keyNumber(i int) string { return fmt.Sprintf("key-{%d}-%d", i%(keys/3), i) }

// eachKey calls do for each key, and repeats it after errors.
func (s *scene) eachKey(what string, do func(c *redis.ClusterClient, key string, i int) error) {
	s.Helper()
	c := s.clients()
	defer c.Close()
	for i := range keys {
		key := keyNumber(i)
		s.Try(what+" "+key, func() error { return do(c, key, i) })
	}
	s.CatchUp()
}

// quiet fails the test if an object changes within a second.
func (s *scene) quiet() {
	s.Helper()
	before := len(s.Since(0))
	s.Pass(time.Second)
	for _, c := range s.Since(0)[before:] {
		s.Errorf("at rest: %s %s", c.Event, c.ID)
	}
}

// patientRedis makes the failure detectors of TestLife slow: Redis must not elect another master while a server starts again on a busy
// machine.
const patientRedis = "config: {cluster-node-timeout: '15000'}"

// Six pods form a cluster from the sample of the earlier operator. A killed master starts again with its data, and a replica that lost its
// volume is replaced. After the loss of all data, the cluster is restored from its backup.
func TestLife(t *testing.T) {
	s := newScene(t)
	s.Start()
	s.Claim("backups")
	s.sample()
	s.change("{pause: false, version: 7.0.15, replicas: 6, " + patientRedis + ", backup: {destination: {claim: {name: backups}}}}")
	s.ready(6)
	s.isOfTheSample()
	s.write()

	s.inStep() // otherwise a write that is in no file yet would be lost with the process
	s.crash(s.master(0))
	s.ready(6)
	s.holds()
	before, replica := s.uids(), s.replica(1)
	s.loseVolume(replica, "")
	s.Until("the nodes agree", func() error { return s.check(6) })
	s.ready(6)
	s.holds()
	if left := s.remain(before); left != 5 {
		t.Errorf("%d of six pods still exist, and one was lost", left)
	}

	s.backedUp()
	s.Lose(s.get())
	s.create("{" + patientRedis + ", " + ofBackups + ", restoreFrom: {destination: {claim: {name: backups}}}}")
	s.ready(6)
	s.holds()
}

// crash kills the server of a pod, and waits until it has started again.
func (s *scene) crash(pod string) {
	s.Helper()
	restarts := func() (n int32) {
		for _, c := range s.pod(pod).Status.ContainerStatuses {
			n += c.RestartCount
		}
		return n
	}
	before := restarts()
	s.Must(s.Kill(pod, syscall.SIGKILL, "redis"))
	s.Eventually("it starts again", func() bool { return restarts() > before })
}

// A cluster becomes healthy again after the deletion of one pod and of all pods. A new operator changes nothing in it.
func TestHeals(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.standing(six)
	s.quiet()

	began := time.Now()
	s.Must(suite.API.Delete(s.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-1-0"}}))
	s.Eventually("the pod goes", s.isUnready)
	s.ready(6)
	t.Logf("a pod was deleted: healthy again after %s", time.Since(began))

	began = time.Now()
	s.Must(s.ChangeAddresses(s.Ctx))
	s.Eventually("the pods go", s.isUnready)
	s.ready(6)
	t.Logf("all pods got new addresses: healthy again after %s", time.Since(began))
	s.holds()

	op.Stop()
	s.Start()
	s.quiet()
}

// isUnready reports whether the cluster is not ready.
func (s *scene) isUnready() bool {
	return !meta.IsStatusConditionTrue(s.get().Status.Conditions, redisv1.ConditionReady)
}

// evicts returns an error that names a server without this maxmemory-policy, or nil. The second argument names a pod that
// is not checked.
func (s *scene) evicts(policy, but string) error {
	for _, pod := range s.pods() {
		if pod.Name == but {
			continue
		}
		c := s.node(pod)
		got, err := c.ConfigGet(s.Ctx, "maxmemory-policy").Result()
		if err = errors.Join(err, c.Close()); err != nil || got["maxmemory-policy"] != policy {
			return fmt.Errorf("%s has %v (%w)", pod.Name, got, err)
		}
	}
	return nil
}

// staysWell fails the test if `why` reports a problem before the returned function is called. CLUSTERDOWN is no problem here: if a server
// gets no processor time for some seconds, Redis marks the cluster as down, and the status correctly reports that.
func (s *scene) staysWell() (end func()) {
	s.Helper()
	return why.StaysWell(s.T, suite.Config, redisv1.GroupVersion.WithKind("RedisCluster"), s.Namespace, name, "CLUSTERDOWN")
}

// Settings change without restarts. Shards are added and removed, and no key is lost. Events report these changes.
func TestChanges(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing(six)
	defer s.staysWell()()
	before := s.uids()
	// Redis reports two of these settings in another form.
	s.change("{config: {maxmemory-policy: allkeys-lru, hz: '1000', client-output-buffer-limit: replica 512mb 64mb 60}}")
	s.ready(6)
	if err := s.evicts("allkeys-lru", ""); err != nil {
		t.Error(err)
	}
	if s.remain(before) != 6 {
		t.Error("pods were replaced for a setting that changes while they run")
	}

	s.change("{replicas: 8}")
	t.Logf("8 pods after %s", s.ready(8))
	s.holds()
	for shard := range 3 { // any pod may be the master, and the slots may move in any number of steps
		s.hasEvent(fmt.Sprintf(`move \d+ slots \([-, 0-9]+\) from %s-%d-\d to %s-3-\d`, name, shard, name), "MoveSlots")
	}
	s.reportsProgress()
	s.change("{replicas: 6}")
	t.Logf("6 pods after %s", s.ready(6))
	s.holds()
	s.quiet()
}

// TestMasterKilledUnderLoad measures the cost of a killed master. A write that a replica has also acknowledged (WAIT 1) is never lost. A
// write that only the master acknowledged may be lost if it was made within the last second.
func TestMasterKilledUnderLoad(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing(six)
	copied, alone := redistest.NewLedger(t, s.clients(), "copied", true), s.keep("alone")
	s.Until("the writers write", func() error { return errors.Join(copied.Written(1000), alone.Written(1000)) })
	back := s.holdAll(syscall.SIGKILL, s.master(1))
	s.servesAll(5*time.Second + 3*time.Second) // the node timeout plus the time of an election
	if rc := s.get(); rc.Status.Phase == redisv1.PhaseRunning || rc.Status.Ready == "6/6" {
		t.Errorf("a pod does not run, and the status is %+v", rc.Status)
	}
	back()
	s.agree(6)
	s.ready(6)
	s.Until("all writers write again", func() error { return errors.Join(copied.WrittenAll(), alone.WrittenAll()) })
	copied.Close().Nothing(t, "acknowledged by a replica, too")
	figures := alone.Close()
	t.Logf("acknowledged by the master: %d writes, %d of unknown outcome, %d of them older than what was read afterwards, by %s at most; longest pause of a key %s",
		figures.Writes, figures.Unknown, len(figures.Wrong), figures.Oldest.Round(time.Millisecond), figures.Longest.Round(time.Millisecond))
	if figures.Oldest > harness.Bound(time.Second, full) {
		t.Errorf("a lost write was acknowledged %s before the master was killed", figures.Oldest)
	}
	s.holds()
}

// A value that is too large to move stays, and the status names it. No node is blocked as long as the node timeout, so no shard fails over,
// and all other slots are moved.
func TestHugeValueIsNamedAndStays(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.standing("{replicas: 6, repository: redis, config: {cluster-node-timeout: '2000'}}") // no node may be blocked for that long
	key := "hash-0"
	for i := 0; s.slot(key) > 200; i++ { // one of the slots that move first
		key = fmt.Sprintf("hash-%d", i)
	}
	c := s.clients()
	defer c.Close()
	value := strings.Repeat("v", 4000)
	for i := range 30 {
		var fields []any
		for j := range 1000 {
			fields = append(fields, fmt.Sprint(i*1000+j), value)
		}
		s.Must(c.HSet(s.Ctx, key, fields...).Err())
	}
	s.change("{replicas: 8}")
	s.says(fmt.Sprintf("the value of key %q has", key))
	s.Until("the new shard has its number of slots", func() error {
		owned, open := s.owned(), s.openSlots()
		if owned[3].Len() != topology.Slots/4 || len(open) > 0 {
			return fmt.Errorf("%d slots are moved, %v are open: %s", owned[3].Len(), open, s.get().Status.Message)
		}
		return nil
	})
	if n := s.orders.count("CLUSTER FAILOVER"); n > 0 {
		t.Errorf("%d unplanned failovers", n)
	}
	if n, err := c.HLen(s.Ctx, key).Result(); err != nil || n != 30000 || !s.owned()[0].Has(s.slot(key)) {
		t.Errorf("the value has %d fields (%v), and the owners of slots are %v", n, err, s.owned())
	}
	s.holds()
}
