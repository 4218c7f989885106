// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	dsplan "d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/inject"
)

// dataServices returns the samples, the bases of test/fields, and each DataService that a case of test/fields changes.
func dataServices(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	samples, err := filepath.Glob(filepath.Join(cluster.Root(), "config/samples/*.yaml"))
	assert.NilError(t, err)
	for _, file := range samples {
		for _, object := range objectsIn(t, file) {
			if object.GetKind() == "DataService" {
				found[filepath.Base(file)] = object
			}
		}
	}
	bases, err := fields.Bases()
	assert.NilError(t, err)
	for _, name := range bases {
		found["base "+name], err = fields.Load(name)
		assert.NilError(t, err)
	}
	cases, err := fields.Cases()
	assert.NilError(t, err)
	for _, c := range cases {
		found["case "+c.Name()], err = c.Changed()
		assert.NilError(t, err)
	}
	return found
}

func objectsIn(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	var found []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return found
		}
		assert.NilError(t, err, file)
		found = append(found, object)
	}
}

// plan returns the objects that the operator would apply, or the reason why it applies none.
func plan(ds *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	data, err := ds.MarshalJSON()
	if err != nil {
		return nil, err
	}
	parsed, err := dsplan.Parse(data)
	if err != nil {
		return nil, err
	}
	parsed.Namespace = "data"
	renderer, err := newRenderer()
	if err != nil {
		return nil, err
	}
	nothing := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
	return dsplan.Planned(parsed, dsplan.NewPlanner(renderer, nil), dsplan.NewPreview(), nothing)
}

// newRenderer loads the charts, once for all tests.
var newRenderer = sync.OnceValues(func() (*render.Renderer, error) { return render.New(kubeVersion) })

var (
	plansMu sync.Mutex
	plans   map[string][]*unstructured.Unstructured
)

// planned returns the objects that the operator would apply for each of dataServices. Several tests share the result, because it takes
// seconds.
func planned(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	plansMu.Lock()
	defer plansMu.Unlock()
	if plans != nil {
		return plans
	}
	made := map[string][]*unstructured.Unstructured{}
	for name, ds := range dataServices(t) {
		objects, err := plan(ds)
		assert.NilError(t, err, name)
		made[name] = objects
	}
	plans = made
	return plans
}

// attack is text with a visible effect if it is not treated as text. As a template, it could read the operator's charts. As YAML, it could
// add fields and objects.
const attack = "a{{ printf \"%s%s\" \"can\" \"ary\" }}{{ .Files.Get \"values.yaml\" }}\"'\ncanary-key: x\n---\nkind: Secret\nmetadata: {name: canary}\n"

// T2. The operator never treats a text of a resource as a template or as YAML. In the largest DataService and in a DataService with third
// parties, the test replaces one string after the other, even by texts that the API server would refuse.
func TestThreatTextIsText(t *testing.T) {
	t.Parallel()
	all := dataServices(t)
	for name, want := range map[string]int{"everything.yaml": 30, "base elsewhere": 2} {
		ds := all[name]
		texts, accepted := inject.Texts(ds.Object["spec"]), 0
		for i := range texts {
			attacked := ds.DeepCopy()
			attacked.Object["spec"] = inject.Set(inject.At(ds.Object["spec"], i), attack)
			where := fmt.Sprintf("%s, text %d", name, i)
			objects, err := plan(attacked)
			if err != nil { // the error of parsing a rendered chart would show that it was YAML
				bad := strings.Contains(err.Error(), "acanary") || strings.Contains(err.Error(), "parse templates") &&
					(strings.Contains(err.Error(), "converting YAML") || strings.Contains(err.Error(), "unmarshaling JSON"))
				assert.Check(t, !bad, "%s: %v", where, err)
				continue
			}
			accepted++
			for _, obj := range objects {
				look(t, where+" "+fields.ID(obj), obj.Object)
			}
		}
		t.Logf("%s: %d of %d strings were accepted", name, accepted, texts)
		assert.Check(t, accepted >= want, "%s: %d of %d strings were accepted", name, accepted, texts)
	}
}

