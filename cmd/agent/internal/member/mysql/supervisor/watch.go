// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// heard stores the times when a voter and the operator last reached this agent.
type heard struct{ operator, voter time.Time }

const (
	// look is the interval at which the watchdog reads the state of the server.
	look = 500 * time.Millisecond
	// pings is the interval at which a voter pings its primary.
	pings = 2 * time.Second
	// reapply is the interval at which the agent restarts an applier that ended with an error. It exceeds the ten
	// seconds after which the operator counts the member as bad, so that the restarts do not hide the error.
	reapply = 30 * time.Second
)

// hear records that a request of the operator or of a voter has arrived.
func (a *Agent) hear(operator bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if operator {
		a.heard.operator = time.Now()
	} else {
		a.heard.voter = time.Now()
	}
}

// heardAll restarts the time limits of the watchdog.
func (a *Agent) heardAll() {
	a.hear(true)
	a.hear(false)
}

// watch watches a server until the server ends: it reads the server's state, pings the primary that the server follows, and kills the
// server when MustKill requires it. While a hanging server does not answer, its last known state counts.
func (a *Agent) watch(ctx context.Context, r *running) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go a.observe(ctx, r)
	go a.pingSource(ctx, r)
	go a.keepAccounts(ctx, r)
	go a.keepEvents(ctx, r)
	go a.prove(ctx, r)
	for {
		select {
		case <-r.done:
			return
		case <-time.After(poll):
		}
		r.mu.Lock()
		state, answered := r.state, r.answered
		r.mu.Unlock()
		since := a.silence()
		since.Agent = time.Since(answered)
		if why := mysql.MustKill(state, since); why != "" {
			a.killServer(r, why)
			return
		}
	}
}

// silence returns the times since a voter and the operator reached this agent.
func (a *Agent) silence() mysql.Silence {
	a.mu.Lock()
	defer a.mu.Unlock()
	return mysql.Silence{Voter: time.Since(a.heard.voter), Operator: time.Since(a.heard.operator)}
}

// prove keeps a primary alive while its invalid certificate is the reason why neither a voter nor the operator reaches
// it. Replication does not need the certificate. So the primary writes a row, and a voter's acknowledgement proves that
// the voter still follows it. A replaced primary gets no acknowledgement, because its voters have promised the next
// epoch. With a valid certificate, prove writes no row, because a replaced primary must not get transactions that no
// other member has.
func (a *Agent) prove(ctx context.Context, r *running) {
	said := ""
	for ctx.Err() == nil {
		state, _ := r.latest()
		if mysql.MustProve(state, a.silence()) {
			if problem := mysql.CheckTLS(a.TLS, time.Now()); problem != nil {
				if problem.Error() != said {
					said = problem.Error()
					_, _ = fmt.Fprintln(a.Log, "certificate:", said)
				}
				_ = r.Prove(ctx) // the watchdog acts if no voter acknowledges the row
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pings):
		}
	}
}

func (a *Agent) killServer(r *running, why string) {
	_, _ = fmt.Fprintln(a.Log, "killing the server:", why)
	r.kill()
}

// observe resumes the applier and reserves connections. Then it reads the server's state at intervals.
func (a *Agent) observe(ctx context.Context, r *running) {
	isResumed, hasReserved := false, false
	acknowledged, reapplied := uint64(0), time.Now()
	for ctx.Err() == nil {
		isResumed = isResumed || r.Resume(ctx) == nil
		hasReserved = hasReserved || r.Reserve(ctx) == nil
		if state, err := r.State(ctx); err == nil {
			r.mu.Lock()
			r.state, r.isKnown, r.answered = state, true, time.Now()
			r.mu.Unlock()
			if now := r.Acknowledged(); now != acknowledged { // like a ping, an acknowledgement proves that a voter follows this primary
				acknowledged = now
				a.hear(false)
			}
			if state.Role == mysqlmember.RoleReplica && state.Problem != "" && time.Since(reapplied) > reapply {
				reapplied = time.Now()
				_ = r.Reapply(ctx) // after an error, the state still reports the applier's problem
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
	}
}

// pingSource pings the agent of the primary while this member is a connected voter of the primary.
func (a *Agent) pingSource(ctx context.Context, r *running) {
	for ctx.Err() == nil {
		if state, _ := r.latest(); state.Role == mysqlmember.RoleReplica && state.Acknowledges && state.Connected {
			_ = a.ping(ctx, state.Source, state.SourceServer) // the primary counts only received pings
		}
		select {
		case <-ctx.Done():
		case <-time.After(pings):
		}
	}
}

func (a *Agent) ping(ctx context.Context, ordinal int, server string) error {
	config, err := mysql.ClientTLS(a.TLS)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pings)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(a.Host(ordinal), strconv.Itoa(a.Port))+mysql.PingPath(server), http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// serve serves the API and the probes until stop is called.
func (a *Agent) serve(ctx context.Context) (stop func(), err error) {
	servers := []*http.Server{{
		Addr: net.JoinHostPort(a.Server.Host, strconv.Itoa(a.Port)), TLSConfig: mysql.TLS(a.TLS),
		Handler: &mysql.API{Member: a.report, Heard: a.hear},
	}}
	if a.Health != "" {
		servers = append(servers, &http.Server{Addr: a.Health, Handler: http.HandlerFunc(a.probe)}) //nolint:gosec // its timeouts are below
	}
	stop = func() {
		for _, s := range servers {
			_ = s.Close() // the agent ends anyway
		}
	}
	for _, s := range servers {
		s.ReadHeaderTimeout, s.ErrorLog = 5*time.Second, log.New(io.Discard, "", 0) // drops errors of other hosts' handshakes
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
		if err != nil {
			stop()
			return nil, fmt.Errorf("listen for requests: %w", err)
		}
		go func() {
			var err error
			if s.TLSConfig != nil {
				err = s.ServeTLS(listener, "", "")
			} else {
				err = s.Serve(listener)
			}
			if !errors.Is(err, http.ErrServerClosed) {
				_, _ = fmt.Fprintln(a.Log, "serve requests:", err)
			}
		}()
	}
	return stop, nil
}

// report returns the report about the member, and the Member that executes orders.
func (a *Agent) report() (mysqlmember.Report, mysql.Orders) {
	c, err := a.Volume.Look()
	a.mu.Lock()
	defer a.mu.Unlock()
	r := mysqlmember.Report{
		Instance: a.start, Volume: c.Kind, Mark: c.Mark, Server: c.Notes.Server, Promised: c.Notes.Promised, Revision: c.Notes.Revision,
		Ticket: c.Notes.Ticket, Making: a.making, Failed: a.failed, Problem: cmp.Or(a.problem, a.accountsProblem),
		Full: a.Volume.Full(), Kept: a.Volume.Kept(), Accounts: a.accountsProblem, Orders: mysqlmember.OrdersVersion,
	}
	if err != nil {
		r.Problem = err.Error()
	}
	if a.run == nil {
		return r, nil
	}
	r.Instance = a.run.instance
	return r, a.run
}

// probe answers the kubelet. The pod is always alive, and ready while the server answers.
func (a *Agent) probe(w http.ResponseWriter, request *http.Request) {
	switch request.URL.Path {
	case "/livez":
		_, _ = io.WriteString(w, "ok\n")
	case "/readyz":
		report, _ := a.report()
		if r := a.current(); r != nil {
			if _, isKnown := r.latest(); isKnown && !r.hasEnded() {
				_, _ = io.WriteString(w, "ok\n")
				return
			}
		}
		http.Error(w, report.Problem, http.StatusServiceUnavailable)
	default:
		http.NotFound(w, request)
	}
}
