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
	eventsv1 "k8s.io/api/events/v1"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// random are the parts of texts that differ from run to run.
var random = regexp.MustCompile(`\b[0-9a-f]{12,16}\b`)

// steps are what the status said that the operator did since a mark of the journal, in order, each as kubectl get shows it.
func (s *scene) steps(from int) []string {
	var told []string
	for _, c := range s.Since(from) {
		ec, ok := c.Object.(*etcdv1.EtcdCluster)
		if !ok || ec.Status.Step == "" {
			continue
		}
		st := ec.Status
		line := fmt.Sprintf("%s %s %s: %s", st.Ready, st.Phase, st.Step, random.ReplaceAllString(st.Message, "<id>"))
		if !slices.Contains(told, line) {
			told = append(told, line)
		}
	}
	return told
}

// told returns the notes of events about the cluster, once each, in the order in which they were made.
func (s *scene) told() []string {
	s.Helper()
	events := s.Events()
	slices.SortFunc(events, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var told []string
	for _, e := range events {
		line := fmt.Sprintf("%s %s: %s", e.Type, e.Reason, random.ReplaceAllString(e.Note, "<id>"))
		if e.Regarding.Kind == etcdv1.Kind && !slices.Contains(told, line) {
			told = append(told, line)
		}
	}
	return told
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

// The replacement of a member is told as it happens: by the status, which kubectl get shows, and by events, which kubectl
// describe shows.
func TestTellsOfAReplacement(t *testing.T) {
	s := newScene(t)
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	mark, before := s.Mark(), s.ids()
	losses[1].lose(s, 2)
	s.Until("it is replaced", func() error { return s.isAnother(2, before) })
	s.ready(3)
	golden.Assert(t, strings.Join(s.steps(mark), "\n")+"\n", "replacement.golden")

	const removed = "remove my-etcd-cluster-2 from the cluster: its volume is empty"
	s.Until("events tell of it", func() error {
		return harness.Mentions(strings.Join(s.told(), "\n"), removed, "add my-etcd-cluster-2 to the cluster", "let my-etcd-cluster-2 vote")
	})
	age := regexp.MustCompile(`\S+\n$`)
	golden.Assert(t, age.ReplaceAllString(s.kubectl("get", "etcd"), "<age>\n"), "get.golden")
	if err := harness.Mentions(s.kubectl("describe", "etcd", name), "Events:", removed, "Cluster ID:", "State:"); err != nil {
		t.Error(err)
	}
}
