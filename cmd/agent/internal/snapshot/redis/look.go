// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"d3os.com/d3os-operator/internal/contract"
)

// The maximum time until no slot of a cluster is moving, and the interval of the queries.
const (
	restTime = time.Minute
	pause    = 200 * time.Millisecond
)

// layout is the state of a cluster without moving slots: the owners of slots, and the answer of each server.
type layout struct {
	shards  []shard
	answers map[string]answer // by node ID
}

// atRest waits until no slot is moving and all reachable servers agree on the layout of the cluster. Then it returns the layout.
func (s *servers) atRest(ctx context.Context) (*layout, error) {
	for end := time.Now().Add(s.patience); ; {
		found, err := s.look(ctx)
		if err == nil || contract.ReasonOf(err) != contract.ReasonBusy && contract.ReasonOf(err) != contract.ReasonServerUnreachable || ctx.Err() != nil {
			return found, err
		}
		if time.Now().After(end) {
			return nil, contract.Errorf(contract.ReasonOf(err), "waited %s for the slots and masters of the cluster to stop changing: %w", s.patience, err)
		}
		s.hangUp(s.Server) // the address may lead to another server next time; this server may belong to no cluster
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// look queries all servers once. It fails with Busy if slots are moving, and with ServerUnreachable if a master does not answer.
func (s *servers) look(ctx context.Context) (*layout, error) {
	l := &layout{answers: map[string]answer{}}
	first, err := s.first(ctx)
	if err != nil {
		return nil, err
	}
	l.answers[first.own.id] = first
	views, asked := []view{first.view}, map[string]bool{}
	for next := 0; next < len(views); next++ { // a view may name servers that earlier views lack
		var nodes []node
		for _, n := range views[next].nodes {
			key := n.id + " " + n.address
			if _, has := l.answers[n.id]; !has && n.address != "" && !n.is("handshake") && !asked[key] {
				asked[key] = true
				nodes = append(nodes, n)
			}
		}
		answers, err := s.askAll(ctx, nodes)
		if err != nil {
			return nil, err
		}
		for _, a := range answers {
			l.answers[a.own.id] = a
			views = append(views, a.view)
		}
	}
	if l.shards, err = agree(views); err == nil {
		s.remember(l)
		return l, nil
	}
	reason := contract.ReasonBusy
	var absent errAbsent
	if errors.As(err, &absent) {
		reason = contract.ReasonServerUnreachable
	}
	return nil, contract.Errorf(reason, "read the slots of the cluster at %s: %w", s.Server, err)
}

// remember stores the addresses of the servers: the server at the address Server may be deleted before the next query.
func (s *servers) remember(l *layout) {
	s.known = s.known[:0]
	for _, a := range l.answers {
		s.known = append(s.known, a.own.address)
	}
}

// first returns the answer of the server at s.Server. If that server cannot be reached, it returns the answer of a known server.
func (s *servers) first(ctx context.Context) (answer, error) {
	a, err := s.ask(ctx, s.Server)
	for _, address := range s.known {
		if err == nil || contract.ReasonOf(err) != contract.ReasonServerUnreachable || ctx.Err() != nil {
			break
		}
		if other, otherErr := s.ask(ctx, address); otherErr == nil {
			return other, nil
		}
	}
	return a, err
}

// askAll queries servers concurrently, and returns the answers of reachable servers. It ignores an answer with another node ID, because
// such an address now belongs to another server.
func (s *servers) askAll(ctx context.Context, nodes []node) ([]answer, error) {
	answers, errs := make([]answer, len(nodes)), make([]error, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() { answers[i], errs[i] = s.ask(ctx, n.address) })
	}
	group.Wait()
	var found []answer
	for i, err := range errs {
		switch {
		case err == nil && answers[i].own.id == nodes[i].id:
			answers[i].own.address = nodes[i].address
			found = append(found, answers[i])
		case err != nil && contract.ReasonOf(err) == contract.ReasonAccessDenied && len(nodes[i].slots) > 0:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
	return found, nil
}

// history returns the replication ID of a master. Replicas that follow this master have the same ID.
func (l *layout) history(of shard) string { return l.answers[of.master.id].info["master_replid"] }

// isSame reports whether no slot was moved and no failover happened since an earlier query.
func (l *layout) isSame(o *layout) bool {
	if len(l.shards) != len(o.shards) {
		return false
	}
	for i := range l.shards {
		if !l.shards[i].equal(o.shards[i]) {
			return false
		}
	}
	return true
}
