// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	k8sclient "sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/mysql/client"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/workers"
)

// effectTime limits each request of a step to the API server. Package client limits orders.
const effectTime = 5 * time.Second

// Tap intercepts the side effects of steps. Tests use it to crash the operator before or after one of them.
type Tap interface {
	// Before is called before a side effect. An error prevents the side effect.
	Before(action replication.Action) error
	// After is called after the side effect.
	After(action replication.Action) error
}

// executor runs the steps of one database. It has no state: each step reads its facts again.
type executor struct {
	database.Cluster

	connect Connect
	reach   Reach // its addresses are read again before each side effect
	tap     Tap   // nil for none
}

// sight holds the facts that an executor has read immediately before a side effect.
type sight struct {
	replication.Observation

	at      database.Version // version of the record
	members Members
}

// take runs a step after it has proved the step's facts again. If they do not hold, the error wraps steps.ErrRefused. take does not wait
// for the consequences, which the next pass observes.
func (e executor) take(ctx context.Context, step replication.Step) error {
	now, err := e.look(ctx, step)
	if err != nil {
		return fmt.Errorf("read the facts again: %w", err)
	}
	if err := step.Prove(now.Observation); err != nil {
		return steps.Refuse("%v", err)
	}
	if step.Action == replication.ActionRecord && !reflect.DeepEqual(now.Record, step.Was) {
		return steps.Refuse("the record of revision %d differs from the record of the decision", now.Record.Revision)
	}
	return e.effect(ctx, step, now)
}

// look reads the record and the pods from the API server, and then queries the members that the step names.
func (e executor) look(ctx context.Context, step replication.Step) (sight, error) {
	var now sight
	var err error
	if now.Record, now.at, err = records.Observe(ctx, e.Live, e.Owner); err != nil {
		return now, err
	}
	reach := e.reach
	reach.IPs = map[int]string{}
	var pods []client.Pod
	for _, ordinal := range named(step, now.Record) {
		pod, err := e.Pod(ctx, database.PodName(e.Owner.Name, ordinal))
		if err != nil {
			return now, err
		}
		reach.IPs[ordinal] = pod.IP
		pods = append(pods, client.Pod{Ordinal: ordinal, UID: pod.UID})
	}
	now.members = e.connect(reach)
	looks := lookAt(ctx, now.members, reach, pods, now.Record.Primary.Ordinal, patience(step))
	now.Observation = (&client.Observer{}).Observe(now.Record, looks, time.Time{}) // the time does not matter: no fact of a step depends on it
	return now, nil
}

// patience returns the time limits of the queries before a step. A primary that is replaced after promises of the voters has not answered
// longer queries before the decision.
func patience(step replication.Step) func(ordinal int) time.Duration {
	return func(ordinal int) time.Duration {
		for _, p := range step.Proof {
			if p.Fact == replication.FactSilent && p.Member.Ordinal == ordinal {
				return client.RetryTime
			}
		}
		return client.LookTime
	}
}

// named returns the ordinals of the members that a step's facts are about, without duplicates. The primary is always
// among them, because a fact may compare a member with the primary.
func named(step replication.Step, record replication.Record) (ordinals []int) {
	seen := map[int]bool{}
	add := func(ordinal int) {
		if !seen[ordinal] {
			seen[ordinal] = true
			ordinals = append(ordinals, ordinal)
		}
	}
	for _, m := range step.Members() {
		add(m.Ordinal)
	}
	for _, p := range step.Proof {
		add(p.Member.Ordinal)
		if p.Fact == replication.FactErrant || p.Fact == replication.FactBehind || p.Fact == replication.FactAhead || p.Fact == replication.FactHasLog {
			add(record.Primary.Ordinal)
		}
	}
	return ordinals
}

// effect carries out the step's only side effect if this replica holds the lease.
func (e executor) effect(ctx context.Context, step replication.Step, now sight) error {
	if err := reconcile.Held(ctx); err != nil {
		return err
	}
	if e.tap != nil {
		if err := e.tap.Before(step.Action); err != nil {
			return err
		}
	}
	err := e.do(ctx, step, now)
	if e.tap != nil {
		err = errors.Join(err, e.tap.After(step.Action))
	}
	return err
}

func (e executor) do(ctx context.Context, step replication.Step, now sight) error {
	if client.IsOrder(step) {
		return send(ctx, now.members, step)
	}
	ctx, cancel := context.WithTimeout(ctx, effectTime)
	defer cancel()
	name := database.PodName(e.Owner.Name, step.Member.Ordinal)
	at := database.Version{UID: types.UID(step.Member.UID)}
	switch step.Action { //nolint:exhaustive // the others are orders
	case replication.ActionRecord:
		return records.Write(ctx, e.Cluster, now.at, *step.Record)
	case replication.ActionTicket:
		pod := object.Empty(corev1.SchemeGroupVersion.WithKind("Pod"))
		pod.SetName(name)
		return e.Annotate(ctx, pod, at, map[string]any{object.AnnotationTicket: step.Ticket})
	case replication.ActionRoute:
		return nil // the next plan makes the Service select the recorded primary
	case replication.ActionDeletePod:
		return e.DeletePodWithData(ctx, name, at, database.ClaimName(e.Owner.Name, step.Member.Ordinal))
	}
	return fmt.Errorf("there is no action %q", step.Action)
}

// send sends an order to all its members at the same time.
func send(ctx context.Context, members Members, step replication.Step) error {
	all := step.Members()
	errs := make([]error, len(all))
	var sent workers.Group
	for i, m := range all {
		one := step
		one.Member = m
		sent.Go(func() { errs[i] = members.Order(ctx, one) })
	}
	sent.Wait()
	return errors.Join(errs...)
}

// label sets the label of a pod for the Service for reads; a nil value removes it.
func (e executor) label(ctx context.Context, name, uid string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "labels": map[string]any{labelReadable: value}}})
	if err == nil {
		err = reconcile.Held(ctx)
	}
	if err == nil {
		pod := object.Empty(corev1.SchemeGroupVersion.WithKind("Pod"))
		pod.SetNamespace(e.Owner.Namespace)
		pod.SetName(name)
		err = e.Client.Patch(ctx, pod, k8sclient.RawPatch(types.MergePatchType, patch), k8sclient.FieldOwner(apply.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("label pod %s: %w", name, err)
	}
	return nil
}
