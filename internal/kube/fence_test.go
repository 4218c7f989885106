// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"gotest.tools/v3/assert"
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

// candidate is a replica with a lock on that Lease.
type candidate struct {
	*fencedLock

	lease *fakeLock
}

func TestCandidatesTakeOverWithinTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		retry      time.Duration
		says, want int // seconds
	}{
		"the defaults":                             {750 * time.Millisecond, 15, 11},
		"a short retry period":                     {10 * time.Millisecond, 15, 14},
		"a lease of a replica with other settings": {750 * time.Millisecond, 60, 56},
		"released":                                 {750 * time.Millisecond, 1, 1},
	} {
		lock := &fencedLock{Interface: &fakeLock{lease: resourcelock.LeaderElectionRecord{LeaseDurationSeconds: c.says}}, lead: leadOf(c.retry)}
		lease, _, err := lock.Get(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, lease.LeaseDurationSeconds, c.want, name)
	}
}

func TestFence(t *testing.T) {
	mine, free := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}, resourcelock.LeaderElectionRecord{}
	const deadline = 10 * time.Second
	start := time.Now()
	// renew renews the lease, and then lets some time pass.
	renew := func(c *candidate, passes time.Duration) error {
		err := c.Update(t.Context(), mine)
		c.fence.now = func() time.Time { return start.Add(passes) }
		return err
	}
	for name, test := range map[string]struct {
		do          func(c *candidate) error // the last request of the candidate
		fails, open bool
	}{
		"never led":                {do: func(*candidate) error { return nil }},
		"acquired":                 {do: func(c *candidate) error { return c.Create(t.Context(), mine) }, open: true},
		"just in time":             {do: func(c *candidate) error { return renew(c, deadline-1) }, open: true},
		"frozen past the deadline": {do: func(c *candidate) error { return renew(c, deadline) }},
		"suspended with its machine": {do: func(c *candidate) error {
			err := renew(c, 0)
			c.fence.now = func() time.Time { return start.Round(0).Add(deadline) }
			return err
		}},
		"frozen, then renewed": {do: func(c *candidate) error {
			assert.NilError(t, renew(c, time.Hour))
			return renew(c, time.Hour)
		}, open: true},
		"released": {do: func(c *candidate) error {
			assert.NilError(t, renew(c, 0))
			return c.Update(t.Context(), free)
		}},
		"not acquired": {do: func(c *candidate) error {
			c.lease.err = errors.New("conflict")
			return c.Create(t.Context(), mine)
		}, fails: true},
		"failed to renew": {do: func(c *candidate) error {
			assert.NilError(t, renew(c, deadline))
			c.lease.err = errors.New("conflict")
			return renew(c, deadline)
		}, fails: true},
		"taken over, and not released": {do: func(c *candidate) error {
			assert.NilError(t, renew(c, 0))
			c.lease.lease.HolderIdentity = "another"
			_, _, err := c.Get(t.Context())
			assert.NilError(t, err)
			return c.Update(t.Context(), free)
		}, fails: true},
		"released, without an answer": {do: func(c *candidate) error {
			assert.NilError(t, renew(c, 0))
			c.lease.err = errors.New("no answer")
			return c.Update(t.Context(), free)
		}, fails: true},
	} {
		f, lease := newFence(deadline), &fakeLock{}
		f.now = func() time.Time { return start }
		err := test.do(&candidate{&fencedLock{Interface: lease, fence: f}, lease})
		assert.Equal(t, err != nil, test.fails, "%s: %v", name, err)
		for _, request := range []struct {
			method, path string
			harmless     bool
		}{
			{http.MethodGet, "/api/v1/namespaces/a/secrets/b", true},
			{http.MethodPost, "/api/v1/namespaces/a/events", true},
			{http.MethodPatch, "/apis/events.k8s.io/v1/namespaces/a/events/b", true},
			{http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", true},
			{http.MethodPatch, "/apis/apps/v1/namespaces/a/deployments/b", false},
			{http.MethodPost, "/api/v1/namespaces/a/secrets", false},
			{http.MethodPut, "/api/v1/namespaces/a/services/events", false},
			{http.MethodDelete, "/api/v1/namespaces/events/services/b", false},
		} {
			sent := false
			guarded := f.guard(roundTripper{do: func(*http.Request) (*http.Response, error) { sent = true; return &http.Response{}, nil }})
			r, err := http.NewRequestWithContext(t.Context(), request.method, "https://example"+request.path, http.NoBody)
			assert.NilError(t, err)
			_, err = guarded.RoundTrip(r) //nolint:bodyclose // there is none
			assert.Equal(t, sent, request.harmless || test.open, "%s: %s %s", name, request.method, request.path)
			assert.Equal(t, err == nil, sent, "%s: %v", name, err)
		}
	}
}
