// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// Some causes are only in events: a probe that fails, a volume that a node cannot mount, a pod that a quota refuses. The operator does not
// watch events. For a part that is not ready for an unknown cause, it lists the events about one object.
const (
	// explainAfter is the time for which the cause must be unknown before the operator lists events. It is also the
	// interval between lists until an event names the cause, for at most explainLong.
	explainAfter = 10 * time.Second
	explainLong  = 2 * time.Minute
	// explainAgain is the interval between lists after that.
	explainAgain = time.Minute
	// explainedAtOnce and explainedPerSecond bound the lists of all parts.
	explainedAtOnce    = 20
	explainedPerSecond = 5
)

// explanation is the cause of the state of a part, from events.
type explanation struct {
	uid    types.UID // object whose events are read
	reason string    // vague reason of that object
	since  time.Time // first observation of that reason
	next   time.Time // time of the next list

	culprit health.Culprit
	text    string // empty if no event names a cause
}

// explain adds causes from events to the health of parts that are not ready for an unknown cause.
func (e *Engine) explain(ctx context.Context, owner object.Owner, seen *PlanSeen, now time.Time) error {
	for i := range seen.Parts {
		part := &seen.Parts[i]
		key := object.PartKey(owner.Key(), part.Name)
		culprit := part.Health.Unexplained()
		if culprit.Name == "" {
			e.explanations.Remove(key)
			continue
		}
		of, pod, err := e.subject(ctx, owner, part.Name, culprit)
		if err != nil {
			return err
		}
		if of == "" {
			continue
		}
		x := explanation{uid: of, reason: culprit.Reason, since: now, next: now.Add(explainAfter)}
		if known, ok := e.explanations.Get(key); ok && known.(explanation).uid == of && known.(explanation).reason == culprit.Reason {
			x = known.(explanation)
		}
		if !x.next.After(now) && e.mayExplain.TryAccept() {
			e.readCause(ctx, owner, part, pod, culprit, &x, now)
		}
		e.explanations.Add(key, x)
		if x.text != "" {
			part.Health.Explain(x.culprit, x.text)
		}
		if wait := max(x.next.Sub(now), time.Second); part.LookAgain == 0 || part.LookAgain > wait {
			part.LookAgain = wait
		}
	}
	return nil
}

// readCause lists the events about a culprit, and sets the cause and the time of the next list.
func (e *Engine) readCause(ctx context.Context, owner object.Owner, part *PartSeen, pod *corev1.Pod, culprit health.Culprit, x *explanation, now time.Time) {
	x.next = now.Add(explainAgain)
	events, err := e.applier.Events(ctx, owner.Namespace, x.uid)
	if err != nil { // the known cause stays: events only explain a state
		ctrl.LoggerFrom(ctx).V(1).Info("events cannot be listed", "error", err.Error())
		return
	}
	health.SortEvents(events)
	x.culprit, x.text = cause(culprit, pod, part.Kind == thirdParty, events, now)
	if x.text == "" && now.Sub(x.since) < explainLong {
		x.next = now.Add(explainAfter)
	}
}

// thirdParty is the kind of a part whose pods only check a server outside of the cluster. Their probes fail as long as that server does not answer.
const thirdParty = "ThirdParty"

// cause returns a vague culprit with the cause that its events name, and the cause as a text. The text is "" if no event names a cause.
// events are sorted, the oldest first. checks is set for a part of kind ThirdParty.
func cause(culprit health.Culprit, pod *corev1.Pod, checks bool, events []corev1.Event, now time.Time) (health.Culprit, string) {
	if culprit.Kind == object.ClaimKind.Kind {
		reason, message := health.Unbound(events)
		if reason == "" {
			return health.Culprit{}, ""
		}
		return health.CulpritOf(culprit.Kind, culprit.Name, &corev1.Event{Reason: reason, Message: message})
	}
	e := health.Decisive(events, func(e *corev1.Event) bool {
		const slack = 10 * time.Second // the kubelet records a failed probe before the pod's condition changes
		if pod == nil {
			return true
		}
		ready, since := health.Readiness(pod)
		isEarlier := !ready && health.LastSeen(e).Add(slack).Before(since)
		isStart := e.Reason == health.ReasonUnhealthy && !checks && health.MayBeStarting(pod, now)
		return !isEarlier && !isStart && health.AppliesTo(e, pod)
	})
	if e == nil {
		return health.Culprit{}, ""
	}
	return health.CulpritOf(culprit.Kind, culprit.Name, e)
}

// subject returns the UID of a culprit, and the culprit itself if it is a pod; "" if the cache does not contain the culprit.
func (e *Engine) subject(ctx context.Context, owner object.Owner, part string, culprit health.Culprit) (types.UID, *corev1.Pod, error) {
	if culprit.Kind != "Pod" {
		o, err := e.LookupAny(ctx, owner, culprit.Kind, culprit.Name)
		if o == nil || err != nil {
			return "", nil, err
		}
		return o.GetUID(), nil, nil
	}
	pods, err := e.Pods(ctx, owner, part)
	if err != nil {
		return "", nil, err
	}
	if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == culprit.Name }); i >= 0 {
		return pods[i].UID, pods[i], nil
	}
	return "", nil, nil
}
