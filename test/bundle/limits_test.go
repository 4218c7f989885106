// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/hack/crd/bounds"
	"d3os.com/d3os-operator/internal/etcd"
	mysqlcluster "d3os.com/d3os-operator/internal/mysql/cluster"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

const (
	// atMost is the maximum processor time of a plan, as a multiple of the time for planning the sample with every field. On a machine that plans
	// this sample in 25 ms, it is a second.
	atMost = 40
	// largest is the maximum size of a resource in etcd, minus the bytes that the operator adds.
	largest = 1_200_000
)

// kind contains the smallest spec of a kind, and a function that plans a spec.
type kind struct {
	file, spec string
	plan       func(t *testing.T, spec map[string]any) (client.Object, error)
}

func all(t *testing.T) []kind {
	t.Helper()
	renderer, err := render.New(plan.KubeVersion)
	assert.NilError(t, err)
	none := reconcile.Inputs{
		Lookup:     func(string, string) (*unstructured.Unstructured, error) { return nil, nil },
		LookupLive: func(string, string) (*unstructured.Unstructured, error) { return nil, nil },
		List:       func(string) ([]*unstructured.Unstructured, error) { return nil, nil },
	}
	redis := redis.New(renderer, redis.Images{Agent: "example.com/operator:v1"}, nil, nil, nil, 0)
	etcd := etcd.New(renderer, etcd.Images{Agent: "example.com/operator:v1"}, nil, nil, nil, 0)
	mysql := mysqlcluster.New(renderer, mysqlcluster.Images{Agent: "example.com/operator:v1"}, mysqlcluster.Options{}, nil, nil)
	return []kind{
		{"d3os-product.com.d3os_dataservices", `{}`, func(t *testing.T, spec map[string]any) (client.Object, error) {
			ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "platform"}}
			into(t, spec, &ds.Spec)
			dsv1.SetDefaults(ds)
			_, err := plan.Planned(ds, plan.NewPlanner(renderer, nil), plan.NewPreview(), none.Lookup)
			return ds, err
		}},
		{"redis.middleware.hc.cn_redisclusters", `{"replicas":6,"storage":{"size":"1Gi"}}`, func(t *testing.T, spec map[string]any) (client.Object, error) {
			return planned(t, redis, &redisv1.RedisCluster{}, spec, none)
		}},
		{"etcd.database.coreos.com_etcdclusters", `{"replicas":3,"storage":"1Gi"}`, func(t *testing.T, spec map[string]any) (client.Object, error) {
			return planned(t, etcd, &etcdv1.EtcdCluster{}, spec, none)
		}},
		{"d3os-product.com.d3os_mysqlclusters", `{"replicas":3,"storage":{"size":"1Gi"}}`, func(t *testing.T, spec map[string]any) (client.Object, error) {
			return planned(t, mysql, &mysqlv1.MySQLCluster{}, spec, none)
		}},
	}
}

func planned[T client.Object, O any](t *testing.T, k reconcile.Kind[T, O], resource T, spec map[string]any, in reconcile.Inputs) (client.Object, error) {
	t.Helper()
	into(t, map[string]any{"metadata": map[string]any{"name": "a", "namespace": "data"}, "spec": spec}, resource)
	_, err := k.Plan(resource, in, new(O))
	return resource, err
}

func into(t *testing.T, value, target any) {
	t.Helper()
	data, err := json.Marshal(value)
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(data, target), "%.200s", data)
}

// Every list, map and text of every kind has a bound. The CRD fits into the annotation in which kubectl apply stores it.
func TestEveryFieldIsBounded(t *testing.T) {
	t.Parallel()
	for name, crd := range definitions(t) {
		for _, version := range crd.Spec.Versions {
			missing := bounds.Missing(version.Schema.OpenAPIV3Schema)
			assert.Equal(t, len(missing), 0, "%s: %v", name, missing)
		}
		data, err := json.Marshal(crd)
		assert.NilError(t, err)
		assert.Assert(t, len(data) < 250<<10, "%s has %d bytes", name, len(data))
	}
}

// The operator plans or refuses the largest value of any field in bounded time. Neighbours change the measured processor time, so make test
// omits this test.
func TestLargestValueOfEveryFieldPlansInTime(t *testing.T) {
	harness.Long(t)
	crds := definitions(t)
	for _, k := range all(t) {
		places := map[string]apiextensionsv1.JSONSchemaProps{}
		collect(places, "", crds[k.file].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
		for _, path := range slices.Sorted(maps.Keys(places)) {
			if twin.MatchString(path) {
				continue
			}
			schema := places[path]
			var spec map[string]any
			assert.NilError(t, json.Unmarshal([]byte(k.spec), &spec))
			put(spec, strings.Split(strings.TrimPrefix(path, "."), "."), value(path, &schema, largest))
			complete(spec, path)
			measure(t, k.file+path, k, spec)
		}
	}
}

// The operator plans or refuses the largest number in any field in bounded time, also together with a podTemplate.
func TestLargestNumberOfEveryFieldPlansInTime(t *testing.T) {
	harness.Long(t)
	crds := definitions(t)
	template := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": strings.Repeat("x", 7000)}}}
	for _, k := range all(t) {
		for path, most := range numbers("", crds[k.file].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]) {
			if twin.MatchString(path) || strings.Contains(path, "[]") {
				continue
			}
			for _, hasTemplate := range []bool{false, true} {
				var spec map[string]any
				assert.NilError(t, json.Unmarshal([]byte(k.spec), &spec))
				put(spec, strings.Split(strings.TrimPrefix(path, "."), "."), most)
				complete(spec, path)
				if hasTemplate {
					spec["podTemplate"] = template
				}
				measure(t, fmt.Sprintf("%s%s=%d template: %t", k.file, path, most, hasTemplate), k, spec)
			}
		}
	}
}

