// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command monitoring prints the files that administrators load into Prometheus and Grafana:
//
//	go run -C hack/monitoring . rules [-project URL] [-shorten N] [-plain]
//	go run -C hack/monitoring . dashboard
//
// make manifests writes both files to config/prometheus. -shorten divides every duration, so that tests can wait for alerts. -plain prints
// a rule file for Prometheus itself, instead of an object of the Prometheus operator.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("monitoring", flag.ContinueOnError)
	shorten := flags.Int64("shorten", 1, "divide durations by this")
	project := flags.String("project", "", "the project's address, which the runbooks are below")
	plain := flags.Bool("plain", false, "print rules for Prometheus itself")
	what := ""
	if len(args) > 0 {
		what = args[0]
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
	}
	if *shorten < 1 {
		return fmt.Errorf("-shorten is %d, not 1 or more", *shorten)
	}
	var text string
	switch what {
	case "rules":
		text = manifest(rules(func(d time.Duration) time.Duration { return max(d/time.Duration(*shorten), time.Second) }), *project, *plain)
	case "dashboard":
		var err error
		if text, err = dashboardJSON(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%q is neither rules nor dashboard", what)
	}
	_, err := os.Stdout.WriteString(text)
	return err
}
