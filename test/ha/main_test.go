// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

// Package ha_test runs the operator as two processes, of which one leads, and takes the leader
// away in every way there is: make ha. The API server's audit log says who wrote what and when,
// and who held the Lease.
package ha_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// What all cases share.
var (
	suite = &stage.Suite{
		Patience: func() time.Duration { return patience },
		Lists:    []client.ObjectList{&dsv1.DataServiceList{}},
	}
	auditor *audit
	binary  string // the operator
	runs    = 3    // of each case, or HA_RUNS
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "d3os-ha-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	policy := filepath.Join(cluster.Root(), "test", "ha", "audit.yaml")
	return suite.Main(m, cluster.Options{Name: "ha", Nodes: 8, Audit: policy}, func(ctx context.Context) error {
		return prepare(ctx, dir)
	})
}

// prepare builds the operator.
func prepare(ctx context.Context, dir string) error {
	auditor = &audit{path: suite.AuditLog, stories: map[string]*story{}}
	if given := os.Getenv("HA_RUNS"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 {
			return fmt.Errorf("HA_RUNS is %q, not a number of runs", given)
		}
		runs = n
	}
	var err error
	binary, err = harness.Build(ctx, dir)
	return err
}
