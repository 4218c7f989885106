// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build helm

// Package chart_test installs, upgrades and uninstalls the Helm chart of the operator on a simulated cluster.
package chart_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

const (
	namespace = "d3os-operator-system"
	account   = "d3os-operator-controller-manager"
	platforms = "dataservice"
	patience  = 5 * time.Minute
)

// scene is a cluster without the operator.
type scene struct {
	*testing.T
	*cluster.Cluster

	api client.WithWatch
}

// Helm installs, upgrades and uninstalls the chart while a platform runs. CRDs and platform stay. Then Helm adopts the objects that
// kustomize installed, and creates no object again. The operator has the rights of the chart's account.
func TestChart(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	c, err := cluster.Start(t.Context(), cluster.Options{Name: "chart", Pods: "general"})
	assert.NilError(t, err)
	s := &scene{T: t, Cluster: c}
	t.Cleanup(func() { assert.Check(t, s.Stop()) })
	scheme, err := manager.Scheme()
	assert.NilError(t, err)
	s.api, err = client.NewWithWatch(s.Config, client.Options{Scheme: scheme})
	assert.NilError(t, err)

	s.helm("install", "--create-namespace")
	stop := s.operate()
	assert.NilError(t, s.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: platforms}}))
	ds := harness.Sample()
	ds.SetNamespace(platforms)
	assert.NilError(t, s.api.Create(t.Context(), ds))
	s.ready(ds)
	before := s.look()

	s.helm("upgrade", "--set", "manager.replicas=1")
	replicas, _, err := unstructured.NestedInt64(s.get("apps/v1", "Deployment", account).Object, "spec", "replicas")
	assert.NilError(t, err)
	assert.Equal(t, replicas, int64(1))
	s.ready(ds)
	assert.DeepEqual(t, s.look(), before)
	stop()

	s.helm("uninstall")
	s.absent("apps/v1", "Deployment", account)
	s.absent("rbac.authorization.k8s.io/v1", "ClusterRole", "d3os-operator-manager-role")
	s.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "dataservices.d3os-product.com.d3os")
	assert.DeepEqual(t, s.look(), before)

	s.apply()
	installed := s.identities()
	s.helm("install", "--take-ownership")
	assert.DeepEqual(t, s.identities(), installed)
	defer s.operate()()
	s.ready(ds)
	assert.DeepEqual(t, s.look(), before)
	s.helm("upgrade")
	assert.DeepEqual(t, s.identities(), installed)
	s.helm("uninstall")
	assert.DeepEqual(t, s.look(), before)
}

// helm runs a command of the real helm program for the release.
func (s *scene) helm(command string, options ...string) {
	s.Helper()
	arguments := append([]string{command, "d3os"}, options...)
	if command != "uninstall" {
		arguments = append(arguments, filepath.Join(cluster.Root(), "dist/chart"))
	}
	s.run(nil, cmp.Or(os.Getenv("HELM"), filepath.Join(cluster.Root(), "bin/tools/helm")),
		append(arguments, "--namespace", namespace, "--wait", "--timeout", patience.String())...)
}

// run runs a program as a user of the cluster.
func (s *scene) run(input []byte, program string, arguments ...string) []byte {
	s.Helper()
	command := exec.CommandContext(s.Context(), program, arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "HELM_CACHE_HOME="+s.TempDir(), "HELM_CONFIG_HOME="+s.TempDir(), "HELM_DATA_HOME="+s.TempDir())
	command.Stdin = bytes.NewReader(input)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	assert.NilError(s, err, "%s\n%s%s", command, out, &stderr)
	return out
}

// apply installs the operator as docs/install.md does with kustomize.
func (s *scene) apply() {
	s.Helper()
	kubectl := filepath.Join(cmp.Or(os.Getenv("TOOLS"), filepath.Join(cluster.Root(), "bin/tools")), "kubectl")
	version, err := os.ReadFile(filepath.Join(cluster.Root(), "VERSION"))
	assert.NilError(s, err)
	objects := s.run(nil, kubectl, "kustomize", filepath.Join(cluster.Root(), "config/default"))
	objects = bytes.ReplaceAll(objects, []byte("controller:latest"), []byte("registry-edge.cosmoplat.com/dataservice/d3os-operator:v"+strings.TrimSpace(string(version))))
	s.run(objects, kubectl, "apply", "--server-side", "--force-conflicts", "--filename", "-")
	s.run(nil, kubectl, "rollout", "status", "--namespace", namespace, "deployment/"+account, "--timeout", patience.String())
}

// operate runs an operator with the rights of the chart's account. The returned function ends the operator.
func (s *scene) operate() func() {
	s.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	op, err := harness.Start(context.WithoutCancel(s.Context()), config, harness.ManagerOptions(platforms))
	assert.NilError(s, err)
	assert.NilError(s, op.Active(patience))
	return func() { assert.Check(s, op.Stop(patience)) }
}

// ready waits until a DataService is ready in its latest generation.
func (s *scene) ready(resource *unstructured.Unstructured) {
	s.Helper()
	err := harness.Within(patience, 200*time.Millisecond, func() <-chan struct{} { return nil }, func() error {
		ds := &dsv1.DataService{}
		if err := s.api.Get(s.Context(), client.ObjectKeyFromObject(resource), ds); err != nil {
			return err
		}
		return harness.IsReady(ds, ds.Generation)
	})
	assert.NilError(s, err)
}

// look returns the pods and the objects of the platform.
func (s *scene) look() oracle.Snapshot {
	s.Helper()
	state, err := oracle.Take(s.Context(), s.api, platforms)
	assert.NilError(s, err)
	assert.Assert(s, len(state.Pods) > 0 && len(state.Objects) > 0)
	return state
}

func (s *scene) get(version, kind, name string) *unstructured.Unstructured {
	s.Helper()
	object, err := s.find(version, kind, name)
	assert.NilError(s, err)
	return object
}

func (s *scene) absent(version, kind, name string) {
	s.Helper()
	_, err := s.find(version, kind, name)
	assert.Assert(s, apierrors.IsNotFound(err), "%s %s: %v", kind, name, err)
}

func (s *scene) find(version, kind, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	key := client.ObjectKey{Name: name}
	if kind == "Deployment" || kind == "Service" {
		key.Namespace = namespace
	}
	return object, s.api.Get(s.Context(), key, object)
}

// identities returns the UIDs of some objects of the operator, with the fields whose change would restart the operator's pods or change an
// API.
func (s *scene) identities() map[string]string {
	s.Helper()
	found := map[string]string{}
	for _, o := range [][3]string{
		{"apps/v1", "Deployment", account}, {"v1", "Service", account + "-metrics-service"},
		{"rbac.authorization.k8s.io/v1", "ClusterRole", "d3os-operator-manager-role"}, {"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "d3os-operator-manager-rolebinding"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "dataservices.d3os-product.com.d3os"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "etcdclusters.etcd.database.coreos.com"},
	} {
		object := s.get(o[0], o[1], o[2])
		part, _, _ := unstructured.NestedFieldCopy(object.Object, "spec")
		if o[1] == "Deployment" {
			part, _, _ = unstructured.NestedFieldCopy(object.Object, "spec", "template")
		}
		text, err := yaml.Marshal(part)
		assert.NilError(s, err)
		found[o[1]+"/"+o[2]] = fmt.Sprintf("%s\n%s", object.GetUID(), text)
	}
	return found
}
