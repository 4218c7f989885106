// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/why"
)

// longestPause limits the time without a write during a planned change: an election, and a client's timeout.
const longestPause = 5 * time.Second

// scale changes the number of members, and waits until the cluster has this number.
func (s *scene) scale(replicas int) {
	s.Helper()
	began := time.Now()
	s.watchdog.mu.Lock()
	s.watchdog.parked = replicas == 0
	s.watchdog.mu.Unlock()
	s.change(fmt.Sprintf("{replicas: %d}", replicas))
	if replicas == 0 {
		s.Until("parked", s.isParked)
	} else {
		s.ready(replicas)
	}
	s.Logf("%d voters after %.1f s", replicas, time.Since(began).Seconds())
}

func (s *scene) isParked() error {
	if left := s.pods(); len(left) > 0 || s.get().Status.Phase != etcdv1.PhaseParked {
		return fmt.Errorf("%d pods, phase %s", len(left), s.get().Status.Phase)
	}
	return nil
}

// Under load, the number of members follows the spec, through 0 and back, and all pods are replaced. No acknowledged write is lost, and the
// pauses of clients are short.
func TestChanges(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 1}")
	t.Logf("1 voter after %.1f s", s.ready(1).Seconds())
	defer s.staysWell()()
	cluster := s.get().Status.ClusterID
	load := s.load()
	sizes := []int{3, 1}
	if full {
		sizes = []int{3, 5, 3}
	}
	for _, replicas := range sizes {
		s.scale(replicas)
	}
	if full {
		before, ids := s.uids(), s.ids()
		s.change("{config: {snapshot-count: '5000'}}")
		began := time.Now()
		s.Until("all pods are replaced", func() error { return s.replaced(before) })
		s.ready(3)
		moved := s.watchdog.had(began, membership.ActionMoveLeader)
		t.Logf("three pods replaced after %.1f s, the leader moved %d times", time.Since(began).Seconds(), moved)
		if moved == 0 {
			t.Error("the leader was not moved before its pod was replaced")
		}
		if now := s.ids(); fmt.Sprint(now) != fmt.Sprint(ids) {
			t.Errorf("members were %v, and now are %v: a replaced pod keeps its data", ids, now)
		}
		s.scale(1)
	}
	load.End(t)
	if full { // no other test runs at the same time
		load.Paused(t, longestPause)
		s.explained(load)
	}
	s.scale(0)
	s.scale(sizes[0]) // the first pod has its old data, and the new pods have none
	load.Verify(t)
	s.isCluster(cluster)
	s.harmless()
}

// uids returns the UIDs of the pods.
func (s *scene) uids() map[string]bool {
	uids := map[string]bool{}
	for _, pod := range s.pods() {
		uids[string(pod.UID)] = true
	}
	return uids
}

// replaced returns nil if none of these pods exists any more.
func (s *scene) replaced(before map[string]bool) error {
	for _, pod := range s.pods() {
		if before[string(pod.UID)] {
			return fmt.Errorf("%s is not replaced yet", pod.Name)
		}
	}
	return nil
}

// staysWell fails the test if `kubectl dataservice why` reports a problem before the returned function is called.
func (s *scene) staysWell() (end func()) {
	s.Helper()
	return why.StaysWell(s.T, suite.Config, etcdv1.GroupVersion.WithKind("EtcdCluster"), s.Namespace, name)
}

// Under load, etcd is upgraded one minor version at a time, up to 3.6. A downgrade is refused.
func TestUpgrades(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	replicas, versions := 1, []string{etcdtest.V35, etcdtest.V36}
	if full {
		replicas, versions = 3, []string{etcdtest.V34, etcdtest.V35, etcdtest.V36}
	}
	s.create(fmt.Sprintf("{replicas: %d, version: %s}", replicas, versions[0]))
	s.ready(replicas)
	cluster, load, began := s.get().Status.ClusterID, s.load(), time.Now()
	well := s.staysWell()
	s.change("{version: " + etcdtest.V36 + "}")
	s.Until("it runs "+etcdtest.V36, func() error {
		if at := s.get().Status.Version; at != etcdtest.V36 {
			return fmt.Errorf("it runs %s", at)
		}
		return s.isReady(replicas)
	})
	s.ready(replicas)
	well()
	t.Logf("%s after %.1f s, the leader moved %d times", strings.Join(versions, " to "), time.Since(began).Seconds(), s.watchdog.had(began, membership.ActionMoveLeader))
	load.End(t)
	if full {
		load.Paused(t, longestPause)
		s.explained(load)
	}
	var targets []string
	for _, c := range s.Since(0) {
		if ec, ok := c.Object.(*etcdv1.EtcdCluster); ok && ec.Status.TargetVersion != "" {
			targets = append(targets, ec.Status.TargetVersion)
		}
	}
	if targets = slices.Compact(targets); !slices.Equal(targets, versions) {
		t.Errorf("the versions on the way were %v, not %v", targets, versions)
	}
	s.change("{version: " + etcdtest.V35 + "}")
	s.Until("no way back", func() error { return s.says("go back") })
	s.change("{version: " + etcdtest.V37 + "}")
	s.Until("the upgrade is refused", func() error { return s.says("not known to be safe") })
	if at := s.get().Status; at.Version != etcdtest.V36 || at.TargetVersion != etcdtest.V36 {
		t.Errorf("the version is %s, the target %s", at.Version, at.TargetVersion)
	}
	s.isCluster(cluster)
	s.harmless()
}

