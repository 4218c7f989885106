// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build released

// Package upgrade_test runs the last release, and then this version, on one simulated cluster. TestUpgradeWritesOnlyWhatIsMeantToChange of
// test/fields compares the writes of an upgrade without a cluster.
package upgrade_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// A platform that the released operator creates. This version takes over its objects.
const (
	platform  = "dataservice-sample"
	namespace = "upgrade"
	patience  = 2 * time.Minute
)

// stage is a cluster on which one operator runs at a time.
type stage struct {
	*testing.T

	api        client.Client
	kubeconfig string
}

// replaced lists the objects that are written because their chart has changed since the last release. The list includes the Deployments
// whose pods are replaced for this reason.
var replaced = func() []string {
	found := []string{"ConfigMap/web-template", "Deployment/web"}
	for _, service := range []string{"api-manager", "auth", "ds-adapter", "es-adapter", "gateway-master", "gateway-web", "proxy", "trd-adapter"} {
		found = append(found, "ConfigMap/"+service, "Deployment/"+service)
	}
	return found
}()

// brings lists the objects that this operator changes in a platform without a restart. The StatefulSet gets the guard of the database's
// data, an init container that takes effect in the next pod. The ConfigMap is the record of the data.
var brings = []string{"StatefulSet/mysql-dataservice", "ConfigMap/mysql-dataservice-data"}

// retained contains the objects that outlive the DataService. One write adds the annotations that prevent GitOps tools from pruning each.
var retained = []string{"Secret/mysql-dataservice-credentials", "PersistentVolumeClaim/data-mysql-dataservice-0"}

// The released operator creates a platform. Then this version starts: it writes only new objects and the objects in replaced. Then it rolls
// out a change, and writes only the changed objects. The test builds two operators and starts a separate cluster.
func TestUpgradeFromTheReleasedOperator(t *testing.T) {
	version, err := os.ReadFile(filepath.Join(cluster.Root(), "VERSION"))
	assert.NilError(t, err)
	last := strings.TrimSpace(run(t, "hack/released.sh", strings.TrimSpace(string(version))))
	before := filepath.Join(t.TempDir(), "before")
	run(t, "hack/release-build.sh", last, runtime.GOARCH, before)
	run(t, "make", "--no-print-directory", "build")

	s := newStage(t)
	s.apply("releases/v" + last + "/manifests/d3os-product.com.d3os_dataservices.yaml")
	stop := s.start(before, last)
	s.apply("test/fields/testdata/upgrade/inputs/sample.yaml")
	s.ready()
	// The API server copies the service account to a deprecated field. Both fields must become empty when the account is removed.
	s.patch(`{"spec": {"auth": {"serviceAccountName": "default"}}}`)
	s.ready()
	s.patch(`{"spec": {"auth": {"serviceAccountName": null}}}`)
	s.ready()
	was := s.look()
	assert.Equal(t, len(was.Pods), 12)
	stop()

	s.apply("config/crd/bases/d3os-product.com.d3os_dataservices.yaml")
	stop = s.start(filepath.Join(cluster.Root(), "bin", "manager"), "this")
	defer stop()
	s.until("what is retained is annotated", s.annotated)
	once := s.look()
	s.patch(`{"spec": {"web": {"env": {"ROLLED_OUT": "again"}}}}`)
	s.ready()
	is := s.look()
	for id, version := range was.Objects {
		changed := is.Objects[id] != version
		switch {
		case slices.Contains(append(replaced, "DataService/"+platform, brings[0], "Service/mysql-dataservice"), id):
			assert.Assert(t, changed, "%s has not changed: this operator has not rolled the change out", id)
		case slices.Contains(retained, id):
			assert.Assert(t, changed && is.Objects[id] == once.Objects[id], "%s was not written once", id)
		default:
			assert.Assert(t, !changed, "%s: was %s, is %s", id, version, is.Objects[id])
		}
	}
	for id := range is.Objects {
		assert.Assert(t, was.Objects[id] != "" || slices.Contains(brings, id), "%s is new", id)
	}
	for pod, version := range was.Pods {
		if !slices.ContainsFunc(replaced, func(id string) bool { return strings.HasPrefix("Deployment/"+pod, id+"-") }) {
			assert.Equal(t, is.Pods[pod], version, pod)
		}
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	// Always start a new cluster: other tests must not run with an older CRD.
	t.Setenv("KUBECONFIG", "")
	ctrl.SetLogger(logr.Discard())
	c, err := cluster.Start(t.Context(), cluster.Options{Name: "upgrade"})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, c.Stop()) })
	scheme, err := manager.Scheme()
	assert.NilError(t, err)
	api, err := client.New(c.Config, client.Options{Scheme: scheme})
	assert.NilError(t, err)
	s := &stage{T: t, api: api, kubeconfig: c.Kubeconfig}
	assert.NilError(t, api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	return s
}

