// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"d3os.com/d3os-operator/internal/object"
)

// Drift is what somebody else changed of what the plan sets.
func TestDriftIsCorrected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id     string
		change func(t *testing.T, obj map[string]any)
	}{
		"replicas": {"Deployment/proxy", func(t *testing.T, o map[string]any) { set(t, o, int64(0), "spec", "replicas") }},
		"image":    {"Deployment/proxy", func(_ *testing.T, o map[string]any) { container(o)["image"] = "evil" }},
		"value of a variable": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			env := find(items(container(o), "env"), nameKey, "TZ")
			env["value"] = "UTC"
		}},
		"container removed": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, o, []any{container(o)}, "spec", "template", "spec", "containers")
		}},
		"variable removed": {"Deployment/proxy", func(_ *testing.T, o map[string]any) { delete(container(o), "env") }},
		"probe removed":    {"Deployment/proxy", func(_ *testing.T, o map[string]any) { delete(container(o), "livenessProbe") }},
		"probe edited": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, container(o), int64(99), "readinessProbe", "failureThreshold")
		}},
		"resources": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, container(o), "3Gi", "resources", "limits", "memory")
		}},
		"security": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, container(o), true, "securityContext", "allowPrivilegeEscalation")
		}},
		"capabilities": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, container(o), []any{"NET_ADMIN"}, "securityContext", "capabilities", "drop")
		}},
		"pod annotation removed": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "spec", "template", "metadata", "annotations", "checksum/config")
		}},
		"volume removed": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "spec", "template", "spec", "volumes")
			delete(container(o), "volumeMounts")
		}},
		"update strategy": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, o, map[string]any{"type": "Recreate"}, "spec", "strategy")
		}},
		"label removed": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "metadata", "labels", object.LabelPartOf)
		}},
		"instance label edited": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, o["metadata"].(map[string]any)["labels"].(map[string]any), "other", object.LabelInstance)
		}},
		"managed-by label removed": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "metadata", "labels", object.LabelManagedBy)
		}},
		"managed-by label edited": {"ConfigMap/proxy", func(t *testing.T, o map[string]any) {
			set(t, o["metadata"].(map[string]any)["labels"].(map[string]any), "other", object.LabelManagedBy)
		}},
		"owner reference removed": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "metadata", "ownerReferences")
		}},
		"configuration edited": {"ConfigMap/proxy", func(t *testing.T, o map[string]any) {
			set(t, o, map[string]any{"application.yml": "server: {}\n"}, "data")
		}},
		"configuration removed": {"ConfigMap/proxy", func(_ *testing.T, o map[string]any) { delete(o, "data") }},
		"password edited": {"Secret/mysql-dataservice-credentials", func(t *testing.T, o map[string]any) {
			set(t, o, "b3RoZXI=", "data", "password")
		}},
		"selector widened": {"Service/proxy", func(t *testing.T, o map[string]any) {
			set(t, o, map[string]any{"all": "pods"}, "spec", "selector")
		}},
		"selector narrowed": {"Service/proxy", func(t *testing.T, o map[string]any) {
			set(t, o, "none", "spec", "selector", "more")
		}},
		"target port": {"Service/proxy", func(_ *testing.T, o map[string]any) {
			items(o, "spec", "ports")[0]["targetPort"] = int64(1)
		}},
		"type of the service": {"Service/proxy", func(t *testing.T, o map[string]any) { set(t, o, "LoadBalancer", "spec", "type") }},
		"replicas of a set":   {"StatefulSet/mysql-dataservice", func(t *testing.T, o map[string]any) { set(t, o, int64(2), "spec", "replicas") }},
		"claim retention": {"StatefulSet/mysql-dataservice", func(t *testing.T, o map[string]any) {
			set(t, o, "Delete", "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
		}},
		"digest removed": {"Service/proxy", func(_ *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "metadata", "annotations", object.AnnotationDigest)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, ds, planned := running(t, "{proxy: {sidecars: [{name: logs, image: logs}]}, mysql: {}, eureka: {}}", test.id)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
			before := fetch(t, planned)
			edited := edit(t, planned, func(o map[string]any) { test.change(t, o) })
			assert.Assert(t, edited.GetResourceVersion() != before.GetResourceVersion(), "the edit changed nothing")

			want := Corrected
			if name == "digest removed" {
				want = Updated
			}
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, want)
			after := fetch(t, planned)
			for _, obj := range []*unstructured.Unstructured{before, after} {
				obj.SetManagedFields(nil)
				obj.SetResourceVersion("")
				obj.SetGeneration(0)
			}
			assert.DeepEqual(t, after, before)
			atRest(t, a, ds, planned)
		})
	}
}

