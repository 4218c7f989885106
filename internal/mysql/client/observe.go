// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"slices"
	"time"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
	"d3os.com/d3os-operator/internal/mysql/replication"
)

const (
	// silentAfter is the number of consecutive failed queries after which a member is silent. Events may cause several queries within
	// milliseconds. Therefore a query counts only if some time has passed since the last query that counted.
	silentAfter = 3
	countAfter  = 400 * time.Millisecond
	// badAfter is the time after which a useless member counts as bad. blockedAfter is the time without any commit
	// after which waiting commits count as blocked.
	badAfter     = 10 * time.Second
	blockedAfter = 5 * time.Second
	// retryAfter is the interval at which a silent member is queried for LookTime, because its answers may need more than
	// silentTime. A failover ends before that: the query would delay it by LookTime.
	retryAfter = 20 * time.Second
)

// Pod describes a member's pod according to Kubernetes.
type Pod struct {
	Ordinal int
	UID     string
	// Ticket is the ticket in the pod's annotation.
	Ticket         string
	Outdated, Down bool
	// WellFor is the time for which the pod has been ready without a restart. Ended describes the last termination of a container.
	WellFor time.Duration
	Ended   string
	// Routed reports whether the Service selects the pod.
	Routed bool
}

// Look is the result of one query of a member: its pod, and either the answer of its agent or an error.
type Look struct {
	Pod    Pod
	Answer mysqlmember.Answer
	Err    error
}

// Observer measures the time for which members have been silent or bad. A new operator starts to measure from zero.
type Observer struct {
	// MaxLag is the lag in seconds above which a voter is useless.
	MaxLag int

	members map[int]*memory
}

// memory stores when a member began to be silent, bad or blocked. The times are zero while the member is healthy.
type memory struct {
	failed  int
	counted time.Time
	// tried is the time of the last query with the limit LookTime, while the member is silent.
	tried        time.Time
	bad, blocked time.Time
	// executed stores the executed transactions from the agent's last answer. It is needed only for older agents.
	executed string
}

// Observe computes the observation from the results of new queries, which are sorted by ordinal.
func (o *Observer) Observe(record replication.Record, looks []Look, now time.Time) replication.Observation {
	if o.members == nil {
		o.members = map[int]*memory{}
	}
	var cut []int
	for _, l := range looks {
		if l.Pod.Ordinal == record.Primary.Ordinal && l.Err == nil && l.Answer.State != nil {
			cut = l.Answer.State.Cut
		}
	}
	all := replication.Observation{Record: record}
	for _, l := range looks {
		if o.members[l.Pod.Ordinal] == nil {
			o.members[l.Pod.Ordinal] = &memory{}
		}
		all.Members = append(all.Members, o.member(l, o.members[l.Pod.Ordinal], record, cut, now))
	}
	return all
}

// Patience returns the time limit of the next query of a member.
func (o *Observer) Patience(ordinal int, now time.Time) time.Duration {
	past := o.members[ordinal]
	switch {
	case past == nil || past.failed == 0:
		return LookTime
	case past.failed < silentAfter:
		return RetryTime
	case now.Sub(past.tried) >= retryAfter:
		past.tried = now
		return LookTime
	}
	return silentTime
}

