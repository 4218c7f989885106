// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"time"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// failover sends CLUSTER FAILOVER to a replica. When failover returns, Redis has accepted the failover, but may not have completed it.
func (t *executor) failover(ctx context.Context) error {
	node, err := t.prove(ctx, t.Step.Node)
	if err != nil {
		return err
	}
	own, all, err := node.self(ctx)
	if err != nil {
		return err
	}
	if !own.Replica {
		return steps.Refuse("%s is not a replica", t.Step.Node.Pod)
	}
	if master := t.Step.Target.ID; master != "" && own.MasterID != master {
		return steps.Refuse("%s is a replica of %s, not of %s as at the decision", t.Step.Node.Pod, own.MasterID, master)
	}
	failover := command{"CLUSTER", "FAILOVER"}
	if t.Step.Mode == "" {
		err = t.proveLinked(ctx, node)
	} else {
		failover = append(failover, t.Step.Mode)
		err = t.proveHeir(ctx, node, own.MasterID, all)
	}
	if err != nil {
		return err
	}
	_, err = node.do(ctx, failover)
	return err
}

// said returns a node's present INFO.
func (l *link) said(ctx context.Context) (topology.Node, error) {
	node := topology.Node{Pod: l.place.Pod}
	answers, err := l.do(ctx, command{"INFO"})
	if err != nil {
		return node, err
	}
	text, err := answers[0].Text()
	if err != nil {
		return node, fmt.Errorf("INFO of %s: %w", l.place.Pod, err)
	}
	told, err := parseInfo(text)
	if err != nil {
		return node, fmt.Errorf("INFO of %s: %w", l.place.Pod, err)
	}
	told.fill(&node)
	return node, nil
}

// target returns the present INFO of the step's target, after a check of the target's pod and node id (prove).
func (t *executor) target(ctx context.Context) (topology.Node, error) {
	l, err := t.prove(ctx, t.Step.Target)
	if err != nil {
		return topology.Node{}, err
	}
	return l.said(ctx)
}

// proveLinked proves, for a planned failover, that the replica copies from its expected master, and not from another server at that
// address.
func (t *executor) proveLinked(ctx context.Context, node *link) error {
	if t.Step.Target.IP == "" {
		return nil
	}
	from, err := t.target(ctx)
	if err != nil {
		return err
	}
	heir, err := node.said(ctx)
	if err != nil {
		return err
	}
	if !heir.Replication.LinkUp || heir.Replication.Syncing || heir.Replication.ID != from.Replication.ID {
		return steps.Refuse("%s is not in sync with %s: its link to the master is up: %v, its replication ID is %s, and the master's is %s",
			heir.Pod, from.Pod, heir.Replication.LinkUp, brief(heir.Replication.ID), brief(from.Replication.ID))
	}
	return nil
}

// proveHeir proves, for a failover without the master's agreement, that the replica has the data that it was chosen for. It also proves
// that the master is still lost, or still has no keys.
func (t *executor) proveHeir(ctx context.Context, node *link, master string, view []topology.Entry) error {
	want := t.Step.Proof
	heir, err := node.said(ctx)
	if err != nil {
		return err
	}
	switch has := heir.Replication; {
	case has.Syncing:
		return steps.Refuse("%s is copying from another node", heir.Pod)
	case has.ID != want.History:
		return steps.Refuse("%s has the replication ID %s, but had %s at the decision: it has copied from another node", heir.Pod, brief(has.ID), brief(want.History))
	case has.Offset < want.Offset:
		return steps.Refuse("%s has the replication offset %d, but had %d at the decision", heir.Pod, has.Offset, want.Offset)
	}
	if err := t.within(ctx, node, heir.Keys); err != nil {
		return err
	}
	if want.Run != "" {
		return t.proveEmptied(ctx, heir)
	}
	for _, e := range view {
		if e.ID == master && e.IsReachable() {
			return steps.Refuse("%s reaches its master %s again", heir.Pod, master)
		}
	}
	return nil
}

// proveEmptied proves that the master has not restarted since it was observed, and that the replica has keys and no
// link. It also proves that the master has no keys, unless a user gave up the master's data.
func (t *executor) proveEmptied(ctx context.Context, heir topology.Node) error {
	master, err := t.target(ctx)
	if err != nil {
		return err
	}
	if master.RunID != t.Step.Proof.Run || !master.Replication.Master || master.Keys > 0 && !t.Step.Proof.Consented || heir.Keys == 0 || heir.Replication.LinkUp {
		return steps.Refuse("%s does not take over from %s, because they have changed since the decision: %s has %d keys, %s has %d keys, the link to the master is up (%v), and the master has run for %s",
			heir.Pod, master.Pod, heir.Pod, heir.Keys, master.Pod, master.Keys, heir.Replication.LinkUp, master.Uptime.Round(time.Second))
	}
	return nil
}

// within proves that all keys of the replica belong to the slots that it would own as a master.
func (t *executor) within(ctx context.Context, node *link, keys int64) error {
	if len(t.Step.Proof.Within) == 0 {
		return nil
	}
	var count []command
	for slot := range t.Step.Proof.Within.All {
		count = append(count, command{"CLUSTER", "COUNTKEYSINSLOT", slot})
	}
	answers, err := node.do(ctx, count...)
	if err != nil {
		return err
	}
	for _, answer := range answers {
		n, err := answer.Int64()
		if err != nil {
			return fmt.Errorf("COUNTKEYSINSLOT of %s: %w", t.Step.Node.Pod, err)
		}
		keys -= n
	}
	if keys != 0 {
		return steps.Refuse("%s has %d keys that are not of slots %s: it has copied from a node of another shard", t.Step.Node.Pod, keys, t.Step.Proof.Within)
	}
	return nil
}

// brief shortens an id.
func brief(id string) string { return id[:min(len(id), 8)] }