// apply applies the object in a file of the repository, as soon as the API server serves its kind.
func (s *stage) apply(file string) {
	s.Helper()
	object := &unstructured.Unstructured{}
	assert.NilError(s, harness.ReadYAML(file, &object.Object))
	if object.GetKind() == "DataService" {
		object.SetNamespace(namespace)
	}
	s.until("apply "+file, func(ctx context.Context) error {
		return s.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
	})
}

func (s *stage) patch(patch string) {
	s.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: platform}}
	assert.NilError(s, s.api.Patch(s.Context(), ds, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// ready waits until the platform is ready in its present generation.
func (s *stage) ready() {
	s.Helper()
	s.until("the platform is ready", func(ctx context.Context) error {
		ds := &dsv1.DataService{}
		if err := s.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: platform}, ds); err != nil {
			return err
		}
		return harness.IsReady(ds, ds.Generation)
	})
}

// annotated returns an error that names a retained object without the annotations for GitOps tools, or nil.
func (s *stage) annotated(ctx context.Context) error {
	for _, id := range retained {
		kind, name, _ := strings.Cut(id, "/")
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		if err := s.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
			return err
		}
		if object.LacksNoPrune(o) {
			return fmt.Errorf("%s lacks them", id)
		}
	}
	return nil
}

func (s *stage) look() oracle.Snapshot {
	s.Helper()
	state, err := oracle.Take(s.Context(), s.api, namespace)
	assert.NilError(s, err)
	return state
}

func (s *stage) until(what string, holds func(context.Context) error) {
	s.Helper()
	err := harness.Within(patience, 50*time.Millisecond, func() <-chan struct{} { return nil }, func() error { return holds(s.Context()) })
	assert.NilError(s, err, what)
}

// start starts the operator in a file. The returned function stops the operator.
func (s *stage) start(file, name string) func() {
	s.Helper()
	log, err := os.Create(filepath.Join(s.TempDir(), "log"))
	assert.NilError(s, err)
	operator := exec.CommandContext(s.Context(), file, "--health-probe-bind-address=0")
	operator.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "RELATED_IMAGE_AGENT=example/agent:v1")
	operator.Stdout, operator.Stderr = log, log
	operator.Cancel = func() error { return operator.Process.Signal(os.Interrupt) }
	assert.NilError(s, operator.Start())
	ended := make(chan error, 1)
	go func() { ended <- operator.Wait() }()
	s.Cleanup(func() {
		if content, err := os.ReadFile(log.Name()); err == nil && s.Failed() {
			s.Logf("log of the operator %s:\n%s", name, content)
		}
	})
	return func() {
		s.Helper()
		assert.NilError(s, operator.Process.Signal(os.Interrupt))
		assert.NilError(s, <-ended, "the operator %s", name)
	}
}

// run runs a command in the repository's folder, and returns its output.
func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	if strings.Contains(name, "/") {
		name = filepath.Join(cluster.Root(), name)
	}
	command := exec.CommandContext(t.Context(), name, arguments...)
	command.Dir = cluster.Root()
	// The flags of the make that runs this test must not affect the build.
	command.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := command.CombinedOutput()
	assert.NilError(t, err, "%s %v\n%s", name, arguments, out)
	return string(out)
}
