// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault injects faults between an operator and the API server, below all other transports (rest.Config.Wrap): a crash of the
// operator at any write, lost answers, refusals, old lists, and watches that stall, break or expire.
package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/harness"
)

// Rule applies an action to some requests.
type Rule struct {
	When  func(harness.Request) bool
	Skip  int // number of matching requests that pass before the action applies
	Times int // number of requests to which the action then applies; 0: all
	Do    Action

	seen, hits int
}

func (r *Rule) meets(request harness.Request) bool {
	if !r.When(request) {
		return false
	}
	r.seen++
	if r.seen <= r.Skip || r.Times > 0 && r.seen > r.Skip+r.Times {
		return false
	}
	r.hits++
	return true
}

// Action answers a request instead of the API server, or sends it to the API server.
type Action func(*Call) (*http.Response, error)

// Call is a request before it is sent.
type Call struct {
	harness.Request

	process *Process
	http    *http.Request
	send    func(*http.Request) (*http.Response, error)
	delay   time.Duration // wait before each piece of a watch's answer
}

func (c *Call) do(rule *Rule) (*http.Response, error) {
	if rule != nil {
		return rule.Do(c)
	}
	return c.send(c.http)
}

// CrashBefore ends the process before it sends the request.
func CrashBefore(c *Call) (*http.Response, error) {
	c.process.Crash()
	return nil, ErrCrashed
}

// CrashAfter ends the process after the request took effect and the answer arrived.
func CrashAfter(c *Call) (*http.Response, error) {
	response, err := c.whole()
	c.process.Crash()
	return response, err
}

// CrashLost ends the process after the request took effect. The sender gets an error.
func CrashLost(c *Call) (*http.Response, error) {
	response, err := Lose(c)
	c.process.Crash()
	return response, err
}

// CrashOnEffect ends the process after the request took effect. The sender gets ErrLost. A request that the API server refuses has no
// effect: the sender gets the refusal, and the process continues.
func CrashOnEffect(c *Call) (*http.Response, error) {
	response, err := c.whole()
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		return response, err
	}
	c.process.Crash()
	return nil, ErrLost
}

// Lose lets the request take effect. The sender gets an error, and the process continues.
func Lose(c *Call) (*http.Response, error) {
	if _, err := c.whole(); err != nil {
		return nil, err
	}
	return nil, ErrLost
}

// TimeOut lets the request take effect. The answer is the API server's timeout error.
func TimeOut(c *Call) (*http.Response, error) {
	if _, err := c.whole(); err != nil {
		return nil, err
	}
	return Refuse(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)(c)
}

// whole sends the request and reads the whole answer.
func (c *Call) whole() (*http.Response, error) {
	response, err := c.send(c.http)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, err
}

// Refuse returns an action that answers with an error instead of sending the request.
func Refuse(code int, reason metav1.StatusReason) Action { return RefuseFor(code, reason, 0) }

// RefuseFor returns an action that answers with an error instead of sending the request. If seconds is above 0, the answer has a
// Retry-After header.
func RefuseFor(code int, reason metav1.StatusReason, seconds int) Action {
	return func(c *Call) (*http.Response, error) {
		if c.http.Body != nil {
			_ = c.http.Body.Close()
		}
		body, err := json.Marshal(&metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "fault: refused",
			Details: &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)},
		})
		if err != nil {
			return nil, err
		}
		header := http.Header{"Content-Type": {"application/json"}}
		if seconds > 0 {
			header.Set("Retry-After", strconv.Itoa(seconds))
		}
		return &http.Response{
			Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: c.http,
		}, nil
	}
}

// Past returns an action that answers a list with the content at an older resource version. A later watch from that
// version passes. The action refuses a watch that begins with a list, so that the sender requests a list.
func Past(version string) Action {
	return func(c *Call) (*http.Response, error) {
		query := c.http.URL.Query()
		if query.Get("sendInitialEvents") != "" {
			return Refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)(c)
		}
		if c.Verb != "list" {
			return c.send(c.http)
		}
		query.Set("resourceVersion", version)
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		query.Del("limit")
		req := c.http.Clone(c.http.Context())
		req.URL.RawQuery = query.Encode()
		return c.send(req)
	}
}

// Point is one write of a run.
type Point struct {
	Verb, Resource, Name string
	Nth                  int // number of the write, from 1, among the writes with the same verb and object
}

// Points returns every write of a run.
func Points(requests []harness.Sent) []Point {
	var found []Point
	seen := map[Point]int{}
	for _, r := range requests {
		p := Point{Verb: r.Verb, Resource: r.Resource, Name: r.Name}
		seen[p]++
		p.Nth = seen[p]
		found = append(found, p)
	}
	return found
}

func (p Point) String() string {
	if p.Status() {
		return fmt.Sprintf("status-%d", p.Nth)
	}
	return fmt.Sprintf("%s-%s-%s-%d", p.Verb, p.Resource, p.Name, p.Nth)
}

// Status reports whether the write changes a status.
func (p Point) Status() bool { return strings.HasSuffix(p.Resource, "/status") }

// Rule returns a rule with an action for that write.
func (p Point) Rule(do Action) *Rule {
	is := func(r harness.Request) bool { return r.Verb == p.Verb && r.Resource == p.Resource && r.Name == p.Name }
	return &Rule{When: is, Skip: p.Nth - 1, Times: 1, Do: do}
}

// ErrCrashed is the error of every request of a crashed process.
var ErrCrashed = errors.New("fault: this process has crashed")

// ErrLost is the sender's error when the answer is lost.
var ErrLost = errors.New("fault: the connection broke before the answer came")

// Process is one process of the operator, as the API server sees it.
type Process struct {
	harness.Record

	crashed context.Context
	crash   context.CancelFunc

	mu      sync.Mutex
	rules   []*Rule
	streams map[*stream]struct{}
	held    map[string]chan struct{} // resource -> channel that Release closes
}

// New returns a process without faults.
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
	return call.do(rule)
}

// admit returns the first rule that matches a request, or nil.
func (p *Process) admit(r harness.Request) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rule := range p.rules {
		if rule.meets(r) {
			return rule
		}
	}
	return nil
}

// Rule adds rules. The first matching rule of a request applies.
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

// Hits returns the number of requests that a rule was applied to.
func (p *Process) Hits(rule *Rule) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return rule.hits
}

// Crash ends the process for the API server: its watches close, and further requests fail.
func (p *Process) Crash() {
	p.crash()
	p.Break("")
}

// Crashed returns a channel that is closed when the process crashes.
func (p *Process) Crashed() <-chan struct{} { return p.crashed.Done() }
