// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/internal/contract"
)

// log is the source's binary log. An archive copies it to the volume.
type log struct {
	first string

	mu   sync.Mutex
	head manifest.Head
	at   time.Time // time, by the agent's clock, at which head was the end of the source's log
	err  error     // the last failure; nil after head has changed
}

// follow runs the archive, and restarts it after failures, until stop is called.
func (l *log) follow(ctx context.Context, m *Import) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	l.at = time.Now()
	go func() {
		defer close(done)
		for wait := 200 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
			before := l.reached()
			err := binlog.Archive(ctx, binlog.Options{Server: m.Server, Store: m.store, Interval: m.Interval, MaxBytes: 8 << 20, First: l.first, Lock: m.name, Archived: l.archived})
			if ctx.Err() != nil {
				return
			}
			l.fail(err)
			if ends(err) {
				return
			}
			if l.reached() != before {
				wait = 200 * time.Millisecond
			}
			if !pause(ctx, wait) {
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (l *log) archived(h manifest.Head) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head, l.at, l.err = h, time.Now(), nil
}

func (l *log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *log) reached() contract.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.Position
}

func (l *log) now() (manifest.Head, time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head, l.at, l.err
}

// ends reports whether restarting the archive is useless after this error.
func ends(err error) bool {
	return err != nil && slices.Contains([]contract.Reason{
		contract.ReasonGap, contract.ReasonNoBinaryLog, contract.ReasonNewerFormat, contract.ReasonRefused, contract.ReasonDamaged,
	}, contract.ReasonOf(err))
}

// failure returns the error of an archive that cannot continue. If the error is in the source's log, another copy is necessary.
func failure(err error) error {
	switch {
	case err == nil || !ends(err):
		return nil
	case contract.ReasonOf(err) == contract.ReasonRefused:
		return err
	case contract.ReasonOf(err) == contract.ReasonGap:
		return contract.Errorf(contract.ReasonGap, "%w: the source has removed a part of its binary log before that part was copied, or has begun the log again. If this repeats, have the source keep its log for longer", restore.ErrBeginAgain)
	}
	return contract.Errorf(contract.ReasonOf(err), "%w: %w", restore.ErrBeginAgain, err)
}

// fileOf returns the log file to which an object of a timeline belongs; "" for none.
func fileOf(name, timeline string) string {
	file, _, ok := strings.Cut(strings.TrimPrefix(name, manifest.TimelineFolder(timeline)), "/")
	if !ok {
		return ""
	}
	return file
}
