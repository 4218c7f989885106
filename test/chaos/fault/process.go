// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault stands between an operator and the API server, below everything else
// (rest.Config.Wrap), and lets go wrong what can go wrong there: a crash of the operator at any
// write, answers that get lost, refusals, lists of the past, watches that stall, break or expire.
package fault

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"d3os.com/d3os-operator/test/harness"
)

// ErrCrashed is what a crashed process gets of any request.
var ErrCrashed = errors.New("fault: this process has crashed")

// ErrLost is what the sender gets when the answer is lost.
var ErrLost = errors.New("fault: the connection broke before the answer came")

// Process is one process of the operator, as the API server sees it.
type Process struct {
	harness.Record

	crashed context.Context
	crash   context.CancelFunc

	mu       sync.Mutex
	rules    []*Rule
	inFlight int // requests without an answer, watches aside
	streams  map[*stream]struct{}
	held     map[string]chan struct{} // resource -> closed when its watches go on
}

// New returns a process to which nothing happens yet.
func New() *Process {
	p := &Process{streams: map[*stream]struct{}{}, held: map[string]chan struct{}{}}
	p.crashed, p.crash = context.WithCancel(context.Background())
	return p
}

// Wrap returns a transport for rest.Config.Wrap.
func (p *Process) Wrap(next http.RoundTripper) http.RoundTripper {
	return harness.Transport(func(req *http.Request) (*http.Response, error) { return p.roundTrip(req, next) })
}

func (p *Process) roundTrip(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if p.crashed.Err() != nil {
		return nil, ErrCrashed
	}
	parsed := harness.Parse(req.Method, req.URL, req.Header.Get("Content-Type"))
	answered, rule := p.Add(parsed), p.admit(parsed)
	call := &Call{Request: parsed, process: p, http: req, send: func(req *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(req)
		if response != nil {
			answered(response.StatusCode)
		}
		return response, err
	}}
	if parsed.Verb == "watch" {
		return p.watch(call, rule)
	}
	defer p.done()
	return call.do(rule)
}

// admit returns the rule that a request meets, if any.
func (p *Process) admit(r harness.Request) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Verb != "watch" {
		p.inFlight++
	}
	for _, rule := range p.rules {
		if rule.meets(r) {
			return rule
		}
	}
	return nil
}

func (p *Process) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
}

// Rule adds rules. The first rule that a request meets decides.
func (p *Process) Rule(rules ...*Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, rules...)
}

// Clear removes all rules.
func (p *Process) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Hits is how many requests met a rule and got what it holds for them.
func (p *Process) Hits(rule *Rule) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return rule.hits
}

// Crash ends the process as far as the API server can tell: its watches close, and every further
// request is refused.
func (p *Process) Crash() {
	p.crash()
	p.Break("")
}

// Crashed is closed when the process crashes.
func (p *Process) Crashed() <-chan struct{} { return p.crashed.Done() }

// InFlight is how many requests wait for their answers, watches aside.
func (p *Process) InFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight
}