func (o *Observer) member(l Look, past *memory, record replication.Record, cut []int, now time.Time) replication.Member {
	m := replication.Member{
		Identity: replication.Identity{Ordinal: l.Pod.Ordinal}, UID: l.Pod.UID, Ticket: l.Pod.Ticket, Outdated: l.Pod.Outdated, Down: l.Pod.Down, WellFor: l.Pod.WellFor, Ended: l.Pod.Ended, Routed: l.Pod.Routed,
	}
	if l.Err == nil {
		answered(&m, l.Answer)
		if record.Formed && m.SourceServer != "" && m.SourceServer != record.Primary.Server {
			m.Connected, m.CaughtUp = false, false // the member receives from another server
		}
	}
	if m.Volume == replication.VolumeSingle && record.Formed {
		m.Volume = replication.VolumeForeign // the data of a single server never counts as a member's data
	}
	isUnread := m.Answers && m.Volume == "" // the agent cannot read its volume
	if failed := l.Err != nil || isUnread || m.Volume == replication.VolumeOwn && !m.Running; !failed {
		past.failed = 0
	} else if past.failed == 0 || now.Sub(past.counted) >= countAfter {
		past.failed++
		past.counted = now
		if past.failed == silentAfter {
			past.tried = now
		}
	}
	m.Silent = past.failed >= silentAfter
	isBad := !m.Running || isUnread
	if isReplica := m.Ordinal != record.Primary.Ordinal; !isBad && isReplica {
		isRefused := slices.Contains(cut, m.Ordinal) && past.bad.IsZero() // the connection is missing because the primary refuses the member
		isBad = o.isUseless(l.Answer.State, m.Connected, isRefused)
	}
	m.Bad = lasts(&past.bad, isBad, now, badAfter)
	past.judgeCommits(&m, l.Answer.State, now)
	return m
}

// judgeCommits sets whether commits of a primary wait or are blocked, from the agent's report. An older agent does not
// report this: judgeCommits then compares the executed transactions in two answers of the agent.
func (past *memory) judgeCommits(m *replication.Member, s *mysqlmember.State, now time.Time) {
	if m.Running && s.Commits != "" {
		if m.Busy = s.Commits == mysqlmember.CommitsBusy; m.Busy {
			m.Waiting = 0
		}
		m.Blocked = s.Commits == mysqlmember.CommitsWait && s.Stalled >= blockedAfter.Milliseconds()
		return
	}
	executed := ""
	if m.Running {
		executed = s.Executed
	}
	if past.executed != "" && executed != past.executed {
		m.Busy, m.Waiting = m.Waiting > 0, 0 // an older agent: some commits wait at each query, although others complete in between
	}
	m.Blocked = lasts(&past.blocked, m.Waiting > 0, now, blockedAfter)
	past.executed = executed
}

// isUseless reports whether a replica does not follow the primary, or applies transactions too late.
func (o *Observer) isUseless(s *mysqlmember.State, isConnected, isRefused bool) bool {
	return s.Problem != "" || s.Lag > o.MaxLag || !isConnected && !isRefused
}

// lasts reports whether a condition has been true for at least a given duration (long). The caller passes the present
// state of the condition (is). since stores the time at which the condition became true.
func lasts(since *time.Time, is bool, now time.Time, long time.Duration) bool {
	switch {
	case !is:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
	return is && now.Sub(*since) >= long
}

// answered sets the fields of a member from its agent's answer. If the set of transactions cannot be parsed, the server counts as not
// running.
func answered(m *replication.Member, a mysqlmember.Answer) {
	m.Answers, m.Volume, m.Mark, m.Instance, m.Server = true, a.Volume, a.Mark, a.Instance, a.Server
	m.Promised, m.Revision, m.UsedTicket, m.FailedTicket, m.Orders = a.Promised, a.Revision, a.Ticket, a.Failed, a.Orders
	m.Failing = a.State == nil && a.Volume == replication.VolumeOwn && a.Problem != "" && a.Making == ""
	s := a.State
	if s == nil {
		return
	}
	executed, err := replication.ParseGTIDs(s.Executed)
	if err != nil {
		return
	}
	received, err := replication.ParseGTIDs(s.Received)
	if err != nil {
		return
	}
	purged, err := replication.ParseGTIDs(s.Purged)
	if err != nil {
		return
	}
	m.Purged = purged
	m.Running, m.Role, m.Executed, m.Received = true, s.Role, executed, received
	m.Writable, m.Servers, m.Personal, m.Epoch, m.Demands, m.Cut, m.End, m.CutEnd, m.Waiting = s.Writable, s.Servers, s.Personal, s.Epoch, s.Demands, s.Cut, s.End, s.CutEnd, s.Waiting
	m.Source, m.SourceServer, m.Acknowledges, m.Connected, m.ReadTo = s.Source, s.SourceServer, s.Acknowledges, s.Connected, s.ReadTo
	m.Damage = s.Damage
	m.CaughtUp = s.Connected && s.Problem == "" && s.Lag <= 1
}