// numbers returns the largest value of each number in a schema, by its path.
func numbers(path string, s apiextensionsv1.JSONSchemaProps) map[string]int64 {
	found := map[string]int64{}
	if s.Maximum != nil {
		found[path] = int64(*s.Maximum)
	}
	for name, property := range s.Properties {
		maps.Copy(found, numbers(path+"."+name, property))
	}
	return found
}

// measure plans a spec and fails the test if that takes longer than atMost plans of the sample. If the operator plans several such specs
// in parallel, the limit is a tenth of that time. isLarge reports whether the operator plans only one such spec at a
// time.
func measure(t *testing.T, name string, k kind, spec map[string]any) (isLarge bool) {
	t.Helper()
	begun := processorTime(t)
	resource, err := k.plan(t, spec)
	took, bound, isLarge := processorTime(t)-begun, atMost*ofSample(t), reconcile.IsHeavy(resource)
	if !isLarge {
		bound /= 10
	}
	if took > bound/4 {
		t.Logf("%s: %s of %s, large: %t, %.100v", name, took, bound, isLarge, err)
	}
	assert.Check(t, took <= bound, "%s takes %s, and the limit is %s", name, took, bound)
	return isLarge
}

// sampleTime is the processor time of ofSample, which one process measures once.
var sampleTime time.Duration

// ofSample returns the median processor time of planning config/samples/everything.yaml with nothing cached.
func ofSample(t *testing.T) time.Duration {
	t.Helper()
	if sampleTime > 0 {
		return sampleTime
	}
	data, err := os.ReadFile(filepath.Join(cluster.Root(), "config/samples/everything.yaml"))
	assert.NilError(t, err)
	sample := &unstructured.Unstructured{}
	assert.NilError(t, yaml.Unmarshal(data, &sample.Object))
	spec := sample.Object["spec"].(map[string]any)
	times := make([]time.Duration, 9)
	for i := range times {
		k := all(t)[0]
		begun := processorTime(t)
		_, err := k.plan(t, spec)
		assert.NilError(t, err)
		times[i] = processorTime(t) - begun
	}
	slices.Sort(times)
	sampleTime = times[len(times)/2]
	t.Logf("the sample takes %s (%s)", sampleTime, times)
	return sampleTime
}

// twin matches the components whose schema equals that of web or mysql.
var twin = regexp.MustCompile(`^\.(api-manager|(ds|es|trd)-adapter|gateway-(master|web)|proxy|uuc)\.`)

