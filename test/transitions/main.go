// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command transitions tests every property of the CRD in running DataServices, with each value of the schema or of corpus.yaml. It sets the
// value, and then restores the old value. Each accepted change must have an effect. Each wrong value must be refused or reported. At the
// end, all objects must be as before. With -suite bad-input it sets harmful and wrong values.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/version"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

// suite holds the state of all walkers.
type suite struct {
	config  *rest.Config
	api     client.WithWatch // has the rights of the cluster's administrator
	dynamic dynamic.Interface
	client  kubernetes.Interface
	planner *plan.Planner
	oracle  *plugin.Operator  // predicts as `kubectl dataservice diff`
	logs    harness.LogBuffer // the logs of all operators
	report  *report
	all     []*property
	full    bool
	first   int64  // the seed of the first random sequence
	only    int64  // the seed of the only random sequence to walk; 0: run all jobs
	jobs    string // substring of the names of the jobs to run
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
	only := flag.Int64("seed", 0, "run only the random sequence with this seed")
	jobs := flag.String("jobs", "", "run only the parts whose names contain this text")
	full := flag.Bool("full", os.Getenv("TRANSITIONS") == "full", "test every value, not only some of each property (TRANSITIONS=full)")
	flag.Parse()
	parts := map[string]func(context.Context, *suite) error{"transitions": transitions, "bad-input": badInput}[*which]
	if parts == nil {
		return fmt.Errorf("there is no suite %q", *which)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	counts := &report{cases: map[string]map[verdict]int{}, all: map[verdict]int{}}
	s := &suite{report: counts, full: *full, first: 1, only: *only, jobs: *jobs}
	if given := os.Getenv("SEED"); given != "" {
		var err error
		if s.first, err = strconv.ParseInt(given, 10, 64); err != nil || s.first < 1 {
			return fmt.Errorf("SEED=%s: it must be a positive number", given)
		}
	}
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
	fmt.Printf("%s after the start of the cluster\n", time.Since(start).Round(time.Second))
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

// prepare connects, installs the CRDs and waits until the API server serves them.
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
	if s.oracle, err = plugin.NewOperator(version.Version, server.GitVersion, nil); err != nil {
		return err
	}
	s.api, err = harness.Connect(ctx, config, "transitions")
	return err
}

// verdict is the result of a case.
type verdict string

const (
	carriedOut verdict = "passed"             // runs as planned, and is healthy
	refused    verdict = "refused"            // the API server refuses it and names the field
	reported   verdict = "named in condition" // no object changes, and a condition names the field
	troubled   verdict = "trouble named"      // runs as planned, is not healthy, and the status shows the reason
	failed     verdict = "failed"             // none of these
)

var verdicts = []verdict{carriedOut, refused, reported, troubled, failed}

// result is one case.
type result struct {
	kind string // kind of transition or input
	what string
	verdict
	err error
}

// report counts results.
type report struct {
	mu    sync.Mutex
	cases map[string]map[verdict]int // by kind
	all   map[verdict]int

	varied               atomic.Int64 // properties that were changed one at a time in a running platform
	foreseen, rolledBack atomic.Int64 // transitions that were compared with diff; transitions that were rolled back
}

// add counts a result, and prints a failure immediately.
func (r *report) add(c result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.err != nil {
		c.verdict = failed
		fmt.Printf("FAILED %s: %s\n    %s\n", c.kind, c.what, strings.ReplaceAll(shorten(c.err.Error(), 3000), "\n", "\n    "))
	}
	if r.cases[c.kind] == nil {
		r.cases[c.kind] = map[verdict]int{}
	}
	r.cases[c.kind][c.verdict]++
	r.all[c.verdict]++
}

func shorten(text string, limit int) string {
	if len(text) > limit {
		return text[:limit] + " …"
	}
	return text
}

// text formats a value for the name of a case.
func text(value any) string {
	return shorten(strings.ReplaceAll(fmt.Sprint(value), "\n", `\n`), 80)
}

func (r *report) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[failed]
}

// table prints a line for each kind of case.
func (r *report) table() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	show := func(kind string, of map[verdict]int) {
		cases := 0
		for _, n := range of {
			cases += n
		}
		fmt.Fprintf(w, "%s\t%d", kind, cases)
		for _, v := range verdicts {
			fmt.Fprintf(w, "\t%d %s", of[v], v)
		}
		fmt.Fprintln(w)
	}
	fmt.Println()
	for _, kind := range slices.Sorted(maps.Keys(r.cases)) {
		show(kind, r.cases[kind])
	}
	show("all", r.all)
	_ = w.Flush()
	fmt.Printf("\ndiff was compared with the operator's actions %d times; %d changes were rolled back\n",
		r.foreseen.Load(), r.rolledBack.Load())
}
