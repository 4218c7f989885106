// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
)

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
