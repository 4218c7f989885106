// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
)

// operator runs in this process, for one namespace.
type operator struct {
	cancel  context.CancelFunc
	stopped chan struct{}
	err     error
	writes  *counter
}

// counter counts what an operator writes: attempts, without dry runs, events and leases.
type counter struct{ objects, status atomic.Int64 }

func (c *counter) before(next http.RoundTripper) http.RoundTripper {
	return harness.Transport(func(req *http.Request) (*http.Response, error) {
		switch sent := harness.Parse(req.Method, req.URL, req.Header.Get("Content-Type")); {
		case sent.WritesStatus():
			c.status.Add(1)
		case sent.Writes():
			c.objects.Add(1)
		}
		return next.RoundTrip(req)
	})
}

// startOperator runs an operator for a namespace and waits until it is active.
func startOperator(ctx context.Context, config *rest.Config, namespace string, writes *counter) (*operator, error) {
	cfg := rest.CopyConfig(config)
	cfg.Wrap(writes.before)
	ctx, cancel := context.WithCancel(ctx)
	op := &operator{cancel: cancel, stopped: make(chan struct{}), writes: writes}
	mgr, err := manager.New(ctx, cfg, manager.Options{
		WatchNamespaces: []string{namespace}, MaxConcurrentReconciles: 4, ResyncPeriod: 10 * time.Hour,
		MetricsBindAddress: "0", ProbeBindAddress: "0", PprofBindAddress: "0", SkipNameValidation: true,
		Version: "1.0.0",
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("set up an operator: %w", err)
	}
	go func() {
		defer close(op.stopped)
		op.err = mgr.Start(ctx)
	}()
	select {
	case <-mgr.Elected():
		return op, nil
	case <-op.stopped:
	case <-time.After(patience):
	}
	return nil, errors.Join(errors.New("the operator does not start"), op.stop())
}

// stop ends the operator and waits until it has ended.
func (op *operator) stop() error {
	op.cancel()
	select {
	case <-op.stopped:
		return op.err
	case <-time.After(patience):
		return errors.New("the operator does not end")
	}
}

// logSink keeps what all operators of this process say of errors, by line.
type logSink struct {
	mu     sync.Mutex
	errors []string
}

func (s *logSink) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if bytes.Contains(line, []byte(`"level":"error"`)) || bytes.Contains(bytes.ToLower(line), []byte("panic")) {
			s.mu.Lock()
			s.errors = append(s.errors, string(line))
			s.mu.Unlock()
		}
	}
	return len(p), nil
}

func (s *logSink) mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errors)
}

// since returns the errors after a mark that are about a namespace.
func (s *logSink) since(mark int, namespace string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, line := range s.errors[mark:] {
		if strings.Contains(line, namespace) {
			found = append(found, line)
		}
	}
	return found
}

// panics returns the lines about panics, wherever they come from.
func (s *logSink) panics() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, line := range s.errors {
		if lower := strings.ToLower(line); strings.Contains(lower, "observed a panic") || strings.Contains(lower, `"error":"panic`) || strings.Contains(lower, "goroutine ") {
			found = append(found, line)
		}
	}
	return found
}
