// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// applyPart applies a part, or as much of it as possible while other parts are not ready: a new revision waits, and the running revision is
// corrected. Even with an error, the result contains the part's health.
func (p *pass) applyPart(ctx context.Context, part *Part, waitsFor []string) (PartSeen, error) {
	seen := PartSeen{Name: part.Name, Kind: part.Kind, Revision: part.Revision, Stopped: part.Stopped, Restart: part.Restart, LookAgain: part.lookAgain, grow: part.Grow}
	live, err := p.live(ctx, part)
	if seen.notServed(part, err) {
		return seen, nil
	}
	if err != nil {
		seen.Error = err.Error()
		return seen, err
	}
	if err := p.checkOwnerOf(ctx, []Part{*part}, part.Objects, live); err != nil {
		return seen, err
	}
	isNew := newRevision(part, live)
	seen.Held = isNew && p.hold
	waits := isNew && (len(waitsFor) > 0 || p.healOnly || p.hold)
	if waits && !seen.Held {
		seen.WaitsFor = waitsFor
	}
	held := waits || part.isDoubted() || part.KeepsRunning
	exists := slices.ContainsFunc(live, present)
	settled, failure := p.applyObjects(ctx, part, live, func(i int) bool {
		return !held || part.mayHeal(part.Objects[i], live[i], exists && !p.healOnly)
	}, &seen)
	seen.Applied = (!isNew || !held) && failure == nil
	if err := p.judge(ctx, part, live, &seen); err != nil && failure == nil {
		failure = err
	}
	seen.Notes = append(seen.Notes, part.Notes...)
	seen.Health.Settled = seen.Health.Settled && settled && failure == nil
	return seen, failure
}

// applyObjects applies the permitted objects of a part, up to the first failure, and stores the live objects in live.
// settled reports whether none of these objects is being deleted or replaced.
func (p *pass) applyObjects(ctx context.Context, part *Part, live []*unstructured.Unstructured, may func(i int) bool, seen *PartSeen) (settled bool, err error) {
	settled = true
	for i, planned := range part.Objects {
		if !may(i) {
			continue
		}
		result, err := p.applyObject(ctx, part, planned, live[i], seen)
		if err != nil {
			seen.Error, seen.Culprit = err.Error(), refusedObject(planned, err)
			return settled, err
		}
		live[i] = result.Object
		settled = settled && result.Object != nil && result.Action != apply.Waiting
	}
	return settled, nil
}

// applyObject applies one object of a part.
func (p *pass) applyObject(ctx context.Context, part *Part, planned, live *unstructured.Unstructured, seen *PartSeen) (apply.Result, error) {
	if p.moving && planned.GetKind() == "Service" {
		p.ports.Lock()
		defer p.ports.Unlock()
		if err := p.clearNodePorts(ctx, part, planned); err != nil {
			return apply.Result{}, err
		}
		var err error
		if live, err = p.applier.Get(ctx, planned); err != nil { // another part may have written it
			return apply.Result{}, err
		}
	}
	live, err := p.applier.HoldClaims(ctx, p.owner, planned, live)
	if err != nil {
		return apply.Result{}, err
	}
	planned, refused, err := p.applier.FitVolumes(ctx, p.owner, planned, live)
	if err != nil {
		return apply.Result{}, err
	}
	for _, r := range refused {
		seen.Notes = append(seen.Notes, health.Note{Text: r.Message, Culprit: health.Culprit{Kind: r.Claim.GetKind(), Name: r.Claim.GetName(), Reason: EventVolumeNotResized}})
		seen.LookAgain = max(seen.LookAgain, r.Again)
		if r.New {
			p.recorder.Record(ctx, Event{
				Type: corev1.EventTypeWarning, Reason: EventVolumeNotResized, Action: "Resize", Related: referTo(r.Claim), Note: r.Message,
			})
		}
	}
	result, err := p.applier.Apply(ctx, p.owner, planned, live)
	if contested := (*apply.ContestedError)(nil); errors.As(err, &contested) && planned.GetKind() == "Ingress" {
		// The part does not fail if another writer keeps changing its Ingress: the pods run, and their Service answers.
		seen.Notes = append(seen.Notes, contest(contested))
		seen.LookAgain = contested.RetryAfter
		return apply.Result{Object: live}, nil
	}
	if c := result.Contested; c != nil {
		c.Field = part.NumberField
		seen.Notes, seen.LookAgain = append(seen.Notes, contest(c)), c.RetryAfter
	}
	if err == nil {
		recordApplied(ctx, p.recorder, part, planned, result)
		recordRewritten(ctx, p.recorder, planned, result.Rewrite)
	}
	if result.Rewrite != nil {
		note := result.Rewrite.Note(planned)
		seen.Notes = append(seen.Notes, health.Info(note))
		if seen.Rewritten == "" {
			seen.Rewritten = note
		}
	}
	return result, err
}

