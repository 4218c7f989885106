// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// fakeLock is a Lease without an API server.
type fakeLock struct {
	resourcelock.Interface
	lease resourcelock.LeaderElectionRecord
	err   error
}

func (l *fakeLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &l.lease, nil, l.err
}

func (*fakeLock) Identity() string { return "me" }

func (l *fakeLock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }
func (l *fakeLock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

func TestCandidatesTakeOverWithinTheLease(t *testing.T) {
	for _, c := range []struct {
		name       string
		retry      time.Duration
		says, want int // seconds
	}{
		{"the defaults", 750 * time.Millisecond, 15, 11},
		{"often", 10 * time.Millisecond, 15, 14},
		{"of a replica with other settings", 750 * time.Millisecond, 60, 56},
		{"given back", 750 * time.Millisecond, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			lock := &fencedLock{Interface: &fakeLock{lease: resourcelock.LeaderElectionRecord{LeaseDurationSeconds: c.says}}, lead: leadOf(c.retry)}
			lease, _, err := lock.Get(t.Context())
			succeed(t, err)
			if lease.LeaseDurationSeconds != c.want {
				t.Errorf("a lease of %d s counts as one of %d s, want %d", c.says, lease.LeaseDurationSeconds, c.want)
			}
		})
	}
}

func TestFence(t *testing.T) {
	mine, free := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}, resourcelock.LeaderElectionRecord{}
	const deadline = 10 * time.Second
	start := time.Now()
	for _, c := range []struct {
		name string
		do   func(t *testing.T, f *fence, l *fencedLock)
		open bool
	}{
		{"never led", func(*testing.T, *fence, *fencedLock) {}, false},
		{"acquired", func(t *testing.T, _ *fence, l *fencedLock) { succeed(t, l.Create(t.Context(), mine)) }, true},
		{"not acquired", func(t *testing.T, _ *fence, l *fencedLock) {
			l.Interface.(*fakeLock).err = errors.New("conflict")
			if l.Create(t.Context(), mine) == nil {
				t.Error("no error")
			}
		}, false},
		{"just in time", func(t *testing.T, f *fence, l *fencedLock) {
			succeed(t, l.Update(t.Context(), mine))
			f.now = func() time.Time { return start.Add(deadline - 1) }
		}, true},
		{"slept", func(t *testing.T, f *fence, l *fencedLock) {
			succeed(t, l.Update(t.Context(), mine))
			f.now = func() time.Time { return start.Add(deadline) }
		}, false},
		{"slept with its machine", func(t *testing.T, f *fence, l *fencedLock) {
			succeed(t, l.Update(t.Context(), mine))
			f.now = func() time.Time { return start.Round(0).Add(deadline) }
		}, false},
		{"slept, renewed", func(t *testing.T, f *fence, l *fencedLock) {
			succeed(t, l.Update(t.Context(), mine))
			f.now = func() time.Time { return start.Add(time.Hour) }
			succeed(t, l.Update(t.Context(), mine))
		}, true},
		{"failed to renew", func(t *testing.T, f *fence, l *fencedLock) {
			succeed(t, l.Update(t.Context(), mine))
			f.now = func() time.Time { return start.Add(deadline) }
			l.Interface.(*fakeLock).err = errors.New("conflict")
			if l.Update(t.Context(), mine) == nil {
				t.Error("no error")
			}
		}, false},
		{"given back", func(t *testing.T, _ *fence, l *fencedLock) {
			succeed(t, l.Update(t.Context(), mine))
			succeed(t, l.Update(t.Context(), free))
		}, false},
		{"taken over, and not given back", func(t *testing.T, _ *fence, l *fencedLock) {
			succeed(t, l.Update(t.Context(), mine))
			l.Interface.(*fakeLock).lease.HolderIdentity = "another"
			_, _, err := l.Get(t.Context())
			succeed(t, err)
			if l.Update(t.Context(), free) == nil {
				t.Error("it gave back another's")
			}
		}, false},
		{"given back, perhaps", func(t *testing.T, _ *fence, l *fencedLock) {
			succeed(t, l.Update(t.Context(), mine))
			l.Interface.(*fakeLock).err = errors.New("no answer")
			if l.Update(t.Context(), free) == nil {
				t.Error("no error")
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFence(deadline)
			f.now = func() time.Time { return start }
			c.do(t, f, &fencedLock{Interface: &fakeLock{}, fence: f})
			sent := 0
			guarded := f.guard(roundTripper{do: func(*http.Request) (*http.Response, error) { sent++; return &http.Response{}, nil }})
			for _, harmless := range []struct{ method, path string }{
				{http.MethodGet, "/api/v1/namespaces/a/secrets/b"},
				{http.MethodPost, "/api/v1/namespaces/a/events"},
				{http.MethodPatch, "/apis/events.k8s.io/v1/namespaces/a/events/b"},
				{http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews"},
			} {
				succeed(t, send(t, guarded, harmless.method, harmless.path))
			}
			if sent != 4 {
				t.Errorf("%d of 4 harmless requests were sent", sent)
			}
			sent = 0
			for _, write := range []struct{ method, path string }{
				{http.MethodPatch, "/apis/apps/v1/namespaces/a/deployments/b"},
				{http.MethodPost, "/api/v1/namespaces/a/secrets"},
				{http.MethodPut, "/api/v1/namespaces/a/services/events"},
				{http.MethodDelete, "/api/v1/namespaces/events/services/b"},
			} {
				if err := send(t, guarded, write.method, write.path); (err == nil) != c.open {
					t.Errorf("%s %s: %v", write.method, write.path, err)
				}
			}
			if (sent == 4) != c.open || !c.open && sent > 0 {
				t.Errorf("%d of 4 writes were sent", sent)
			}
		})
	}
}

func send(t *testing.T, through http.RoundTripper, method, path string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "https://example"+path, http.NoBody)
	succeed(t, err)
	_, err = through.RoundTrip(request) //nolint:bodyclose // there is none
	return err
}

func succeed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
