// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// as calls f as if another process ran it.
func as(other string, f func()) {
	before := process
	process = other
	defer func() { process = before }()
	f()
}

// Two clusters share a prefix. The second cluster is refused while the first one works. After a takeover, the first one is refused.
func TestTwoWriters(t *testing.T) {
	s, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	take := func(role Role, writer string) (*Lease, contract.Reason) {
		l, err := Take(t.Context(), s, role, writer, time.Hour)
		if err != nil {
			return l, contract.ReasonOf(err)
		}
		return l, ""
	}
	archive, reason := take(Archive, "a")
	assert.Equal(t, reason, contract.Reason(""))
	as("2", func() {
		backup, reason := take(Backup, "a")
		assert.Equal(t, reason, contract.Reason(""), "one writer has both roles at the same time")
		backup.Release(t.Context())
	})
	as("3", func() {
		for _, role := range []Role{Archive, Backup} {
			_, reason := take(role, "b")
			assert.Equal(t, reason, contract.ReasonRefused)
		}
		assert.Equal(t, contract.ReasonOf(Check(t.Context(), s, "b")), contract.ReasonRefused)
	})
	as("4", func() {
		_, reason := take(Archive, "a")
		assert.Equal(t, reason, contract.Reason(""), "a pod that was killed takes its role again immediately")
	})
	archive.Release(t.Context()) // the former process no longer has the claim
	as("4", func() {
		l, _ := take(Archive, "a")
		l.Release(t.Context())
	})
	assert.NilError(t, Check(t.Context(), s, "a"))
	as("5", func() {
		l, reason := take(Backup, "b")
		assert.Equal(t, reason, contract.Reason(""), "a recreated platform takes the role")
		l.Release(t.Context())
		assert.Equal(t, contract.ReasonOf(Check(t.Context(), s, "a")), contract.ReasonRefused)
		assert.NilError(t, Check(t.Context(), s, "b"))
	})
	for _, role := range []Role{Archive, Backup} {
		_, reason = take(role, "a")
		assert.Equal(t, reason, contract.ReasonRefused, "the former writer is refused")
	}
	assert.NilError(t, s.Delete(t.Context(), name(Backup)))
	_, reason = take(Backup, "a")
	assert.Equal(t, reason, contract.Reason(""), "the former writer takes the role after a user has deleted the claim")
}

// If the writers have no names, two processes cannot have the same role at the same time.
func TestWritersWithoutNames(t *testing.T) {
	s, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	l, err := Take(t.Context(), s, Archive, "", time.Hour)
	assert.NilError(t, err)
	assert.NilError(t, l.Renew(t.Context()))
	as("2", func() {
		_, err := Take(t.Context(), s, Archive, "", time.Hour)
		assert.Equal(t, contract.ReasonOf(err), contract.ReasonRefused)
		_, err = Take(t.Context(), s, Backup, "", time.Hour)
		assert.NilError(t, err)
	})
	l.Release(t.Context())
	as("2", func() {
		_, err := Take(t.Context(), s, Archive, "", time.Hour)
		assert.NilError(t, err)
	})
	l.claim.Until = time.Now().Add(-time.Second) // as if the process had been frozen
	assert.Equal(t, contract.ReasonOf(l.Renew(t.Context())), contract.ReasonRefused)
}
