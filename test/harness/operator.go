// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
)

// Operator is one that runs in this process.
type Operator struct {
	Manager ctrl.Manager
	Ended   <-chan struct{} // closed when it has ended

	cancel context.CancelFunc
	err    error
}

// Start starts an operator, with more kinds than its own if they are registered; it does not wait until it is active.
func Start(ctx context.Context, config *rest.Config, options manager.Options, register ...func(*manager.Operator) error) (*Operator, error) {
	ctx, cancel := context.WithCancel(ctx)
	mgr, err := manager.New(ctx, config, options)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("set up an operator: %w", err)
	}
	for _, add := range register {
		if err := add(mgr); err != nil {
			cancel()
			return nil, fmt.Errorf("register a kind: %w", err)
		}
	}
	ended := make(chan struct{})
	op := &Operator{Manager: mgr, Ended: ended, cancel: cancel}
	go func() {
		defer close(ended)
		op.err = mgr.Start(ctx)
	}()
	return op, nil
}

// Build builds the operator in a folder, as it is released, and returns the path of its binary.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "manager")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, ".")
	build.Dir, build.Env = cluster.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	return binary, nil
}

// Active waits until the operator may act, which with leader election it may not as a standby.
func (op *Operator) Active(limit time.Duration) error {
	select {
	case <-op.Manager.Elected():
		return nil
	case <-op.Ended:
		return fmt.Errorf("the operator has ended: %w", op.err)
	case <-time.After(limit):
		return errors.New("the operator does not start")
	}
}

// Wait waits until the operator has ended, and returns what it ended with.
func (op *Operator) Wait() error {
	<-op.Ended
	return op.err
}

// Cancel tells the operator to end.
func (op *Operator) Cancel() { op.cancel() }

// Stop ends the operator, waits until it has ended, and returns what it ended with.
func (op *Operator) Stop(limit time.Duration) error {
	op.cancel()
	select {
	case <-op.Ended:
		return op.err
	case <-time.After(limit):
		return errors.New("the operator does not end")
	}
}
