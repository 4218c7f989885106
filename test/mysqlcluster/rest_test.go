// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/mysql/cluster"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/test/harness"
)

// requests counts the operator's reads of members, by ordinal, and its orders (requests that change a member).
type requests struct {
	mu     sync.Mutex
	looks  map[int]int
	orders int
}

func (r *requests) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks, r.orders = map[int]int{}, 0
}

// counted wraps the members of a database, and counts the requests to them.
type counted struct {
	cluster.Members
	to *requests
}

func (c counted) Look(ctx context.Context, ordinal int) (mysqlmember.Answer, error) {
	c.to.mu.Lock()
	c.to.looks[ordinal]++
	c.to.mu.Unlock()
	return c.Members.Look(ctx, ordinal)
}

func (c counted) Order(ctx context.Context, step replication.Step) error {
	c.to.mu.Lock()
	c.to.orders++
	c.to.mu.Unlock()
	return c.Members.Order(ctx, step)
}

// While nothing changes, the operator sends no request to the API server. It reads from each member every two seconds, and sends no order.
// A new operator does the same after its start.
func TestAtRest(t *testing.T) {
	harness.FullForm(t, full)
	s, sent := newScene(t), &requests{looks: map[int]int{}}
	op := s.start()
	s.create("replicas: 3")
	s.ready(3)
	op.Stop()
	op = s.start(func(_ *rest.Config, o *manager.Options) {
		o.MySQL.Connect = func(r cluster.Reach) cluster.Members { return counted{cluster.Dial(r), sent} }
	})
	s.Until("the operator is at rest", func() error {
		mark := op.Mark()
		s.Pass(3 * time.Second)
		if asked := op.Since(mark, func(r harness.Sent) bool { return r.Reads() || r.Writes() }); len(asked) > 0 {
			return fmt.Errorf("it asks: %v", asked)
		}
		return nil
	})
	looks := 20 * time.Second
	if full {
		looks = 10 * time.Minute
	}
	sent.reset()
	began := time.Now()
	s.AsksNothing(op, looks)
	sent.mu.Lock()
	defer sent.mu.Unlock()
	bound := int(time.Since(began)/(2*time.Second)) + 1
	t.Logf("%s at rest: the members got %v reads (bound %d) and %d orders", time.Since(began).Round(time.Second), sent.looks, bound, sent.orders)
	for ordinal := range 3 {
		if n := sent.looks[ordinal]; n > bound || n == 0 {
			t.Errorf("member %d got %d reads, bound %d", ordinal, n, bound)
		}
	}
	if sent.orders > 0 {
		t.Errorf("members got %d orders", sent.orders)
	}
}
