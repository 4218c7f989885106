// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/plan"
	"d3os.com/d3os-operator/internal/preview"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/values"
)

// renderings is every set of objects that the tests know: of the DataServices of package
// preview, of the sample, and of the charts' ci files.
func renderings(t *testing.T) map[string]func(*testing.T, string) (Owner, []*unstructured.Unstructured) {
	t.Helper()
	found := map[string]func(*testing.T, string) (Owner, []*unstructured.Unstructured){}
	files, err := filepath.Glob("../preview/testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the DataServices are missing")
	for _, file := range append(files, "../../config/samples/d3os-product.com_v1_dataservice.yaml") {
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = func(t *testing.T, namespace string) (Owner, []*unstructured.Unstructured) {
			data, err := os.ReadFile(file)
			assert.NilError(t, err)
			ds, err := preview.Parse(data)
			assert.NilError(t, err)
			ds.Namespace, ds.UID = namespace, "11111111-2222-3333-4444-555555555555"
			return ownerOf(ds), objectsOf(t, ds)
		}
	}
	charts, err := filepath.Glob("../../helm-charts/*/ci/*-values.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(charts) > 10, "the charts' ci files are missing")
	for _, file := range charts {
		chart := filepath.Base(filepath.Dir(filepath.Dir(file)))
		found[chart+"/"+strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = func(t *testing.T, namespace string) (Owner, []*unstructured.Unstructured) {
			return renderChart(t, chart, file, namespace)
		}
	}
	return found
}

func renderChart(t *testing.T, chart, file, namespace string) (Owner, []*unstructured.Unstructured) {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	v := map[string]any{}
	assert.NilError(t, yaml.Unmarshal(data, &v))
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Name: "release", Namespace: namespace, UID: "11111111-2222-3333-4444-555555555555"}}
	v["instance"], v["managedBy"] = ds.Name, values.ManagedBy
	renderer, err := render.New(kubeVersion)
	assert.NilError(t, err)
	rendered, err := renderer.Render(render.Release{Name: ds.Name, Namespace: namespace}, []render.Part{{Name: "part", Chart: chart, Values: v}})
	assert.NilError(t, err)
	for _, object := range rendered[0] {
		_, err := plan.Finish(object, ds)
		assert.NilError(t, err)
	}
	return ownerOf(ds), rendered[0]
}

// Whatever the charts render is created with one write each, and then left alone: nothing that
// the API server fills in or rewrites counts as a difference, also for an operator that has
// just started.
func TestAtRestNothingIsWrittenOrRead(t *testing.T) {
	t.Parallel()
	all := renderings(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { // not parallel: several have the same node port
			namespace := newNamespace(t)
			owner, objects := all[name](t, namespace)
			t.Cleanup(func() { freeNodePorts(t, objects) })
			a := New(operator, apiReader, ownVersion)
			for _, object := range objects {
				assert.Equal(t, mustApply(t, a, owner, object).Action, Created, describe(object))
			}
			assert.Equal(t, len(traffic.take(namespace)), len(objects))
			for _, applier := range []*Applier{a, a, New(operator, apiReader, ownVersion)} {
				for _, object := range objects {
					result := mustApply(t, applier, owner, object)
					assert.Equal(t, result.Action, Unchanged, describe(object))
					assert.Equal(t, result.Object.GetName(), object.GetName())
				}
			}
			assert.Equal(t, len(traffic.take(namespace)), 0)
		})
	}
}

func freeNodePorts(t *testing.T, objects []*unstructured.Unstructured) {
	for _, object := range objects {
		if object.GetKind() == "Service" {
			assert.NilError(t, client.IgnoreNotFound(user.Delete(context.Background(), object.DeepCopy()))) // t.Context() has ended
		}
	}
}

// A planned object is not changed by being applied.
func TestApplyLeavesThePlanAlone(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
	a := New(operator, apiReader, ownVersion)
	for _, planned := range objectsOf(t, ds) {
		before := planned.DeepCopy()
		mustApply(t, a, ownerOf(ds), planned)
		mustApply(t, a, ownerOf(ds), planned)
		assert.DeepEqual(t, planned, before)
	}
}

