// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// An autoscaler's number of pods is its own, whoever it is; the switch to one and back drops no
// pod on the way.
func TestAutoscaling(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	others := fields{"mysql": nil, "uuc": nil, "eureka": nil, "auth": nil, "proxy": nil}
	name := e.CreateReady(small(others, fields{"web": fields{"replica": 4}}))

	mark := e.Mark()
	e.ChangeReady(name, fields{"web": fields{"autoscaling": fields{"min": 2, "max": 6}}})
	e.Rests(op, glance)
	e.alwaysHad("web", mark, 4)

	// An autoscaler's way to write.
	mark, requests := e.Mark(), op.Mark()
	e.scale("web", 3)
	e.Until("3 pods", func() error { return e.hasPods("web", 3) })
	e.Ready(name)
	e.Rests(op, glance)
	e.equal("written after an autoscaler's write", harness.Objects(op.Since(requests, harness.Sent.WritesObject)), nil)
	e.alwaysHad("web", mark, 4, 3)

	// The cluster's own autoscaler knows no metrics here, but it keeps to the limits.
	mark, requests = e.Mark(), op.Mark()
	e.ChangeReady(name, fields{"web": fields{"autoscaling": fields{"min": 5}}})
	e.Until("as many pods as min", func() error { return e.hasPods("web", 5) })
	e.Ready(name)
	e.Rests(op, glance)
	e.alwaysHad("web", mark, 3, 5)
	e.equal("written as only the autoscaler changed", harness.Objects(op.Since(requests, harness.Sent.WritesObject)),
		[]string{"HorizontalPodAutoscaler/web"})

	e.ChangeReady(name, fields{"web": fields{"autoscaling": nil}})
	e.Until("the pods of replica", func() error { return e.hasPods("web", 4) })
	e.Until("the autoscaler goes", func() error {
		return stage.Unless(e.Object("HorizontalPodAutoscaler/web") == nil, "it is still there")
	})
	e.scale("web", 2)
	e.Until("the pods of replica again", func() error { return e.hasPods("web", 4) })
	e.Rests(op, glance)
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
