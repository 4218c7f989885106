// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"d3os.com/d3os-operator/internal/reconcile"
)

func configMap(file, text string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{file: text}}}
}

func TestValuesInUse(t *testing.T) {
	t.Parallel()
	type maps = map[string]*unstructured.Unstructured
	for name, c := range map[string]struct {
		in   maps
		want map[string]string
		err  string
	}{
		"none":                {maps{}, map[string]string{}, ""},
		"properties and YAML": {maps{"auth": configMap("application.properties", "a=b\njwt.token.secret = s3 \n"), "proxy": configMap("application.yml", "jwt: {token: {secret: s3}}")}, map[string]string{"jwt-secret": "s3"}, ""},
		"dotted names":        {maps{"gateway-web": configMap("application.yml", "spring.security:\n  user.password: 'x'\n  user: {name: admin}\n")}, map[string]string{"gateway-password": "x", "gateway-username": "admin"}, ""},
		"a value with =":      {maps{"auth": configMap("application.properties", "jwt.token.secret=a=b")}, map[string]string{"jwt-secret": "a=b"}, ""},
		"two secrets":         {maps{"auth": configMap("application.properties", "jwt.token.secret=a"), "proxy": configMap("application.yml", "jwt.token.secret: b")}, nil, "the JWT secret is not the same in the ConfigMaps auth, proxy"},
		"no YAML":             {maps{"proxy": configMap("application.yml", "\t{")}, map[string]string{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := valuesInUse(func(name string) *unstructured.Unstructured { return c.in[name] })
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, got, c.want)
		})
	}
}

func TestFindOriginal(t *testing.T) {
	t.Parallel()
	deployment := func(name, image string, replicas int32, labels map[string]string) appsv1.Deployment {
		return appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name, Labels: labels}, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}},
		}}
	}
	got := FindOriginal([]appsv1.Deployment{
		deployment("d3os-operator-controller-manager", "controller:latest", 1, nil),
		deployment("renamed", "registry.example/d3os-operator:v1", 1, nil),
		deployment("stopped", "registry.example/d3os-operator:v1", 0, nil),
		deployment("d3os-operator-ours", "registry.example/d3os-operator:0.4", 1, map[string]string{"app.kubernetes.io/name": "d3os-operator"}),
		deployment("another", "registry.example/other", 1, nil),
	})
	assert.Equal(t, strings.Join(got.Running, " "), "system/d3os-operator-controller-manager system/renamed")
}

func TestDiffer(t *testing.T) {
	t.Parallel()
	gone, came := differ("b\na\nb\n\n  c\n", "c\nb\nd")
	assert.Equal(t, gone, 2)
	assert.Equal(t, came, 1)
}

// progressOf computes the stage of the copy from the spec and the condition Imported. It ignores a condition of an
// earlier generation.
func TestProgress(t *testing.T) {
	t.Parallel()
	ds := func(importFrom map[string]any, status, reason string, seen int64) *unstructured.Unstructured {
		mysql := map[string]any{"name": "mysql"}
		if importFrom != nil {
			mysql["importFrom"] = importFrom
		}
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "p", "generation": int64(3)}, "spec": map[string]any{"mysql": mysql},
			"status": map[string]any{"observedGeneration": seen, "conditions": []any{map[string]any{"type": "Imported", "status": status, "reason": reason}}}}}
	}
	from := func(host string, cutOver bool) map[string]any {
		return map[string]any{"host": host, "cutOver": cutOver, "credentialsSecret": map[string]any{"name": "p-original-mysql"}}
	}
	for name, c := range map[string]struct {
		ds   *unstructured.Unstructured
		want progress
	}{
		"no import":                      {ds(nil, "True", "Imported", 3), notCopied},
		"an import of another database":  {ds(from("elsewhere", true), "True", "Imported", 3), notCopied},
		"copying":                        {ds(from(mysqlName, false), "False", "Importing", 3), copying},
		"another copy after a refusal":   {ds(from(mysqlName, false), "False", "Mismatch", 3), copying},
		"cutting over":                   {ds(from(mysqlName, true), "False", "Importing", 3), cuttingOver},
		"refused":                        {ds(from(mysqlName, true), "False", "Mismatch", 3), refused},
		"refused, before this spec":      {ds(from(mysqlName, true), "False", "Mismatch", 2), cuttingOver},
		"finished":                       {ds(from(mysqlName, true), "True", "Imported", 3), finished},
		"finished, and cutOver is false": {ds(from(mysqlName, false), "True", "Imported", 3), finished},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, progressOf(c.ds), c.want)
			o := &Observation{DataService: c.ds, Record: &Record{MySQL: map[string]any{"name": mysqlName}}, Plan: &reconcile.Plan{}}
			assert.Equal(t, len(refuseUndo(o)) > 0, c.want >= cuttingOver || c.want == notCopied, "%v", refuseUndo(o))
		})
	}
}

// If spec.mysql names a database that is neither the original nor its copy, Undo and Apply refuse, because services may
// have written to that database.
func TestAnotherDatabase(t *testing.T) {
	t.Parallel()
	third := func(url string) map[string]any {
		return map[string]any{"name": mysqlName, "kind": "ThirdParty", "thirdParty": map[string]any{"url": url}}
	}
	copies := map[string]any{"name": newName, "importFrom": map[string]any{"host": mysqlName, "credentialsSecret": map[string]any{"name": "p-original-mysql"}}}
	for name, c := range map[string]struct {
		mysql     map[string]any
		noRecord  bool
		isAnother bool
		refuses   bool
	}{
		"as before":                                    {map[string]any{"name": mysqlName}, false, false, false},
		"the original":                                 {third("mysql://mysql-dataservice.n.svc:3306"), false, false, false},
		"another third party":                          {third("mysql://rds.example.com:3306"), false, true, true},
		"a copy without importFrom":                    {map[string]any{"name": newName}, false, true, true},
		"a copy without importFrom, and no record":     {map[string]any{"name": newName}, true, true, false},
		"a copy in use whose latest spec was not seen": {copies, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &Observation{Plan: &reconcile.Plan{}, Record: &Record{MySQL: map[string]any{"name": mysqlName}}, Own: &unstructured.Unstructured{}}
			o.DataService = &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "n", "name": "p", "generation": int64(3)}, "spec": map[string]any{"mysql": c.mysql},
				"status": map[string]any{"observedGeneration": int64(2), "conditions": []any{map[string]any{"type": "Imported", "status": "True", "reason": "Imported"}}}}}
			if c.noRecord {
				o.Record = nil
			} else {
				assert.Equal(t, len(refuseUndo(o)) > 0, c.refuses, "%v", refuseUndo(o))
			}
			assert.Equal(t, o.isReplaced(), c.isAnother)
			assert.Assert(t, !c.isAnother || elsewhere(o) == nil)
		})
	}
}