func TestAnUpdateIsOneWrite(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{proxy: {replica: 2}, mysql: {}, eureka: {}}")
	a := New(operator, apiReader, ownVersion)
	for _, object := range objectsOf(t, ds) {
		mustApply(t, a, ownerOf(ds), object)
	}
	traffic.take(namespace)

	ds.Spec.Proxy.Image = "registry.example.com/proxy:v2"
	ds.Spec.Proxy.Replica = ptr.To[int32](3)
	var actions []string
	for _, object := range objectsOf(t, ds) {
		result := mustApply(t, a, ownerOf(ds), object)
		if result.Action != Unchanged {
			actions = append(actions, string(result.Action)+" "+object.GetKind()+"/"+object.GetName())
		}
	}
	assert.DeepEqual(t, actions, []string{"update Deployment/proxy"})
	assert.DeepEqual(t, writes(namespace), []string{"PATCH deployments/proxy"})
	live := fetch(t, pick(t, objectsOf(t, ds), "Deployment/proxy"))
	assert.Equal(t, container(live.Object)["image"], "registry.example.com/proxy:v2")
	assert.Equal(t, field(t, live, "spec", "replicas"), int64(3))
}

// A change of the spec is applied as a whole: no state in between is ever rolled out, and every
// such change can be made in place.
func TestEveryChangeOfTheSpecIsOneWrite(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after, id string }{
		"image, and a variable less": {
			"{eureka: {image: a, env: {A: b}}}", "{eureka: {image: b}}", "Deployment/eureka",
		},
		"port of the workload":    {"{eureka: {}}", "{eureka: {port: 1234}}", "Deployment/eureka"},
		"port of the Service":     {"{eureka: {}}", "{eureka: {port: 1234}}", "Service/eureka"},
		"to a third party":        {"{eureka: {}}", "{eureka: {kind: 3, thirdParty: {url: 'http://a.example.com'}}}", "Service/eureka"},
		"back from a third party": {"{eureka: {kind: 3, thirdParty: {url: 'http://a.example.com'}}}", "{eureka: {}}", "Service/eureka"},
		"a node port":             {"{eureka: {}}", "{eureka: {nodePort: 30999}}", "Service/eureka"},
		"no node port":            {"{eureka: {nodePort: 30998}}", "{eureka: {}}", "Service/eureka"},
		"the data elsewhere":      {"{mysql: {kind: Deployment}}", "{mysql: {kind: Deployment, storage: {retention: Delete}}}", "PersistentVolumeClaim/data-mysql-dataservice-0"},
		"a set's retention":       {"{mysql: {}}", "{mysql: {storage: {retention: Delete}}}", "StatefulSet/mysql-dataservice"},
		"user's own script":       {"{mysql: {initScripts: [{name: a}]}}", "{mysql: {initScripts: [{name: b}]}}", "StatefulSet/mysql-dataservice"},
		"resources less": {
			"{eureka: {resources: {requests: {cpu: 1}, limits: {cpu: 1}}}}", "{eureka: {resources: {requests: {cpu: 2}}}}", "Deployment/eureka",
		},
		"another host": {
			"{eureka: {kind: 3, thirdParty: {url: 'http://a.example.com'}}}", "{eureka: {kind: 3, thirdParty: {url: 'http://b.example.com'}}}", "Service/eureka",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			ds := platform(t, namespace, test.before)
			a := New(operator, apiReader, ownVersion)
			mustApply(t, a, ownerOf(ds), pick(t, objectsOf(t, ds), test.id))
			traffic.take(namespace)
			ds.Spec = platform(t, namespace, test.after).Spec
			planned := pick(t, objectsOf(t, ds), test.id)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Updated)
			assert.Equal(t, len(traffic.take(namespace)), 1)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
			assert.Equal(t, len(traffic.take(namespace)), 0)

			// Nothing of the earlier form is left: it is as if it had been created like this.
			got := fetch(t, planned)
			freeNodePorts(t, []*unstructured.Unstructured{planned})
			fresh := newNamespace(t)
			again := platform(t, fresh, test.after)
			created := pick(t, objectsOf(t, again), test.id)
			mustApply(t, a, ownerOf(again), created)
			want := fetch(t, created)
			t.Cleanup(func() { freeNodePorts(t, []*unstructured.Unstructured{created}) })
			for _, ip := range []string{"clusterIP", "clusterIPs"} {
				if field(t, want, "spec", ip) != nil {
					assert.Assert(t, field(t, got, "spec", ip) != nil)
				}
				unstructured.RemoveNestedField(got.Object, "spec", ip)
				unstructured.RemoveNestedField(want.Object, "spec", ip)
			}
			assert.DeepEqual(t, got.Object["spec"], want.Object["spec"])
		})
	}
}

