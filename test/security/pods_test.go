// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package security_test compares every pod of the operator's charts, and the operator's pods, with the Pod Security Standards, and tests
// DataServices against the threats of SECURITY.md.
package security_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/cluster"
)

const kubeVersion = "v1.36.0"

// notRestricted contains the pods that do not meet the standard "restricted", by DataService and kind/name, with the reason: a field that
// an author sets. No pod with default values is in the list.
var notRestricted = map[string]string{
	"case web.sidecars Deployment/web":           "a sidecar with a securityContext of its own has that alone",
	"case cronJobs.podTemplate CronJob/clean-up": "its podTemplate asks for the node's network",
}

// writable contains the components without a read-only root filesystem. The product's images of Java services write logs and temporary
// files next to their code. For other images, a user can set securityContext.readOnlyRootFilesystem.
var writable = []string{
	"uuc", "eureka", "api-manager", "auth", "ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web", "proxy",
}

// Every pod meets the standard "restricted", according to the code of Kubernetes' admission: in all samples, and with every field of the
// spec in each of its meanings. No pod has a token that it does not use, or variables of other Services.
func TestPodsAreRestricted(t *testing.T) {
	judge := newJudge(t)
	images := values.DefaultImages()
	seen := map[string]bool{}
	for name, objects := range planned(t) {
		for id, template := range podsOf(t, objects) {
			reason, excepted := notRestricted[name+" "+id]
			verdict := judge(template)
			assert.Check(t, excepted == (verdict != ""), "%s %s: %q (%s)", name, id, verdict, reason)
			spec := &template.Spec
			assert.Check(t, spec.AutomountServiceAccountToken != nil && !*spec.AutomountServiceAccountToken, "%s %s has a token", name, id)
			assert.Check(t, spec.EnableServiceLinks != nil && !*spec.EnableServiceLinks, "%s %s gets the variables of other Services", name, id)
			checkRoot(t, name+" "+id, template, images)
			for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
				if name != "case mysql.resources" && (c.Image == images["mysql"] || c.Image == images[values.AgentImage] || c.Image == images["probe"]) {
					checkBounds(t, name+" "+id, &c)
				}
			}
			seen[name+" "+id] = true
		}
	}
	assert.Assert(t, len(seen) > 1000, "only %d pods were checked", len(seen))
	for pod := range notRestricted {
		assert.Check(t, seen[pod], "%s, an exception, does not exist", pod)
	}
}

// The charts of Redis, etcd and replicated MySQL meet the same requirements with all of their example values. No container may write to its
// root filesystem, and no container has a password in its arguments.
func TestMiddlewarePodsAreRestricted(t *testing.T) {
	for chart, pods := range map[string]int{"rediscluster": 9, "etcdcluster": 3, "mysqlcluster": 2} {
		t.Run(chart, func(t *testing.T) { restricted(t, chart, pods) })
	}
}

func restricted(t *testing.T, chart string, least int) {
	t.Helper()
	judge := newJudge(t)
	renderer, err := newRenderer()
	assert.NilError(t, err)
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "helm-charts", chart, "ci/*.yaml"))
	assert.NilError(t, err)
	pods := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		v := map[string]any{}
		assert.NilError(t, yaml.Unmarshal(data, &v))
		unstructured.RemoveNestedField(v, "backup", "resources") // the defaults are tested
		delete(v, "formed")                                      // without formed, pods have the container that restores a backup
		rendered, err := renderer.Render(render.Release{Name: "cache", Namespace: "default"}, []render.Part{{Name: "part", Chart: chart, Values: v}})
		assert.NilError(t, err)
		for id, template := range podsOf(t, rendered[0]) {
			pods++
			assert.Check(t, judge(template) == "", "%s %s: %s", file, id, judge(template))
			spec := &template.Spec
			assert.Check(t, spec.AutomountServiceAccountToken != nil && !*spec.AutomountServiceAccountToken, "%s has a token", id)
			for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
				assert.Check(t, c.SecurityContext.ReadOnlyRootFilesystem != nil && *c.SecurityContext.ReadOnlyRootFilesystem, "%s %s", id, c.Name)
				assert.Check(t, !strings.Contains(fmt.Sprint(c.Command, c.Args), "assword"), "%s %s: %v %v", id, c.Name, c.Command, c.Args)
				checkBounds(t, id, &c)
			}
		}
	}
	assert.Assert(t, pods >= least, "%d pods", pods)
}

