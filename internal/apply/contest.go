// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/lru"
)

// An object may be corrected contestFree times within contestWindow; after that somebody else
// keeps changing it, and each further correction waits twice as long, up to contestLongest.
const (
	contestFree    = 8
	contestWindow  = 20 * time.Second
	contestFirst   = 2 * time.Second
	contestLongest = 5 * time.Minute
)

// ContestedError says that another writer keeps changing an object, so that the operator
// corrects it less and less often.
type ContestedError struct {
	Kind, Name string
	RetryAfter time.Duration
}

func (e *ContestedError) Error() string {
	return fmt.Sprintf("%s %s: another writer keeps changing fields that the DataService declares; it is corrected less often until that ends", e.Kind, e.Name)
}

// contests remembers how often each object had to be corrected lately.
type contests struct {
	objects *lru.Cache // UID -> *contest
	now     func() time.Time
}

type contest struct {
	since time.Time // start of the window
	count int
	delay time.Duration // between corrections, once contested
	next  time.Time     // earliest next correction
}

func newContests() *contests {
	return &contests{objects: lru.New(4096), now: time.Now}
}

// admit allows a correction, or returns a *ContestedError with the time to wait.
// One object is only ever corrected by one reconciliation at a time.
func (c *contests) admit(live *unstructured.Unstructured) error {
	now := c.now()
	known, ok := c.objects.Get(live.GetUID())
	if !ok {
		c.objects.Add(live.GetUID(), &contest{since: now, count: 1})
		return nil
	}
	o := known.(*contest)
	if wait := o.next.Sub(now); wait > 0 {
		return &ContestedError{live.GetKind(), live.GetName(), wait}
	}
	if now.Sub(o.since) > contestWindow+2*o.delay {
		*o = contest{since: now, count: 1}
		return nil
	}
	o.count++
	if o.count > contestFree {
		o.delay = min(max(2*o.delay, contestFirst), contestLongest)
		o.next, o.since = now.Add(o.delay), now
	}
	return nil
}