// look finds marks of the attack in an object.
func look(t *testing.T, where string, value any) {
	t.Helper()
	switch v := value.(type) {
	case string:
		assert.Check(t, !strings.Contains(v, "acanary"), "%s: it was a template", where)
	case map[string]any:
		for key, item := range v {
			assert.Check(t, key != "canary-key", "%s: it was YAML", where)
			assert.Check(t, key != "name" || item != "canary", "%s: it was YAML", where)
			look(t, where, item)
		}
	case []any:
		for _, item := range v {
			look(t, where, item)
		}
	}
}

// T3. All objects are in the resource's namespace, and the operator has rights to all their kinds. Only the reference to a Gateway may name
// another namespace, and the listener of that Gateway must admit routes from the resource's namespace.
func TestThreatOneNamespace(t *testing.T) {
	t.Parallel()
	for name, objects := range planned(t) {
		for _, obj := range objects {
			assert.Check(t, obj.GetNamespace() == "data", "%s: %s is in %q", name, fields.ID(obj), obj.GetNamespace())
			assert.Check(t, slices.Contains(slices.Concat(object.Kinds, object.Optional), obj.GroupVersionKind()), "%s: %s", name, obj.GroupVersionKind())
		}
	}
	assert.DeepEqual(t, namespaceFields("spec", reflect.TypeFor[dsv1.DataServiceSpec](), map[reflect.Type]bool{}), []string{"spec.gateway-master.httpRoute.gateways.namespace"})
}

// namespaceFields returns the fields of a type whose name refers to a namespace. It skips types of Kubernetes' own API: they describe pods,
// which cannot refer to a namespace.
func namespaceFields(path string, of reflect.Type, seen map[reflect.Type]bool) (found []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || seen[of] || of.PkgPath() != reflect.TypeFor[dsv1.DataServiceSpec]().PkgPath() {
		return nil
	}
	seen[of] = true
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if strings.Contains(strings.ToLower(name), "namespace") {
			found = append(found, path+"."+name)
		}
		found = append(found, namespaceFields(path+"."+name, of.Field(i).Type, seen)...)
	}
	return found
}

// T9. The operator cannot grant rights, impersonate a user, or run a command in a pod.
func TestThreatRightsThatGrow(t *testing.T) {
	t.Parallel()
	var rules []rbacv1.PolicyRule
	for _, file := range []string{"role.yaml", "leader_election_role.yaml", "metrics_auth_role.yaml", "ingressclass_role.yaml"} {
		for _, obj := range objectsIn(t, filepath.Join(cluster.Root(), "config/rbac", file)) {
			role := &rbacv1.ClusterRole{}
			assert.NilError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role))
			rules = append(rules, role.Rules...)
		}
	}
	assert.Assert(t, len(rules) > 5)
	for _, rule := range rules {
		assert.Check(t, rule.NonResourceURLs == nil)
		for _, word := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs) {
			assert.Check(t, !strings.Contains(word, "*"), "%v has a wildcard", rule)
		}
		for _, verb := range rule.Verbs {
			assert.Check(t, !slices.Contains([]string{"escalate", "bind", "impersonate", "approve", "sign", "deletecollection"}, verb), "%v", rule)
		}
		for _, group := range rule.APIGroups {
			assert.Check(t, !strings.HasPrefix(group, "rbac.") && !strings.HasPrefix(group, "admissionregistration.") && !strings.HasPrefix(group, "apiextensions."), "%v", rule)
		}
		for _, resource := range rule.Resources {
			forbidden := []string{"nodes", "namespaces", "serviceaccounts", "serviceaccounts/token", "pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers"}
			assert.Check(t, !slices.Contains(forbidden, resource), "%v", rule)
			assert.Check(t, resource != "pods" || !slices.Contains(rule.Verbs, "create"), "%v", rule)
		}
	}
}
