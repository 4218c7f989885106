// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/cmd/agent/internal/writer"
	"d3os.com/d3os-operator/internal/contract"
)

// archiving holds the flags that all archive commands have.
type archiving struct {
	state, listen *string
	giveUp        *time.Duration
}

// archives adds the flags that all archive commands have.
func (c *config) archives(interval *time.Duration, bytes *int) archiving {
	c.DurationVar(interval, "interval", 30*time.Second, "maximum age of changes that are not in the store yet")
	c.IntVar(bytes, "segment-bytes", 8<<20, "size at which a segment is written before its interval ends")
	return archiving{
		state:  c.String("state", "", "file to write each time the archive has caught up; the file's age is the archive's lag"),
		listen: c.String("listen", "", "host:port of /ready, which fails while the latest points in time cannot be restored, and of /metrics"),
		giveUp: c.Duration("give-up", 0, "exit with the last failure when nothing was archived for this long; 0: never"),
	}
}

// run archives data to the store until the context ends. begin returns a function that makes one attempt to archive. This function calls
// archived with each point in time up to which the archive is complete.
func (w archiving) run(ctx context.Context, c *config, interval time.Duration, bytes int, begin func(s store.Store, archived func(manifest.Head)) func(context.Context) error) error {
	if interval < time.Second || bytes < 1 {
		return contract.Errorf(contract.ReasonUsage, "--interval must be a second or more, --segment-bytes 1 or more")
	}
	report := &archiveReport{state: *w.state, late: 4 * interval}
	if *w.listen != "" {
		stop, err := report.serve(ctx, *w.listen)
		if err != nil {
			return err
		}
		defer stop()
	}
	to, err := c.open(ctx)
	if err != nil {
		return err
	}
	try := begin(to, func(h manifest.Head) { report.reached(ctx, to, h) })
	lease, err := writer.Take(ctx, to, writer.Archive, c.writer, max(4*interval, 10*time.Second))
	if err != nil {
		return err
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	defer lease.Keep(ctx, lost)()
	err = keepArchiving(ctx, try, *w.giveUp, report)
	if cause := context.Cause(ctx); contract.ReasonOf(cause) == contract.ReasonRefused && cause != nil {
		return cause
	}
	return err
}

func archiveLog(arguments []string) int {
	if len(arguments) > 0 && arguments[0] == "mysql" {
		return archiveMySQL(arguments[1:])
	}
	c := newConfig("archive")
	c.server()
	c.writes()
	o := binlog.Options{}
	how := c.archives(&o.Interval, &o.MaxBytes)
	id := c.Uint("server-id", 0, "the archive's server id among the server's replicas; 0: a random id")
	return c.command(arguments, func(ctx context.Context, _ *contract.Result) (err error) {
		if o.Server, err = c.login(); err != nil {
			return err
		}
		if o.Recipients, err = c.publicKeys(); err != nil {
			return err
		}
		o.Source, o.Keys, o.ServerID = c.source, c.recipients, uint32(*id) //nolint:gosec // a number of 32 bits by definition
		return how.run(ctx, c, o.Interval, o.MaxBytes, func(s store.Store, archived func(manifest.Head)) func(context.Context) error {
			o.Store, o.Archived = s, archived
			return func(ctx context.Context) error { return binlog.Archive(ctx, o) }
		})
	})
}

// keepArchiving retries after failures until ctx ends. It returns an error if a person must act, for example after a gap in the log, or if
// nothing was archived for the time giveUp.
func keepArchiving(ctx context.Context, archive func(context.Context) error, giveUp time.Duration, report *archiveReport) error {
	good := time.Now()
	for wait := time.Second; ; {
		began := time.Now()
		err := archive(ctx)
		if ctx.Err() != nil {
			return err
		}
		if last := report.last(); last.After(good) {
			good = last
		}
		switch reason := contract.ReasonOf(err); {
		case err == nil:
		case reason == contract.ReasonUsage, reason == contract.ReasonNoBinaryLog, reason == contract.ReasonNewerFormat, reason == contract.ReasonGap, reason == contract.ReasonRefused:
			return err
		case giveUp > 0 && time.Since(good) > giveUp:
			return err
		default:
			fmt.Fprintln(os.Stderr, "error:", err)
		}
		if time.Since(began) > time.Minute {
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, 15*time.Second)
	}
}

// print prints the position and the time up to which the archive is complete, and writes them to the state file.
func (r *archiveReport) print(h manifest.Head) {
	text, err := json.Marshal(struct {
		Progress string            `json:"progress"`
		Timeline string            `json:"timeline"`
		Position contract.Position `json:"position"`
		Reached  time.Time         `json:"reached"`
	}{"archive", h.Timeline, h.Position, h.Time})
	if err != nil {
		return
	}
	fmt.Println(string(text))
	if r.state != "" {
		if err := os.WriteFile(r.state, text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
		}
	}
}
