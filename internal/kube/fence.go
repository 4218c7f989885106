// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube connects the operator to the API server: its cache, its client and its transports. Each part works around a limit of the
// libraries. Comments explain the limits.
package kube

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

var errNotLeading = errors.New("not sent: the lease that allows this replica to write was not renewed in time, so another replica may lead. " +
	"If this repeats, check the latency of the API server, and the flags --leader-elect-*")

// fence lets a replica write only while it is certain that no other replica leads. Leader election alone does not
// ensure this. Example: (1) The leader's process is frozen (a paused container, a suspended machine). (2) Its lease
// ends, and another replica leads. (3) The process continues to write, and stops only after its renewals have failed
// for the whole renew deadline.
//
// A write may be sent until the renew deadline has passed since the start of the last successful renewal. Another
// replica takes over later: it waits for the lease duration minus the lead (see leadOf). Requests in flight end in the
// time between.
type fence struct {
	deadline time.Duration
	now      func() time.Time

	mu      sync.Mutex
	renewed time.Time // zero while this replica does not lead
}

func newFence(deadline time.Duration) *fence { return &fence{deadline: deadline, now: time.Now} }

func (f *fence) set(renewed time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = renewed
}

// Held reports whether a write may be sent now.
func (f *fence) Held() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.IsZero() {
		return false
	}
	// The monotonic clock stops while a machine is suspended, and the wall clock may be set: the longer of both times counts.
	now := f.now()
	return max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0))) < f.deadline
}

// guard returns a transport that refuses writes with errNotLeading while the fence is closed. Harmless requests always pass.
func (f *fence) guard(next http.RoundTripper) http.RoundTripper {
	return roundTripper{next, func(r *http.Request) (*http.Response, error) {
		if harmless(r) || f.Held() {
			return next.RoundTrip(r)
		}
		if r.Body != nil {
			_ = r.Body.Close() // the body was not read
		}
		return nil, errNotLeading
	}}
}

// harmless reports whether a request is a read, an event, or a review that authorizes a reader of the metrics. Standbys
// also send these requests.
func harmless(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	parts := strings.Split(r.URL.Path, "/") // /api/v1/namespaces/ns/events/name, /apis/group/...
	switch {
	case len(parts) < 3:
		return false
	case parts[1] == "apis":
		return slices.Contains([]string{"events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}, parts[2])
	default:
		return len(parts) > 5 && parts[5] == "events"
	}
}

// roundTripper runs a function before the next round tripper. client-go finds the next one by WrappedRoundTripper.
type roundTripper struct {
	next http.RoundTripper
	do   func(*http.Request) (*http.Response, error)
}

var _ utilnet.RoundTripperWrapper = roundTripper{}

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t.do(r) }

func (t roundTripper) WrappedRoundTripper() http.RoundTripper { return t.next }

// fencedLock opens the fence with every renewal of the Lease, and closes it when the Lease is released.
type fencedLock struct {
	resourcelock.Interface
	fence  *fence
	lead   time.Duration // the time by which Get shortens the lease duration
	holder string        // the holder at the last read or write of the Lease
}

// leadOf returns the time by which a candidate shortens the lease duration that it reads, in whole seconds like the fields of a Lease. A
// candidate reads the Lease every 1 to 2.2 retry periods (client-go's jitter). So it may notice the last renewal 2.2 periods late, and the
// expiry another 2.2 periods late. The lead compensates for both delays: a lost leader is replaced within the lease duration.
func leadOf(retry time.Duration) time.Duration {
	const look = 2.2
	return time.Duration(math.Ceil(2*look*retry.Seconds())) * time.Second
}

// Get returns the Lease. It shortens the lease duration for candidates; see leadOf.
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	lease, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = lease.HolderIdentity
	}
	if lead := int(l.lead / time.Second); err == nil && lease.LeaseDurationSeconds > lead { // a shorter duration: the Lease was released
		lease.LeaseDurationSeconds -= lead
	}
	return lease, raw, err
}

func (l *fencedLock) Create(ctx context.Context, lease resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, lease, l.Interface.Create)
}

func (l *fencedLock) Update(ctx context.Context, lease resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, lease, l.Interface.Update)
}

func (l *fencedLock) write(ctx context.Context, lease resourcelock.LeaderElectionRecord,
	do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	begun := l.fence.now()
	if lease.HolderIdentity != l.Identity() {
		begun = time.Time{}
		l.fence.set(begun) // close the fence even if the write fails
		// A replica that lost the lease must not release it: the release would clear the lease of the new leader.
		if l.holder != l.Identity() {
			return fmt.Errorf("the lease is not released, because replica %q holds it: nothing has to be done", l.holder)
		}
	}
	if err := do(ctx, lease); err != nil {
		return err
	}
	l.holder = lease.HolderIdentity
	l.fence.set(begun)
	return nil
}

// Lease reports whether this replica may act.
type Lease interface {
	// Held reports whether no other replica may act now.
	Held() bool
}

// alone is the lease of an operator without leader election, which has no other replica.
type alone struct{}

func (alone) Held() bool { return true }

// NewManager calls ctrl.NewManager. With leader election, the manager's clients write only while this replica holds the lease. It
// returns the lease for code that acts without these clients. It fails if the renew deadline is too close to the lease duration.
func NewManager(cfg *rest.Config, o ctrl.Options) (ctrl.Manager, Lease, error) {
	if !o.LeaderElection {
		mgr, err := ctrl.NewManager(cfg, o)
		return mgr, alone{}, err
	}
	lead := leadOf(*o.RetryPeriod)
	if *o.RenewDeadline >= *o.LeaseDuration-lead {
		return nil, nil, fmt.Errorf("the renew deadline (%s) must be below the lease duration (%s) minus %s, because another replica may take over the lease that long before the lease ends: lower --leader-elect-renew-deadline, or raise --leader-elect-lease-duration",
			*o.RenewDeadline, *o.LeaseDuration, lead)
	}
	events := &lateRecorder{}
	lock, err := leaderelection.NewResourceLock(cfg, events, leaderelection.Options{
		LeaderElection: true, LeaderElectionID: o.LeaderElectionID, LeaderElectionNamespace: o.LeaderElectionNamespace,
		RenewDeadline: *o.RenewDeadline,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("set up leader election: %w", err)
	}
	f := newFence(*o.RenewDeadline)
	o.LeaderElectionResourceLockInterface = &fencedLock{Interface: lock, fence: f, lead: lead}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(f.guard)
	mgr, err := ctrl.NewManager(cfg, o)
	if err != nil {
		return nil, nil, err
	}
	events.EventRecorder = mgr.GetEventRecorderFor(lock.Identity()) //nolint:staticcheck // the lock's kind of recorder
	return mgr, f, nil
}

// lateRecorder gives the lock its event recorder after the lock was created: the manager needs the lock, and only the manager has the
// recorder.
type lateRecorder struct{ record.EventRecorder }

var _ recorder.Provider = &lateRecorder{}

func (r *lateRecorder) GetEventRecorderFor(string) record.EventRecorder { return r }

func (r *lateRecorder) GetEventRecorder(string) recorder.EventRecorder { return nil } // locks use the other interface for recorders
