// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/render"
)

// podsOf returns the pod template of a component.
func podsOf(t *testing.T, p *plan.Plan, name string) *corev1.PodTemplateSpec {
	t.Helper()
	for _, c := range p.Components {
		if string(c.Name) != name {
			continue
		}
		for _, object := range c.Objects {
			template, ok, err := unstructured.NestedMap(object.Object, "spec", "template")
			assert.NilError(t, err)
			if !ok {
				template, ok, err = unstructured.NestedMap(object.Object, "spec", "jobTemplate", "spec", "template")
				assert.NilError(t, err)
			}
			if ok {
				pods := &corev1.PodTemplateSpec{}
				assert.NilError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(template, pods))
				return pods
			}
		}
	}
	t.Fatalf("%s has no pods", name)
	return nil
}

// The spec's podTemplate is merged as in Kubernetes: containers are merged by name, null removes a field, and
// directives such as $patch work.
func TestPodTemplate(t *testing.T) {
	t.Parallel()
	yes := true
	for name, test := range map[string]struct {
		overlay string
		look    func(*corev1.PodTemplateSpec) any
		want    any
	}{
		"a field":                        {"spec: {hostAliases: [{ip: 192.0.2.1, hostnames: [a]}]}", func(p *corev1.PodTemplateSpec) any { return p.Spec.HostAliases[0].IP }, "192.0.2.1"},
		"a field of a container":         {"spec: {containers: [{name: web, tty: true}]}", func(p *corev1.PodTemplateSpec) any { return p.Spec.Containers[0].TTY }, true},
		"the container's image stays":    {"spec: {containers: [{name: web, tty: true}]}", func(p *corev1.PodTemplateSpec) any { return p.Spec.Containers[0].Image }, "nginx:1"},
		"another container":              {"spec: {containers: [{name: more, image: a}]}", func(p *corev1.PodTemplateSpec) any { return len(p.Spec.Containers) }, 2},
		"null removes a field":           {"spec: {containers: [{name: web, livenessProbe: null}]}", func(p *corev1.PodTemplateSpec) any { return p.Spec.Containers[0].LivenessProbe == nil }, true},
		"a directive":                    {"spec: {volumes: [{name: configs, $patch: delete}], containers: [{name: web, volumeMounts: [{mountPath: /usr/share/nginx/html/app.config.js, $patch: delete}]}]}", func(p *corev1.PodTemplateSpec) any { return p.Spec.Volumes[0].Name }, "config-template"},
		"a directive for a map":          {"spec: {securityContext: {$patch: replace, runAsNonRoot: true}}", func(p *corev1.PodTemplateSpec) any { return p.Spec.SecurityContext.String() }, (&corev1.PodSecurityContext{RunAsNonRoot: &yes}).String()},
		"labels and annotations":         {"metadata: {labels: {a: b}, annotations: {c: d}}", func(p *corev1.PodTemplateSpec) any { return p.Labels["a"] + p.Annotations["c"] }, "bd"},
		"a quantity":                     {"spec: {containers: [{name: web, resources: {limits: {cpu: 2000m}}}]}", func(p *corev1.PodTemplateSpec) any { return p.Spec.Containers[0].Resources.Limits.Cpu().String() }, "2"},
		"nothing":                        {"", func(p *corev1.PodTemplateSpec) any { return len(p.Spec.Containers) }, 1},
		"a label with its planned value": {"metadata: {labels: {app.kubernetes.io/name: web}}", func(p *corev1.PodTemplateSpec) any { return p.Labels["app.kubernetes.io/name"] }, "web"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planOf(t, "{web: {image: 'nginx:1', podTemplate: {"+test.overlay+"}}}")
			assert.Equal(t, test.look(podsOf(t, p, "web")), test.want)
		})
	}
}

