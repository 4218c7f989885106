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
)

// Report is the agent's state while the server does not run. The operator reads it as JSON.
type Report struct {
	// Volume is Empty (no data), Data (of Member of Cluster, as far as known) or Foreign (data that may not be this pod's).
	Volume string `json:"volume"`
	// Cluster and Member are the ids of the data, in hexadecimal: those in the server's files, else those in the mark,
	// which may outlive its data.
	Cluster string `json:"cluster,omitempty"`
	Member  string `json:"member,omitempty"`
	// Damage is the evidence that the data differs from what the server wrote; empty for none.
	Damage string `json:"damage,omitempty"`
	// Position is the end of the data's log.
	Position
	// Outdated is the evidence that the data is older than the member's data was; empty for none.
	Outdated string `json:"outdated,omitempty"`
	// Owner is the pod that foreign data belongs to, as NAMESPACE/NAME; empty when it is not known.
	Owner string `json:"owner,omitempty"`
	// Used is the last ticket that was used in this pod.
	Used string `json:"used,omitempty"`
	// Token is that of the last ticket force on this volume.
	Token string `json:"token,omitempty"`
	// Reason is the condition that the agent waits for, and Waiting explains it to users. Both are empty while it starts the server.
	Reason  Reason `json:"reason,omitempty"`
	Waiting string `json:"waiting,omitempty"`
	// Ticket is the text of the pod's ticket as the agent sees it.
	Ticket string `json:"ticket,omitempty"`
	// PeerURL is the address at which other members find this one.
	PeerURL string `json:"peerURL"`
}

func reportOf(s Situation, d Decision) Report {
	r := Report{
		Volume: map[Volume]string{Empty: "Empty", Lost: "Empty", Own: "Data", Foreign: "Foreign"}[d.Volume],
		Reason: d.Reason, Waiting: d.Message, Ticket: s.Ticket.Text, PeerURL: s.PeerURL, Damage: s.Data.Damage,
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

// reporter logs each new report, and serves the latest one.
type reporter struct {
	address string
	log     io.Writer

	mu     sync.Mutex
	latest Report
	server *http.Server
	failed string // why it is not served
}

func newReporter(address string, log io.Writer) *reporter {
	return &reporter{address: address, log: log}
}

// say publishes the report.
func (r *reporter) say(s Report) {
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

// serve starts to serve the report. A server that is ending may occupy the address for a moment.
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
		_ = r.server.Close() // the port is free then, whatever it returns
		r.server = nil
	}
}

// ServeHTTP answers the operator and the kubelet.
func (r *reporter) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	latest := r.latest
	r.mu.Unlock()
	switch request.URL.Path {
	case "/state":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(latest) // who asked has gone
	case "/livez":
		_, _ = io.WriteString(w, "ok\n")
	case "/readyz", "/health":
		http.Error(w, string(latest.Reason)+": "+latest.Waiting, http.StatusServiceUnavailable)
	default:
		http.NotFound(w, request)
	}
}
