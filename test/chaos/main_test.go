// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

// Package chaos_test lets the operator crash at every write and lets everything below it fail,
// and compares what comes of it with a run in which nothing failed: make chaos.
package chaos_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// leastCrashes is how many crashes the suite has to have seen, or it has tested less than it says.
const leastCrashes = 120

// What all cases share.
var (
	suite   = &stage.Suite{Patience: patience, Lists: lists()}
	config  *rest.Config
	api     client.WithWatch // as the cluster's administrator
	results = &table{}

	full = os.Getenv("CHAOS") == "full"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var start time.Time
	code := suite.Main(m, cluster.Options{Name: "chaos", Nodes: 20}, func(context.Context) error {
		config, api, start = suite.Config, suite.API, time.Now()
		return nil
	})
	fmt.Print(results)
	fmt.Printf("seed %d, %s\n", seed, time.Since(start).Round(time.Second))
	if n := results.crashes(); code == 0 && !harness.Given("test.run") && !harness.Given("test.skip") && n < leastCrashes {
		fmt.Printf("only %d crashes; %d were to be seen\n", n, leastCrashes)
		return 1
	}
	return code
}
