// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

// Package ha_test runs the operator as two processes, of which one leads, and takes the leader
// away in every way there is: make ha. The API server's audit log says who wrote what and when,
// and who held the Lease.
package ha_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
)

// What all cases share.
var (
	config  *rest.Config
	api     client.WithWatch // as the cluster's administrator
	auditor *audit
	binary  string // the operator
	runs    = 3    // of each case, or HA_RUNS
	results = &table{}
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // cases mostly wait
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	ctrl.SetLogger(klog.Background())
	dir, err := os.MkdirTemp("", "d3os-ha-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	c, err := cluster.Start(ctx, cluster.Options{Name: "ha", Nodes: 8, Audit: filepath.Join(cluster.Root(), "test", "ha", "audit.yaml")})
	if err == nil {
		defer func() {
			if err := c.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stop the cluster:", err)
				code = 1
			}
		}()
		err = prepare(ctx, c, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	results.print(os.Stdout)
	return code
}

// prepare builds the operator, connects and installs the CRD.
func prepare(ctx context.Context, c *cluster.Cluster, dir string) error {
	config, auditor = c.Config, &audit{path: c.AuditLog, stories: map[string]*story{}}
	if given := os.Getenv("HA_RUNS"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 {
			return fmt.Errorf("HA_RUNS is %q, not a number of runs", given)
		}
		runs = n
	}
	scheme, err := manager.Scheme()
	if err != nil {
		return err
	}
	if api, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	binary = filepath.Join(dir, "manager")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, ".")
	build.Dir, build.Env = cluster.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build the operator: %s", out), err)
	}
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(cluster.Root(), "config", "crd", "bases")}, ErrorIfPathMissing: true,
	})
	return err
}