// Foreign entries are those that change what runs though nobody declared them.
func TestForeignEntriesAreRemoved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id  string
		add func(t *testing.T, obj map[string]any)
	}{
		"variable": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			c := container(o)
			c["env"] = append(c["env"].([]any), map[string]any{"name": "JAVA_TOOL_OPTIONS", "value": "-javaagent:evil.jar"})
		}},
		"variable of a set": {"StatefulSet/mysql-dataservice", func(_ *testing.T, o map[string]any) {
			c := container(o)
			c["env"] = append([]any{map[string]any{"name": "MYSQL_ALLOW_EMPTY_PASSWORD", "value": "1"}}, c["env"].([]any)...)
		}},
		"file": {"ConfigMap/mysql-dataservice", func(t *testing.T, o map[string]any) { set(t, o["data"].(map[string]any), "x", "zz.cnf") }},
		"binary file": {"ConfigMap/mysql-dataservice", func(t *testing.T, o map[string]any) {
			set(t, o, map[string]any{"zz.cnf": "eA=="}, "binaryData")
		}},
		"secret": {"Secret/mysql-dataservice-credentials", func(t *testing.T, o map[string]any) { set(t, o, "eA==", "data", "more") }},
		"port": {"Service/proxy", func(_ *testing.T, o map[string]any) {
			spec := o["spec"].(map[string]any)
			spec["ports"] = append(spec["ports"].([]any), map[string]any{"name": "debug", "port": int64(5005), "protocol": "TCP"})
		}},
		"port of another protocol": {"Service/proxy", func(_ *testing.T, o map[string]any) {
			spec := o["spec"].(map[string]any)
			spec["ports"] = append(spec["ports"].([]any), map[string]any{"name": "udp", "port": int64(9094), "protocol": "UDP"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, ds, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", test.id)
			before := fetch(t, planned)
			edit(t, planned, func(o map[string]any) { test.add(t, o) })
			traffic.take(ds.Namespace)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Corrected)
			assert.Equal(t, len(traffic.take(ds.Namespace)), 1)
			after := fetch(t, planned)
			assert.DeepEqual(t, after.Object["data"], before.Object["data"])
			assert.DeepEqual(t, after.Object["binaryData"], before.Object["binaryData"])
			assert.DeepEqual(t, after.Object["spec"], before.Object["spec"])
			atRest(t, a, ds, planned)
		})
	}
}

// What others add beside the plan stays: a sidecar with its volume, annotations and labels.
func TestWelcomeAdditionsStay(t *testing.T) {
	t.Parallel()
	a, ds, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", "Deployment/proxy")
	added := edit(t, planned, func(o map[string]any) {
		pod := o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		pod["containers"] = append(pod["containers"].([]any), map[string]any{
			"name": "sidecar", "image": "mesh", "env": []any{map[string]any{"name": "A", "value": "b"}},
		})
		pod["volumes"] = append(pod["volumes"].([]any), map[string]any{"name": "certs", "emptyDir": map[string]any{}})
		set(t, o, "1", "metadata", "annotations", "deployment.kubernetes.io/revision")
		set(t, o, "data", "metadata", "labels", "team")
		set(t, o, "now", "spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt")
	})
	atRest(t, a, ds, planned)

	// They also stay when the plan changes.
	ds.Spec.Proxy.Image = "registry.example.com/proxy:v2"
	assert.Equal(t, mustApply(t, a, ownerOf(ds), pick(t, objectsOf(t, ds), "Deployment/proxy")).Action, Updated)
	after := fetch(t, planned)
	container(added.Object)["image"] = "registry.example.com/proxy:v2"
	assert.DeepEqual(t, after.Object["spec"], added.Object["spec"])
	assert.Equal(t, after.GetLabels()["team"], "data")
	assert.Equal(t, after.GetAnnotations()["deployment.kubernetes.io/revision"], "1")
}

// Another writer that keeps changing an object is corrected less and less often.
func TestAContestedObjectIsLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	a, ds, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", "Deployment/proxy")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a.contests.now = func() time.Time { return now }
	scale := func(n int64) { edit(t, planned, func(o map[string]any) { set(t, o, n, "spec", "replicas") }) }
	for range contestFree + 1 {
		scale(7)
		assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Corrected)
	}
	scale(7)
	traffic.take(ds.Namespace)
	result, err := applied(t, a, ownerOf(ds), planned)
	assert.DeepEqual(t, err, &ContestedError{Kind: "Deployment", Name: "proxy", RetryAfter: contestFirst})
	assert.ErrorContains(t, err, "Deployment proxy: another writer keeps changing")
	assert.Equal(t, result.Object.GetName(), "proxy", "its health is still of interest")
	assert.Equal(t, len(traffic.take(ds.Namespace)), 0)
	assert.Equal(t, field(t, fetch(t, planned), "spec", "replicas"), int64(7))

	// A change of the spec is no correction: it is not held up.
	ds.Spec.Proxy.Replica = ptr.To[int32](2)
	planned = pick(t, objectsOf(t, ds), "Deployment/proxy")
	assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Updated)

	scale(7)
	now = now.Add(contestFirst)
	assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Corrected)
	assert.Equal(t, field(t, fetch(t, planned), "spec", "replicas"), int64(2))
}

// A restore that ends between its two writes is finished by the next operator.
func TestAnInterruptedRestoreIsFinished(t *testing.T) {
	t.Parallel()
	_, ds, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", "Service/proxy")
	before := fetch(t, planned)
	edit(t, planned, func(o map[string]any) {
		set(t, o, []any{map[string]any{"name": "http", "port": int64(1234), "protocol": "TCP"}}, "spec", "ports")
	})
	_, err := applied(t, New(&strict{operator, true}, apiReader, ownTypes, ownVersion), ownerOf(ds), planned)
	assert.ErrorContains(t, err, "the operator has ended")

	next := New(operator, apiReader, ownTypes, ownVersion)
	await(t, fetch(t, planned))
	assert.Equal(t, mustApply(t, next, ownerOf(ds), planned).Action, Corrected)
	after := fetch(t, planned)
	assert.DeepEqual(t, after.Object["spec"], before.Object["spec"])
	assert.DeepEqual(t, after.GetAnnotations(), before.GetAnnotations())
	assert.DeepEqual(t, managers(after), managers(before))
	atRest(t, next, ds, planned)
}

// managers is who owns which fields, whenever that was.
func managers(obj *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	fields := obj.GetManagedFields()
	for i := range fields {
		fields[i].Time = nil
	}
	return fields
}
