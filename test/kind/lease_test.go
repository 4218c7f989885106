// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
)

// lease is one that a test gives and takes.
type lease struct {
	held  atomic.Bool
	asked atomic.Int32
}

func (l *lease) Held() bool {
	l.asked.Add(1)
	return l.held.Load()
}

// While another replica may lead, no step is taken: the API server sees nothing of it. Once the lease is held, the steps
// are taken without anything else that happens.
func TestNoStepWithoutTheLease(t *testing.T) {
	s := newScene(t)
	l := &lease{}
	op := s.start(func(op *manager.Operator) error {
		op.Parts.Lease = l
		return nil
	})
	s.create(book, pages())
	s.hasReason(book, kinds.ReasonStepFailed) // after some tries
	mark, asked := op.Mark(), l.asked.Load()
	s.Until("another try", func() error {
		if l.asked.Load() == asked {
			return errors.New("none yet")
		}
		return nil
	})
	s.quiet(op)
	if wrote := op.Since(mark, writes); len(wrote) > 0 {
		t.Errorf("a step that keeps failing is reported again and again: %v", wrote)
	}
	claims := func(r harness.Sent) bool { return r.Writes() && r.Resource == "persistentvolumeclaims" }
	if wrote := op.Since(0, claims); len(wrote) > 0 || s.claim(book).Annotations[markFormatted] != "" {
		t.Errorf("a step was taken: %v, %v", wrote, s.claim(book).Annotations)
	}
	l.held.Store(true)
	s.ready(book)
	s.isOpen(book)
	s.inOrder(book)
}