// checkBounds checks the requirements that quotas and LimitRanges may have (docs/install.md): a container has limits, of at most ten times
// its requests.
func checkBounds(t *testing.T, where string, c *corev1.Container) {
	t.Helper()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		assert.Check(t, !limit.IsZero() && limit.MilliValue() <= 10*request.MilliValue(), "%s: container %s has %s %s to %s", where, c.Name, name, &request, &limit)
	}
}

// checkRoot expects read-only root filesystems of the platform's containers. An author's containers are not checked.
func checkRoot(t *testing.T, where string, template *corev1.PodTemplateSpec, images map[string]string) {
	t.Helper()
	component := template.Labels["app.kubernetes.io/name"]
	for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		readOnly := c.SecurityContext != nil && c.SecurityContext.ReadOnlyRootFilesystem != nil && *c.SecurityContext.ReadOnlyRootFilesystem
		if !readOnly && !slices.Contains(writable, component) {
			for of, image := range images {
				assert.Check(t, c.Image != image, "%s: container %s, of %s, may write to its root filesystem", where, c.Name, of)
			}
		}
	}
}

// The operator's pods meet the standard "restricted" in each form of installation: kustomize, and OLM from this bundle or from the bundle
// of a release.
func TestOperatorIsRestricted(t *testing.T) {
	judge := newJudge(t)
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "releases", "*", "manifests", "*.clusterserviceversion.yaml"))
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 0)
	files = append(files, filepath.Join(cluster.Root(), "config/manager/manager.yaml"),
		filepath.Join(cluster.Root(), "bundle/manifests/d3os-operator.clusterserviceversion.yaml"))
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, cluster.Root()), func(t *testing.T) {
			template := operatorPods(t, file)
			assert.Check(t, judge(template) == "", judge(template))
			assert.Equal(t, len(template.Spec.Containers), 1)
			c := template.Spec.Containers[0]
			assert.Check(t, c.SecurityContext.ReadOnlyRootFilesystem != nil && *c.SecurityContext.ReadOnlyRootFilesystem)
			assert.Check(t, !c.Resources.Limits.Memory().IsZero() && !c.Resources.Limits.Cpu().IsZero(), "the container has no limits of memory and CPU")
			for _, volume := range template.Spec.Volumes {
				assert.Check(t, volume.EmptyDir != nil, "the operator's pod mounts %s", volume.Name)
			}
			for _, e := range c.Env {
				assert.Check(t, e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil, "%s comes from a Secret", e.Name)
			}
		})
	}
}

// operatorPods reads the operator's Deployment from a manifest or a ClusterServiceVersion.
func operatorPods(t *testing.T, file string) *corev1.PodTemplateSpec {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	type deployment struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	var either struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
			Install  struct {
				Spec struct {
					Deployments []deployment `json:"deployments"`
				} `json:"spec"`
			} `json:"install"`
		} `json:"spec"`
	}
	assert.NilError(t, yaml.Unmarshal(data, &either))
	if either.Spec.Template != nil {
		return either.Spec.Template
	}
	assert.Equal(t, len(either.Spec.Install.Spec.Deployments), 1)
	return either.Spec.Install.Spec.Deployments[0].Spec.Template
}

// newJudge returns a function that lists the violations of the standard "restricted".
func newJudge(t *testing.T) func(*corev1.PodTemplateSpec) string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	assert.NilError(t, err)
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	return func(template *corev1.PodTemplateSpec) string {
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec))
		if result.Allowed {
			return ""
		}
		return result.ForbiddenDetail()
	}
}

// podsOf returns the pod templates among objects, by kind/name.
func podsOf(t *testing.T, objects []*unstructured.Unstructured) map[string]*corev1.PodTemplateSpec {
	t.Helper()
	found := map[string]*corev1.PodTemplateSpec{}
	for _, object := range objects {
		for _, path := range [][]string{{"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}} {
			fields, ok, err := unstructured.NestedMap(object.Object, path...)
			assert.NilError(t, err)
			if !ok {
				continue
			}
			template := &corev1.PodTemplateSpec{}
			assert.NilError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, template))
			found[object.GetKind()+"/"+object.GetName()] = template
		}
	}
	return found
}