// Canonical form: the API server rewrites 1000m to 1 and 4096Mi to 4Gi.
func TestQuantitiesAreNoDrift(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{mysql: {}, eureka: {}, proxy: {resources: {requests: {cpu: 1000m, memory: 4096Mi}, limits: {cpu: 2.0}}}}")
	planned := pick(t, objectsOf(t, ds), "Deployment/proxy")
	a := New(operator, apiReader, ownVersion)
	mustApply(t, a, ownerOf(ds), planned)
	assert.DeepEqual(t, container(fetch(t, planned).Object)["resources"], map[string]any{
		"requests": map[string]any{"cpu": "1", "memory": "4Gi"}, "limits": map[string]any{"cpu": "2"},
	})
	traffic.take(namespace)
	assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
	assert.Equal(t, len(traffic.take(namespace)), 0)
}

// Drift is what somebody else changed of what the plan sets.
func TestDriftIsCorrected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id     string
		change func(t *testing.T, object map[string]any)
	}{
		"replicas": {"Deployment/proxy", func(t *testing.T, o map[string]any) { set(t, o, int64(0), "spec", "replicas") }},
		"image":    {"Deployment/proxy", func(_ *testing.T, o map[string]any) { container(o)["image"] = "evil" }},
		"value of a variable": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			env := find(items(container(o), "env"), nameKey, "TZ")
			env["value"] = "UTC"
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
			unstructured.RemoveNestedField(o, "metadata", "labels", plan.LabelPartOf)
		}},
		"instance label edited": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, o["metadata"].(map[string]any)["labels"].(map[string]any), "other", plan.LabelInstance)
		}},
		"managed-by label removed": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "metadata", "labels", plan.LabelManagedBy)
		}},
		"managed-by label edited": {"ConfigMap/proxy", func(t *testing.T, o map[string]any) {
			set(t, o["metadata"].(map[string]any)["labels"].(map[string]any), "other", plan.LabelManagedBy)
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
			unstructured.RemoveNestedField(o, "metadata", "annotations", plan.AnnotationDigest)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
			planned := pick(t, objectsOf(t, ds), test.id)
			a := New(operator, apiReader, ownVersion)
			mustApply(t, a, ownerOf(ds), planned)
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
			for _, object := range []*unstructured.Unstructured{before, after} {
				object.SetManagedFields(nil)
				object.SetResourceVersion("")
				object.SetGeneration(0)
			}
			assert.DeepEqual(t, after, before)
			traffic.take(namespace)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
			assert.Equal(t, len(traffic.take(namespace)), 0)
		})
	}
}

// Foreign entries are those that change what runs though nobody declared them.
func TestForeignEntriesAreRemoved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id  string
		add func(t *testing.T, object map[string]any)
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
			namespace := newNamespace(t)
			ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
			planned := pick(t, objectsOf(t, ds), test.id)
			a := New(operator, apiReader, ownVersion)
			mustApply(t, a, ownerOf(ds), planned)
			before := fetch(t, planned)
			edit(t, planned, func(o map[string]any) { test.add(t, o) })
			traffic.take(namespace)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Corrected)
			assert.Equal(t, len(traffic.take(namespace)), 1)
			after := fetch(t, planned)
			assert.DeepEqual(t, after.Object["data"], before.Object["data"])
			assert.DeepEqual(t, after.Object["binaryData"], before.Object["binaryData"])
			assert.DeepEqual(t, after.Object["spec"], before.Object["spec"])
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
			assert.Equal(t, len(traffic.take(namespace)), 0)
		})
	}
}

// What others add beside the plan stays: a sidecar with its volume, annotations and labels.
func TestWelcomeAdditionsStay(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
	planned := pick(t, objectsOf(t, ds), "Deployment/proxy")
	a := New(operator, apiReader, ownVersion)
	mustApply(t, a, ownerOf(ds), planned)
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
	traffic.take(namespace)
	assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
	assert.Equal(t, len(traffic.take(namespace)), 0)

	// They also stay when the plan changes.
	ds.Spec.Proxy.Image = "registry.example.com/proxy:v2"
	assert.Equal(t, mustApply(t, a, ownerOf(ds), pick(t, objectsOf(t, ds), "Deployment/proxy")).Action, Updated)
	after := fetch(t, planned)
	container(added.Object)["image"] = "registry.example.com/proxy:v2"
	assert.DeepEqual(t, after.Object["spec"], added.Object["spec"])
	assert.Equal(t, after.GetLabels()["team"], "data")
	assert.Equal(t, after.GetAnnotations()["deployment.kubernetes.io/revision"], "1")
}