// If a podTemplate, or another field that adds to the pods, has an error, the message names the field.
func TestPodsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ spec, field, message string }{
		"an unknown field":                  {"web: {podTemplate: {spec: {containers: [{name: web, imagePullPolice: Always}]}}}", "spec.web.podTemplate.spec.containers[0].imagePullPolice", "no such field"},
		"a wrong type":                      {"web: {podTemplate: {spec: {hostAliases: x}}}", "spec.web.podTemplate", "cannot unmarshal string"},
		"no pod template":                   {"web: {podTemplate: {containers: []}}", "spec.web.podTemplate.containers", "no such field"},
		"an unknown directive":              {"web: {podTemplate: {spec: {containers: [{name: web, $patch: explode}]}}}", "spec.web.podTemplate", "explode"},
		"a container without a name":        {"web: {podTemplate: {spec: {containers: [{image: a}]}}}", "spec.web.podTemplate", "name"},
		"a container without an image":      {"web: {podTemplate: {spec: {containers: [{name: more}]}}}", "spec.web", `its pods have a container "more" without an image`},
		"another value of a reserved label": {"web: {podTemplate: {metadata: {labels: {app.kubernetes.io/name: a}}}}", "spec.web.podTemplate.metadata.labels", "app.kubernetes.io/name is the operator's own"},
		"reserved labels removed":           {"web: {podTemplate: {metadata: {labels: null}}}", "spec.web.podTemplate.metadata.labels", "the operator's own"},
		"a container twice":                 {"web: {sidecars: [{name: web, image: a}]}", "spec.web", `two containers named "web"`},
		"an init container twice":           {"web: {initContainers: [{name: a, image: a}], sidecars: [{name: a, image: a}]}", "spec.web", `two containers named "a"`},
		"a volume twice":                    {"web: {volumes: [{name: configs, emptyDir: {}}]}", "spec.web", `two volumes named "configs"`},
		"a volume that is missing":          {"web: {volumeMounts: [{name: a, mountPath: /a}]}", "spec.web", `mounts volume "a", but the pod has no volume of this name`},
		"a mount twice":                     {"web: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /tmp}]}", "spec.web", "two mounts at /tmp"},
		"in an additional service":          {"additionalServices: [{name: a, kind: Deployment, image: b, podTemplate: {spec: {x: y}}}]", "spec.additionalServices[a].podTemplate.spec.x", "no such field"},
		"in a cron job":                     {"cronJobs: [{name: a, schedule: '@daily', image: b, podTemplate: {spec: {x: y}}}]", "spec.cronJobs[a].podTemplate.spec.x", "no such field"},
		"in a third party":                  {"uuc: {thirdParty: {url: 'http://a'}, podTemplate: {spec: {x: y}}}", "spec.uuc.podTemplate.spec.x", "no such field"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := try(t, newPlanner(t, nil), platform(t, "{"+test.spec+"}"), credentials)
			var field *render.Error
			assert.Assert(t, errors.As(err, &field), "%v", err)
			assert.Equal(t, field.Field, test.field)
			assert.Assert(t, is.Contains(field.Message, test.message))
		})
	}
}

// A container may mount a volume that comes from a claim template.
func TestMountsOfClaims(t *testing.T) {
	t.Parallel()
	p := planOf(t, "{mysql: {sidecars: [{name: a, image: b, volumeMounts: [{name: data, mountPath: /data}]}]}}")
	assert.Equal(t, len(podsOf(t, p, "mysql").Spec.Containers), 2)
}

// The spec's podTemplate applies to the pods of every kind of workload.
func TestPodTemplateOfEveryKind(t *testing.T) {
	t.Parallel()
	const overlay = "podTemplate: {spec: {hostname: h}}"
	p := planOf(t, "{mysql: {"+overlay+"}, uuc: {thirdParty: {url: 'http://a'}, "+overlay+"}, eureka: {kind: DaemonSet, "+overlay+"}, web: {"+overlay+
		"}, additionalServices: [{name: a, kind: StatefulSet, image: b, "+overlay+"}], cronJobs: [{name: j, schedule: '@daily', image: b, "+overlay+"}]}")
	for _, c := range p.Components {
		assert.Equal(t, podsOf(t, p, string(c.Name)).Spec.Hostname, "h", c.Name)
	}
}
