// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
)

// settled is how long nothing must be asked of the API server for an effect to be over. The
// operator itself holds a mere progress of the status back for a quarter of a second.
const settled = time.Second

// operator is the operator, run in this process.
type operator struct {
	*harness.Operator

	bench   *bench
	traffic *traffic
	synced  time.Duration // from its start until its workers started
}

// startOperator starts the operator with the options of its command line's defaults, and
// returns when its cache is synced and its workers start.
func (b *bench) startOperator(ctx context.Context, change func(*manager.Options)) (*operator, error) {
	options, err := manager.ParseOptions(nil)
	if err != nil {
		return nil, err
	}
	options.SkipNameValidation = true // several, one after the other
	options.ProbeBindAddress = "0"
	if change != nil {
		change(&options)
	}
	o := &operator{bench: b, traffic: &traffic{}}
	b.journal.reset()
	config := b.config()
	config.Wrap(o.traffic.Before)
	start := time.Now()
	if o.Operator, err = harness.Start(ctx, config, options); err != nil {
		return nil, err
	}
	go func() {
		if err := o.Wait(); err != nil {
			b.fail(fmt.Errorf("the operator ended: %w", err)) // nobody need wait for it
		}
	}()
	if err := b.journal.awaitStart(ctx); err != nil {
		return nil, errors.Join(err, o.stop())
	}
	o.synced = time.Since(start)
	return o, nil
}

// stop ends the operator; it may be called more than once.
func (o *operator) stop() error { return o.Stop(waitAtMost) }

// count counts what the operator does from a call of do until all is quiet again.
func (o *operator) count(ctx context.Context, do func() error) (tally, error) {
	if err := o.traffic.rested(ctx, settled); err != nil {
		return tally{}, err
	}
	o.traffic.reset()
	o.bench.journal.forget()
	if err := do(); err != nil {
		return tally{}, err
	}
	return o.tally(ctx)
}

// tally waits until all is quiet and says what was done since the last reset.
func (o *operator) tally(ctx context.Context) (tally, error) {
	if err := o.traffic.quiet(ctx, settled); err != nil {
		return tally{}, err
	}
	t := tally{counts: o.traffic.counts(), evidence: o.traffic.evidence()}
	t.looks, t.errors = o.bench.journal.counts()
	return t, nil
}
