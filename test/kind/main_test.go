// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kind_test is the worked example of a kind: what one writes to add one (types_test.go,
// kind_test.go, testdata), and how it is tested. Notebooks are carried out by the operator beside
// DataServices, on a real API server with simulated pods.
package kind_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience is how long anything may take that has no promise of its own; the machine may be busy.
const patience = 3 * time.Minute

var suite = &stage.Suite{
	Patience: func() time.Duration { return patience },
	Lists: []client.ObjectList{
		&NotebookList{}, &dsv1.DataServiceList{},
		&corev1.ConfigMapList{}, &corev1.PersistentVolumeClaimList{}, &appsv1.StatefulSetList{}, &corev1.PodList{},
	},
}

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, cluster.Options{Name: "kind", Nodes: 8}, func(ctx context.Context) error {
		addToScheme(suite.API.Scheme(), groupVersion)
		return install(ctx, groupVersion)
	}))
}

// install installs the CRD of Notebooks in an API group and waits until they are served.
func install(ctx context.Context, gv schema.GroupVersion) error {
	data, err := os.ReadFile(filepath.Join("testdata", "crd.yaml"))
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(data), groupVersion.Group, gv.Group)), &crd.Object); err != nil {
		return err
	}
	return harness.Install(ctx, suite.API, crd, "kind")
}
