// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"d3os.com/d3os-operator/test/harness"
)

// journal reads the operator's log: it tells of every reconciliation, also of those that send no
// request.
type journal struct {
	news    harness.News
	mu      sync.Mutex
	started bool
	looks   map[string]int // reconciliations by controller/namespace/name
	ended   int            // in all, with those that failed
	errors  []string
}

func newJournal() *journal { return &journal{looks: map[string]int{}} }

// reset starts to count again.
func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looks, j.ended, j.errors = map[string]int{}, 0, nil
}

func (j *journal) counts() (looks int, errors []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended, j.errors
}

func (j *journal) await(ctx context.Context, missing func() error) error {
	return await(ctx, &j.news, func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		return missing()
	})
}

// awaitStart waits until the operator's cache is synced and its workers start.
func (j *journal) awaitStart(ctx context.Context) error {
	return j.await(ctx, func() error {
		if !j.started {
			return errors.New("the operator's workers did not start")
		}
		return nil
	})
}

// awaitLooks waits until so many resources of a kind, whose controller is named so, have been reconciled so often since
// the last reset.
func (j *journal) awaitLooks(ctx context.Context, kind string, resources, times int) error {
	return j.await(ctx, func() error {
		enough := 0
		for resource, n := range j.looks {
			if strings.HasPrefix(resource, strings.ToLower(kind)+"/") && n >= times {
				enough++
			}
		}
		if enough < resources {
			return fmt.Errorf("%d of %d %ss were reconciled %d times", enough, resources, kind, times)
		}
		return nil
	})
}

// follow reads a log to its end and returns the last line.
func (j *journal) follow(log io.Reader) (last string) {
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return last
		}
		last = string(line)
		var e entry
		if json.Unmarshal(line, &e) == nil { // Go's own words about a crash are none
			j.add(e)
		}
	}
}

// entry is a line of the log.
type entry struct{ Level, Msg, Error, Controller, Namespace, Name string }

func (j *journal) add(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	about := key(e.Controller, e.Namespace, e.Name)
	switch {
	case e.Level == "error":
		j.errors = append(j.errors, fmt.Sprintf("%s %s: %s", about, e.Msg, e.Error))
		if e.Controller != "" {
			j.ended++
		}
	case e.Msg == "Starting workers":
		j.started = true
	case e.Msg == "Reconcile successful", strings.HasPrefix(e.Msg, "Reconcile done"):
		j.looks[about]++
		j.ended++
	}
	j.news.Raise()
}
