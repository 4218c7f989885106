// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

const (
	// reactions is the number of measurements of each reaction.
	reactions = 20
	// healMilliseconds bounds the time from the deletion of an object until the object is created again.
	healMilliseconds = 1000
	// victim is the component whose Deployment the section deletes, and whose image it changes.
	victim = "auth"
)

// latency measures the operator's reaction times for one DataService.
type latency struct{}

func (l latency) run(ctx context.Context, b *bench) error {
	ds, err := b.one(ctx)
	if err != nil {
		return err
	}
	return b.counted(ctx, func(ctx context.Context, o *operator) error {
		start := time.Now()
		if err := b.create(ctx, ds); err != nil {
			return err
		}
		if err := b.awaitReady(ctx, ds); err != nil {
			return err
		}
		return l.measure(ctx, o, ds, time.Since(start))
	})
}

func (l latency) measure(ctx context.Context, o *operator, ds *dsv1.DataService, created time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owned, err := o.trackOwned(ctx, ds.Namespace)
	if err != nil {
		return err
	}
	var sent, back, changed, rolled []time.Duration
	for i := range reactions {
		toPatch, toBack, err := l.heal(ctx, o, owned, ds)
		if err != nil {
			return fmt.Errorf("heal: %w", err)
		}
		sent, back = append(sent, toPatch), append(back, toBack)
		toPatch, toReady, err := l.change(ctx, o, ds, fmt.Sprintf("v%d", i))
		if err != nil {
			return fmt.Errorf("change of an image: %w", err)
		}
		changed, rolled = append(changed, toPatch), append(rolled, toReady)
	}
	t := o.report.spreads("FROM", "TO")
	t.add("DataService created, once", "status Ready", []time.Duration{created}, nil)
	t.add("Deployment deleted", "request sent", sent, nil)
	t.add("Deployment deleted", "a watch sees it again", back, atMost(healMilliseconds))
	t.add("image changed", "request sent", changed, nil)
	t.add("image changed", "rolled out, status Ready", rolled, nil)
	t.flush()
	o.report.note("\n%d times each, counted from the API server's answer to the change.", reactions)
	return nil
}

// written reports whether a request writes the Deployment of victim.
func written(r harness.Sent) bool {
	return r.WritesObject() && r.Resource == "deployments" && r.Name == victim
}

// heal deletes a Deployment. It measures the time until the operator sends the create request, and until a watch delivers the new object.
func (l latency) heal(ctx context.Context, o *operator, owned *tracker, ds *dsv1.DataService) (toPatch, toBack time.Duration, err error) {
	deployment := &appsv1.Deployment{}
	if err := o.client.Get(ctx, client.ObjectKey{Namespace: ds.Namespace, Name: victim}, deployment); err != nil {
		return 0, 0, err
	}
	toPatch, toBack, err = l.react(ctx, o, func() error {
		return o.client.Delete(ctx, deployment, client.PropagationPolicy("Background"))
	}, func() error {
		return owned.await(ctx, func(objects map[string]client.Object) error {
			again, ok := objects[key("Deployment", ds.Namespace, victim)]
			if !ok || again.GetUID() == deployment.UID {
				return errors.New("the deleted Deployment was not created again")
			}
			return nil
		})
	})
	if err != nil {
		return 0, 0, err
	}
	return toPatch, toBack, o.awaitReady(ctx, ds)
}

// change changes an image and measures the time until the operator sends the request, and until the DataService is Ready.
func (l latency) change(ctx context.Context, o *operator, ds *dsv1.DataService, tag string) (toPatch, toReady time.Duration, err error) {
	return l.react(ctx, o, func() error { return o.patchImage(ctx, ds, tag) }, func() error { return o.awaitReady(ctx, ds) })
}

// react runs an action on a DataService that is ready and unchanged. It measures the time from the end of the action
// until the operator writes the Deployment, and until effect returns nil.
func (latency) react(ctx context.Context, o *operator, do, effect func() error) (toPatch, toEffect time.Duration, err error) {
	if err := o.traffic.quiet(ctx, settled); err != nil {
		return 0, 0, err
	}
	o.traffic.reset()
	if err := do(); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := effect(); err != nil {
		return 0, 0, err
	}
	toEffect = time.Since(start)
	patches := o.traffic.Since(o.traffic.from, written)
	if len(patches) == 0 {
		return 0, 0, errors.New("the operator has not written the Deployment")
	}
	return max(0, patches[0].At.Sub(start)), toEffect, nil
}

const (
	// platforms is the number of DataServices that `kubectl dataservice status -A` shows.
	platforms = 100
	// statusTakes limits the duration of the status command in milliseconds. statusTimes limits the ratio to the duration of `kubectl get`.
	// The two commands run alternately.
	statusTakes = 500
	statusTimes = 1.5
	// statusRuns is the number of runs of each command; the median is used.
	statusRuns = 9
)

// status compares `kubectl dataservice status -A` with `kubectl get dataservices -A`.
type status struct{}

func (s status) run(ctx context.Context, b *bench) error {
	plugin := filepath.Join(b.dir, "kubectl-dataservice")
	if err := cluster.BuildPlugin(ctx, plugin); err != nil {
		return err
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
	b.report.note("\nEach time is the median of %d runs of the command, with %d DataServices. The commands run alternately. A run lasts from the start of its process to its end.", statusRuns, platforms)
	return nil
}

// platforms creates the DataServices, each with the status of a ready platform. No operator runs.
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

// timed runs a program against the cluster and returns the duration.
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
