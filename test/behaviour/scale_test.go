// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
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

// What the spec says of the number of pods holds against kubectl scale.
func TestScalingByHandIsUndone(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(alike(fields{"web": fields{"replica": 2}}))
	for _, replicas := range []int32{5, 0} {
		requests := op.Mark()
		e.scale("web", replicas)
		e.Until("the pods of replica", func() error { return e.hasPods("web", 2) })
		e.Ready(name)
		e.rests(op)
		e.equal(fmt.Sprintf("written after scaling to %d", replicas), harness.Objects(op.Since(requests, harness.Sent.WritesObject)), []string{"Deployment/web"})
	}
}

// What a webhook that injects sidecars adds to the pods stays. What the same writer changes of
// what the spec says does not.
func TestInjectedSidecars(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(alike(fields{"web": fields{
		"env":      fields{"LOG_LEVEL": "info"},
		"sidecars": []any{fields{"name": "logs", "image": "fluent/fluent-bit:4.1.0"}},
	}}))
	e.rests(op)
	declared := *pod(harness.Lookup[*appsv1.Deployment](e.Journal, "web"))

	requests := op.Mark()
	e.inject(func(d *appsv1.Deployment) {
		pod(d).Containers = append(pod(d).Containers, corev1.Container{
			Name: "mesh", Image: "registry.example.com/mesh:v1", VolumeMounts: []corev1.VolumeMount{{Name: "mesh", MountPath: "/mesh"}},
		})
		pod(d).Volumes = append(pod(d).Volumes, corev1.Volume{Name: "mesh", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		if d.Spec.Template.Annotations == nil {
			d.Spec.Template.Annotations = map[string]string{}
		}
		d.Spec.Template.Annotations["mesh.example.com/injected"] = "true"
	})
	e.Until("the injected sidecar runs", e.injected)
	e.Ready(name)
	e.rests(op)
	e.equal("written after the injection", harness.Objects(op.Since(requests, harness.Sent.WritesObject)), nil)

	for _, c := range []struct {
		what   string
		change func(*corev1.PodSpec)
	}{
		{"image", func(p *corev1.PodSpec) { p.Containers[0].Image = "registry.example.com/other:v1" }},
		{"variable", func(p *corev1.PodSpec) {
			i := slices.IndexFunc(p.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "LOG_LEVEL" })
			p.Containers[0].Env[i].Value = "trace"
		}},
		{"declared sidecar", func(p *corev1.PodSpec) {
			p.Containers = slices.DeleteFunc(p.Containers, func(c corev1.Container) bool { return c.Name == "logs" })
		}},
	} {
		requests := op.Mark()
		e.inject(func(d *appsv1.Deployment) { c.change(pod(d)) })
		e.Until(c.what+" is as declared", func() error {
			live := pod(harness.Lookup[*appsv1.Deployment](e.Journal, "web"))
			for _, want := range declared.Containers {
				i := slices.IndexFunc(live.Containers, func(c corev1.Container) bool { return c.Name == want.Name })
				if i < 0 {
					return fmt.Errorf("container %s is missing", want.Name)
				}
				if live.Containers[i].Image != want.Image || fmt.Sprint(live.Containers[i].Env) != fmt.Sprint(want.Env) {
					return fmt.Errorf("container %s has image %s and variables %v", want.Name, live.Containers[i].Image, live.Containers[i].Env)
				}
			}
			return nil
		})
		e.Ready(name)
		e.rests(op)
		e.Until("what was injected is still there", e.injected)
		e.equal("written after a change of the "+c.what, harness.Objects(op.Since(requests, harness.Sent.WritesObject)), []string{"Deployment/web"})
	}

	// A change of the spec leaves it, too.
	e.ChangeReady(name, fields{"web": fields{"image": "registry.example.com/web:v2", "sidecars": nil}})
	e.Until("what was injected outlives an update", e.injected)
	for _, c := range pod(harness.Lookup[*appsv1.Deployment](e.Journal, "web")).Containers {
		if c.Name == "logs" {
			t.Error("the sidecar that the spec no longer has is still there")
		}
	}
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

// inject changes the Deployment of web as a webhook with a manager of its own would.
func (e *env) inject(change func(*appsv1.Deployment)) {
	e.Helper()
	e.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d := get(e, &appsv1.Deployment{}, "web")
		change(d)
		return api.Update(e.Ctx, d, client.FieldOwner("injector"))
	}))
}

// injected returns what of the injected parts is not there, or nil.
func (e *env) injected() error {
	d := harness.Lookup[*appsv1.Deployment](e.Journal, "web")
	switch {
	case !slices.ContainsFunc(pod(d).Containers, func(c corev1.Container) bool { return c.Name == "mesh" }):
		return errors.New("the container is missing")
	case !slices.ContainsFunc(pod(d).Volumes, func(v corev1.Volume) bool { return v.Name == "mesh" }):
		return errors.New("the volume is missing")
	case d.Spec.Template.Annotations["mesh.example.com/injected"] != "true":
		return errors.New("the annotation is missing")
	case d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != 1 || d.Status.ReadyReplicas != 1:
		return errors.New("it is not rolled out")
	}
	return nil
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

// ownsReplicas tells whether the operator owns a Deployment's number of pods.
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

// onDeployments tells whether a request writes a Deployment.
func onDeployments(r harness.Sent) bool { return r.WritesObject() && r.Resource == "deployments" }
