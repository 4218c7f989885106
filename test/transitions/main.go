// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command transitions changes every property of the CRD on running DataServices, each value
// that the schema or corpus.yaml has for it and back, and holds the operator against it: every
// change shows, what is wrong is refused or named, and taken back, all is as it was. With -suite
// bad-input it tries what nobody should write into a DataService.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"d3os.com/d3os-operator/internal/cli/foresee"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/version"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

// suite is what all walkers share.
type suite struct {
	config  *rest.Config
	api     client.WithWatch // as the cluster's administrator
	dynamic dynamic.Interface
	client  kubernetes.Interface
	planner *plan.Planner
	oracle  *foresee.Operator // says what the plugin's diff says
	logs    harness.LogBuffer // the errors of all operators
	report  *report
	all     []*property
	full    bool
	only    int64  // the seed of the only random sequence to walk; 0 for everything
	jobs    string // only those whose names hold this
	ports   atomic.Int64
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	which := flag.String("suite", "transitions", "transitions or bad-input")
	seed := flag.Int64("seed", 0, "replay the random sequence of this seed and do nothing else")
	jobs := flag.String("jobs", "", "do only the parts whose names hold this")
	full := flag.Bool("full", os.Getenv("TRANSITIONS") == "full", "try every value, not just some of each property (TRANSITIONS=full)")
	flag.Parse()
	parts := map[string]func(context.Context, *suite) error{"transitions": transitions, "bad-input": badInput}[*which]
	if parts == nil {
		return fmt.Errorf("there is no suite %q", *which)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	counts := &report{cases: map[string]map[verdict]int{}, all: map[verdict]int{}}
	s := &suite{report: counts, full: *full, only: *seed, jobs: *jobs}
	log := zap.New(zap.WriteTo(&s.logs), zap.JSONEncoder(), zap.Level(zapcore.ErrorLevel))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	var err error
	if s.all, err = load(); err != nil {
		return err
	}
	if !s.full {
		takeTurns(s.all)
	}
	c, err := cluster.Start(ctx, cluster.Options{Name: "transitions"})
	if err != nil {
		return err
	}
	start := time.Now()
	err = s.prepare(ctx, c.Config)
	if err == nil {
		err = parts(ctx, s)
	}
	s.report.table()
	fmt.Printf("%s without the cluster's start\n", time.Since(start).Round(time.Second))
	for line := range strings.Lines(s.logs.String()) {
		if strings.Contains(line, "Observed a panic") || strings.Contains(line, `"error":"panic`) || strings.Contains(line, "goroutine ") {
			err = errors.Join(err, fmt.Errorf("the operator panicked: %s", shorten(line, 2000)))
			break
		}
	}
	if n := s.report.failures(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d cases failed", n))
	}
	return errors.Join(err, c.Stop())
}

// prepare connects, installs the CRD and waits until it is served.
func (s *suite) prepare(ctx context.Context, config *rest.Config) error {
	s.config = config
	var err error
	if s.planner, err = live.NewPlanner(config); err != nil {
		return err
	}
	unlimited := rest.CopyConfig(config)
	unlimited.QPS = -1
	if s.dynamic, err = dynamic.NewForConfig(unlimited); err != nil {
		return err
	}
	if s.client, err = kubernetes.NewForConfig(unlimited); err != nil {
		return err
	}
	server, err := s.client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	if s.oracle, err = foresee.NewOperator(version.Version, server.GitVersion, nil); err != nil {
		return err
	}
	s.api, err = harness.Connect(ctx, config, "transitions")
	return err
}
