// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/internal/workers"
)

// Kubernetes gives steps access to the Kubernetes cluster. Package redis implements it.
type Kubernetes interface {
	// Pod returns a pod in its present state, or the zero value if there is none of that name.
	Pod(ctx context.Context, name string) (steps.Pod, error)
	// Record stores the record.
	Record(ctx context.Context, record topology.Record) error
	// DeletePod deletes a pod unless its UID has changed. A pod that never served stays if its server has started since
	// the decision.
	DeletePod(ctx context.Context, pod topology.Place) error
}

// Request is one step and its inputs.
type Request struct {
	Cluster string
	Access  Access
	Step    topology.Step
	// Pipeline is the number of keys that one MIGRATE moves. Default: 10, as in redis-cli.
	Pipeline   int
	Kubernetes Kubernetes
}

// executor runs one step.
type executor struct {
	Request
	servers *Servers

	mu    sync.Mutex
	links map[topology.Place]*link
}

// Take runs one step. Before each effect, Take proves that the preconditions of the step still hold. If a precondition does not hold, the
// error wraps steps.ErrRefused. Take does not wait for the consequences: the next pass observes them.
func (s *Servers) Take(ctx context.Context, request Request) error {
	if request.Pipeline <= 0 {
		request.Pipeline = 10
	}
	t := &executor{Request: request, servers: s, links: map[topology.Place]*link{}}
	defer t.release()
	batch := t.Step.Batch
	if len(batch) == 0 {
		batch = []topology.Step{t.Step}
	}
	var errs []error
	for _, step := range batch {
		t.Step = step
		err := t.take(ctx)
		s.note(ctx, t.Cluster, t.Access, step, err)
		if errors.Is(err, errNotDue) {
			continue
		}
		errs = append(errs, err)
		if errors.Is(err, ErrBrokenOff) {
			break
		}
	}
	return errors.Join(errs...)
}

// take runs a step that is not a batch.
func (t *executor) take(ctx context.Context) error {
	do := map[topology.Action]func(context.Context) error{
		topology.ActionWait:       func(context.Context) error { return nil },
		topology.ActionRecord:     t.record,
		topology.ActionSetEpoch:   t.setEpoch,
		topology.ActionBumpEpoch:  t.bumpEpoch,
		topology.ActionMeet:       t.meet,
		topology.ActionAddSlots:   t.addSlots,
		topology.ActionReplicate:  t.replicate,
		topology.ActionAdmit:      t.admitAlone,
		topology.ActionForget:     t.forget,
		topology.ActionReset:      t.reset,
		topology.ActionFailover:   t.failover,
		topology.ActionMoveSlots:  t.moveSlots,
		topology.ActionMarkSlot:   t.markSlot,
		topology.ActionAssignSlot: t.assignSlot,
		topology.ActionFlush:      t.flush,
		topology.ActionDropSlots:  t.dropSlots,
		topology.ActionFunctions:  t.functions,
		topology.ActionConfigure:  t.configure,
		topology.ActionDeletePod:  t.deletePod,
	}[t.Step.Action]
	if do == nil {
		return fmt.Errorf("there is no action %q", t.Step.Action)
	}
	if t.Step.Interval > 0 && !t.servers.due(t.Cluster, t.Access, t.Step) {
		return errNotDue
	}
	err := do(ctx)
	if t.Step.Interval > 0 && errors.Is(err, steps.ErrRefused) {
		t.servers.refused(t.Cluster, t.Access, t.Step)
	}
	return err
}

// refused records that a step was not sent. So the step may be sent again before its interval has passed.
func (s *Servers) refused(cluster string, access Access, step topology.Step) {
	p := s.peer(cluster, access, step.Node.UID, step.Node.IP)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(p.sent, step.Action)
}

// sent returns the time since each action with an interval was last sent to a pod.
func (s *Servers) sent(on *peer) map[topology.Action]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := map[topology.Action]time.Duration{}
	for action, at := range on.sent {
		since[action] = time.Since(at)
	}
	return since
}

// due reports whether the interval of a step has passed since its last run. If so, it records the present run.
func (s *Servers) due(cluster string, access Access, step topology.Step) bool {
	p := s.peer(cluster, access, step.Node.UID, step.Node.IP)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if last, ok := p.sent[step.Action]; ok && now.Sub(last) < step.Interval {
		return false
	}
	p.sent[step.Action] = now
	return true
}

func (t *executor) record(ctx context.Context) error {
	if t.Step.Record == nil {
		return errors.New("the step has no record")
	}
	return t.Kubernetes.Record(ctx, *t.Step.Record)
}

// prove returns a connection to a node after it has checked the pod and the node's id against the step. A step uses one connection per
// node.
func (t *executor) prove(ctx context.Context, place topology.Place) (*link, error) {
	t.mu.Lock()
	known := t.links[place]
	t.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if place.Pod == "" || place.UID == "" || place.IP == "" || place.ID == "" {
		return nil, steps.Refuse("the step names no node: %+v", place)
	}
	pod, err := t.Kubernetes.Pod(ctx, place.Pod)
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", place.Pod, err)
	}
	if err := pod.Is(place.Pod, place.UID, place.IP); err != nil {
		return nil, err
	}
	l := &link{place: place, conn: t.servers.peer(t.Cluster, t.Access, place.UID, place.IP).client.Conn(), tap: t.servers.options.Tap}
	answers, err := l.do(ctx, command{"CLUSTER", "MYID"})
	if err != nil {
		return nil, errors.Join(err, l.conn.Close())
	}
	if id, err := answers[0].Text(); err != nil || id != place.ID {
		return nil, errors.Join(steps.Refuse("the node at %s of pod %s is %q, but the step was decided for %s", place.IP, place.Pod, id, place.ID), l.conn.Close())
	}
	t.mu.Lock()
	t.links[place] = l
	t.mu.Unlock()
	return l, nil
}

// proveAll proves several nodes in parallel. It returns an error unless all are proved.
func (t *executor) proveAll(ctx context.Context, places ...topology.Place) ([]*link, error) {
	links := make([]*link, len(places))
	err := each(len(places), func(i int) (err error) {
		links[i], err = t.prove(ctx, places[i])
		return err
	})
	return links, err
}

// each calls do for 0 to n-1 in parallel and returns their errors, joined.
func each(n int, do func(int) error) error {
	errs := make([]error, n)
	var all workers.Group
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// release returns the connections to their pools.
func (t *executor) release() {
	for _, l := range t.links {
		_ = l.conn.Close() // returns the connection to the pool
	}
}
