// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

var errNotLeading = errors.New("not sent: the lease that allows this replica to write was not renewed in time")

// fence lets a replica write only while it knows that no other one may lead. Leader election alone
// does not: a process that has slept past its lease (a frozen container, a suspended machine) goes
// on with what it was doing, and gives up only when it has failed to renew for the whole of the
// renew deadline.
//
// A write may leave until the renew deadline after the last successful renewal was begun. Others
// wait for the lease duration after they saw that renewal, so the difference between the two is
// left for requests that are under way.
type fence struct {
	deadline time.Duration
	now      func() time.Time

	mu      sync.Mutex
	renewed time.Time // zero: does not lead
}

func newFence(deadline time.Duration) *fence { return &fence{deadline: deadline, now: time.Now} }

func (f *fence) set(renewed time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = renewed
}

// open tells whether a write may leave now.
func (f *fence) open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.IsZero() {
		return false
	}
	// The monotonic clock stands still while a machine is suspended, the other one may be set: the
	// longer time counts.
	now := f.now()
	return max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0))) < f.deadline
}

// guard is a transport that refuses writes while the fence is closed.
func (f *fence) guard(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if harmless(r) || f.open() {
			return next.RoundTrip(r)
		}
		if r.Body != nil {
			_ = r.Body.Close() // it was not read
		}
		return nil, errNotLeading
	})
}

// harmless: reads, events, and the reviews of who reads the metrics, which a standby makes too.
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

type roundTripper func(*http.Request) (*http.Response, error)

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// fencedLock opens the fence with every renewal of the Lease and closes it when it is given back.
type fencedLock struct {
	resourcelock.Interface
	fence *fence
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
		l.fence.set(begun) // whatever comes of it
	}
	err := do(ctx, lease)
	if err == nil {
		l.fence.set(begun)
	}
	return err
}

// newManager is ctrl.NewManager; with leader election, the manager's clients write within the
// lease only.
func newManager(cfg *rest.Config, o ctrl.Options) (ctrl.Manager, error) {
	if !o.LeaderElection {
		return ctrl.NewManager(cfg, o)
	}
	events := &lateRecorder{}
	lock, err := leaderelection.NewResourceLock(cfg, events, leaderelection.Options{
		LeaderElection: true, LeaderElectionID: o.LeaderElectionID, LeaderElectionNamespace: o.LeaderElectionNamespace,
		RenewDeadline: *o.RenewDeadline,
	})
	if err != nil {
		return nil, fmt.Errorf("set up leader election: %w", err)
	}
	f := newFence(*o.RenewDeadline)
	o.LeaderElectionResourceLockInterface = &fencedLock{lock, f}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(f.guard)
	mgr, err := ctrl.NewManager(cfg, o)
	if err != nil {
		return nil, err
	}
	events.EventRecorder = mgr.GetEventRecorderFor(lock.Identity()) //nolint:staticcheck // the lock's kind of recorder
	return mgr, nil
}

// lateRecorder gives a lock, which the manager needs, the recorder that only the manager has.
type lateRecorder struct{ record.EventRecorder }

var _ recorder.Provider = &lateRecorder{}

func (r *lateRecorder) GetEventRecorderFor(string) record.EventRecorder { return r }

func (r *lateRecorder) GetEventRecorder(string) recorder.EventRecorder { return nil } // locks have the other kind
