// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"d3os.com/d3os-operator/test/cluster"
)

// Program returns the path of a program that make builds: in the folder that a variable of the environment names, as make test
// does, or in that of bin/tools where make puts it.
func Program(variable, tools, name string) (string, error) {
	folder := os.Getenv(variable)
	if folder == "" {
		folder = filepath.Join(cluster.Root(), "bin", "tools", tools)
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no %s: run `make tools`, or name its folder in %s: %w", name, variable, err)
	}
	return path, nil
}

// Runs reports whether the program runs; there may be none yet.
func (p *Process) Runs() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Wait waits until a condition holds, and returns why it does not hold after a time.
func Wait(ctx context.Context, within time.Duration, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// LastLines returns the last lines of a log, each cut off where it is long.
func LastLines(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, line := range lines {
		lines[i] = line[:min(len(line), 400)]
	}
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}
