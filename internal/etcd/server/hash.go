// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"slices"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/workers"
)

func isCorrupt(alarm membership.Alarm) bool { return alarm.Kind == membership.AlarmCorrupt }

// hashPods does nothing unless a voter reports the alarm CORRUPT. It then queries each voter for the hash of its keys,
// and adds the hash to the voter's answer.
func (s *Servers) hashPods(ctx context.Context, access Access, pods []membership.Pod) {
	var ips []string
	var answers []*membership.Answer
	alarmed := false
	for i := range pods {
		if a := pods[i].Answer; a != nil && !a.Learner {
			ips, answers = append(ips, pods[i].IP), append(answers, a)
			alarmed = alarmed || slices.ContainsFunc(a.Alarms, isCorrupt)
		}
	}
	if !alarmed {
		return
	}
	for i, hash := range s.hashes(ctx, access, ips) {
		answers[i].Hash = hash
	}
}

// hashes returns the hash of each member's keys, all at the revision that most members have. While the alarm CORRUPT is
// raised, no member accepts writes, so all correct members have that revision. The hash is nil for a member that does
// not answer or does not report the alarm.
func (s *Servers) hashes(ctx context.Context, access Access, ips []string) []*membership.Hash {
	hashes := make([]*membership.Hash, len(ips))
	each(ips, func(i int) {
		within, cancel := context.WithTimeout(ctx, s.options.ReadTimeout)
		defer cancel()
		c, within, err := s.dial(within, access, ips[i])
		if err != nil {
			return
		}
		defer c.Close()
		status, err := c.Status(within, c.Endpoints()[0])
		if err == nil && slices.ContainsFunc(alarmsIn(status.Errors), isCorrupt) {
			hashes[i] = &membership.Hash{Revision: status.Header.Revision}
		}
	})
	counts, at := map[int64]int{}, int64(0)
	for _, hash := range hashes {
		if hash == nil {
			continue
		}
		if counts[hash.Revision]++; counts[hash.Revision] > counts[at] || counts[hash.Revision] == counts[at] && hash.Revision > at {
			at = hash.Revision
		}
	}
	each(ips, func(i int) {
		if hashes[i] == nil {
			return
		}
		if hashes[i].At = at; hashes[i].Revision < at {
			return // the member lacks revisions
		}
		within, cancel := context.WithTimeout(ctx, s.options.DefragTimeout)
		defer cancel()
		c, within, err := s.dial(within, access, ips[i])
		if err != nil {
			hashes[i] = nil
			return
		}
		defer c.Close()
		found, err := c.HashKV(within, c.Endpoints()[0], at)
		if err != nil {
			hashes[i] = nil
			return
		}
		hashes[i].Sum, hashes[i].Compacted = found.Hash, found.CompactRevision
	})
	return hashes
}

// each calls do for all addresses in parallel. It passes a panic on to the caller.
func each(ips []string, do func(i int)) {
	var all workers.Group
	for i := range ips {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// compare proves which voters have the same keys as a quorum now, and which have other keys.
func (t *executor) compare(ctx context.Context) (good, bad []membership.ID, err error) {
	var ips []string
	for _, place := range t.Step.Compared {
		c, _, err := t.prove(ctx, place)
		if err != nil {
			return nil, nil, err
		}
		if err := closeQuietly(c); err != nil {
			return nil, nil, err
		}
		ips = append(ips, place.IP)
	}
	hashes := map[membership.ID]membership.Hash{}
	for i, hash := range t.servers.hashes(ctx, t.Access, ips) {
		if hash != nil {
			hashes[t.Step.Compared[i].Member] = *hash
		}
	}
	voters := 0
	for _, m := range t.Step.Expect {
		if !m.Learner {
			voters++
		}
	}
	good, bad, ok := membership.Compare(hashes, voters)
	if !ok {
		return nil, nil, steps.Refuse("no quorum of the voters has the same keys: %s", describeHashes(hashes))
	}
	return good, bad, nil
}

func describeHashes(hashes map[membership.ID]membership.Hash) string {
	text := ""
	for id, hash := range hashes {
		text += fmt.Sprintf("%s: %08x at revision %d; ", id, hash.Sum, hash.Revision)
	}
	return text
}