func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config/crd/bases/*.yaml"))
	assert.NilError(t, err)
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		assert.NilError(t, yaml.Unmarshal(data, crd))
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = crd
	}
	return found
}

// collect adds the lists, maps, texts and open objects of a schema to found.
func collect(found map[string]apiextensionsv1.JSONSchemaProps, path string, s apiextensionsv1.JSONSchemaProps) {
	if s.MaxItems != nil || s.MaxProperties != nil || ptr.Deref(s.XPreserveUnknownFields, false) || s.MaxLength != nil && s.Type == "string" {
		found[path] = s
	}
	for name, property := range s.Properties {
		collect(found, path+"."+name, property)
	}
	if s.Items != nil && s.Items.Schema != nil {
		collect(found, path+"[]", *s.Items.Schema)
	}
}

func put(in map[string]any, path []string, value any) {
	name, isList := strings.CutSuffix(path[0], "[]")
	if len(path) == 1 {
		if in[name] = value; isList {
			in[name] = []any{value}
		}
		return
	}
	below, _ := in[name].(map[string]any)
	if below == nil {
		below = map[string]any{}
	}
	put(below, path[1:], value)
	if in[name] = below; isList {
		in[name] = []any{below}
	}
}

// complete adds the fields that a component requires in addition to the tested field.
func complete(spec map[string]any, path string) {
	for list, rest := range map[string]map[string]any{
		"additionalServices": {"name": "a", "image": "b"}, "cronJobs": {"name": "a", "image": "b", "schedule": "@daily"},
	} {
		items, _ := spec[list].([]any)
		for i := range items {
			item, _ := items[i].(map[string]any)
			for field, value := range rest {
				if item[field] == nil {
					item[field] = value
				}
			}
		}
	}
	if strings.HasSuffix(path, ".ports") || strings.Contains(path, "networkPolicy") {
		added, _ := spec["networkPolicy"].(map[string]any)
		if added == nil {
			added = map[string]any{}
		}
		added["enabled"] = true
		spec["networkPolicy"] = added
		if _, ok := spec["web"]; !ok && spec["replicas"] == nil {
			spec["web"] = map[string]any{}
		}
	}
	if strings.HasPrefix(path, ".auth") { // settings of auth name the middleware
		spec["mysql"], spec["eureka"] = map[string]any{}, map[string]any{}
	}
}

// value returns the largest value of a schema within a budget of bytes.
func value(path string, s *apiextensionsv1.JSONSchemaProps, budget int64) any {
	name := strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]")
	switch {
	case s.MaxItems != nil:
		n := *s.MaxItems
		list := make([]any, 0, n)
		for i := range n {
			list = append(list, item(name, s.Items.Schema, int(i), budget/n))
		}
		return list
	case s.AdditionalProperties != nil:
		n := *s.MaxProperties
		entries := map[string]any{}
		for i := range n {
			entries[fmt.Sprintf("example.com.%d", i)] = text(s.AdditionalProperties.Schema, budget/n-20)
		}
		return entries
	case ptr.Deref(s.XPreserveUnknownFields, false):
		return open(name)
	}
	return text(s, budget)
}

func text(s *apiextensionsv1.JSONSchemaProps, budget int64) string {
	if s != nil && s.XIntOrString {
		return "1"
	}
	length := int64(math.MaxInt64)
	if s != nil && s.MaxLength != nil {
		length = *s.MaxLength
	}
	return strings.Repeat("a", int(max(1, min(length, budget))))
}

// item returns an item of a list, by the name of the list. Items are small, so that many fit, and each contains the most costly content.
func item(list string, s *apiextensionsv1.JSONSchemaProps, i int, budget int64) any {
	number := func(format string) any {
		var value any
		_ = json.Unmarshal([]byte(strings.ReplaceAll(format, "%d", fmt.Sprint(i+1))), &value)
		return value
	}
	switch list {
	case "additionalPorts":
		return i + 1
	case "ports":
		return number(`{"name":"p%d","port":%d,"protocol":"TCP"}`)
	case "envs", "env":
		return number(`{"name":"V%d","value":"x"}`)
	case "configFiles":
		return number(`{"path":"/a/%d","configMap":"c%d"}`)
	case "sidecars", "initContainers":
		return number(`{"name":"s%d","image":"x"}`)
	case "volumes":
		return number(`{"name":"v%d","emptyDir":{}}`)
	case "volumeMounts":
		return number(`{"name":"v%d","mountPath":"/v%d"}`)
	case "envFrom":
		return number(`{"prefix":"P%d","configMapRef":{"name":"c%d"}}`)
	case "imagePullSecrets":
		return number(`{"name":"s%d"}`)
	case "tolerations":
		return number(`{"key":"t%d","operator":"Exists"}`)
	case "topologySpreadConstraints":
		return number(`{"maxSkew":1,"topologyKey":"t%d","whenUnsatisfiable":"ScheduleAnyway"}`)
	case "allowFrom":
		return number(`{"podSelector":{"matchLabels":{"a":"b%d"}}}`)
	case "additionalServices":
		return number(`{"name":"s%d","image":"b","port":80,"config":{"a":"b"},"ingress":{"host":"h%d"}}`)
	case "cronJobs":
		return number(`{"name":"j%d","image":"b","schedule":"@daily","config":{"a":"b"}}`)
	case "databases", "recipients":
		return fmt.Sprintf("d%d", i)
	case "users", "initScripts", "pod", "assignStrategies":
		return number(`{"name":"n%d"}`)
	}
	if s.Type == "string" {
		return fmt.Sprintf("a%d", i) + text(s, budget-10)
	}
	if s.Properties["key"].Type != "" {
		return number(`{"key":"k%d","operator":"In","values":["a"]}`)
	}
	return map[string]any{}
}

// open returns an object whose fields the CRD does not list.
func open(name string) any {
	many := func(n int, format string) []any {
		items := make([]any, n)
		for i := range items {
			_ = json.Unmarshal([]byte(strings.ReplaceAll(format, "%d", fmt.Sprint(i))), &items[i])
		}
		return items
	}
	if name != "podTemplate" {
		return map[string]any{}
	}
	containers := many(250, `{"name":"c%d","image":"x"}`)
	containers[0].(map[string]any)["env"] = many(250, `{"name":"V%d","value":"x"}`)
	return map[string]any{"spec": map[string]any{
		"containers": containers, "volumes": many(250, `{"name":"v%d","emptyDir":{}}`), "tolerations": many(250, `{"key":"t%d","operator":"Exists"}`),
	}}
}

// processorTime returns the processor time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	assert.NilError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
