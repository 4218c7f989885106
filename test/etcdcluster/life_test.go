// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The sample's three members form a cluster. A killed member starts again with its data, and a member that lost its volume is replaced.
// After the loss of all data, the cluster is restored from its backup, with another id.
func TestLife(t *testing.T) {
	s := newScene(t, restores)
	s.start()
	s.Claim("backups")
	const spec = "backup: {destination: {claim: {name: backups}}}"
	s.sample("{" + spec + "}")
	t.Logf("three voters after %.1f s", s.ready(3).Seconds())
	s.write()
	cluster, before := s.get().Status.ClusterID, s.ids()

	_, follower := s.leads()
	s.crash(follower)
	t.Logf("healthy %.1f s after a member was killed", s.ready(3).Seconds())
	s.holds()
	s.isAsBefore(cluster, before)
	losses[0].lose(s, follower)
	began := time.Now()
	s.Until("a new member has replaced it", func() error { return s.isAnother(follower, before) })
	s.ready(3)
	t.Logf("healthy %.1f s after its volume was lost", time.Since(began).Seconds())
	s.neverVotedEmpty(follower, before)
	s.holds()
	s.isCluster(cluster)

	began = time.Now()
	s.backedUp(etcdtest.V36)
	t.Logf("backed up after %.1f s", time.Since(began).Seconds())
	s.Lose(s.get())
	t.Logf("lost after %.1f s", time.Since(began).Seconds())
	s.sample("{" + spec + ", restoreFrom: {destination: {claim: {name: backups}}}}")
	t.Logf("three voters with the backup after %.1f s", s.ready(3).Seconds())
	s.holds()
	if now := s.get().Status.ClusterID; now == cluster {
		t.Errorf("the cluster has the id of the lost one: %s", now)
	}
	s.harmless()
}

// sample creates the sample with additional fields of the spec, in YAML.
func (s *scene) sample(more string) *etcdv1.EtcdCluster {
	s.Helper()
	ec := &etcdv1.EtcdCluster{}
	s.Must(harness.ReadYAML("internal/etcd/testdata/sample.yaml", ec))
	s.Must(yaml.UnmarshalStrict([]byte(more), &ec.Spec))
	ec.Namespace = s.Namespace
	s.Must(suite.API.Create(s.Ctx, ec))
	return ec
}

// The unchanged sample is accepted, and is ready with three voters, in each of several runs.
func TestSample(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	runs, bound := 1, patience // other tests run at the same time
	if full {
		runs, bound = 20, 30*time.Second
	}
	var all []time.Duration
	for range runs {
		from := s.Mark()
		ec := s.sample("{}")
		s.Eventually("a pod runs", func() bool { pod := s.pod(0); return pod != nil && pod.Status.Phase == corev1.PodRunning })
		took := s.ready(3)
		all = append(all, took.Round(100*time.Millisecond))
		if took > bound {
			t.Errorf("the cluster was ready only after %s", took)
			s.story(from)
		}
		s.write()
		s.holds()
		s.Must(suite.API.Delete(s.Ctx, ec))
		s.goes(3)
		s.Must(suite.API.DeleteAllOf(s.Ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(s.Namespace)))
		s.Until("the claims go", func() error {
			if left := len(harness.Every[*corev1.PersistentVolumeClaim](s.Journal)); left > 0 {
				return fmt.Errorf("%d claims", left)
			}
			return nil
		})
	}
	slices.Sort(all)
	t.Logf("the sample, %d runs: ready with three voters after its first pod ran: %v (bound %s)", runs, all, bound)
}

// goes waits until the cluster is deleted, and fails the test unless its claims are kept.
func (s *scene) goes(claims int) {
	s.Helper()
	s.Until("the cluster goes", func() error {
		for _, o := range s.All() {
			_, isClaim := o.(*corev1.PersistentVolumeClaim)
			if strings.HasPrefix(o.GetName(), name) && !isClaim && o.GetName() != name+"-ca" {
				return fmt.Errorf("%s is there", harness.IDOf(o))
			}
		}
		return nil
	})
	if left := len(harness.Every[*corev1.PersistentVolumeClaim](s.Journal)); left != claims {
		s.Errorf("%d claims exist, want %d", left, claims)
	}
}

// asked returns a member's counters of requests since its start.
func (s *scene) asked(pod *corev1.Pod) map[string]int {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Ctx, http.MethodGet, "http://"+net.JoinHostPort(pod.Status.PodIP, "2381")+"/metrics", http.NoBody)
	s.Must(err)
	response, err := http.DefaultClient.Do(request)
	s.Must(err)
	defer response.Body.Close()
	found := map[string]int{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "grpc_server_started_total{")
		if !ok {
			continue
		}
		_, method, _ := strings.Cut(labels, `grpc_method="`)
		method, _, _ = strings.Cut(method, `"`)
		var n float64
		if _, err := fmt.Sscan(labels[strings.LastIndex(labels, " ")+1:], &n); err != nil {
			s.Fatal(err)
		}
		found[method] += int(n)
	}
	s.Must(lines.Err())
	if found["Status"] == 0 {
		s.Fatalf("%s does not report how often it was queried: %v", pod.Name, found)
	}
	return found
}

// quiet waits until an operator sends no request to the API server for a while.
func (s *scene) quiet(op *stage.Operator) {
	s.Helper()
	s.Until("the operator is at rest", func() error {
		mark := op.Mark()
		s.Pass(3 * time.Second)
		if sent := op.Since(mark, func(r harness.Sent) bool { return r.Reads() || r.Writes() }); len(sent) > 0 {
			return fmt.Errorf("it asks: %v", sent)
		}
		return nil
	})
}

// While nothing changes, the operator sends no request to the API server. It reads from each member every 30 seconds, and writes nothing. A
// new operator does the same after its start.
func TestAtRest(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.start()
	s.create("{replicas: 3, tls: {mode: Auto}}")
	s.ready(3)
	op.Stop()
	op = s.start()
	s.quiet(op)
	looks := 35 * time.Second
	if full {
		looks = 10 * time.Minute
	}
	before := map[string]map[string]int{}
	for _, pod := range s.pods() {
		before[pod.Name] = s.asked(pod)
	}
	began := time.Now()
	s.AsksNothing(op, looks)
	most, bound := 0, int(time.Since(began)/(30*time.Second))+1
	for _, pod := range s.pods() {
		for method, n := range s.asked(pod) {
			n -= before[pod.Name][method]
			switch method {
			case "Status":
				most = max(most, n)
			case "MemberList", "Range": // two lists and a read, each time
			default:
				if n > 0 {
					t.Errorf("%s was sent %s %d times", pod.Name, method, n)
				}
			}
		}
	}
	t.Logf("%s at rest: each member got %d reads at most (bound %d), and no write", time.Since(began).Round(time.Second), most, bound)
	if most > bound || most == 0 {
		t.Errorf("a member got %d reads, bound %d", most, bound)
	}
}
