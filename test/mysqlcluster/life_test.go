// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/why"
)

// Three members form a database, and a lost primary is replaced while a client writes: no acknowledged write is lost. The former primary
// returns as a replica.
func TestFailover(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.create("replicas: 3")
	t.Logf("three members, two of them voters, after %.1f s", s.ready(3).Seconds())
	s.Rests(op, 3*time.Second)
	mark := op.Mark()
	s.Pass(5 * time.Second)
	// Every five seconds, the operator checks for CRDs that were not installed.
	if sent := op.Since(mark, func(r harness.Sent) bool { return (r.Reads() || r.Writes()) && !strings.HasPrefix(r.Resource, "/") }); len(sent) > 0 {
		t.Errorf("at rest: %v", sent)
	}
	writer := s.write()
	before, from := s.primary(), s.Mark()
	node := s.pod(before).Spec.NodeName
	began := time.Now()
	s.Must(s.StopNode(s.Ctx, node))
	took := writer.again(began)
	last := s.get().Status.LastFailover
	if s.primary() == before {
		t.Errorf("member %d is the primary without its node", before)
	}
	s.Until("the failover is reported", func() error {
		if last = s.get().Status.LastFailover; last == nil || last.Took == "" || last.To != s.get().Status.Primary {
			return fmt.Errorf("it is %+v", last)
		}
		return nil
	})
	t.Logf("the node of the primary failed: the next write was acknowledged %.1f s later; the status says %s", took.Seconds(), last.Took)
	if limit := harness.Bound(20*time.Second, full); took > limit {
		t.Errorf("the failover took %s, and %s is promised", took, limit)
		s.story(from)
	}
	s.Must(s.StartNode(s.Ctx, node))
	t.Logf("its node returned: three members are healthy after %.1f s", s.ready(3).Seconds())
	writer.kept(3)
}

// A lost primary is replaced, a lost volume is filled from the primary, and a user selects another primary by name. No acknowledged write
// is lost. MYSQL_TESTS=full does each 20 times.
func TestLosses(t *testing.T) {
	s := newScene(t)
	s.start()
	s.create("replicas: 3")
	s.ready(3)
	writer := s.write()
	wipe := func(ordinal int) {
		s.Must(s.WipeVolume(s.Ctx, claim(ordinal)))
		s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "mysql"))
	}
	runs := 1
	if full {
		runs = 20
	}
	for _, c := range []struct {
		what          string
		most, typical time.Duration // limits of the longest pause without a write, and of the median pause
		do            func(ordinal int)
	}{
		{"the pod of the primary is killed", 20 * time.Second, 12 * time.Second, func(ordinal int) { s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "mysql")) }},
		{"the primary hangs", 20 * time.Second, 12 * time.Second, func(ordinal int) {
			mend := s.hang(ordinal)
			writer.again(time.Now())
			mend()
		}},
		{"the node of the primary fails", 20 * time.Second, 12 * time.Second, func(ordinal int) {
			node := s.pod(ordinal).Spec.NodeName
			s.Must(s.StopNode(s.Ctx, node))
			writer.again(time.Now())
			s.Must(s.StartNode(s.Ctx, node))
		}},
		{"the primary loses its volume", 20 * time.Second, 12 * time.Second, wipe},
		{"a replica loses its volume", 20 * time.Second, 12 * time.Second, func(ordinal int) { wipe((ordinal + 1) % 3) }},
		{"a user selects another primary", 3 * time.Second, 3 * time.Second, func(ordinal int) {
			s.change(fmt.Sprintf("{replication: {primary: %d}}", (ordinal+1)%3))
		}},
	} {
		var pauses []time.Duration
		for range runs {
			from, began := s.Mark(), time.Now()
			c.do(s.primary())
			s.unready(from)
			s.ready(3)
			writer.again(time.Now())
			pauses = append(pauses, writer.pause(began))
		}
		slices.Sort(pauses)
		longest, median := pauses[runs-1], pauses[runs/2]
		t.Logf("%s, %d times: without writes for %.1f s (median) and %.1f s (longest)", c.what, runs, median.Seconds(), longest.Seconds())
		if longest > harness.Bound(c.most, full) || median > harness.Bound(c.typical, full) {
			t.Errorf("%s: %s and a median of %s are promised", c.what, c.most, c.typical)
		}
	}
	writer.kept(3)
}

// Three members form a database. MYSQL_TESTS=full forms ten databases.
func TestForms(t *testing.T) {
	harness.FullForm(t, full)
	runs := 1
	if full {
		runs = 10
	}
	for range runs {
		t.Run("three members", func(t *testing.T) {
			s := newScene(t)
			s.start()
			s.create("replicas: 3")
			took := s.ready(3)
			t.Logf("after %.1f s", took.Seconds())
			if limit := harness.Bound(90*time.Second, full); took > limit {
				t.Errorf("forming took %s, and %s is promised", took, limit)
			}
		})
	}
}

// unready waits until the status has reported, after a mark of the journal, that the database is not ready.
func (s *scene) unready(from int) {
	s.Helper()
	s.Eventually("not ready", func() bool {
		return s.First(from, "MySQLCluster/"+name, func(c harness.Change) bool { return !isReadyIn(c) }) != nil
	})
}

