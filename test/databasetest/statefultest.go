// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package databasetest holds helpers for the tests of kinds that run servers in StatefulSets.
package databasetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// There maps "Kind/name" to the live objects of a resource.
type There map[string]*unstructured.Unstructured

// Inputs returns inputs of a plan that contain these objects.
func (l There) Inputs() reconcile.Inputs {
	lookup := func(kind, name string) (*unstructured.Unstructured, error) { return l[kind+"/"+name], nil }
	return reconcile.Inputs{Lookup: lookup, LookupLive: lookup}
}

// Unlabelled returns inputs after a Secret lost the operator's label: the API server has the Secret, and the cache of a new operator lacks it.
func (l There) Unlabelled(name string) reconcile.Inputs {
	secret := l["Secret/"+name].DeepCopy()
	unstructured.RemoveNestedField(secret.Object, "metadata", "labels", object.LabelManagedBy)
	cached, live := maps.Clone(l), maps.Clone(l)
	delete(cached, "Secret/"+name)
	live["Secret/"+name] = secret
	in := cached.Inputs()
	in.LookupLive = live.Inputs().Lookup
	return in
}

// Set adds a StatefulSet with a number of pods and an image in a container.
func (l There) Set(name string, pods int64, container, image string) There {
	o := object.Empty(object.StatefulSetKind)
	o.SetName(name)
	containers := []any{map[string]any{"name": container, "image": image}}
	o.Object["spec"] = map[string]any{"replicas": pods, "template": map[string]any{"spec": map[string]any{"containers": containers}}}
	l["StatefulSet/"+name] = o
	return l
}

// WithRecord adds the record of an owner, in the operator's format.
func WithRecord[R any](t *testing.T, l There, records database.Records[R], owner object.Owner, record R) There {
	t.Helper()
	data, err := json.Marshal(record)
	assert.NilError(t, err)
	o := Kept(records.Name(owner.Name), owner)
	o.SetAnnotations(map[string]string{records.Annotation: string(data), object.AnnotationDigest: "digest"})
	l["ConfigMap/"+o.GetName()] = o
	return l
}

// Kept returns a ConfigMap with the labels of an owner and without an owner reference.
func Kept(name string, owner object.Owner) *unstructured.Unstructured {
	o := object.Empty(object.ConfigMapKind)
	o.SetNamespace(owner.Namespace)
	o.SetName(name)
	o.SetLabels(owner.Labels("data"))
	o.SetAnnotations(map[string]string{object.AnnotationDigest: "digest"})
	return o
}

// Find returns an object of the first part of a plan, or nil.
func Find(plan *reconcile.Plan, kind, name string) *unstructured.Unstructured {
	for _, o := range plan.Parts[0].Objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	return nil
}

// Manifests compares the objects of each resource in testdata/*.yaml with testdata/*.golden (go test . -update).
func Manifests(t *testing.T, atLeast int, plan func(t *testing.T, name string) []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) >= atLeast)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text bytes.Buffer
			for _, o := range plan(t, name) {
				data, err := yaml.Marshal(o.Object)
				assert.NilError(t, err)
				text.WriteString("---\n")
				text.Write(data)
			}
			golden.Assert(t, text.String(), name+".golden")
		})
	}
}

// listen returns a listener at a port of a free loopback address. The emulator gives its pods lower addresses than 127.x.250.
func listen(t *testing.T, port int) (ip string, listener net.Listener) {
	t.Helper()
	var config net.ListenConfig
	var err error
	for last := range 254 {
		ip = fmt.Sprintf("127.%d.250.%d", 200+os.Getpid()%50, last+1)
		if listener, err = config.Listen(t.Context(), "tcp", fmt.Sprintf("%s:%d", ip, port)); err == nil {
			return ip, listener
		}
	}
	t.Fatal(err)
	return "", nil
}

// Mesh runs a test twice with the loopback address of a simulated sidecar with strict mTLS. The sidecar accepts connections
// without a certificate, and closes them in one run with a FIN and in the other with a RST.
func Mesh(t *testing.T, port int, test func(t *testing.T, ip string)) {
	t.Helper()
	for name, linger := range map[string]int{"closed": -1, "reset": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ip, listener := listen(t, port)
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				for {
					connection, err := listener.Accept()
					if err != nil {
						return
					}
					_, _ = connection.Read(make([]byte, 1))
					_ = connection.(*net.TCPConn).SetLinger(linger)
					_ = connection.Close()
				}
			}()
			test(t, ip)
		})
	}
}
