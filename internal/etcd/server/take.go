// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/workers"
)

// Kubernetes gives steps access to Kubernetes. Package etcd implements this interface. It changes an object only if the object still matches
// the step, for example by the UID of a pod or claim.
type Kubernetes interface {
	// Pod returns the present state of a pod, or the zero value if there is none of that name.
	Pod(ctx context.Context, name string) (steps.Pod, error)
	// Crashing reports whether etcd in a pod keeps exiting. It reads from the API server and not from a cache.
	Crashing(ctx context.Context, pod membership.Place) (bool, error)
	// Leaving reports whether the claim of an ordinal is being deleted. It reads from the API server and not from a cache.
	Leaving(ctx context.Context, ordinal int) (bool, error)
	// Recorded returns the record. It reads from the API server and not from a cache.
	Recorded(ctx context.Context) (membership.Record, error)
	// NeverFormed returns an error if a record or a marked claim shows that a cluster was formed. It reads from the API
	// server and not from a cache.
	NeverFormed(ctx context.Context) error
	// Record stores a record, unless the stored record has changed since the observation.
	Record(ctx context.Context, record membership.Record) error
	MarkClaim(ctx context.Context, ordinal int, at membership.ClaimAt, mark membership.Mark) error
	Ticket(ctx context.Context, pod membership.Place, ticket string) error
	DeletePod(ctx context.Context, pod membership.Place) error
	DeleteClaim(ctx context.Context, ordinal int, at membership.ClaimAt) error
	// Rotate ends the given phase of the replacement of certificate authorities, and begins the next phase.
	Rotate(ctx context.Context, phase membership.AuthorityPhase) error
	// Scale lowers the replicas of the StatefulSet.
	Scale(ctx context.Context, pods int) error
}

// Tap intercepts the side effects of steps. Tests use it to crash the operator.
type Tap interface {
	// Before is called before a side effect. An error prevents the side effect.
	Before(action membership.Action) error
	// After is called after the side effect.
	After(action membership.Action) error
}

// ErrNotYet reports that etcd refuses a step for now. It does so for a few seconds after each change.
var ErrNotYet = errors.New("not yet")

// Request is a step with its inputs.
type Request struct {
	// Cluster identifies the cluster among all namespaces.
	Cluster    string
	Access     Access
	Step       membership.Step
	Kubernetes Kubernetes
	// PeerURLs are the members' expected peer URLs, by ordinal.
	PeerURLs []string
}

type executor struct {
	Request
	servers *Servers
}

// Take runs one step. Before the side effect, it proves that the preconditions of the step still hold. If they do not, the error wraps
// steps.ErrRefused. Take does not wait for the consequences, which the next pass observes.
func (s *Servers) Take(ctx context.Context, request Request) error {
	t := &executor{Request: request, servers: s}
	do := map[membership.Action]func(context.Context) error{
		membership.ActionWait:        func(context.Context) error { return nil },
		membership.ActionRecord:      t.record,
		membership.ActionMarkClaim:   t.markClaim,
		membership.ActionTicket:      t.ticket,
		membership.ActionAddLearner:  t.addLearner,
		membership.ActionPromote:     t.promote,
		membership.ActionRemove:      t.remove,
		membership.ActionMoveLeader:  t.moveLeader,
		membership.ActionDeletePod:   t.deletePod,
		membership.ActionDeleteClaim: t.deleteClaim,
		membership.ActionCompact:     t.compact,
		membership.ActionDefrag:      t.defrag,
		membership.ActionDisarm:      t.disarm,
		membership.ActionAppend:      t.append,
		membership.ActionScale:       t.scale,
		membership.ActionRotate:      t.rotate,
	}[t.Step.Action]
	if do == nil {
		return fmt.Errorf("there is no action %q", t.Step.Action)
	}
	err := do(ctx)
	s.failures.note(ctx, t.Cluster, t.Step, err)
	return err
}

