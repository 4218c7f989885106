// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package behaviour_test holds the operator against what it promises its
// users, on a real API server: each test runs an operator of its own in a
// namespace of its own, changes something, and looks at live objects and at
// the requests that the operator sent.
package behaviour_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
)

// What all tests share.
var (
	config *rest.Config
	api    client.WithWatch // as the cluster's administrator
	own    bool             // nobody else uses the cluster
	audit  string           // the API server's audit log; empty when the cluster is not ours
	logs   = &logBuffer{}
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if !parallelGiven() {
		_ = flag.Set("test.parallel", "8") // tests mostly wait
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	ctrl.SetLogger(zap.New(zap.WriteTo(logs), zap.UseDevMode(true)))
	c, err := cluster.Start(ctx, cluster.Options{Name: "behaviour", Nodes: 40, Audit: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the cluster:", err)
		}
	}()
	config, own, audit = c.Config, c.Own, c.AuditLog
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func parallelGiven() bool {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	return given
}

// prepare connects, installs the CRD and waits until it is served.
func prepare(ctx context.Context) error {
	scheme, err := manager.Scheme()
	if err != nil {
		return err
	}
	if api, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	crd := &unstructured.Unstructured{}
	if err := readYAML("config/crd/bases/d3os-product.com.d3os_dataservices.yaml", &crd.Object); err != nil {
		return err
	}
	if err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner("behaviour"), client.ForceOwnership); err != nil {
		return fmt.Errorf("install the CRD: %w", err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("d3os-product.com.d3os/v1")
	list.SetKind("DataServiceList")
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return api.List(ctx, list, client.InNamespace(corev1.NamespaceDefault)) == nil, nil
	})
}

// readYAML reads a file of the repository.
func readYAML(path string, into any) error {
	data, err := os.ReadFile(filepath.Join(cluster.Root(), path))
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// logBuffer keeps the operators' log.
type logBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}
