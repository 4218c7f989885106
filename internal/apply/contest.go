// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"d3os.com/d3os-operator/internal/object"
)

// pace bounds the corrections of an object. After more than `free` corrections within `window`, the object counts as contested.
// The operator then waits before each correction: at first for `first`, then twice as long each time, up to `longest`.
type pace struct {
	free                   int
	window, first, longest time.Duration
}

var (
	// ofObjects is the pace of corrections of objects, and of creations after a deletion.
	ofObjects = pace{free: 8, window: 20 * time.Second, first: 2 * time.Second, longest: 5 * time.Minute}
	// ofNumbers is the pace of corrections of a number of pods. (An autoscaler sets the number every 15 seconds, and each correction ends
	// pods.)
	ofNumbers = pace{free: 1, window: 10 * time.Minute, first: 10 * time.Minute, longest: time.Hour}
	// ofExactNumbers determines when a number of pods counts as contested if the operator always corrects it (see admitNumber).
	ofExactNumbers = pace{free: 2, window: 10 * time.Minute, first: 10 * time.Minute, longest: 10 * time.Minute}
)

// ContestedError reports that another writer keeps changing or deleting an object. The operator corrects the object at growing intervals.
type ContestedError struct {
	Kind, Name string
	RetryAfter time.Duration
	Deleted    bool // the other writer deletes the object, and does not change it
	// Pods is the declared number of pods. It is set if another writer keeps changing only that number.
	Pods *int64
	// Writer is the field manager that set another number of pods. It is "" if it is unknown: Kubernetes records no field manager of a 0 that
	// the subresource scale sets.
	Writer string
	// IsExact reports whether the operator corrects the number of pods each time.
	IsExact bool
	// Field is the path of the spec's field that a user may remove to let the other writer set the number of pods. It is "" if there is no such
	// field.
	Field string
}

func (e *ContestedError) Error() string {
	if e.Deleted {
		return fmt.Sprintf("%s %s: another writer keeps deleting it, so it is created again at growing intervals: stop that writer (the audit log of the API server names it), or pause the resource", e.Kind, e.Name)
	}
	if e.Pods != nil {
		pace, remedy, writer := "at growing intervals", "stop that writer", ""
		if e.IsExact {
			pace = "each time"
		}
		if e.Field != "" {
			remedy = fmt.Sprintf("remove `%s`, or stop that writer", e.Field)
		}
		if e.Writer != "" {
			writer = " (field manager " + e.Writer + ")"
		}
		return fmt.Sprintf("%s %s: another writer, such as an autoscaler, keeps changing the number of pods%s, so the operator sets it to %d again %s: %s",
			e.Kind, e.Name, writer, *e.Pods, pace, remedy)
	}
	return fmt.Sprintf("%s %s: another writer keeps changing fields that the spec declares, so it is corrected at growing intervals: stop that writer (`kubectl get %s %s -o yaml --show-managed-fields` names it), remove the field from the spec, or pause the resource",
		e.Kind, e.Name, strings.ToLower(e.Kind), e.Name)
}

// contests counts the recent corrections of each object.
type contests struct {
	objects  *lru.Cache // UID, numberOf or place -> *contest
	there    *lru.Cache // place -> digest of the object that this process created there
	replaced *lru.Cache // places of objects that this process deleted in order to replace them
	now      func() time.Time
}

// place identifies an object even after it was deleted and created again with another UID.
type place struct {
	object.ID

	namespace string
}

func placeOf(planned *unstructured.Unstructured) place {
	return place{object.IDOf(planned), planned.GetNamespace()}
}

type contest struct {
	since time.Time // start of the window
	count int
	delay time.Duration // time between corrections of a contested object
	next  time.Time     // earliest next correction
	last  time.Time     // last call of wait, even if it did not allow a correction
	// writer is the field manager that set another number of pods after the last correction: "" if it is unknown, and nil until it was read.
	writer *string
}

func newContests() *contests {
	return &contests{objects: lru.New(4096), there: lru.New(4096), replaced: lru.New(4096), now: time.Now}
}

// admit allows a correction, or returns a *ContestedError with the time to wait. Only one reconciliation at a time corrects an object.
func (c *contests) admit(live *unstructured.Unstructured) error {
	if wait := c.wait(live.GetUID(), ofObjects); wait > 0 {
		return &ContestedError{Kind: live.GetKind(), Name: live.GetName(), RetryAfter: wait}
	}
	return nil
}

// numberOf is the key of the corrections of an object's number of pods in contests.objects.
type numberOf struct{ uid types.UID }

