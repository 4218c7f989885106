// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command helmpeer is what the benchmark compares the operator with: the Helm operator of the
// Operator SDK, with a chart from a folder and as many workers as the operator has.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("helmpeer", flag.ContinueOnError)
	folder := flags.String("chart", "", "folder of the chart")
	metrics := flags.String("metrics-bind-address", "0", "address of the metrics")
	profile := flags.String("pprof-bind-address", "0", "address of the profiler")
	workers := flags.Int("max-concurrent-reconciles", 8, "how many resources are worked on at once")
	group := flags.String("group", "", "API group of the resource")
	kind := flags.String("kind", "", "kind of the resource")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctrl.SetLogger(zap.New())
	chart, err := loader.Load(*folder)
	if err != nil {
		return fmt.Errorf("load the chart: %w", err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1 // as the operator
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: *metrics}, PprofBindAddress: *profile, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return err
	}
	r, err := reconciler.New(
		reconciler.WithChart(*chart),
		reconciler.WithGroupVersionKind(schema.GroupVersionKind{Group: *group, Version: "v1", Kind: *kind}),
		reconciler.WithMaxConcurrentReconciles(*workers),
		reconciler.WithReconcilePeriod(0),
	)
	if err != nil {
		return err
	}
	if err := r.SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