// oneOfEach is an object of every kind in Kinds.
func oneOfEach(t *testing.T, namespace string) (*dsv1.DataService, map[string]*unstructured.Unstructured) {
	t.Helper()
	ds := platform(t, namespace, `{proxy: {replica: 2, autoscaling: {max: 3}}, mysql: {kind: Deployment, storage: {retention: Delete}}, eureka: {kind: StatefulSet, replica: 2},
		uuc: {kind: DaemonSet, image: x, port: 80}, web: {ingress: {host: a.example.com}}, networkPolicy: {enabled: true},
		cronJobs: [{name: job, schedule: '@daily', image: x}]}`)
	found := map[string]*unstructured.Unstructured{}
	for _, object := range objectsOf(t, ds) {
		found[object.GetKind()] = object
	}
	for _, gvk := range Kinds {
		assert.Assert(t, found[gvk.Kind] != nil, "no %s is rendered", gvk.Kind)
	}
	return ds, found
}

// An object of that name that belongs to somebody else is left exactly as it is.
func TestForeignObjectsAreConflicts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		disguise func(object *unstructured.Unstructured)
		holder   string
	}{
		"no mark at all": {func(o *unstructured.Unstructured) {
			o.SetLabels(nil)
			o.SetAnnotations(nil)
			o.SetOwnerReferences(nil)
		}, "somebody else"},
		"made by Helm": {func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{plan.LabelManagedBy: "Helm", plan.LabelInstance: "platform"})
			o.SetAnnotations(nil)
			o.SetOwnerReferences(nil)
		}, "Helm"},
		"of another DataService": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: "d3os-product.com.d3os/v1", Kind: "DataService", Name: "other", UID: "other", Controller: ptr.To(true),
			}})
		}, "DataService other"},
		"of an earlier DataService of the same name": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: "d3os-product.com.d3os/v1", Kind: "DataService", Name: "platform", UID: "earlier", Controller: ptr.To(true),
			}})
		}, "DataService platform"},
		"left behind by another DataService": {func(o *unstructured.Unstructured) {
			labels := o.GetLabels()
			labels[plan.LabelInstance] = "other"
			o.SetLabels(labels)
			o.SetOwnerReferences(nil)
		}, "DataService other"},
	} {
		for _, gvk := range Kinds {
			t.Run(name+"/"+gvk.Kind, func(t *testing.T) {
				t.Parallel()
				namespace := newNamespace(t)
				ds, objects := oneOfEach(t, namespace)
				planned := objects[gvk.Kind]
				theirs := planned.DeepCopy()
				test.disguise(theirs)
				theirs = create(t, theirs)

				a := New(operator, apiReader, ownVersion)
				_, err := applied(t, a, ownerOf(ds), planned)
				assert.DeepEqual(t, err, &ConflictError{Kind: gvk.Kind, Name: planned.GetName(), Holder: test.holder})
				assert.ErrorContains(t, err, gvk.Kind+" "+planned.GetName()+" exists and belongs to "+test.holder)
				assert.DeepEqual(t, fetch(t, planned), theirs)
			})
		}
	}
}

// An object that the cache does not show yet is not written over, whoever made it.
func TestCreateIsNeverDoneOverAnExistingObject(t *testing.T) {
	t.Parallel()
	for _, gvk := range Kinds {
		t.Run(gvk.Kind, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			ds, objects := oneOfEach(t, namespace)
			planned := objects[gvk.Kind]
			a := New(operator, apiReader, ownVersion)
			mustApply(t, a, ownerOf(ds), planned)
			edit(t, planned, func(o map[string]any) {
				unstructured.RemoveNestedField(o, "metadata", "labels", plan.LabelManagedBy)
			})
			hidden := fetch(t, planned)
			traffic.take(namespace)

			// The request that creates changes nothing by itself: that is the API server's doing.
			object := planned.DeepCopy()
			object.SetResourceVersion("1")
			err := a.apply(t.Context(), object)
			assert.Assert(t, apierrors.IsConflict(err), "%v", err)
			assert.DeepEqual(t, fetch(t, planned), hidden)
			traffic.take(namespace)

			// It is the owner's all the same, and comes back as it was.
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Corrected)
			assert.Equal(t, fetch(t, planned).GetUID(), hidden.GetUID())
			await(t, fetch(t, planned))
			traffic.take(namespace)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
			assert.Equal(t, len(traffic.take(namespace)), 0)
		})
	}
}