// effect runs the step's only side effect if this replica holds the lease.
func (t *executor) effect(ctx context.Context, have func(context.Context) error) error {
	if err := reconcile.Held(ctx); err != nil {
		return err
	}
	tap := t.servers.options.Tap
	if tap != nil {
		if err := tap.Before(t.Step.Action); err != nil {
			return err
		}
	}
	timeout := t.servers.options.EffectTimeout
	if t.Step.Action == membership.ActionDefrag {
		timeout = t.servers.options.DefragTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := have(ctx)
	if tap != nil {
		err = errors.Join(err, tap.After(t.Step.Action))
	}
	return err
}

// prove returns a client of a member. Before that, it compares the pod, the member's ID and the cluster's ID with the step. The caller
// closes the client.
func (t *executor) prove(ctx context.Context, place membership.Place) (*clientv3.Client, *clientv3.StatusResponse, error) {
	if place.Pod == "" || place.UID == "" || place.IP == "" || place.Member == 0 || place.Cluster == 0 {
		return nil, nil, steps.Refuse("the step names no member: %+v", place)
	}
	pod, err := t.Kubernetes.Pod(ctx, place.Pod)
	if err != nil {
		return nil, nil, fmt.Errorf("read pod %s: %w", place.Pod, err)
	}
	if err := pod.Is(place.Pod, place.UID, place.IP); err != nil {
		return nil, nil, err
	}
	c, ctx, err := t.servers.dial(ctx, t.Access, place.IP)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := context.WithTimeout(ctx, t.servers.options.ReadTimeout)
	defer cancel()
	status, err := c.Status(within, c.Endpoints()[0])
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("query etcd in pod %s: %w", place.Pod, err), c.Close())
	}
	if id, cluster := membership.ID(status.Header.MemberId), membership.ID(status.Header.ClusterId); id != place.Member || cluster != place.Cluster {
		return nil, nil, errors.Join(steps.Refuse("%s is member %s of cluster %s, but the step was decided for member %s of %s", place.Pod, id, cluster, place.Member, place.Cluster), c.Close())
	}
	return c, status, nil
}

// expected proves three facts: the member that gets the request is the member that the step names, a quorum agrees with
// that member, and the member list is the list at the decision.
func (t *executor) expected(ctx context.Context) (*clientv3.Client, *clientv3.StatusResponse, error) {
	c, status, err := t.prove(ctx, t.Step.Via)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := context.WithTimeout(ctx, t.servers.options.ReadTimeout)
	defer cancel()
	if !linear(within, c) {
		return nil, nil, errors.Join(steps.Refuse("%s has no quorum any more", t.Step.Via.Pod), c.Close())
	}
	list, err := c.MemberList(within, clientv3.WithSerializable())
	if err == nil {
		err = same(membersOf(list), t.Step.Expect)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, status, nil
}

// proveList proves that a quorum has the member list of the decision.
func (t *executor) proveList(ctx context.Context) error {
	c, _, err := t.expected(ctx)
	if err != nil {
		return err
	}
	return closeQuietly(c)
}

// healthy proves, in parallel, that the step's Healthy members answer linearizable reads.
func (t *executor) healthy(ctx context.Context) error {
	errs := make([]error, len(t.Step.Healthy))
	var all workers.Group
	for i, place := range t.Step.Healthy {
		all.Go(func() {
			c, _, err := t.prove(ctx, place)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			within, cancel := context.WithTimeout(ctx, t.servers.options.ReadTimeout)
			defer cancel()
			if !linear(within, c) {
				errs[i] = steps.Refuse("%s does not answer for the cluster any more", place.Pod)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// done classifies the error of a change. It returns nil if the change was already made (already lists such errors). It
// wraps ErrNotYet if etcd refuses the change for now. It returns any other error unchanged.
func done(err error, already ...error) error {
	for _, fine := range already {
		if errors.Is(err, fine) {
			return nil
		}
	}
	for _, later := range []error{
		rpctypes.ErrUnhealthy, rpctypes.ErrMemberNotEnoughStarted, rpctypes.ErrTooManyLearners, rpctypes.ErrMemberLearnerNotReady,
		rpctypes.ErrNotLeader, rpctypes.ErrNoLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrBadLeaderTransferee,
	} {
		if errors.Is(err, later) {
			return fmt.Errorf("%w: %w", ErrNotYet, err)
		}
	}
	return err
}

func (t *executor) disarm(ctx context.Context) error {
	c, _, err := t.prove(ctx, t.Step.Via)
	if err != nil {
		return err
	}
	defer c.Close()
	kind, known := etcdserverpb.AlarmType_value[t.Step.Alarm.Kind]
	if !known {
		return steps.Refuse("there is no alarm %s", t.Step.Alarm.Kind)
	}
	if t.Step.Alarm.Kind == membership.AlarmCorrupt {
		if err := t.proveSame(ctx); err != nil {
			return err
		}
	}
	return t.effect(ctx, func(ctx context.Context) error {
		_, err := c.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: uint64(t.Step.Alarm.Member), Alarm: etcdserverpb.AlarmType(kind)})
		return done(err)
	})
}

// append makes etcd commit a log entry that changes nothing: the revocation of a lease that cannot exist.
func (t *executor) append(ctx context.Context) error {
	c, _, err := t.prove(ctx, t.Step.Via)
	if err != nil {
		return err
	}
	defer c.Close()
	return t.effect(ctx, func(ctx context.Context) error {
		_, err := c.Revoke(ctx, clientv3.NoLease)
		return done(err, rpctypes.ErrLeaseNotFound)
	})
}
