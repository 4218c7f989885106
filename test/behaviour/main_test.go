// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package behaviour_test holds the operator against what it promises its
// users, on a real API server: each test runs an operator of its own in a
// namespace of its own, changes something, and looks at live objects and at
// the requests that the operator sent.
package behaviour_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// What all tests share.
var (
	config *rest.Config
	api    client.WithWatch // as the cluster's administrator
	own    bool             // nobody else uses the cluster
	audit  string           // the API server's audit log; empty when the cluster is not ours
	logs   = &harness.LogBuffer{}
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
	c, err := cluster.Start(ctx, cluster.Options{Name: "behaviour", Nodes: 40, Audit: filepath.Join(cluster.Root(), "hack", "cluster", "audit.yaml")})
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
	if api, err = harness.Connect(ctx, config, "behaviour"); err != nil {
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

// readYAML reads a file of the repository.
func readYAML(path string, into any) error { return harness.ReadYAML(path, into) }