// Values of a Secret that the cache does not show are not written over: they may have been generated.
func TestUnseenValuesStay(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds, objects := oneOfEach(t, namespace)
	planned := objects["Secret"]
	a := New(operator, apiReader, ownVersion)
	mustApply(t, a, ownerOf(ds), planned)
	edit(t, planned, func(o map[string]any) {
		unstructured.RemoveNestedField(o, "metadata", "labels", plan.LabelManagedBy)
	})
	before := fetch(t, planned)
	other := planned.DeepCopy()
	data, _, err := unstructured.NestedStringMap(other.Object, "data")
	assert.NilError(t, err)
	for key := range data {
		data[key] = "b3RoZXI="
	}
	assert.NilError(t, unstructured.SetNestedStringMap(other.Object, data, "data"))
	_, err = applied(t, a, ownerOf(ds), other)
	var unseen *UnseenError
	assert.Assert(t, errors.As(err, &unseen), "%v", err)
	assert.DeepEqual(t, unseen.Live.Object["data"], before.Object["data"])
	assert.DeepEqual(t, fetch(t, planned), before)
	_, err = a.Apply(t.Context(), ownerOf(ds), other, unseen.Live)
	assert.NilError(t, err)
	assert.DeepEqual(t, fetch(t, planned).Object["data"], other.Object["data"])
}

// Retained data and the credentials that open it are taken up by a DataService of the same name.
func TestRetainedObjectsAreTakenUp(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"Secret/mysql-dataservice-credentials", "PersistentVolumeClaim/data-mysql-dataservice-0"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			const spec = "{mysql: {kind: Deployment}}"
			earlier := platform(t, namespace, spec)
			a := New(operator, apiReader, ownVersion)
			first := mustApply(t, a, ownerOf(earlier), pick(t, objectsOf(t, earlier), id))
			assert.Equal(t, first.Action, Created)
			assert.Equal(t, len(first.Object.GetOwnerReferences()), 0)
			traffic.take(namespace)

			later := platform(t, namespace, spec)
			second := mustApply(t, New(operator, apiReader, ownVersion), ownerOf(later), pick(t, objectsOf(t, later), id))
			assert.Equal(t, second.Action, Unchanged)
			assert.Equal(t, second.Object.GetUID(), first.Object.GetUID())
			assert.Equal(t, len(traffic.take(namespace)), 0)

			// Once they are to go with it, they get an owner.
			later.Spec.MySQL.Storage.Retention = dsv1.RetentionDelete
			third := mustApply(t, a, ownerOf(later), pick(t, objectsOf(t, later), id))
			assert.Equal(t, third.Action, Updated)
			live := fetch(t, third.Object)
			assert.Equal(t, live.GetUID(), first.Object.GetUID())
			assert.Equal(t, metav1.GetControllerOf(live).UID, later.UID)
			assert.Assert(t, !plan.Kept(live))

			// And lose it when they are to stay after all.
			later.Spec.MySQL.Storage.Retention = dsv1.RetentionRetain
			mustApply(t, a, ownerOf(later), pick(t, objectsOf(t, later), id))
			assert.Equal(t, len(fetch(t, third.Object).GetOwnerReferences()), 0)
		})
	}
}

// A claim that a StatefulSet made has the labels but no digest; the Deployment that takes its
// place uses it, and does not shrink it.
func TestAClaimOfAStatefulSetIsTakenUp(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{mysql: {kind: Deployment, storage: {size: 10Gi}}}")
	planned := pick(t, objectsOf(t, ds), "PersistentVolumeClaim/data-mysql-dataservice-0")
	theirs := planned.DeepCopy()
	theirs.SetAnnotations(nil)
	set(t, theirs.Object, "20Gi", storageRequest...)
	theirs = create(t, theirs)

	a := New(operator, apiReader, ownVersion)
	result := mustApply(t, a, ownerOf(ds), planned)
	assert.Equal(t, result.Action, Updated)
	live := fetch(t, planned)
	assert.Equal(t, live.GetUID(), theirs.GetUID())
	assert.Equal(t, field(t, live, storageRequest...), "20Gi")
	assert.Assert(t, plan.Kept(live))
	traffic.take(namespace)
	assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
	assert.Equal(t, len(traffic.take(namespace)), 0)
}

