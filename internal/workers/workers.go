// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workers runs functions concurrently and passes their panics to the caller. A panic in a separate goroutine would end the
// operator, and so the work for all resources. It uses only the standard library.
package workers

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// PanicError is a panic of a function.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Protect calls a function. It returns the function's error, or its panic as a *PanicError.
func Protect(do func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if known, ok := value.(*PanicError); ok { // from a Group: it has the stack of the function that panicked
			err = known
			return
		}
		err = &PanicError{Value: value, Stack: debug.Stack()}
	}()
	return do()
}

// Group runs functions concurrently. The zero value is ready to use.
type Group struct {
	all   sync.WaitGroup
	slots chan struct{}

	mu       sync.Mutex
	panicked *PanicError
}

// SetLimit limits the number of functions that run in parallel. It must be called before Go.
func (g *Group) SetLimit(n int) { g.slots = make(chan struct{}, n) }

// Go starts a function, after waiting for a free slot.
func (g *Group) Go(do func()) {
	if g.slots != nil {
		g.slots <- struct{}{}
	}
	g.all.Go(func() {
		if g.slots != nil {
			defer func() { <-g.slots }()
		}
		err := Protect(func() error { do(); return nil })
		var panicked *PanicError
		if errors.As(err, &panicked) {
			g.mu.Lock()
			g.panicked = panicked
			g.mu.Unlock()
		}
	})
}

// Wait waits for all functions. If a function has panicked, Wait panics with the *PanicError of one such function.
func (g *Group) Wait() {
	g.all.Wait()
	if g.panicked != nil {
		panic(g.panicked)
	}
}
