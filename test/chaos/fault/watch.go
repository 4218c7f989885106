// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// stream is the answer to a watch, controlled by the process.
type stream struct {
	process  *Process
	resource string
	body     io.ReadCloser
	delay    time.Duration
	closed   chan struct{}
	once     sync.Once
	err      error // cause of the end of the watch
}

// watch sends a watch and takes control of its answer.
func (p *Process) watch(c *Call, rule *Rule) (*http.Response, error) {
	response, err := c.do(rule)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	s := &stream{process: p, resource: c.Resource, body: response.Body, delay: c.delay, closed: make(chan struct{})}
	response.Body = s
	p.mu.Lock()
	p.streams[s] = struct{}{}
	p.mu.Unlock()
	if p.crashed.Err() != nil {
		s.fail(ErrCrashed)
	}
	return response, nil
}

// Read waits while the watches of the resource are held.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.body.Read(b)
	for {
		s.process.mu.Lock()
		gate := s.process.held[s.resource]
		s.process.mu.Unlock()
		if gate == nil {
			break
		}
		select {
		case <-gate:
		case <-s.closed:
			return 0, s.broken()
		}
	}
	if s.delay > 0 {
		pause := time.NewTimer(s.delay)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-s.closed:
		}
	}
	select {
	case <-s.closed:
		return 0, s.broken()
	default:
		return n, err
	}
}

func (s *stream) broken() error {
	if s.err != nil {
		return s.err
	}
	return io.EOF
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.fail(nil)
	return nil
}

func (s *stream) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.closed)
		_ = s.body.Close()
		s.process.mu.Lock()
		delete(s.process.streams, s)
		s.process.mu.Unlock()
	})
}

// Hold stalls the watches of resources: their events are delayed until Release.
func (p *Process) Hold(resources ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, resource := range resources {
		if p.held[resource] == nil {
			p.held[resource] = make(chan struct{})
		}
	}
}

// Release lets the watches of all resources continue.
func (p *Process) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for resource, gate := range p.held {
		close(gate)
		delete(p.held, resource)
	}
}

// Break closes the watches of a resource, or all watches for "". This process loses events that were not delivered, unless it watches again
// from the last version.
func (p *Process) Break(resource string) {
	p.mu.Lock()
	var broken []*stream
	for s := range p.streams {
		if resource == "" || s.resource == resource {
			broken = append(broken, s)
		}
	}
	p.mu.Unlock()
	for _, s := range broken {
		s.fail(io.ErrUnexpectedEOF)
	}
}

// Watching returns the number of open watches of a resource.
func (p *Process) Watching(resource string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.streams {
		if s.resource == resource {
			n++
		}
	}
	return n
}

// Slow returns an action that delays every piece of a watch's body.
func Slow(delay time.Duration) Action {
	return func(c *Call) (*http.Response, error) {
		c.delay = delay
		return c.send(c.http)
	}
}