// A StatefulSet whose claim templates change is deleted without its pods and made anew.
func TestAStatefulSetIsReplacedAroundItsPods(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{mysql: {}}")
	const id = "StatefulSet/mysql-dataservice"
	a := New(operator, apiReader, ownVersion)
	first := mustApply(t, a, ownerOf(ds), pick(t, objectsOf(t, ds), id)).Object
	traffic.take(namespace)

	ds.Spec.MySQL.Storage.Size = resource.MustParse("20Gi")
	planned := pick(t, objectsOf(t, ds), id)
	result := mustApply(t, a, ownerOf(ds), planned)
	assert.Equal(t, result.Action, Replaced)
	assert.Assert(t, result.Object == nil)
	policy, uid := deletion(t, namespace)
	assert.Equal(t, policy, metav1.DeletePropagationOrphan)
	assert.Equal(t, uid, first.GetUID())

	// No garbage collector runs here: until it is gone, nothing is done.
	await(t, fetch(t, planned))
	assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Waiting)
	assert.Equal(t, len(traffic.take(namespace)), 0)
	ending := fetch(t, planned)
	ending.SetFinalizers(nil)
	assert.NilError(t, user.Update(t.Context(), ending))
	awaitGone(t, planned)
	result = mustApply(t, a, ownerOf(ds), planned)
	assert.Equal(t, result.Action, Created)
	assert.Assert(t, result.Object.GetUID() != first.GetUID())
}

// deletion returns how the one object that was deleted was deleted.
func deletion(t *testing.T, namespace string) (metav1.DeletionPropagation, types.UID) {
	t.Helper()
	var found []metav1.DeleteOptions
	for _, r := range traffic.take(namespace) {
		if r.method == "DELETE" {
			var o metav1.DeleteOptions
			assert.NilError(t, json.Unmarshal([]byte(r.body), &o))
			found = append(found, o)
		}
	}
	assert.Equal(t, len(found), 1)
	return *found[0].PropagationPolicy, *found[0].Preconditions.UID
}

// A changed selector means other pods: the old ones go with their workload.
func TestAChangedSelectorReplacesTheWorkload(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			ds := platform(t, namespace, "{uuc: {kind: "+kind+", image: x, port: 80}}")
			planned := pick(t, objectsOf(t, ds), kind+"/uuc")
			earlier := planned.DeepCopy()
			set(t, earlier.Object, "earlier", "spec", "selector", "matchLabels", "app")
			set(t, earlier.Object, "earlier", "spec", "template", "metadata", "labels", "app")
			earlier.SetAnnotations(map[string]string{plan.AnnotationDigest: "earlier"})
			a := New(operator, apiReader, ownVersion)
			mustApply(t, a, ownerOf(ds), earlier)
			uid := fetch(t, planned).GetUID()
			traffic.take(namespace)

			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Replaced)
			policy, deleted := deletion(t, namespace)
			assert.Equal(t, policy, metav1.DeletePropagationBackground)
			assert.Equal(t, deleted, uid)
			awaitGone(t, planned)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Created)
		})
	}
}

// A value that the API server refuses for what it is must not cost the running workload.
func TestAnInvalidObjectReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, object *unstructured.Unstructured){
		"StatefulSet/mysql-dataservice": func(_ *testing.T, o *unstructured.Unstructured) { container(o.Object)["image"] = "" },
		"Deployment/proxy": func(t *testing.T, o *unstructured.Unstructured) {
			set(t, o.Object, int64(-1), "spec", "replicas")
		},
		"Service/proxy": func(t *testing.T, o *unstructured.Unstructured) { set(t, o.Object, "Nonsense", "spec", "type") },
		// Invalid and immutable at once: a new one could not be created.
		"Deployment/eureka": func(t *testing.T, o *unstructured.Unstructured) {
			set(t, o.Object, "b", "spec", "selector", "matchLabels", "app")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
			planned := pick(t, objectsOf(t, ds), name)
			a := New(operator, apiReader, ownVersion)
			mustApply(t, a, ownerOf(ds), planned)
			before := fetch(t, planned)
			invalid := planned.DeepCopy()
			change(t, invalid)
			set(t, invalid.Object, "new", "metadata", "annotations", plan.AnnotationDigest)
			_, err := applied(t, a, ownerOf(ds), invalid)
			assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
			assert.ErrorContains(t, err, "update "+planned.GetKind()+" "+namespace+"/"+planned.GetName())
			assert.DeepEqual(t, fetch(t, planned), before)
		})
	}
}