// contest returns a note on an object that another writer keeps changing.
func contest(err *apply.ContestedError) health.Note {
	return health.Note{Text: err.Error(), Culprit: health.Culprit{Kind: err.Kind, Name: err.Name, Reason: ReasonContested}}
}

// awaitPods is the interval between checks of pods whose workload is not watched, and between calls of Part.Confirm. A check reads only the
// cache.
const awaitPods = 2 * time.Second

// awaitServed is the interval between checks for a kind that the API server does not serve.
const awaitServed = 5 * time.Second

// notServed reports whether an error means that the API server does not serve a kind of the part. If so, it records
// this in the health of the part. The other parts continue, and this part follows when the CRD is installed.
func (s *PartSeen) notServed(part *Part, err error) bool {
	var missing *apply.NotServedError
	if !errors.As(err, &missing) {
		return false
	}
	culprit := health.Culprit{Kind: missing.Kind.Kind, Reason: health.ReasonNotServed, Message: missing.Error()}
	if i := slices.IndexFunc(part.Objects, func(o *unstructured.Unstructured) bool { return o.GroupVersionKind() == missing.Kind }); i >= 0 {
		culprit.Name = part.Objects[i].GetName()
	}
	s.Health = health.State{Problem: missing.Error(), Culprit: culprit}
	s.LookAgain = awaitServed
	return true
}

// lookOnly observes the parts of a paused owner. It writes nothing, except that it also pauses the resources of the
// operator's kinds that the owner owns.
func (p *pass) lookOnly(ctx context.Context) (PlanSeen, error) {
	seen := PlanSeen{Parts: make([]PartSeen, 0, len(p.plan.Parts))}
	for _, o := range p.owned {
		if object.IsResource(o) && !object.IsForeign(o) {
			if err := p.applier.Pause(ctx, p.owner, o); err != nil {
				return seen, err
			}
		}
	}
	for i := range p.plan.Parts {
		part := &p.plan.Parts[i]
		s, err := p.lookAt(ctx, part)
		if err != nil {
			return seen, err
		}
		seen.Parts = append(seen.Parts, s)
	}
	return seen, nil
}

