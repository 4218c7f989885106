// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd_test holds what the operator does with real etcd processes against what it promises.
package etcd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/etcd/rig"
	"d3os.com/d3os-operator/test/harness"
)

// full reports whether everything is tried: every crash point, every version, and faults that take minutes.
var full = os.Getenv("ETCD_TESTS") == "full"

func TestMain(m *testing.M) {
	harness.AtOnce(4) // tests mostly wait
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "d3os-agent-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	rig.Agent = filepath.Join(dir, "agent")
	if err := cluster.BuildAgent(context.Background(), rig.Agent); err != nil {
		fmt.Println(err)
		return 1
	}
	return m.Run()
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