func TestVolumesGrowAndNeverShrink(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: namespace}, // classes have no namespace
		Provisioner: "example.com/none", AllowVolumeExpansion: ptr.To(true),
	}
	assert.NilError(t, user.Create(t.Context(), class))
	ds := platform(t, namespace, "{mysql: {storage: {size: 10Gi, storageClassName: "+class.Name+"}}}")
	small := pick(t, objectsOf(t, ds), "StatefulSet/mysql-dataservice")
	claim := claimOf(t, small, "data-mysql-dataservice-0")
	foreign := claimOf(t, small, "data-mysql-other-0") // of another set

	a := New(operator, apiReader, ownVersion)
	assert.NilError(t, a.GrowVolumes(t.Context(), small))
	assert.DeepEqual(t, writes(namespace), []string{})

	ds.Spec.MySQL.Storage.Size = resource.MustParse("20Gi")
	larger := pick(t, objectsOf(t, ds), "StatefulSet/mysql-dataservice")
	assert.NilError(t, a.GrowVolumes(t.Context(), larger))
	assert.DeepEqual(t, writes(namespace), []string{"PATCH persistentvolumeclaims/data-mysql-dataservice-0"})
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "20Gi")
	assert.Equal(t, field(t, fetch(t, foreign), storageRequest...), "10Gi")

	assert.NilError(t, a.GrowVolumes(t.Context(), larger))
	assert.NilError(t, a.GrowVolumes(t.Context(), small))
	assert.DeepEqual(t, writes(namespace), []string{})
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "20Gi")

	// A Deployment's claim is an object of the plan, and behaves alike.
	deployed := platform(t, namespace, "{mysql: {kind: Deployment, storage: {size: 30Gi, storageClassName: "+class.Name+"}}}")
	grown := pick(t, objectsOf(t, deployed), "PersistentVolumeClaim/data-mysql-dataservice-0")
	assert.Equal(t, mustApply(t, a, ownerOf(deployed), grown).Action, Updated)
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "30Gi")
	deployed.Spec.MySQL.Storage.Size = resource.MustParse("5Gi")
	mustApply(t, a, ownerOf(deployed), pick(t, objectsOf(t, deployed), "PersistentVolumeClaim/data-mysql-dataservice-0"))
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "30Gi")
}

// claimOf does what the controllers of StatefulSets and volumes do: a bound claim.
func claimOf(t *testing.T, set *unstructured.Unstructured, name string) *unstructured.Unstructured {
	t.Helper()
	templates, _, err := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	assert.NilError(t, err)
	claim := &unstructured.Unstructured{Object: templates[0].(map[string]any)}
	claim.SetName(name)
	claim.SetNamespace(set.GetNamespace())
	assert.NilError(t, user.Create(t.Context(), claim))
	claim.Object["status"] = map[string]any{"phase": string(corev1.ClaimBound)}
	assert.NilError(t, user.Status().Update(t.Context(), claim))
	await(t, claim)
	return claim
}

func TestDeleteSparesANamesake(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
	planned := pick(t, objectsOf(t, ds), "ConfigMap/proxy")
	a := New(operator, apiReader, ownVersion)
	first := mustApply(t, a, ownerOf(ds), planned).Object
	assert.NilError(t, user.Delete(t.Context(), first.DeepCopy()))
	awaitGone(t, planned)
	assert.NilError(t, a.Delete(t.Context(), first), "what is gone already is no error")
	second := mustApply(t, a, ownerOf(ds), planned).Object
	assert.ErrorContains(t, a.Delete(t.Context(), first), "delete ConfigMap "+namespace+"/proxy")
	assert.Equal(t, fetch(t, planned).GetUID(), second.GetUID())
	assert.NilError(t, a.Delete(t.Context(), second))
	awaitGone(t, planned)
}

func TestOwned(t *testing.T) {
	t.Parallel()
	namespace, elsewhere := newNamespace(t), newNamespace(t)
	a := New(operator, apiReader, ownVersion)
	mine := platform(t, namespace, "{mysql: {kind: Deployment}, eureka: {kind: StatefulSet}, uuc: {kind: DaemonSet, image: x, port: 80}}")
	other := platform(t, namespace, "{eureka: {name: registry}}")
	other.Name = "other"
	abroad := platform(t, elsewhere, "{eureka: {}}")
	abroad.UID = mine.UID
	want := []string{}
	for _, ds := range []*dsv1.DataService{mine, other, abroad} {
		for _, object := range objectsOf(t, ds) {
			mustApply(t, a, ownerOf(ds), object)
			if ds == mine && !plan.Kept(object) {
				want = append(want, object.GetKind()+"/"+object.GetName())
			}
		}
	}
	for _, object := range objectsOf(t, mine) { // a list may lag
		await(t, fetch(t, object))
	}
	owned, err := a.Owned(t.Context(), ownerOf(mine), namespace)
	assert.NilError(t, err)
	got := []string{}
	for _, object := range owned {
		got = append(got, object.GetKind()+"/"+object.GetName())
	}
	slices.Sort(want)
	slices.Sort(got)
	assert.DeepEqual(t, got, want)

	owned, err = a.Owned(t.Context(), Owner{Name: mine.Name, UID: "another life"}, namespace)
	assert.NilError(t, err)
	assert.Equal(t, len(owned), 0)
}