// says returns an error until the message of the status contains a text.
func (s *scene) says(text string) error {
	if status := s.get().Status; !strings.Contains(status.Message, text) {
		return fmt.Errorf("%s: %s", status.Phase, status.Message)
	}
	return nil
}

// noneStarts reports whether etcd runs in no pod.
func (s *scene) noneStarts() bool {
	return !slices.ContainsFunc(s.pods(), func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Waiting == nil
	})
}

// The image of a cluster is set to a missing image and then back, first while the other members run, and then while no pod runs. Both times
// the cluster recovers, and no person deletes a pod.
func TestWrongImageThenTheRightOne(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	s.write()
	cluster, members := s.get().Status.ClusterID, s.ids()

	s.change("{image: registry.example.com/missing/etcd}")
	s.Until("the cause is named", func() error { return s.says("no program for image") })
	s.change("{image: null}")
	s.ready(3)
	s.holds()

	s.change("{image: registry.example.com/missing/etcd}")
	s.Until("the cause is named", func() error { return s.says("no program for image") })
	for _, pod := range s.pods() { // as in a drain of all nodes
		s.Must(client.IgnoreNotFound(suite.API.Delete(s.Ctx, pod.DeepCopy(), client.GracePeriodSeconds(1))))
	}
	s.Until("no pod can pull its image", func() error {
		if pods := s.pods(); len(pods) != 3 || !s.noneStarts() {
			return fmt.Errorf("%d pods", len(pods))
		}
		return s.says("no program for image")
	})
	s.change("{image: null}")
	s.ready(3)
	s.holds()
	s.isAsBefore(cluster, members)
}

var (
	// random matches the parts of texts that differ from run to run.
	random = regexp.MustCompile(`\b[0-9a-f]{12,16}\b`)
	// blamed matches the pod that a message names first. The time of the kubelet's reports determines whether the pod's status still shows
	// that etcd was killed.
	blamed = regexp.MustCompile(`pod my-etcd-cluster-\d: CrashLoopBackOff: container etcd ended with exit code 137; `)
)

// steps returns the steps in the status since a mark of the journal, in order, as `kubectl get` shows them.
func (s *scene) steps(from int) []string {
	var found []string
	for _, c := range s.Since(from) {
		ec, ok := c.Object.(*etcdv1.EtcdCluster)
		if !ok || ec.Status.Step == "" {
			continue
		}
		st := ec.Status
		line := fmt.Sprintf("%s %s %s: %s", st.Ready, st.Phase, st.Step, random.ReplaceAllString(blamed.ReplaceAllString(st.Message, ""), "<id>"))
		if !slices.Contains(found, line) {
			found = append(found, line)
		}
	}
	return found
}

// eventNotes returns the notes of events about the cluster without duplicates, in the order of their times.
func (s *scene) eventNotes() []string {
	s.Helper()
	events := s.Events()
	slices.SortFunc(events, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var found []string
	for _, e := range events {
		line := fmt.Sprintf("%s %s: %s", e.Type, e.Reason, random.ReplaceAllString(e.Note, "<id>"))
		if e.Regarding.Kind == etcdv1.Kind && !slices.Contains(found, line) {
			found = append(found, line)
		}
	}
	return found
}

// kubectl runs kubectl in the namespace.
func (s *scene) kubectl(arguments ...string) string {
	s.Helper()
	tools := os.Getenv("TOOLS")
	if tools == "" {
		tools = filepath.Join(cluster.Root(), "bin", "tools")
	}
	ctx, cancel := context.WithTimeout(s.Ctx, time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, filepath.Join(tools, "kubectl"), append([]string{"--kubeconfig", suite.Kubeconfig, "--namespace", s.Namespace}, arguments...)...)
	var out, problems bytes.Buffer
	run.Stdout, run.Stderr = &out, &problems
	if err := run.Run(); err != nil {
		s.Fatalf("kubectl %v: %v\n%s", arguments, err, problems.String())
	}
	return out.String()
}

// The status, which `kubectl get` shows, and events, which `kubectl describe` shows, report the replacement of a member while it happens.
func TestReplacementIsReported(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	mark, before := s.Mark(), s.ids()
	losses[1].lose(s, 2)
	s.Until("it is replaced", func() error { return s.isAnother(2, before) })
	s.ready(3)
	steps := slices.DeleteFunc(s.steps(mark), func(line string) bool { // the position of this line varies
		return strings.Contains(line, "that its data is")
	})
	golden.Assert(t, strings.Join(steps, "\n")+"\n", "replacement.golden")

	const removed = "remove my-etcd-cluster-2 from the cluster: its volume is empty"
	s.Until("events report it", func() error {
		return harness.Mentions(strings.Join(s.eventNotes(), "\n"), removed, "add my-etcd-cluster-2 to the cluster", "let my-etcd-cluster-2 vote")
	})
	age := regexp.MustCompile(`\S+\n$`)
	golden.Assert(t, age.ReplaceAllString(s.kubectl("get", "etcd"), "<age>\n"), "get.golden")
	if err := harness.Mentions(s.kubectl("describe", "etcd", name), "Events:", removed, "Cluster ID:", "State:"); err != nil {
		t.Error(err)
	}
}
