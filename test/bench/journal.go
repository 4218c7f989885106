// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"

	"d3os.com/d3os-operator/test/harness"
)

// journal reads the operator's log instead of printing it: the log tells of every
// reconciliation, also of those that send no request.
type journal struct {
	news    harness.News
	mu      sync.Mutex
	started bool
	looks   map[string]int // reconciliations by namespace/name
	total   int
	errors  []string
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.started, j.looks, j.total, j.errors = false, map[string]int{}, 0, nil
}

// forget starts to count anew.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looks, j.total, j.errors = map[string]int{}, 0, nil
}

func (j *journal) counts() (looks int, errors []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total, j.errors
}

// awaitStart waits until the operator's cache is synced and its workers start.
func (j *journal) awaitStart(ctx context.Context) error {
	return await(ctx, &j.news, func() string {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.started {
			return ""
		}
		return "the operator's workers did not start"
	})
}

// awaitLooks waits until that many DataServices have been reconciled.
func (j *journal) awaitLooks(ctx context.Context, n int) error {
	return await(ctx, &j.news, func() string {
		j.mu.Lock()
		defer j.mu.Unlock()
		if len(j.looks) >= n {
			return ""
		}
		return fmt.Sprintf("%d of %d DataServices were reconciled", len(j.looks), n)
	})
}

// logger returns the logger to give to controller-runtime.
func (j *journal) logger() logr.Logger { return logr.New(&sink{journal: j}) }

// sink is one logger of the journal; controller-runtime has one for each reconciliation.
type sink struct {
	journal *journal
	about   string
}

var _ logr.LogSink = &sink{}

func (s *sink) Init(logr.RuntimeInfo) {}

func (s *sink) Enabled(level int) bool { return level <= 5 }

func (s *sink) WithName(string) logr.LogSink { return s }

func (s *sink) WithValues(pairs ...any) logr.LogSink {
	var namespace, name any
	for i := 0; i+1 < len(pairs); i += 2 {
		switch pairs[i] {
		case "namespace":
			namespace = pairs[i+1]
		case "name":
			name = pairs[i+1]
		}
	}
	if name == nil {
		return s
	}
	return &sink{s.journal, fmt.Sprintf("%v/%v", namespace, name)}
}

func (s *sink) Info(level int, message string, _ ...any) {
	switch {
	case message == "Starting workers":
		s.journal.add(func(j *journal) { j.started = true })
	case level == 5 && s.about != "" && (message == "Reconcile successful" || strings.HasPrefix(message, "Reconcile done")):
		s.journal.add(func(j *journal) { j.looks[s.about]++; j.total++ })
	}
}

func (s *sink) Error(err error, message string, _ ...any) {
	s.journal.add(func(j *journal) {
		j.errors = append(j.errors, fmt.Sprintf("%s %s: %v", s.about, message, err))
		if s.about != "" {
			j.total++
		}
	})
}

func (j *journal) add(change func(*journal)) {
	j.mu.Lock()
	change(j)
	j.mu.Unlock()
	j.news.Raise()
}