func (p *pass) lookAt(ctx context.Context, part *Part) (PartSeen, error) {
	seen := PartSeen{Name: part.Name, Kind: part.Kind, Revision: part.Revision, Stopped: part.Stopped, Restart: part.Restart, Notes: part.Notes, LookAgain: part.lookAgain}
	live, err := p.live(ctx, part)
	if seen.notServed(part, err) {
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	seen.Applied = !newRevision(part, live)
	return seen, p.judge(ctx, part, live, &seen)
}

// live returns the live objects of a part, nil for a missing object.
func (p *pass) live(ctx context.Context, part *Part) ([]*unstructured.Unstructured, error) {
	live := make([]*unstructured.Unstructured, len(part.Objects))
	for i, planned := range part.Objects {
		var err error
		if live[i], err = p.applier.Get(ctx, planned); err != nil {
			return nil, err
		}
	}
	return live, nil
}

func present(o *unstructured.Unstructured) bool { return o != nil }

// newRevision reports whether a part's plan has not been applied before. It compares the revision with the last revision in the owner's
// status. If the status was lost, it compares the digests of the planned and the live objects.
func newRevision(part *Part, live []*unstructured.Unstructured) bool {
	if part.Known != "" {
		return part.Known != part.Revision
	}
	matching := 0
	for i, planned := range part.Objects {
		if live[i] == nil {
			continue
		}
		if object.Digest(live[i]) != object.Digest(planned) {
			return true
		}
		matching++
	}
	return matching == 0
}

// isDoubted reports whether the part's data is in doubt, so that no object of the part may change.
func (part *Part) isDoubted() bool { return part.Doubt != nil && part.Doubt.Hold }

// mayHeal reports whether an object of a part may be written although the part's new revision is held back. An edited
// object may be corrected if the new revision does not change it. A missing object may be created if other objects of
// the part run. While the part's data is in doubt, no missing volume and no missing workload is created.
func (part *Part) mayHeal(planned, live *unstructured.Unstructured, running bool) bool {
	if part.KeepsRunning && isSuspended(planned) { // a suspended object starts nothing
		return true
	}
	if live == nil {
		return running && (!part.isDoubted() || !isClaim(planned) && !hasPods(planned))
	}
	return object.Digest(live) == object.Digest(planned)
}

// isSuspended reports whether an object is a suspended CronJob.
func isSuspended(o *unstructured.Unstructured) bool {
	is, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend")
	return is && o.GetKind() == object.CronJobKind.Kind
}

// judge adds the health to the state of a part. It reads pods only if an object is not settled, or if only the pods
// show the state of an object.
func (p *pass) judge(ctx context.Context, part *Part, live []*unstructured.Unstructured, seen *PartSeen) error {
	var there []*unstructured.Unstructured
	for i, o := range live {
		if o == nil {
			seen.Missing = append(seen.Missing, part.Objects[i].GetKind()+" "+part.Objects[i].GetName())
			continue
		}
		if seen.Exists = true; o.GetLabels()[object.LabelBackup] == "" { // backups do not affect the health of the database
			there = append(there, o)
		}
	}
	seen.Health = health.Assess(there, nil)
	if !seen.Health.Settled || len(seen.Missing) > 0 || slices.ContainsFunc(there, health.NeedsPods) {
		pods, err := p.Pods(ctx, p.owner, part.Name)
		if err != nil {
			return err
		}
		seen.Health = health.Assess(there, pods)
	}
	for i, o := range slices.Backward(live) { // backward, because the health names the object that was added last
		if o == nil {
			seen.Health.AddMissing(part.Objects[i])
		}
	}
	p.addClasses(ctx, there, &seen.Health)
	if seen.Health.HintCulprit.Reason == health.ReasonPodsNotReady {
		seen.LookAgain = awaitPods
	}
	if part.Confirm != nil {
		again, err := part.Confirm(live, &seen.Health)
		if err != nil {
			return err
		}
		if again {
			seen.LookAgain = awaitPods
		}
	}
	if part.Doubt != nil {
		seen.Health.AddDoubt(part.Doubt.Culprit, part.Doubt.IsCause)
	}
	return nil
}

// refusedObject returns the object that could not be written as the culprit.
func refusedObject(planned *unstructured.Unstructured, err error) health.Culprit {
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = "NotWritten"
	}
	return health.Culprit{Kind: planned.GetKind(), Name: planned.GetName(), Reason: reason, Message: err.Error()}
}

// Pods lists the pods of a part, from the cache.
func (e *Engine) Pods(ctx context.Context, owner object.Owner, part string) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := e.client.List(ctx, list, client.InNamespace(owner.Namespace),
		client.MatchingFields{object.IndexPart: object.PartKey(owner.Key(), part)})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", part, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// PodsLive reads the pods of a part from the API server.
func (e *Engine) PodsLive(ctx context.Context, owner object.Owner, part string) ([]*corev1.Pod, error) {
	return e.applier.PodsLive(ctx, owner, part)
}
