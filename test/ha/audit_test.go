// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

package ha_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// audit is the API server's audit log. All its times come from one clock.
type audit struct {
	path string

	mu      sync.Mutex
	offset  int64 // number of bytes that were read
	stories map[string]*story
}

// entry is one write that the API server has carried out.
type entry struct {
	by             string // the replica
	what           string
	received, done time.Time
}

func (e entry) String() string {
	return fmt.Sprintf("%s by %s at %s", e.what, e.by, e.received.Format("05.000"))
}

// term is the time for which a replica holds the Lease. It ends when the next term begins.
type term struct {
	holder string // empty: released
	since  time.Time
}

// story is the part of the audit log about a namespace.
type story struct {
	writes []entry
	terms  []term
}

// story returns the part of the log about a namespace up to now.
func (a *audit) story(namespace string) (story, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.read(); err != nil {
		return story{}, fmt.Errorf("read the audit log: %w", err)
	}
	s := a.stories[namespace]
	if s == nil {
		return story{}, nil
	}
	// The lines are in the order of the answers, not in the order of the requests.
	slices.SortStableFunc(s.writes, func(a, b entry) int { return a.received.Compare(b.received) })
	slices.SortStableFunc(s.terms, func(a, b term) int { return a.since.Compare(b.since) })
	return story{slices.Clone(s.writes), slices.Clone(s.terms)}, nil
}

// read continues where the last call stopped.
func (a *audit) read() error {
	file, err := os.Open(a.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the rest of an incomplete line is read later
		}
		if err != nil {
			return err
		}
		a.offset += int64(len(line))
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return err
		}
		// The impersonated user identifies the replica.
		if event.ImpersonatedUser == nil || event.ObjectRef == nil || event.ResponseStatus == nil || event.ResponseStatus.Code >= 300 {
			continue
		}
		if a.stories[event.ObjectRef.Namespace] == nil {
			a.stories[event.ObjectRef.Namespace] = &story{}
		}
		if err := a.stories[event.ObjectRef.Namespace].add(&event); err != nil {
			return err
		}
	}
}

func (s *story) add(event *auditv1.Event) error {
	by, ref := event.ImpersonatedUser.Username, event.ObjectRef
	switch ref.Resource {
	case "leases":
		lease := coordinationv1.Lease{}
		if err := json.Unmarshal(event.RequestObject.Raw, &lease); err != nil {
			return fmt.Errorf("read a Lease in the audit log: %w", err)
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			by = ""
		}
		s.terms = append(s.terms, term{by, event.StageTimestamp.Time})
	default:
		s.writes = append(s.writes, entry{
			by: by, what: strings.Trim(fmt.Sprintf("%s %s/%s/%s", event.Verb, ref.Resource, ref.Name, ref.Subresource), "/"),
			received: event.RequestReceivedTimestamp.Time, done: event.StageTimestamp.Time,
		})
	}
	return nil
}

// holder returns the replica that holds the Lease at a point in time. A replica stays the holder after its Lease has
// expired until another replica acquires the Lease, or it releases the Lease.
func (s story) holder(at time.Time) string {
	holder := ""
	for _, t := range s.terms {
		if t.since.After(at) {
			break
		}
		holder = t.holder
	}
	return holder
}

// doubles returns the writes that the API server received from a replica while another replica held the Lease, or after
// the replica had released it. There is no tolerance: both times are the API server's.
func (s story) doubles() (found []entry) {
	for _, w := range s.writes {
		if s.holder(w.received) != w.by {
			found = append(found, w)
		}
	}
	return found
}

// taken returns the time when the first other replica acquired the Lease after a point in time.
func (s story) taken(from string, after time.Time) (time.Time, bool) {
	for _, t := range s.terms {
		if t.since.After(after) && t.holder != "" && t.holder != from {
			return t.since, true
		}
	}
	return time.Time{}, false
}

// worked returns the time of the first write of another replica after a point in time.
func (s story) worked(from string, after time.Time) (time.Time, bool) {
	for _, w := range s.writes {
		if w.received.After(after) && w.by != from {
			return w.done, true
		}
	}
	return time.Time{}, false
}
