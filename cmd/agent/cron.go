// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/cron"
)

// reapEvery is the interval at which the agent reaps orphaned processes. The end of a run also reaps them.
const reapEvery = 10 * time.Second

// cronOptions are the flags of `agent cron`.
type cronOptions struct {
	schedule, zone, listen string
	planner                cron.Planner
	command                cron.Command
}

// runCron starts a command at the ticks of a schedule; see package cron.
func runCron(args []string) int {
	o, check, err := parseCron(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return exitUsage
	}
	if check {
		return checkCron(o.listen)
	}
	schedule, err := cron.Parse(o.schedule, o.zone, time.Now())
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return exitUsage
	}
	o.planner.Next = schedule.Next
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return code(serveCron(ctx, o))
}

// parseCron reads the flags. check reports whether --check is set: the command then only queries the running agent.
func parseCron(args []string) (o *cronOptions, check bool, err error) {
	o = &cronOptions{}
	flags := flag.NewFlagSet("agent cron", flag.ContinueOnError)
	flags.StringVar(&o.schedule, "schedule", "", "schedule with six fields; the first field has the seconds")
	flags.StringVar(&o.zone, "time-zone", "", "time zone of the schedule, such as Europe/Berlin; empty: UTC")
	flags.StringVar(&o.listen, "listen", os.Getenv("D3OS_CRON_LISTEN"), "host:port of /ready and /metrics; default: $D3OS_CRON_LISTEN")
	policy := flags.String("concurrency-policy", string(cron.Forbid), "Allow, Forbid or Replace, as for a CronJob")
	starting := flags.Int64("starting-deadline-seconds", -1, "maximum delay of a run; negative: any")
	active := flags.Int64("active-deadline-seconds", 0, "maximum duration of a run; 0: any")
	grace := flags.Int64("grace-seconds", 30, "time from SIGTERM to SIGKILL for a run that must end")
	flags.BoolVar(&check, "check", false, "check whether the last run succeeded: query the agent at --listen")
	if err := flags.Parse(args); err != nil {
		return nil, false, err
	}
	o.command.Argv = flags.Args()
	o.command.ActiveDeadline, o.command.Grace = time.Duration(*active)*time.Second, time.Duration(*grace)*time.Second
	if *starting >= 0 {
		o.planner.StartingDeadline = starting
	}
	if o.planner.Policy, err = cron.ParsePolicy(*policy); err != nil {
		return nil, false, err
	}
	switch {
	case o.listen == "":
		return nil, false, errors.New("--listen is required")
	case !check && len(o.command.Argv) == 0:
		return nil, false, errors.New("no command is given")
	}
	return o, check, nil
}

// serveCron runs the scheduler until the context ends and no run is left.
func serveCron(ctx context.Context, o *cronOptions) error {
	if err := cron.Adopt(); err != nil {
		return err
	}
	report := &cron.Report{}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", o.listen, err)
	}
	server := &http.Server{Handler: report.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "error: answer probes:", err)
		}
	}()
	defer server.Close() // the error does not matter, because the program ends
	reaping, stop := context.WithCancel(ctx)
	defer stop()
	go reapOrphans(reaping, &o.command)
	(&cron.Scheduler{Planner: &o.planner, Runner: &o.command, Report: report, Log: os.Stderr}).Run(ctx)
	return nil
}

func reapOrphans(ctx context.Context, command *cron.Command) {
	ticker := time.NewTicker(reapEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			command.Reap()
		}
	}
}

// checkCron executes the readiness probe: it prints the answer of the cron agent at an address, and returns the exit code. If the last
// run did not succeed, the answer states the reason.
func checkCron(address string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	host, port, err := net.SplitHostPort(address) // the address may also be an IPv4 address in brackets
	if err != nil {
		return code(fmt.Errorf("read the address %s of the agent: %w", address, err))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/ready", http.NoBody)
	if err != nil {
		return code(fmt.Errorf("query the agent at %s: %w", address, err))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return code(fmt.Errorf("query the agent at %s: %w", address, err))
	}
	defer response.Body.Close() // the body was read to its end
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return code(fmt.Errorf("read the answer of the agent at %s: %w", address, err))
	}
	fmt.Println(strings.TrimSpace(string(text)))
	if response.StatusCode != http.StatusOK {
		return exitFailed
	}
	return 0
}
