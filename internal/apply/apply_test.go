// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/preview"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// renderings is every set of objects that the tests know: of the DataServices of package
// preview, of the sample, and of the charts' ci files.
func renderings(t *testing.T) map[string]func(*testing.T, string) (object.Owner, []*unstructured.Unstructured) {
	t.Helper()
	found := map[string]func(*testing.T, string) (object.Owner, []*unstructured.Unstructured){}
	files, err := filepath.Glob("../kinds/dataservice/preview/testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the DataServices are missing")
	for _, file := range append(files, "../../config/samples/d3os-product.com_v1_dataservice.yaml") {
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = func(t *testing.T, namespace string) (object.Owner, []*unstructured.Unstructured) {
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
		found[chart+"/"+strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = func(t *testing.T, namespace string) (object.Owner, []*unstructured.Unstructured) {
			return renderChart(t, chart, file, namespace)
		}
	}
	return found
}

func renderChart(t *testing.T, chart, file, namespace string) (object.Owner, []*unstructured.Unstructured) {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	v := map[string]any{}
	assert.NilError(t, yaml.Unmarshal(data, &v))
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Name: "release", Namespace: namespace, UID: "11111111-2222-3333-4444-555555555555"}}
	v["instance"], v["managedBy"] = ds.Name, object.ManagedBy
	renderer, err := render.New(kubeVersion)
	assert.NilError(t, err)
	rendered, err := renderer.Render(render.Release{Name: ds.Name, Namespace: namespace}, []render.Part{{Name: "part", Chart: chart, Values: v}})
	assert.NilError(t, err)
	for _, obj := range rendered[0] {
		_, err := object.Finish(obj, ownerOf(ds))
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
			a := New(operator, apiReader, ownTypes, ownVersion)
			for _, obj := range objects {
				assert.Equal(t, mustApply(t, a, owner, obj).Action, Created, describe(obj))
			}
			assert.Equal(t, len(traffic.take(namespace)), len(objects))
			for _, applier := range []*Applier{a, a, New(operator, apiReader, ownTypes, ownVersion)} {
				for _, obj := range objects {
					result := mustApply(t, applier, owner, obj)
					assert.Equal(t, result.Action, Unchanged, describe(obj))
					assert.Equal(t, result.Object.GetName(), obj.GetName())
				}
			}
			assert.Equal(t, len(traffic.take(namespace)), 0)
		})
	}
}

func freeNodePorts(t *testing.T, objects []*unstructured.Unstructured) {
	for _, obj := range objects {
		if obj.GetKind() == "Service" {
			assert.NilError(t, client.IgnoreNotFound(user.Delete(context.Background(), obj.DeepCopy()))) // t.Context() has ended
		}
	}
}

// A planned object is not changed by being applied.
func TestApplyLeavesThePlanAlone(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
	a := New(operator, apiReader, ownTypes, ownVersion)
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
	a := New(operator, apiReader, ownTypes, ownVersion)
	for _, obj := range objectsOf(t, ds) {
		mustApply(t, a, ownerOf(ds), obj)
	}
	traffic.take(namespace)

	ds.Spec.Proxy.Image = "registry.example.com/proxy:v2"
	ds.Spec.Proxy.Replica = ptr.To[int32](3)
	var actions []string
	for _, obj := range objectsOf(t, ds) {
		result := mustApply(t, a, ownerOf(ds), obj)
		if result.Action != Unchanged {
			actions = append(actions, string(result.Action)+" "+obj.GetKind()+"/"+obj.GetName())
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
			a := New(operator, apiReader, ownTypes, ownVersion)
			mustApply(t, a, ownerOf(ds), pick(t, objectsOf(t, ds), test.id))
			traffic.take(namespace)
			ds.Spec = platform(t, namespace, test.after).Spec
			planned := pick(t, objectsOf(t, ds), test.id)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Updated)
			assert.Equal(t, len(traffic.take(namespace)), 1)
			atRest(t, a, ds, planned)

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
	a, ds, planned := running(t, "{mysql: {}, eureka: {}, proxy: {resources: {requests: {cpu: 1000m, memory: 4096Mi}, limits: {cpu: 2.0}}}}", "Deployment/proxy")
	assert.DeepEqual(t, container(fetch(t, planned).Object)["resources"], map[string]any{
		"requests": map[string]any{"cpu": "1", "memory": "4Gi"}, "limits": map[string]any{"cpu": "2"},
	})
	atRest(t, a, ds, planned)
}
