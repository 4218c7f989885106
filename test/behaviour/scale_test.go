// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// An autoscaler's number of pods is its own, whoever it is; the switch to one and back drops no
// pod on the way.
func TestAutoscaling(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(alike(fields{"web": fields{"replica": 4}}))

	mark := e.Mark()
	e.ChangeReady(name, fields{"web": fields{"autoscaling": fields{"min": 2, "max": 6}}})
	e.rests(op)
	e.alwaysHad("web", mark, 4)
	if e.ownsReplicas("web") {
		t.Error("with an autoscaler the operator still owns the number of pods")
	}

	// An autoscaler's way to write.
	mark, requests := e.Mark(), op.Mark()
	e.scale("web", 3)
	e.Until("3 pods", func() error { return e.hasPods("web", 3) })
	e.Ready(name)
	e.rests(op)
	e.equal("written after an autoscaler's write", harness.Objects(op.Since(requests, harness.Sent.WritesObject)), nil)
	e.alwaysHad("web", mark, 4, 3)

	op.Stop()
	op = e.Start()
	e.Ready(name)
	e.rests(op)
	e.equal("written after a restart", harness.Objects(op.Since(0, harness.Sent.WritesObject)), nil)

	// The cluster's own autoscaler knows no metrics here, but it keeps to the limits.
	mark, requests = e.Mark(), op.Mark()
	e.ChangeReady(name, fields{"web": fields{"autoscaling": fields{"min": 5}}})
	e.Until("as many pods as min", func() error { return e.hasPods("web", 5) })
	e.Ready(name)
	e.rests(op)
	e.alwaysHad("web", mark, 3, 5)
	if wrote := op.Since(requests, onDeployments); len(wrote) > 0 {
		t.Errorf("written although only the autoscaler changed: %v", wrote)
	}

	e.ChangeReady(name, fields{"web": fields{"autoscaling": nil}})
	e.Until("the pods of replica", func() error { return e.hasPods("web", 4) })
	e.Until("the autoscaler goes", func() error {
		err := api.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "web"}, &autoscalingv2.HorizontalPodAutoscaler{})
		return unless(apierrors.IsNotFound(err), "it is still there")
	})
	if !e.ownsReplicas("web") {
		t.Error("without an autoscaler the operator does not own the number of pods")
	}
	e.scale("web", 2)
	e.Until("the pods of replica again", func() error { return e.hasPods("web", 4) })
	e.rests(op)
}

// A cron job that somebody suspends goes on.
func TestSuspendedByHandIsUndone(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(alike(fields{"web": nil, "cronJobs": []any{
		fields{"name": "clean-up", "schedule": "30 2 * * *", "image": "busybox:1.37"},
	}}))
	for _, change := range []func(*batchv1.CronJob){
		func(c *batchv1.CronJob) { c.Spec.Suspend = ptr.To(true) },
		func(c *batchv1.CronJob) { c.Spec.Schedule = "@hourly" },
		func(c *batchv1.CronJob) {
			container := &c.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
			container.Env = append(container.Env, corev1.EnvVar{Name: "MORE", Value: "yes"})
		},
	} {
		requests := op.Mark()
		before := get(e, &batchv1.CronJob{}, "clean-up")
		live := before.DeepCopy()
		change(live)
		e.Must(api.Update(e.Ctx, live, client.FieldOwner("somebody-else")))
		if equality.Semantic.DeepEqual(live.Spec, before.Spec) {
			t.Fatal("the edit changes nothing")
		}
		e.Until("it is as before", func() error {
			now := get(e, &batchv1.CronJob{}, "clean-up")
			return unless(equality.Semantic.DeepEqual(now.Spec, before.Spec), cmp.Diff(before.Spec, now.Spec))
		})
		e.Ready(name)
		e.rests(op)
		for _, r := range op.Since(requests, harness.Sent.WritesObject) {
			if r.Resource != "cronjobs" {
				t.Errorf("written as well: %s", r)
			}
		}
	}
}

// alike returns a DataService with a web service and what is given.
func alike(spec fields) *unstructured.Unstructured {
	return harness.With(&unstructured.Unstructured{Object: fields{
		"apiVersion": dsv1.GroupVersion.String(), "kind": dsv1.Kind,
		"metadata": fields{"name": "scale"}, "spec": fields{"web": fields{}},
	}}, spec)
}

// scale writes a Deployment's number of pods as kubectl scale and autoscalers do.
func (e *env) scale(deployment string, replicas int32) {
	e.Helper()
	d := get(e, &appsv1.Deployment{}, deployment)
	e.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		scale := &autoscalingv1.Scale{}
		if err := api.SubResource("scale").Get(e.Ctx, d, scale); err != nil {
			return err
		}
		scale.Spec.Replicas = replicas
		return api.SubResource("scale").Update(e.Ctx, d, client.WithSubResourceBody(scale), client.FieldOwner("scaler"))
	}))
}

// hasPods returns how a Deployment differs from one of so many pods that are ready.
func (e *env) hasPods(deployment string, replicas int32) error {
	d := harness.Lookup[*appsv1.Deployment](e.Journal, deployment)
	if d == nil || *d.Spec.Replicas != replicas || d.Status.ReadyReplicas != replicas || d.Status.Replicas != replicas {
		return fmt.Errorf("%d pods are not there: %v", replicas, d)
	}
	return nil
}

// alwaysHad expects every version of a Deployment after a mark to have one of these numbers of
// pods, and to have come to the last of them.
func (e *env) alwaysHad(deployment string, mark int, replicas ...int32) {
	e.Helper()
	for _, c := range e.Since(mark) {
		if d, ok := c.Object.(*appsv1.Deployment); ok && d.Name == deployment && !slices.Contains(replicas, *d.Spec.Replicas) {
			e.Errorf("version %s has %d replicas", d.ResourceVersion, *d.Spec.Replicas)
		}
	}
	if got, want := *harness.Lookup[*appsv1.Deployment](e.Journal, deployment).Spec.Replicas, replicas[len(replicas)-1]; got != want {
		e.Errorf("%d replicas, not %d", got, want)
	}
}

// ownsReplicas reports whether the operator owns a Deployment's number of pods.
func (e *env) ownsReplicas(deployment string) bool {
	e.Helper()
	for _, f := range get(e, &appsv1.Deployment{}, deployment).ManagedFields {
		if f.Manager == apply.FieldManager && strings.Contains(f.FieldsV1.GetRawString(), `"f:replicas"`) && f.Subresource == "" {
			return true
		}
	}
	return false
}

// rests waits until the operator has written no object for a while.
func (e *env) rests(op *stage.Operator) {
	e.Helper()
	e.Until("the operator rests", func() error {
		mark := op.Mark()
		wrote := func() error { return unless(len(op.Since(mark, harness.Sent.WritesObject)) > 0, "not yet") }
		return unless(e.Within(glance, wrote) != nil, "it goes on writing")
	})
}

// onDeployments reports whether a request writes a Deployment.
func onDeployments(r harness.Sent) bool { return r.WritesObject() && r.Resource == "deployments" }
