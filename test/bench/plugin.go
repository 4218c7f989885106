// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
)

const (
	// platforms is how many DataServices `kubectl dataservice status -A` is asked about.
	platforms = 100
	// statusTakes is how long it may take, in milliseconds, and statusTimes how many times as long as `kubectl get`, which is
	// run alternately with it.
	statusTakes = 500
	statusTimes = 2
	// statusRuns is how often each is run; the median counts.
	statusRuns = 9
)

// status measures `kubectl dataservice status -A` beside `kubectl get dataservices -A`.
type status struct{}

func (s status) run(ctx context.Context, b *bench) error {
	plugin := filepath.Join(b.dir, "kubectl-dataservice")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(cluster.Root(), "cmd/kubectl-dataservice"), "-o", plugin, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w: %s", err, out)
	}
	if err := s.platforms(ctx, b); err != nil {
		return err
	}
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	var asked, got []time.Duration
	for range statusRuns {
		took, err := b.timed(ctx, plugin, "status", "--all-namespaces")
		if err != nil {
			return err
		}
		asked = append(asked, took)
		if took, err = b.timed(ctx, kubectl, "get", "dataservices", "--all-namespaces"); err != nil {
			return err
		}
		got = append(got, took)
	}
	is, was := milliseconds(median(asked)), milliseconds(median(got))
	t := b.report.table("", "ms", "TIMES KUBECTL GET")
	cell := b.report.check("status of 100 DataServices, ms", is, atMost(statusTakes))
	times := b.report.check("status of 100 DataServices, times kubectl get", is/was, atMost(statusTimes))
	t.row("kubectl dataservice status -A", cell, times)
	t.row("kubectl get dataservices -A", number(was), "")
	t.flush()
	b.report.note("\nThe median of %d runs of each, alternately, over %d DataServices; each run is a process, from its start to its end.", statusRuns, platforms)
	return nil
}

// platforms makes the DataServices, each with the status of a platform that is ready. No operator runs.
func (status) platforms(ctx context.Context, b *bench) error {
	services, err := b.many(ctx, 0, platforms)
	if err != nil {
		return err
	}
	if err := b.create(ctx, services...); err != nil {
		return err
	}
	return inParallel(services, func(ds *dsv1.DataService) error {
		now := metav1.Now()
		ds.Status = dsv1.DataServiceStatus{ObservedGeneration: ds.Generation, Phase: dsv1.PhaseRunning, Ready: "12/12", Message: "mysql->uuc->eureka->auth->web",
			Conditions: []metav1.Condition{{Type: dsv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: now}}}
		for i := range 12 {
			ds.Status.Components = append(ds.Status.Components, dsv1.ComponentStatus{
				Name: fmt.Sprintf("component-%d", i), Kind: "Deployment", Phase: dsv1.PhaseRunning, Ready: 1, Desired: 1, LastTransitionTime: ptr.To(now),
			})
		}
		return b.client.Status().Update(ctx, ds)
	})
}

// timed runs a program against the cluster and returns how long that took.
func (b *bench) timed(ctx context.Context, program string, args ...string) (time.Duration, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+b.cluster.Kubeconfig)
	began := time.Now()
	out, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s %v: %w: %s", filepath.Base(program), args, err, out)
	}
	return time.Since(began), nil
}