// admitNumber limits corrections of the number of pods as admit limits other corrections. It returns nil if the plan sets no number of
// pods. The operator always corrects the number of pods of a resource, of a workload with data, and of a workload that the spec stops (0
// pods). For these, admitNumber returns an error with IsExact only to report that another writer keeps changing the number.
func (c *contests) admitNumber(planned, live *unstructured.Unstructured) *ContestedError {
	pods, isPlanned, _ := unstructured.NestedInt64(planned.Object, "spec", "replicas")
	resource := object.IsResource(planned) && !object.IsForeign(planned)
	if !isPlanned || podTemplate(planned) == nil && !resource {
		return nil
	}
	contested := &ContestedError{Kind: live.GetKind(), Name: live.GetName(), Pods: &pods, IsExact: pods == 0 || resource || hasData(planned)}
	key, differs := numberOf{live.GetUID()}, pods != podsOf(live)
	switch {
	case contested.IsExact:
		if differs {
			c.wait(key, ofExactNumbers)
		}
		contested.RetryAfter = c.remains(key, ofExactNumbers)
	case differs:
		contested.RetryAfter = c.wait(key, ofNumbers)
	}
	if contested.RetryAfter == 0 {
		return nil
	}
	return contested
}

// nameWriter completes the error of contests.admitNumber, if any, with the field manager of the other writer. It reads the object from the API
// server at most once after each correction, even if the field manager is unknown.
func (a *Applier) nameWriter(ctx context.Context, live *unstructured.Unstructured, contested *ContestedError) *ContestedError {
	if contested == nil {
		return nil
	}
	known, ok := a.contests.objects.Get(numberOf{live.GetUID()})
	if !ok {
		return contested
	}
	o := known.(*contest)
	if o.writer == nil && *contested.Pods != podsOf(live) {
		now, err := get(ctx, a.live, live) // the cache drops field managers
		if err != nil || now == nil {
			return contested // the message is complete without the field manager
		}
		o.writer = new(otherManagers(now))
	}
	if o.writer != nil {
		contested.Writer = *o.writer
	}
	return contested
}

// otherManagers returns the field managers of the number of pods, except those of the operator. They are separated by commas.
func otherManagers(live *unstructured.Unstructured) string {
	others := slices.DeleteFunc(managersOfReplicas(live.GetManagedFields()), func(manager string) bool { return manager == FieldManager || manager == scaleManager })
	slices.Sort(others)
	return strings.Join(slices.Compact(others), ", ")
}

// hasData reports whether a workload may store data: its pods have claims, or only the operator may replace its pods
// (OnDelete).
func hasData(workload *unstructured.Unstructured) bool {
	templates := items(workload.Object, "spec", "volumeClaimTemplates")
	return isOnDelete(workload) || len(templates) > 0 || slices.ContainsFunc(items(workload.Object, "spec", "template", "spec", "volumes"), func(volume map[string]any) bool {
		return volume["persistentVolumeClaim"] != nil || volume["ephemeral"] != nil
	})
}

// admitAgain limits creations as admit limits corrections. It counts a deletion by another writer only if this process has created exactly
// this object before.
func (c *contests) admitAgain(planned *unstructured.Unstructured) error {
	at := placeOf(planned)
	if digest, ok := c.there.Get(at); !ok || digest != object.Digest(planned) {
		return nil
	}
	if wait := c.wait(at, ofObjects); wait > 0 {
		return &ContestedError{Kind: planned.GetKind(), Name: planned.GetName(), RetryAfter: wait, Deleted: true}
	}
	return nil
}

// made records a creation, and reports whether this process had deleted the previous object in order to replace it.
func (c *contests) made(planned *unstructured.Unstructured) bool {
	at := placeOf(planned)
	c.there.Add(at, object.Digest(planned))
	_, afterReplace := c.replaced.Get(at)
	c.replaced.Remove(at)
	return afterReplace
}

// wait counts a correction and returns 0 if the correction is allowed now. Otherwise it returns the time until it is
// allowed.
func (c *contests) wait(key any, p pace) time.Duration {
	now := c.now()
	known, ok := c.objects.Get(key)
	if !ok {
		c.objects.Add(key, &contest{since: now, count: 1})
		return 0
	}
	o := known.(*contest)
	o.last = now
	if wait := o.next.Sub(now); wait > 0 {
		return wait
	}
	if now.Sub(o.since) > p.window+2*o.delay {
		*o = contest{since: now, count: 1}
		return 0
	}
	o.count++
	o.writer = nil
	if o.count > p.free {
		o.delay = min(max(2*o.delay, p.first), p.longest)
		o.next, o.since = now.Add(o.delay), now
	}
	return 0
}

// remains returns how long an object still counts as contested if no further correction follows. It returns 0 if the object is not contested.
func (c *contests) remains(key any, p pace) time.Duration {
	known, ok := c.objects.Get(key)
	if !ok {
		return 0
	}
	o := known.(*contest)
	if o.delay == 0 {
		return 0
	}
	return max(0, o.last.Add(p.window).Sub(c.now()))
}
