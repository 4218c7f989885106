// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// The intervals at which the archive looks for the backup that it continues: a short one while there is none, and a long one afterwards.
const (
	baseMissing = 20 * time.Second
	baseKnown   = 6 * time.Hour
)

// archiveReport holds the state of the running archive, for its endpoints.
type archiveReport struct {
	state string        // file; "" for none
	late  time.Duration // the archive is not ready if its last success is older than this

	mu     sync.Mutex
	head   manifest.Head
	at     time.Time // time of the last success, by the agent's clock
	base   string    // the backup that the timeline continues, "" for none
	line   string    // the timeline for which base was determined
	looked time.Time // the time when base was determined
}

// reached records that the archive in the store is complete up to the head.
func (r *archiveReport) reached(ctx context.Context, s store.Store, h manifest.Head) {
	r.print(h)
	r.mu.Lock()
	r.head, r.at = h, time.Now()
	every := baseKnown
	if r.base == "" {
		every = baseMissing
	}
	known := r.line == h.Timeline && time.Since(r.looked) < every
	r.mu.Unlock()
	if known {
		return
	}
	base, err := catalogue.Base(ctx, s, h)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: find the backup that the archive continues:", err)
		return // keep the known backup; the next call reads again
	}
	if base == "" {
		fmt.Fprintf(os.Stderr, "no backup belongs to timeline %s yet, so no point in time of the timeline can be restored: make a backup\n", h.Timeline)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.base, r.line, r.looked = base, h.Timeline, time.Now()
}

// last returns the time of the archive's last success.
func (r *archiveReport) last() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// status returns the progress of the archive, and the reason why the latest points in time cannot be restored; "" if they can.
func (r *archiveReport) status() (contract.Archive, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := contract.Archive{Timeline: r.head.Timeline, Reached: r.head.Time, Base: r.base}
	switch {
	case r.at.IsZero():
		return a, "nothing was archived yet"
	case time.Since(r.at) > r.late:
		return a, "the archive is late: it has not reached the end of the binary log since " + r.at.UTC().Format(time.RFC3339)
	case r.base == "":
		return a, "no backup belongs to timeline " + r.head.Timeline + ", or no single private key decrypts the backup and the timeline: make a backup"
	}
	return a, ""
}

// serve answers probes and scrapes until stop is called.
func (r *archiveReport) serve(ctx context.Context, address string) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, contract.Errorf(contract.ReasonUsage, "listen at %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		a, problem := r.status()
		w.Header().Set("Content-Type", "application/json")
		if a.Problem = problem; problem != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(a) // fails after the client has disconnected
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		a, problem := r.status()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = fmt.Fprintf(w, `# HELP mysql_archive_recoverable Whether the latest points in time can be restored (1) or not (0).
# TYPE mysql_archive_recoverable gauge
mysql_archive_recoverable %d
`, map[bool]int{true: 1}[problem == ""])
		if !a.Reached.IsZero() {
			_, _ = fmt.Fprintf(w, `# HELP mysql_archive_reached_timestamp_seconds The time up to which every commit is in the archive, by the server's clock.
# TYPE mysql_archive_reached_timestamp_seconds gauge
mysql_archive_reached_timestamp_seconds %.3f
`, float64(a.Reached.UnixMilli())/1000)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "error: answer probes:", err)
		}
	}()
	return func() { _ = server.Close() }, nil
}
