// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"sync"
)

// logSink keeps what all operators of this process say of errors, by line.
type logSink struct {
	mu     sync.Mutex
	errors []string
}

func (s *logSink) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if bytes.Contains(line, []byte(`"level":"error"`)) || bytes.Contains(bytes.ToLower(line), []byte("panic")) {
			s.mu.Lock()
			s.errors = append(s.errors, string(line))
			s.mu.Unlock()
		}
	}
	return len(p), nil
}

func (s *logSink) mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errors)
}

// since returns the errors after a mark that are about a namespace.
func (s *logSink) since(mark int, namespace string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, line := range s.errors[mark:] {
		if strings.Contains(line, namespace) {
			found = append(found, line)
		}
	}
	return found
}

// panics returns the lines about panics, wherever they come from.
func (s *logSink) panics() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, line := range s.errors {
		if lower := strings.ToLower(line); strings.Contains(lower, "observed a panic") || strings.Contains(lower, `"error":"panic`) || strings.Contains(lower, "goroutine ") {
			found = append(found, line)
		}
	}
	return found
}