// staysWell diagnoses the cluster until the returned function is called. A primary that moves may let commits wait.
func (s *scene) staysWell() (end func()) {
	return why.StaysWell(s.T, suite.Config, mysqlv1.GroupVersion.WithKind("MySQLCluster"), s.Namespace, name, "commits have waited for five seconds")
}

// While a client writes, members are added and removed and the primary is moved. No change counts as a failover.
func TestChanges(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	s.create("replicas: 1")
	t.Logf("one member after %.1f s", s.ready(1).Seconds())
	defer s.staysWell()()
	writer := s.write()
	for _, c := range []struct {
		what, spec string
		members    int
		primary    int
		exhausted  bool // clients use all connections
	}{
		{"1 to 3 members", "{replicas: 3}", 3, 0, false},
		{"another primary", "{replication: {primary: 1}}", 3, 1, false},
		{"a changed option", "{config: {max_connections: '70'}}", 3, 1, true},
		{"3 to 1 members", "{replicas: 1, replication: {primary: null}}", 1, 0, false},
	} {
		began := time.Now()
		if c.exhausted {
			s.exhaust()
		}
		s.change(c.spec)
		s.Until(c.what, func() error {
			if err := s.isReady(c.members); err != nil {
				return err
			}
			if is := s.primary(); is != c.primary {
				return fmt.Errorf("member %d is the primary, want %d", is, c.primary)
			}
			return nil
		})
		t.Logf("%s: %.1f s; the longest pause between two acknowledged writes was %.1f s", c.what, time.Since(began).Seconds(), writer.pause(began).Seconds())
	}
	if last := s.get().Status.LastFailover; last != nil {
		t.Errorf("a planned change counts as a failover: %+v", last)
	}
	writer.again(time.Now())
	writer.kept(1)
}

// exhaust opens connections to the primary until the server refuses one.
func (s *scene) exhaust() {
	s.Helper()
	address, err := s.route()
	s.Must(err)
	for range 60 {
		idle := s.client(address)
		in, err := idle.StdinPipe()
		s.Must(err)
		words := &strings.Builder{}
		idle.Stderr = words
		out, err := idle.StdoutPipe()
		s.Must(err)
		s.Must(idle.Start())
		s.Cleanup(func() {
			_ = in.Close() // this ends the client
			_ = idle.Wait()
		})
		_, _ = in.Write([]byte("SELECT 1;\n")) // the client may have ended already
		if n, _ := out.Read(make([]byte, 2)); n == 0 {
			_ = idle.Wait()
			s.Must(harness.Mentions(words.String(), "max_user_connections"))
			return
		}
	}
	s.Error("60 clients are connected, and none was refused")
}

// The unchanged sample is accepted. A deleted database leaves its data and its record. A new database with the same name adopts both, and
// keeps them while it is parked.
func TestAdoptsItsData(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	sample := func() *mysqlv1.MySQLCluster {
		mc := &mysqlv1.MySQLCluster{}
		s.Must(harness.ReadYAML("config/samples/mysql/mysql.yaml", mc))
		mc.Namespace, mc.Name = s.Namespace, name
		s.Must(yaml.Unmarshal([]byte(settings), &mc.Spec)) // small servers
		return mc
	}
	s.Must(suite.API.Create(s.Ctx, sample()))
	t.Logf("the sample: three members after %.1f s", s.ready(3).Seconds())
	writer := s.write()
	s.Eventually("some writes", func() bool { return writer.count() > 20 })
	writer.kept(3)
	before := s.agree(3)
	s.Must(suite.API.Delete(s.Ctx, s.get()))
	s.gone()
	s.Must(suite.API.Create(s.Ctx, sample()))
	t.Logf("created again: three members after %.1f s", s.ready(3).Seconds())
	assert.DeepEqual(t, s.agree(3), before)
	s.change("{replicas: 0}")
	s.gone()
	s.Eventually("it is parked", func() bool { return s.get().Status.Phase == mysqlv1.PhaseParked })
	s.change("{replicas: 3}")
	t.Logf("parked, and back: three members after %.1f s", s.ready(3).Seconds())
	assert.DeepEqual(t, s.agree(3), before)
	if last := s.get().Status.LastFailover; last != nil {
		t.Errorf("the deletion or the parking counts as a failover: %+v", last)
	}
}

// gone waits until all pods are deleted, and fails the test unless the claims stay.
func (s *scene) gone() {
	s.Helper()
	s.Eventually("the pods go", func() bool {
		return !slices.ContainsFunc(harness.Every[*corev1.Pod](s.Journal), func(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Name, name+"-") })
	})
	if claims := len(harness.Every[*corev1.PersistentVolumeClaim](s.Journal)); claims != 3 {
		s.Errorf("%d claims exist", claims)
	}
}

func isReadyIn(c harness.Change) bool {
	mc, ok := c.Object.(*mysqlv1.MySQLCluster)
	return !ok || meta.IsStatusConditionTrue(mc.Status.Conditions, mysqlv1.ConditionReady)
}
