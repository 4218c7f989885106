// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// Bounds of the ratios of this build's numbers to those of the other build.
const (
	memoryRatio = 0.5
	cpuRatio    = 0.6
)

const (
	// restFor is the time after which an operator is at rest if it was idle and its resident memory fell by less than a hundredth. Go
	// returns free memory slowly.
	restFor = 10 * time.Second
	// restWithin bounds the wait until an operator is at rest.
	restWithin = 3 * time.Minute
)

// against compares the operator of another commit with this one. It starts both alternately, on one cluster. It uses only the program and
// the CRDs of the other commit, not its tests.
type against struct{}

// build is the operator of one commit.
type build struct {
	name, source, dir string      // source contains the repository's files, dir the program
	turns             [][]measure // each turn contains the same measures, in the same order
}

// measure is one figure of a build.
type measure struct {
	name  string
	value float64
	limit *bound // bound of the ratio to the other build; nil means no bound
}

func (a against) run(ctx context.Context, b *bench) (err error) {
	if b.against == "" {
		return errors.New("-against COMMIT is missing")
	}
	source := filepath.Join(b.dir, "source")
	if err := git(ctx, "worktree", "add", "--detach", source, b.against); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, git(context.WithoutCancel(ctx), "worktree", "remove", "--force", source))
	}()
	other := &build{name: b.against, source: source, dir: filepath.Join(b.dir, "against")}
	this := &build{name: "THIS BUILD", source: cluster.Root(), dir: b.dir}
	if _, err := harness.Build(ctx, other.source, other.dir); err != nil {
		return err
	}
	for i := range b.turns {
		for _, of := range []*build{other, this} {
			turn, err := a.turn(ctx, b, of)
			if err != nil {
				return fmt.Errorf("turn %d of %s: %w", i+1, of.name, err)
			}
			of.turns = append(of.turns, turn)
			for _, m := range turn {
				b.report.progress("turn %d of %s: %s: %s", i+1, of.name, m.name, number(m.value))
			}
		}
	}
	a.print(b, other, this)
	return nil
}

// git runs git in the repository.
func git(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, "git", args...) // #nosec G204 -- the arguments of the command line
	command.Dir = cluster.Root()
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// turn measures one build: it creates all DataServices at once, and then restarts the operator.
func (a against) turn(ctx context.Context, b *bench, of *build) (turn []measure, err error) {
	if err := harness.InstallFrom(ctx, b.client, of.source, "bench"); err != nil {
		return nil, err
	}
	if err := b.removeAll(ctx); err != nil {
		return nil, err
	}
	runs := *b
	runs.dir = of.dir
	services, err := runs.many(ctx, 0, runs.most())
	if err != nil {
		return nil, err
	}
	err = runs.measured(ctx, func(ctx context.Context, o *operator) error {
		turn, err = a.create(ctx, o, services)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	err = runs.measured(ctx, func(ctx context.Context, o *operator) error {
		restarted, err := a.restart(ctx, o, len(services))
		turn = append(turn, restarted...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("restart: %w", err)
	}
	return turn, nil
}

func (against) create(ctx context.Context, o *operator, services []*dsv1.DataService) ([]measure, error) {
	begun, n := time.Now(), len(services)
	created, err := o.measure(ctx, n, 0, func() error {
		if err := o.create(ctx, services...); err != nil {
			return err
		}
		return o.awaitReady(ctx, services...)
	})
	if err != nil {
		return nil, err
	}
	objects, last, err := o.firstObjects(ctx, begun)
	if err != nil {
		return nil, err
	}
	rests, err := o.rest(ctx)
	if err != nil {
		return nil, err
	}
	return []measure{
		{fmt.Sprintf("resident memory with %d, MiB", n), rests.rss, atMost(memoryRatio)},
		{"of it not in the program's file, MiB", rests.anonymous, nil},
		{fmt.Sprintf("live heap with %d, MiB", n), rests.heap, nil},
		{"create: peak resident memory, MiB", created.used.peak, nil},
		{"create: CPU for each object, ms", 1000 * created.used.cpu / float64(objects), atMost(cpuRatio)},
		{"create: objects of each", float64(objects) / float64(n), nil},
		{"create: requests for each", created.each(created.used.writes + created.used.reads + created.used.events), nil},
		{"create: last has its first object, s", last.Seconds(), nil},
		{"create: all ready, s", created.took.Seconds(), nil},
	}, nil
}

func (against) restart(ctx context.Context, o *operator, n int) ([]measure, error) {
	if err := o.journal.awaitLooks(ctx, dsv1.Kind, n, 1); err != nil {
		return nil, err
	}
	took := time.Since(o.began)
	rests, err := o.rest(ctx)
	return []measure{
		{"restart: all reconciled, s", took.Seconds(), nil},
		{"restart: lists and watches", rests.reads, nil},
		{"restart: writes and events", rests.writes + rests.events, nil},
		{"restart: CPU seconds", rests.cpu, nil},
		{"restart: resident memory, MiB", rests.rss, nil},
		{"restart: live heap, MiB", rests.heap, nil},
	}, err
}

// firstObjects returns the number of the operator's objects, and the time from begun until each DataService had an object. The timestamps
// of the API server have a precision of one second.
func (b *bench) firstObjects(ctx context.Context, begun time.Time) (objects int, last time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owned, err := b.trackOwned(ctx, "")
	if err != nil {
		return 0, 0, err
	}
	first := map[string]time.Time{}
	err = owned.await(ctx, func(live map[string]client.Object) error {
		for k, o := range live {
			kind, _, _ := strings.Cut(k, "/")
			if kind == "Pod" || kind == object.ClaimKind.Kind {
				continue // other controllers create them
			}
			objects++
			if at, ok := first[o.GetNamespace()]; !ok || o.GetCreationTimestamp().Time.Before(at) {
				first[o.GetNamespace()] = o.GetCreationTimestamp().Time
			}
		}
		return nil
	})
	for _, at := range first {
		last = max(last, at.Sub(begun))
	}
	return objects, last, err
}

// rest waits until an operator neither reconciles nor writes, and returns almost no more memory to the system. Each measurement makes
// the operator collect garbage.
func (o *operator) rest(ctx context.Context) (usage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restWithin, fmt.Errorf("the operator is not at rest after %s", restWithin))
	defer cancel()
	before, err := o.usage(ctx)
	for err == nil {
		select {
		case <-ctx.Done():
			return before, context.Cause(ctx)
		case <-time.After(restFor):
		}
		var now usage
		now, err = o.usage(ctx)
		since := now.since(before)
		if err == nil && since.writes+since.events+since.reconciles == 0 && now.rss >= 0.99*before.rss {
			return now, nil
		}
		before = now
	}
	return before, err
}

// print compares the medians of all turns.
func (against) print(b *bench, other, this *build) {
	b.report.note("%d DataServices at once; medians of %d turns, alternately.\n", b.most(), b.turns)
	t := b.report.table("MEASURE", strings.ToUpper(other.name), this.name, "RATIO")
	for i, m := range this.turns[0] {
		was, is := middle(other.turns, i), middle(this.turns, i)
		limit := m.limit
		if !b.bounds {
			limit = nil
		}
		ratio := "-"
		if was > 0 {
			ratio = b.report.check(m.name+", ratio to "+other.name, is/was, limit)
		}
		t.row(m.name, number(was), number(is), ratio)
	}
	t.flush()
}

// middle returns the median of the measure at an index.
func middle(turns [][]measure, index int) float64 {
	var values []float64
	for _, turn := range turns {
		values = append(values, turn[index].value)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
