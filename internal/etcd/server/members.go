// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
)

func (t *executor) addLearner(ctx context.Context) error {
	c, _, err := t.expected(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := t.healthy(ctx); err != nil {
		return err
	}
	return t.effect(ctx, func(ctx context.Context) error {
		_, err := c.MemberAddAsLearner(ctx, []string{t.Step.PeerURL})
		return done(err, rpctypes.ErrPeerURLExist, rpctypes.ErrMemberExist)
	})
}

// lagEntries is the maximum number of log entries that a learner may lack when it becomes a voter. etcd itself only
// requires that, according to the leader, the learner has nine tenths of the log. The operator also queries the
// learner, and applies this limit.
const lagEntries = 5000

func (t *executor) promote(ctx context.Context) error {
	c, status, err := t.expected(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if len(t.Step.Healthy) != 1 || t.Step.Healthy[0].Member != t.Step.Member {
		return steps.Refuse("the step does not name the learner's pod")
	}
	learner, itself, err := t.prove(ctx, t.Step.Healthy[0])
	if err != nil {
		return err
	}
	if err := closeQuietly(learner); err != nil {
		return err
	}
	if itself.RaftAppliedIndex+lagEntries < status.RaftAppliedIndex {
		return steps.Refuse("%s lacks %d entries of the log", t.Step.Healthy[0].Pod, status.RaftAppliedIndex-itself.RaftAppliedIndex)
	}
	return t.effect(ctx, func(ctx context.Context) error {
		_, err := c.MemberPromote(ctx, uint64(t.Step.Member))
		return done(err, rpctypes.ErrMemberNotLearner)
	})
}

func (t *executor) remove(ctx context.Context) error {
	c, _, err := t.expected(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := t.healthy(ctx); err != nil {
		return err
	}
	if err := t.proveUseless(ctx); err != nil {
		return err
	}
	return t.effect(ctx, func(ctx context.Context) error {
		_, err := c.MemberRemove(ctx, uint64(t.Step.Member))
		return done(err, rpctypes.ErrMemberNotFound)
	})
}

func (t *executor) moveLeader(ctx context.Context) error {
	c, status, err := t.prove(ctx, t.Step.Via)
	if err != nil {
		return err
	}
	defer c.Close()
	if membership.ID(status.Leader) != t.Step.Via.Member {
		return steps.Refuse("%s does not lead the cluster", t.Step.Via.Pod)
	}
	return t.effect(ctx, func(ctx context.Context) error {
		_, err := c.MoveLeader(ctx, uint64(t.Step.Member))
		return done(err)
	})
}

func (t *executor) compact(ctx context.Context) error {
	c, _, err := t.prove(ctx, t.Step.Via)
	if err != nil {
		return err
	}
	defer c.Close()
	return t.effect(ctx, func(ctx context.Context) error {
		_, err := c.Compact(ctx, t.Step.Revision)
		return done(err, rpctypes.ErrCompacted)
	})
}

func (t *executor) defrag(ctx context.Context) error {
	c, _, err := t.prove(ctx, t.Step.Via)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := t.healthy(ctx); err != nil {
		return err
	}
	return t.effect(ctx, func(ctx context.Context) error {
		_, err := c.Defragment(ctx, c.Endpoints()[0])
		return done(err)
	})
}

func (t *executor) record(ctx context.Context) error {
	if t.Step.Record == nil {
		return errors.New("the step has no record")
	}
	if now := t.Step.Record.Authority; now != t.Step.Was.Authority && now != (membership.Fingerprint{}) {
		if err := t.proveTrust(ctx); err != nil {
			return err
		}
	}
	return t.effect(ctx, func(ctx context.Context) error { return t.Kubernetes.Record(ctx, *t.Step.Record) })
}

func (t *executor) markClaim(ctx context.Context) error {
	return t.effect(ctx, func(ctx context.Context) error {
		return t.Kubernetes.MarkClaim(ctx, t.Step.Ordinal, t.Step.Claim, t.Step.Mark)
	})
}

// ticket writes a ticket to a pod, after a check that depends on the ticket:
//
//   - to seed: no cluster was ever formed;
//   - to continue alone: no quorum answers;
//   - to join: the member is a learner that was never started.
func (t *executor) ticket(ctx context.Context) error {
	switch {
	case t.Step.Ticket == membership.TicketSeed:
		if err := t.Kubernetes.NeverFormed(ctx); err != nil {
			return err
		}
	case membership.IsForce(t.Step.Ticket):
		if err := t.proveAlone(ctx); err != nil {
			return err
		}
	case t.Step.Member != 0:
		c, _, err := t.expected(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		if !slices.ContainsFunc(t.Step.Expect, func(m membership.Member) bool { return m.ID == t.Step.Member && m.Learner && m.Name == "" }) {
			return steps.Refuse("member %s is not a learner, or was started before", t.Step.Member)
		}
	}
	return t.effect(ctx, func(ctx context.Context) error { return t.Kubernetes.Ticket(ctx, t.Step.Pod, t.Step.Ticket) })
}

func (t *executor) deletePod(ctx context.Context) error {
	if t.Step.Pod.Pod == "" || t.Step.Pod.UID == "" {
		return steps.Refuse("the step names no pod")
	}
	if len(t.Step.Expect) > 0 {
		if err := t.proveList(ctx); err != nil {
			return err
		}
	}
	if err := t.healthy(ctx); err != nil {
		return err
	}
	report, answer := t.look(ctx, t.Step.Pod)
	if t.Step.Pod.Member == 0 && answer != nil {
		// When the step was decided, no member ran in the pod. The member that runs now may be a voter.
		return steps.Refuse("member %s now runs in pod %s", answer.Member, t.Step.Pod.Pod)
	}
	if err := t.proveStays(ctx, report, answer); err != nil {
		return err
	}
	return t.effect(ctx, func(ctx context.Context) error { return t.Kubernetes.DeletePod(ctx, t.Step.Pod) })
}

// deleteClaim deletes a claim whose data belongs to a member that a quorum has removed.
func (t *executor) deleteClaim(ctx context.Context) error {
	if err := t.proveList(ctx); err != nil {
		return err
	}
	if t.Step.Member == 0 || t.Step.Claim.UID == "" || slices.ContainsFunc(t.Step.Expect, func(m membership.Member) bool { return m.ID == t.Step.Member }) {
		return steps.Refuse("nothing proves that the data of member %s is not needed", t.Step.Member)
	}
	if report, answer := t.look(ctx, t.Step.Pod); t.isExpected(report, answer) {
		return steps.Refuse("pod %s now has the data of a member", t.Step.Pod.Pod)
	}
	return t.effect(ctx, func(ctx context.Context) error { return t.Kubernetes.DeleteClaim(ctx, t.Step.Ordinal, t.Step.Claim) })
}

func closeQuietly(c *clientv3.Client) error {
	if err := c.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
