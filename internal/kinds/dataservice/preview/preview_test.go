// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// inputs are the DataServices that the tests render: name to file.
func inputs(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the inputs are missing")
	found := map[string]string{"sample": "../../../../config/samples/d3os-product.com_v1_dataservice.yaml"}
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
	objects, err := Objects(ds, KubeVersion)
	assert.NilError(t, err)
	return ds, objects
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, file := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			assert.NilError(t, Run([]string{"-f", file, "-namespace", "data"}, nil, &out))
			golden.Assert(t, out.String(), filepath.Join("golden", name+".yaml"))
		})
	}
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

// A new password of the spec restarts the service that logs in with it, auth, and not web.
func TestANewPasswordRestartsItsUsers(t *testing.T) {
	t.Parallel()
	ds, before := objectsOf(t, "testdata/mysql-third-party-inline.yaml")
	ds.Spec.MySQL.ThirdParty.Password = "another"
	after, err := Objects(ds, KubeVersion)
	assert.NilError(t, err)
	assert.Equal(t, len(before), len(after))
	var changed []string
	for i := range before {
		if !cmp.Equal(before[i], after[i]) {
			changed = append(changed, after[i].GetKind()+"/"+after[i].GetName())
		}
	}
	assert.DeepEqual(t, changed, []string{"Secret/mysql-dataservice-third-party", "Deployment/auth"})
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
