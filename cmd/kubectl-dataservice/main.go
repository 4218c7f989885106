// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-dataservice is the kubectl plugin `kubectl dataservice`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"d3os.com/d3os-operator/cmd/kubectl-dataservice/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}
