// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager is the DataService operator. `manager` (the default) runs it, and `render` prints the objects that the operator would
// apply for a DataService.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/version"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		args = append([]string{"manager"}, args...)
	}
	switch command, args := args[0], args[1:]; command {
	case "manager":
		options, err := manager.ParseOptions(args)
		if err != nil {
			return err
		}
		if options.PrintVersion {
			return printVersion()
		}
		ctrl.SetLogger(zap.New(zap.UseFlagOptions(&options.Log)))
		return manager.Run(ctrl.SetupSignalHandler(), options)
	case "render":
		return plan.Run(args, os.Stdin, os.Stdout)
	case "version":
		return printVersion()
	default:
		return fmt.Errorf("unknown command %q: try manager, render or version", command)
	}
}

func printVersion() error {
	_, err := fmt.Println(version.Version)
	return err
}
