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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// renderings is every set of objects that the tests know: of the DataServices of package
// preview, of the sample, and of the charts' ci files.
func renderings(t *testing.T) map[string]func(*platform) []*unstructured.Unstructured {
	t.Helper()
	found := map[string]func(*platform) []*unstructured.Unstructured{}
	files, err := filepath.Glob("../kinds/dataservice/preview/testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the DataServices are missing")
	for _, file := range append(files, "../../config/samples/d3os-product.com_v1_dataservice.yaml") {
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = func(p *platform) []*unstructured.Unstructured {
			p.declareAll(read(p.T, file))
			return p.objects()
		}
	}
	charts, err := filepath.Glob("../../helm-charts/*/ci/*-values.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(charts) > 10, "the charts' ci files are missing")
	for _, file := range charts {
		chart := filepath.Base(filepath.Dir(filepath.Dir(file)))
		found[chart+"/"+strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = func(p *platform) []*unstructured.Unstructured {
			return renderChart(p, chart, read(p.T, file))
		}
	}
	return found
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	return data
}

func renderChart(p *platform, chart string, values []byte) []*unstructured.Unstructured {
	p.Helper()
	v := map[string]any{}
	assert.NilError(p, yaml.Unmarshal(values, &v))
	v["instance"], v["managedBy"] = p.ds.Name, object.ManagedBy
	renderer, err := render.New(kubeVersion)
	assert.NilError(p, err)
	rendered, err := renderer.Render(render.Release{Name: p.ds.Name, Namespace: p.ds.Namespace}, []render.Part{{Name: "part", Chart: chart, Values: v}})
	assert.NilError(p, err)
	_, err = object.FinishAll(rendered[0], p.owner())
	assert.NilError(p, err)
	return rendered[0]
}

// Whatever the charts render is created with one write each, and then left alone: nothing that
// the API server fills in or rewrites counts as a difference, also for an operator that has
// just started.
func TestAtRestNothingIsWrittenOrRead(t *testing.T) {
	t.Parallel()
	all := renderings(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { // not parallel: several have the same node port
			p := start(t, "{}")
			objects := all[name](p)
			t.Cleanup(func() { freeNodePorts(t, objects) })
			for _, obj := range objects {
				assert.Equal(t, p.apply(obj).Action, Created, describe(obj))
			}
			assert.Equal(t, len(traffic.take(p.ds.Namespace)), len(objects))
			for range 2 {
				for _, obj := range objects {
					result := p.apply(obj)
					assert.Equal(t, result.Action, Unchanged, describe(obj))
					assert.Equal(t, result.Object.GetName(), obj.GetName())
				}
				p.restart()
			}
			assert.Equal(t, len(traffic.take(p.ds.Namespace)), 0)
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

// A change of the spec is applied as a whole: no state in between is ever rolled out, and every
// such change can be made in place.
func TestEveryChangeOfTheSpecIsOneWrite(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after, id string }{
		"image, and number of pods": {"{web: {replica: 2}}", "{web: {image: b, replica: 3}}", "Deployment/web"},
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
			p, _ := running(t, test.before, test.id)
			p.declare(test.after)
			planned := p.planned(test.id)
			assert.Equal(t, p.apply(planned).Action, Updated)
			assert.Equal(t, len(traffic.take(p.ds.Namespace)), 1)
			p.atRest(planned)

			// Nothing of the earlier form is left: it is as if it had been created like this.
			got := fetch(t, planned)
			freeNodePorts(t, []*unstructured.Unstructured{planned})
			_, created := running(t, test.after, test.id)
			want := fetch(t, created)
			t.Cleanup(func() { freeNodePorts(t, []*unstructured.Unstructured{created}) })
			for _, ip := range []string{"clusterIP", "clusterIPs"} {
				assert.Equal(t, field(t, got, "spec", ip) != nil, field(t, want, "spec", ip) != nil)
				unstructured.RemoveNestedField(got.Object, "spec", ip)
				unstructured.RemoveNestedField(want.Object, "spec", ip)
			}
			assert.DeepEqual(t, got.Object["spec"], want.Object["spec"])
		})
	}
}
