// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator: requests, times, throughput, memory.
// It prints tables with the bound beside each number, and fails when a number lies outside its
// bound.
//
// With KUBECONFIG set it uses that cluster, which must hold no DataServices
// and whose pods must become ready by themselves; else it starts a simulated
// one of its own and removes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"d3os.com/d3os-operator/test/cluster"
)

// servicesPerNode is how many DataServices a simulated node has memory for, with some to spare.
const servicesPerNode = 15

type flags struct {
	scale int
	runs  int
	// clusters is how many RedisClusters of 6 the section middleware has.
	clusters int
	// updates is how often the section author changes its DataService.
	updates int
	only    []string
	sizes   []int // numbers of DataServices of the section load, ascending
}

// most is how many DataServices there are at most.
func (f flags) most() int {
	most := 0
	for _, name := range f.only {
		switch name {
		case "load":
			most = max(most, f.sizes[len(f.sizes)-1])
		case "middleware":
			most = max(most, middlewareServices)
		default:
			most = max(most, f.scale)
		}
	}
	return most
}

// section is one part of the benchmark; -only selects by name.
type section struct {
	name, title string
	run         func(context.Context, *bench) error
	asked       bool // runs only when -only names it
}

// sections in the order in which they run.
var sections = []section{
	{"render", "Render one whole DataService", renderTime{}.run, false},
	{"requests", "Requests for one DataService", requests{}.run, false},
	{"latency", "Latency, one DataService", latency{}.run, false},
	{"scale", "Many DataServices at once, with memory and CPU of the operator", scale{}.run, false},
	{"author", "One author, one large DataService, many updates", author{}.run, false},
	{"status", "kubectl dataservice status, 100 DataServices", status{}.run, false},
	{"middleware", "RedisClusters with real servers beside DataServices", middleware{}.run, true},
	{"load", "Load: create, change, restart beside, delete", load{}.run, true},
}

func main() {
	f, err := parseFlags(os.Args[1:])
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, f)
		stop()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (flags, error) {
	var f flags
	var names, usual []string
	for _, s := range sections {
		names = append(names, s.name)
		if !s.asked {
			usual = append(usual, s.name)
		}
	}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.IntVar(&f.scale, "scale", 200, "how many DataServices are many")
	set.IntVar(&f.runs, "runs", 3, "how often what concerns one DataService is repeated")
	set.IntVar(&f.clusters, "clusters", 20, "how many RedisClusters the section middleware has")
	set.IntVar(&f.updates, "updates", 500, "how often the section author changes its DataService")
	only := set.String("only", "", "comma-separated sections to run: "+strings.Join(names, ", ")+" (default: all but middleware and load)")
	f.sizes = []int{100}
	set.Func("sizes", "comma-separated numbers of DataServices of the section load (default: 100)", func(list string) (err error) {
		f.sizes, err = parseSizes(list)
		return err
	})
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if min(f.scale, f.runs, f.updates, f.clusters) < 1 {
		return f, errors.New("-scale, -runs, -updates and -clusters must be at least 1")
	}
	f.only = usual
	if *only != "" {
		f.only = strings.Split(*only, ",")
	}
	for _, name := range f.only {
		if !slices.Contains(names, name) {
			return f, fmt.Errorf("there is no section %q: try %s", name, strings.Join(names, ", "))
		}
	}
	return f, nil
}

func parseSizes(list string) (sizes []int, err error) {
	const least = 2 // one is hot, the others are not
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < least {
			return nil, fmt.Errorf("%q is no number of DataServices: at least %d", text, least)
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}

func run(ctx context.Context, f flags) (err error) {
	c, err := cluster.Start(ctx, cluster.Options{Name: "bench", Nodes: 2 + f.most()/servicesPerNode})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()

	b, err := newBench(ctx, c, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cleanUp(context.WithoutCancel(ctx))) }()
	b.printFacts()
	for _, s := range sections {
		if !slices.Contains(f.only, s.name) {
			continue
		}
		b.report.begin(s.name, s.title)
		begun := time.Now()
		err := b.removeAll(ctx)
		if err == nil {
			err = s.run(ctx, b)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.report.note("\n%s s", number(time.Since(begun).Seconds()))
	}
	b.report.totals()
	if n := len(b.report.outside); n > 0 {
		return fmt.Errorf("%d numbers lie outside their bounds", n)
	}
	return nil
}
