// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package writer prevents two clusters from writing to the same folder of a store. Each cluster records its ID there, and the time until
// which it may write.
package writer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Role is the task of a writer. One writer may have several roles at the same time.
type Role string

// The roles.
const (
	Archive Role = "archive"
	Backup  Role = "backup"
)

// claim is the record of a role in the store.
type claim struct {
	Format int `json:"format"`
	// Writer identifies the resource whose data is written, such as by its UID; empty if the caller gave none.
	Writer string `json:"writer,omitempty"`
	// Process identifies the agent's process.
	Process string `json:"process"`
	// Until is the time at which the claim expires if the agent does not release it; zero after a release.
	Until time.Time `json:"until,omitzero"`
	// Since is the time at which the writer took the role.
	Since time.Time `json:"since"`
	// Former are the earlier writers with this role.
	Former []string `json:"former,omitempty"`
}

// mostFormer limits the number of recorded former writers.
const mostFormer = 20

// process identifies this process.
var process = func() string {
	random := [8]byte{}
	_, _ = rand.Read(random[:]) // cannot fail
	return fmt.Sprintf("%x", random)
}()

// Lease is a claim of this process.
type Lease struct {
	store  store.Store
	role   Role
	length time.Duration
	claim  claim
}

func name(role Role) string { return "writers/" + string(role) + ".json" }

// Take claims a role for a writer. It fails with Refused while another writer has a claim. It also fails if another writer has replaced
// this writer: two clusters that alternate would remove each other's backups.
func Take(ctx context.Context, s store.Store, role Role, writer string, length time.Duration) (*Lease, error) {
	l := &Lease{store: s, role: role, length: length, claim: claim{Format: manifest.Format, Writer: writer, Process: process, Since: time.Now().UTC().Truncate(time.Second)}}
	for _, other := range []Role{Archive, Backup} {
		c, err := read(ctx, s, other)
		if err != nil {
			return nil, err
		}
		if c == nil {
			continue
		}
		if err := c.refuses(s, other, role, writer); err != nil {
			return nil, err
		}
		former := c.Former
		switch {
		case c.Writer == writer && other == role:
			l.claim.Since = c.Since
		case c.Writer != writer && c.Writer != "":
			former = append(former, c.Writer)
		}
		for _, one := range former {
			if !slices.Contains(l.claim.Former, one) && one != writer {
				l.claim.Former = append(l.claim.Former, one)
			}
		}
	}
	l.claim.Former = l.claim.Former[max(0, len(l.claim.Former)-mostFormer):]
	if err := l.Renew(ctx); err != nil {
		return nil, err
	}
	return l, l.replace(ctx)
}

// replace removes the claim of the other role if an earlier writer made it.
func (l *Lease) replace(ctx context.Context) error {
	for _, other := range []Role{Archive, Backup} {
		c, err := read(ctx, l.store, other)
		if err == nil && other != l.role && c != nil && slices.Contains(l.claim.Former, c.Writer) {
			err = l.store.Delete(ctx, name(other))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuses returns an error if this claim prevents a writer from taking a role.
func (c *claim) refuses(s store.Store, of, role Role, writer string) error {
	isOther := c.Writer != "" && writer != "" && c.Writer != writer
	isUnnamed := (c.Writer == "" || writer == "") && of == role && c.Process != process
	const remedy = "two databases must not share a prefix: give each database its own destination"
	switch {
	case (isOther || isUnnamed) && time.Now().Before(c.Until):
		return contract.Errorf(contract.ReasonRefused, "another agent (%s of %s) is writing to %s: %s", of, c.who(), s, remedy)
	case isOther && slices.Contains(c.Former, writer):
		return contract.Errorf(contract.ReasonRefused, "%s has taken over %s from resource %s at %s, and both write there: %s. To give the place back to the former resource, delete object %s", c.who(), s, writer,
			c.Since.Format(time.RFC3339), remedy, name(of))
	}
	return nil
}

func (c *claim) who() string {
	if c.Writer == "" {
		return "process " + c.Process
	}
	return "resource " + c.Writer
}

// Check fails with Refused if another writer has a claim: this writer must not remove the other writer's objects.
func Check(ctx context.Context, s store.Store, writer string) error {
	for _, role := range []Role{Archive, Backup} {
		c, err := read(ctx, s, role)
		if err != nil {
			return err
		}
		if c != nil && writer != "" && c.Writer != "" && c.Writer != writer {
			return contract.Errorf(contract.ReasonRefused, "%s has been written to by another writer since %s (%s): nothing is removed. Two databases must not share a prefix", s, c.Since.Format(time.RFC3339), c.who())
		}
	}
	return nil
}

// read returns the claim of a role; nil for none. An unreadable claim counts as an incomplete write.
func read(ctx context.Context, s store.Store, role Role) (*claim, error) {
	text, err := store.ReadAll(ctx, s, name(role))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the writer of %s: %w", s, err)
	}
	c := &claim{}
	if json.Unmarshal(text, c) != nil {
		return nil, nil //nolint:nilerr // a write that was not completed claims nothing
	}
	return c, nil
}

// Renew extends the lease. It fails with Refused if another process has taken the role.
func (l *Lease) Renew(ctx context.Context) error {
	if c, err := read(ctx, l.store, l.role); err != nil {
		return err
	} else if c != nil && !l.claim.Until.IsZero() && c.Process != process && (c.Writer != l.claim.Writer || c.Writer == "") && time.Now().Before(c.Until) {
		return contract.Errorf(contract.ReasonRefused, "another agent (%s of %s) also writes to %s: two databases must not share a prefix", l.role, c.who(), l.store)
	}
	l.claim.Until = time.Now().UTC().Add(l.length).Truncate(time.Second)
	return l.write(ctx)
}

// Keep renews the lease until stop is called, which releases the lease. It calls lost if another process has taken the role.
func (l *Lease) Keep(ctx context.Context, lost func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(l.length / 4):
				if err := l.Renew(ctx); err != nil && contract.ReasonOf(err) == contract.ReasonRefused {
					lost(err)
				} // a later attempt may succeed; otherwise the claim expires
			}
		}
	}()
	return func() {
		cancel()
		<-done
		l.Release(context.WithoutCancel(ctx))
	}
}

// Release records that the process has ended, so that the next process need not wait.
func (l *Lease) Release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if c, err := read(ctx, l.store, l.role); err != nil || c != nil && c.Process != process {
		return // the claim expires, or another writer has it
	}
	l.claim.Until = time.Time{}
	_ = l.write(ctx) // if this fails, the claim expires
}

func (l *Lease) write(ctx context.Context) error {
	text, err := manifest.Encode(&l.claim)
	if err != nil {
		return err
	}
	if err := l.store.Replace(ctx, name(l.role), text); err != nil {
		return fmt.Errorf("record the writer of %s: %w", l.store, err)
	}
	return nil
}
