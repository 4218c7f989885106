// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/object"
)

const sample = "../../../../config/samples/d3os-product.com_v1_dataservice.yaml"

// inputs are the DataServices that the tests render: name to file.
func inputs(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the inputs are missing")
	found := map[string]string{"sample": sample}
	for _, file := range files {
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = file
	}
	return found
}

func objectsOf(t *testing.T, file string) (*dsv1.DataService, []*unstructured.Unstructured) {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	ds, err := Parse(data)
	assert.NilError(t, err)
	if ds.Namespace == "" {
		ds.Namespace = "data"
	}
	objects, err := Objects(ds, KubeVersion)
	assert.NilError(t, err)
	return ds, objects
}

// forEach runs a test for every input.
func forEach(t *testing.T, test func(t *testing.T, name, file string)) {
	t.Parallel()
	all := inputs(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, all[name])
		})
	}
}

func TestGolden(t *testing.T) {
	forEach(t, func(t *testing.T, name, file string) {
		var out bytes.Buffer
		assert.NilError(t, Run([]string{"-f", file, "-namespace", "data"}, nil, &out))
		golden.Assert(t, out.String(), filepath.Join("golden", name+".yaml"))
	})
}

// A golden file whose input is gone would pass for ever.
func TestEveryGoldenFileHasAnInput(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/golden/*.yaml")
	assert.NilError(t, err)
	all := inputs(t)
	assert.Equal(t, len(files), len(all))
	for _, file := range files {
		assert.Assert(t, is.Contains(all, strings.TrimSuffix(filepath.Base(file), ".yaml")))
	}
}

func TestRendersTheSameTwice(t *testing.T) {
	forEach(t, func(t *testing.T, _, file string) {
		_, first := objectsOf(t, file)
		_, second := objectsOf(t, file)
		assert.DeepEqual(t, first, second)
	})
}

// Every object is as the API server would return it, but for defaults: reading it into its Go
// type and back changes nothing.
func TestObjectsAreCanonical(t *testing.T) {
	forEach(t, func(t *testing.T, _, file string) {
		_, objects := objectsOf(t, file)
		for _, obj := range objects {
			types := runtime.NewScheme()
			assert.NilError(t, scheme.AddToScheme(types))
			assert.NilError(t, redisv1.AddToScheme(types))
			assert.NilError(t, etcdv1.AddToScheme(types))
			typed, err := types.New(obj.GroupVersionKind())
			assert.NilError(t, err)
			text, err := json.Marshal(obj.Object)
			assert.NilError(t, err)
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.DisallowUnknownFields()
			assert.NilError(t, decoder.Decode(typed))
			again, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
			assert.NilError(t, err)
			delete(again, "status")
			if object.IsResource(obj) { // its Go type leaves out what is false
				unstructured.RemoveNestedField(obj.Object, "spec", object.PauseField(obj))
				if enabled, _, _ := unstructured.NestedBool(obj.Object, "spec", "networkPolicy", "enabled"); !enabled {
					unstructured.RemoveNestedField(obj.Object, "spec", "networkPolicy", "enabled")
				}
			}
			assert.DeepEqual(t, obj.Object, again)
		}
	})
}

// What every object must carry, whichever chart it comes from.
func TestObjectsBelongToTheirDataService(t *testing.T) {
	forEach(t, func(t *testing.T, _, file string) {
		ds, objects := objectsOf(t, file)
		for _, obj := range objects {
			where := obj.GetKind() + " " + obj.GetName()
			assert.Equal(t, obj.GetNamespace(), ds.Namespace, where)
			labels := obj.GetLabels()
			assert.Equal(t, labels[object.LabelInstance], ds.Name, where)
			assert.Equal(t, labels[object.LabelManagedBy], "d3os-operator", where)
			assert.Equal(t, labels[object.LabelPartOf], "dataservice", where)
			assert.Assert(t, component.TableIndex(labels[object.LabelComponent]) >= 0 || labels[object.LabelComponent] == "platform", where)
			assert.Equal(t, len(obj.GetAnnotations()[object.AnnotationDigest]), 24, where)
			assert.Assert(t, slices.Contains(object.Kinds, obj.GroupVersionKind()) || object.IsResource(obj), "%s is of a kind that nothing watches", where)
			want := []metav1.OwnerReference{{
				APIVersion: "d3os-product.com.d3os/v1", Kind: "DataService", Name: ds.Name, UID: ds.UID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}}
			if object.OutlivesOwner(obj) {
				assert.Equal(t, len(obj.GetOwnerReferences()), 0, where)
				continue
			}
			assert.DeepEqual(t, obj.GetOwnerReferences(), want)
		}
	})
}

func TestNoObjectTwice(t *testing.T) {
	forEach(t, func(t *testing.T, _, file string) {
		_, objects := objectsOf(t, file)
		seen := map[string]bool{}
		for _, obj := range objects {
			id := obj.GroupVersionKind().String() + " " + obj.GetName()
			assert.Assert(t, !seen[id], id)
			seen[id] = true
		}
	})
}

// A password of the spec is in one Secret and nowhere else, neither as it is nor encoded.
func TestPasswordsAreInSecretsAlone(t *testing.T) {
	t.Parallel()
	const password = "distinctive-inline-password"
	_, objects := objectsOf(t, "testdata/mysql-third-party-inline.yaml")
	var holders []string
	for _, obj := range objects {
		text, err := json.Marshal(obj.Object)
		assert.NilError(t, err)
		if strings.Contains(string(text), password) || strings.Contains(string(text), base64.StdEncoding.EncodeToString([]byte(password))) {
			holders = append(holders, obj.GetKind()+"/"+obj.GetName())
		}
	}
	assert.DeepEqual(t, holders, []string{"Secret/mysql-dataservice-third-party"})
}

// A new password of the spec restarts the services that log in with it, and nothing else.
func TestANewPasswordRestartsItsUsers(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/mysql-third-party-inline.yaml")
	assert.NilError(t, err)
	ds, before := objectsOf(t, "testdata/mysql-third-party-inline.yaml")
	ds.Spec.MySQL.ThirdParty.Password = "another"
	after, err := Objects(ds, KubeVersion)
	assert.NilError(t, err)
	assert.DeepEqual(t, changed(t, before, after), []string{"Secret/mysql-dataservice-third-party", "Deployment/auth"})
	assert.Assert(t, bytes.Contains(data, []byte("web:")), "the input must have a component that does not use the database")
}

func TestAnImageChangeReachesOneObject(t *testing.T) {
	t.Parallel()
	ds, before := objectsOf(t, sample)
	ds.Spec.Auth.Image = "registry.example.com/auth:v2"
	after, err := Objects(ds, KubeVersion)
	assert.NilError(t, err)
	assert.DeepEqual(t, changed(t, before, after), []string{"Deployment/auth"})
}

// changed lists the objects that differ between two renderings of the same names.
func changed(t *testing.T, before, after []*unstructured.Unstructured) []string {
	t.Helper()
	assert.Equal(t, len(before), len(after))
	var names []string
	for i := range before {
		if !cmp.Equal(before[i], after[i]) {
			names = append(names, after[i].GetKind()+"/"+after[i].GetName())
		}
	}
	return names
}

func TestRunReadsStandardInputAndNamespace(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: d3os-product.com.d3os/v1\nkind: DataService\nmetadata: {name: a}\nspec: {eureka: {}}\n"
	var out bytes.Buffer
	assert.NilError(t, Run([]string{"-namespace", "here"}, strings.NewReader(text), &out))
	assert.Equal(t, strings.Count(out.String(), "\n  namespace: here\n"), 2, out.String())

	out.Reset()
	inFile := strings.Replace(text, "{name: a}", "{name: a, namespace: there}", 1)
	assert.NilError(t, Run([]string{"-namespace", "here"}, strings.NewReader(inFile), &out))
	assert.Equal(t, strings.Count(out.String(), "\n  namespace: there\n"), 2, out.String())
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	const ok = "apiVersion: d3os-product.com.d3os/v1\nkind: DataService\nmetadata: {name: a}\nspec: {eureka: {}}\n"
	for name, test := range map[string]struct {
		args  []string
		input string
		want  string
	}{
		"no YAML":           {nil, "a: b: c", "read the DataService in -"},
		"another kind":      {nil, "apiVersion: v1\nkind: Secret\n", "not a d3os-product.com.d3os/v1, Kind=DataService"},
		"nothing":           {nil, "", "not a d3os-product.com.d3os/v1, Kind=DataService"},
		"a wrong type":      {nil, strings.Replace(ok, "eureka: {}", "eureka: {port: many}", 1), "cannot unmarshal"},
		"an unknown field":  {nil, strings.Replace(ok, "eureka: {}", "eureka: {replicas: 7}", 1), `unknown field "replicas"`},
		"an unknown kind":   {nil, strings.Replace(ok, "eureka: {}", "eureka: {kind: 7}", 1), "spec.eureka.kind: must be Deployment"},
		"a missing file":    {[]string{"-f", "testdata/none.yaml"}, "", "no such file"},
		"an unknown flag":   {[]string{"-bogus"}, ok, "flag provided but not defined"},
		"no version":        {[]string{"-kube-version", "newest"}, ok, `parse the cluster's version "newest"`},
		"an old Kubernetes": {[]string{"-kube-version", "v1.16.0"}, ok, "the cluster has v1.16.0"},
		"a contradiction":   {nil, strings.Replace(ok, "eureka: {}", "eureka: {dependsOn: [web]}", 1), `spec.eureka.dependsOn: "web" is not declared`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := Run(test.args, strings.NewReader(test.input), &out)
			assert.ErrorContains(t, err, test.want)
			assert.Equal(t, out.String(), "")
		})
	}
}
