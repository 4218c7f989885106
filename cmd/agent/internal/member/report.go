// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/etcdmember"
)

func reportOf(s Situation, d Decision) etcdmember.Report {
	r := etcdmember.Report{
		Volume: map[Volume]etcdmember.Volume{
			Empty: etcdmember.VolumeEmpty, Lost: etcdmember.VolumeEmpty, Own: etcdmember.VolumeData, Foreign: etcdmember.VolumeForeign,
		}[d.Volume],
		Reason: string(d.Reason), Waiting: d.Message, Ticket: s.Ticket.Text, PeerURL: s.PeerURL, Damage: s.Data.Damage,
	}
	r.Position = s.Data.Last
	if d.Reason == DataOutdated {
		r.Outdated = s.outdated()
	}
	if d.Volume == Foreign && s.Mark != nil && s.Mark.Pod != s.Pod {
		r.Owner = s.Mark.Pod
	}
	id := s.identity()
	r.Cluster, r.Member = id.Cluster, id.Member
	if s.Mark != nil {
		r.Token = s.Mark.Token
	}
	if n := len(s.Used); n > 0 {
		r.Used = s.Used[n-1]
	}
	return r
}

// reporter logs each new report, and serves the latest report.
type reporter struct {
	address string
	log     io.Writer

	mu     sync.Mutex
	latest etcdmember.Report
	server *http.Server
	failed string // the last error of serve
}

func newReporter(address string, log io.Writer) *reporter {
	return &reporter{address: address, log: log}
}

// say makes s the latest report. If the agent waits, say also serves the report, and logs it if it is new.
func (r *reporter) say(s etcdmember.Report) {
	r.mu.Lock()
	fresh := s != r.latest
	r.latest = s
	r.mu.Unlock()
	if fresh && s.Reason != "" {
		_, _ = fmt.Fprintf(r.log, "waiting: %s: %s\n", s.Reason, s.Waiting)
	}
	if s.Reason != "" {
		r.serve()
	}
}

// publish serves the report about the data of a running server. It does nothing if known is false.
func (r *reporter) publish(s etcdmember.Report, known bool) {
	if !known {
		return
	}
	r.mu.Lock()
	r.latest = s
	r.mu.Unlock()
	r.serve()
}

// serve starts to serve the report. If a server that is ending still uses the address, the next call tries again.
func (r *reporter) serve() {
	if r.server != nil || r.address == "" {
		return
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", r.address)
	if err != nil {
		if err.Error() != r.failed {
			r.failed = err.Error()
			_, _ = fmt.Fprintln(r.log, "the state is not served:", err)
		}
		return
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	go func(server *http.Server) {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			_, _ = fmt.Fprintln(r.log, "the state is not served:", err)
		}
	}(r.server)
}

func (r *reporter) close() {
	if r.server != nil {
		_ = r.server.Close() // the port is free afterwards, even after an error
		r.server = nil
	}
}

// ServeHTTP answers the operator and the kubelet.
func (r *reporter) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	latest := r.latest
	r.mu.Unlock()
	switch request.URL.Path {
	case contract.PathState:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(latest) // fails if the client has disconnected
	case "/livez":
		_, _ = io.WriteString(w, "ok\n")
	case "/readyz", "/health":
		http.Error(w, latest.Reason+": "+latest.Waiting, http.StatusServiceUnavailable)
	default:
		http.NotFound(w, request)
	}
}
