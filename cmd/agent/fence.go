// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/importer"
	"d3os.com/d3os-operator/internal/contract"
)

// fenceServer reports whether a server is fenced. With --close it first sets the fence, and with --open it first removes the fence.
func fenceServer(arguments []string) int {
	c := newConfig("fence")
	c.server()
	f := importer.Fence{}
	c.DurationVar(&f.Wait, "wait", 10*time.Second, "maximum time for which --close waits for statements that write, and other statements wait for --close")
	c.BoolVar(&f.KeepReadOnly, "keep-read-only", false, "with --open: leave read_only on")
	closes := c.Bool("close", false, "stop the writes of all accounts")
	opens := c.Bool("open", false, "allow writes again")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		var err error
		if c.user == "" {
			if c.user, err = secret(contract.EnvUser); err != nil {
				return err
			}
		}
		if f.Server, err = c.login(); err != nil {
			return err
		}
		do := f.Look
		switch {
		case *closes && *opens:
			return contract.Errorf(contract.ReasonUsage, "give one of --close and --open")
		case *closes:
			do = f.Close
		case *opens:
			do = f.Open
		}
		seen, err := do(ctx)
		if err == nil {
			result.Fence, result.Server = &seen, seen.Server
		}
		return err
	})
}