// Objects carry the version of the operator that wrote them; those of a newer one are left alone.
func TestObjectsOfANewerOperator(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
	newer, same := New(operator, apiReader, "1.3.0"), New(operator, apiReader, ownVersion)
	older := New(operator, apiReader, "1.2.2")
	objects := objectsOf(t, ds)
	for _, object := range objects {
		mustApply(t, newer, ownerOf(ds), object)
		live := fetch(t, object)
		assert.Equal(t, live.GetAnnotations()[plan.AnnotationWriter], "1.3.0")
		assert.Equal(t, plan.Digest(live), plan.Digest(object), "the version is no part of the digest")
		if template, found, _ := unstructured.NestedMap(live.Object, "spec", "template", "metadata", "annotations"); found {
			_, signed := template[plan.AnnotationWriter]
			assert.Assert(t, !signed, "a version on pods would restart them")
		}
		await(t, live)
	}
	traffic.take(namespace)
	proxy := pick(t, objects, "Deployment/proxy")
	want := &NewerError{Kind: "ConfigMap", Name: "mysql-dataservice", Writer: "1.3.0", Version: ownVersion}
	_, err := same.Owned(t.Context(), ownerOf(ds), namespace)
	assert.DeepEqual(t, err, want)
	assert.ErrorContains(t, err, "written by version 1.3.0 of the operator, and this is 1.2.3")
	_, err = applied(t, same, ownerOf(ds), proxy)
	assert.DeepEqual(t, err, &NewerError{Kind: "Deployment", Name: "proxy", Writer: "1.3.0", Version: ownVersion})
	assert.DeepEqual(t, writes(namespace), []string{})

	// A version that has no place in the order, such as a developer's, stops nobody.
	for _, unordered := range []*Applier{New(operator, apiReader, "0.0.0-dev"), newer} {
		owned, err := unordered.Owned(t.Context(), ownerOf(ds), namespace)
		assert.NilError(t, err)
		assert.Equal(t, len(owned), len(slices.DeleteFunc(slices.Clone(objects), plan.Kept)))
		assert.Equal(t, mustApply(t, unordered, ownerOf(ds), proxy).Action, Unchanged)
	}

	// What an operator has not written does not bind it to a version, nor does an unchanged object.
	for _, object := range objects {
		edit(t, object, func(o map[string]any) {
			unstructured.RemoveNestedField(o, "metadata", "annotations", plan.AnnotationWriter)
		})
	}
	traffic.take(namespace)
	for _, object := range objects {
		assert.Equal(t, mustApply(t, same, ownerOf(ds), object).Action, Unchanged)
	}
	assert.DeepEqual(t, writes(namespace), []string{})
	edit(t, proxy, func(o map[string]any) { set(t, o, int64(7), "spec", "replicas") })
	await(t, mustApply(t, same, ownerOf(ds), proxy).Object)
	assert.Equal(t, fetch(t, proxy).GetAnnotations()[plan.AnnotationWriter], ownVersion)
	_, err = older.Owned(t.Context(), ownerOf(ds), namespace)
	assert.DeepEqual(t, err, &NewerError{Kind: "Deployment", Name: "proxy", Writer: ownVersion, Version: "1.2.2"})

	// A foreign entry is taken out by an update, which signs as well.
	config := pick(t, objects, "ConfigMap/proxy")
	edit(t, config, func(o map[string]any) { set(t, o, "x", "data", "more") })
	mustApply(t, same, ownerOf(ds), config)
	assert.Equal(t, fetch(t, config).GetAnnotations()[plan.AnnotationWriter], ownVersion)
}

// Another writer that keeps changing an object is corrected less and less often.
func TestAContestedObjectIsLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
	planned := pick(t, objectsOf(t, ds), "Deployment/proxy")
	a := New(operator, apiReader, ownVersion)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a.contests.now = func() time.Time { return now }
	mustApply(t, a, ownerOf(ds), planned)
	scale := func(n int64) { edit(t, planned, func(o map[string]any) { set(t, o, n, "spec", "replicas") }) }
	for range contestFree + 1 {
		scale(7)
		assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Corrected)
	}
	scale(7)
	traffic.take(namespace)
	result, err := applied(t, a, ownerOf(ds), planned)
	assert.DeepEqual(t, err, &ContestedError{Kind: "Deployment", Name: "proxy", RetryAfter: contestFirst})
	assert.ErrorContains(t, err, "Deployment proxy: another writer keeps changing")
	assert.Equal(t, result.Object.GetName(), "proxy", "its health is still of interest")
	assert.Equal(t, len(traffic.take(namespace)), 0)
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
