// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

// Package chaos_test lets the operator crash at every write and lets everything below it fail,
// and compares what comes of it with a run in which nothing failed: make chaos.
package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// leastCrashes is how many crashes the suite has to have seen, or it has tested less than it says.
const leastCrashes = 120

// What all cases share.
var (
	config  *rest.Config
	api     client.WithWatch // as the cluster's administrator
	own     bool             // nobody else uses the cluster
	sight   *eye
	logs    = &harness.LogBuffer{}
	results = &table{}

	full = os.Getenv("CHAOS") == "full"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["test.parallel"] {
		_ = flag.Set("test.parallel", "8") // cases mostly wait
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := zap.New(zap.WriteTo(logs), zap.UseDevMode(true))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	c, err := cluster.Start(ctx, cluster.Options{Name: "chaos", Nodes: 20})
	if err == nil {
		defer func() {
			if err := c.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stop the cluster:", err)
			}
		}()
		config, own = c.Config, c.Own
		api, err = harness.Connect(ctx, config, "chaos")
	}
	if err == nil {
		sight, err = newEye(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	start := time.Now()
	code := m.Run()
	fmt.Print(results)
	fmt.Printf("seed %d, %s\n", seed, time.Since(start).Round(time.Second))
	if n := results.crashes(); code == 0 && !given["test.run"] && !given["test.skip"] && n < leastCrashes {
		fmt.Printf("only %d crashes; %d were to be seen\n", n, leastCrashes)
		return 1
	}
	return code
}
