// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"time"
)

// elect stands for election when the master has failed and the data is young enough.
func (s *server) elect() {
	me := s.me()
	m := s.peers[me.masterID]
	if me.master || m == nil || !m.fail || s.count(m.id) == 0 || !s.synced || s.w.now-s.lostLink > 10*time.Second+2*simTimeout {
		s.electAt = 0
		return
	}
	if s.electAt == 0 {
		s.electAt = s.w.now + 500*time.Millisecond + time.Duration(s.w.rnd.IntN(1000))*time.Millisecond
		return
	}
	if s.w.now >= s.electAt {
		s.electAt = s.w.now + 2*simTimeout
		s.ask(false)
	}
}

// ask asks the masters for their votes.
func (s *server) ask(forced bool) bool {
	m := s.me().masterID
	s.current++
	votes, masters := 0, s.sized()
	for _, id := range masters {
		p := s.peers[id]
		if p == nil {
			continue
		}
		v := s.reaches(p)
		if v == nil || v.peers[s.id] == nil || !v.me().master {
			continue
		}
		q := v.peers[m]
		lately, did := v.votedFor[m]
		if v.voted >= s.current || did && s.w.now-lately < 2*simTimeout || !forced && (q == nil || !q.fail) {
			continue
		}
		v.current = max(v.current, s.current)
		v.voted, v.votedFor[m] = s.current, s.w.now
		votes++
	}
	if 2*votes <= len(masters) {
		return false
	}
	s.takeOver(s.current)
	return true
}

// takeOver makes a replica the master in its master's place, and tells everybody.
func (s *server) takeOver(epoch uint64) {
	old := s.me().masterID
	me := s.me()
	me.master, me.masterID, me.epoch = true, "", epoch
	s.masterHost, s.electAt, s.linked = "", 0, false
	s.replid, s.former = s.w.newName(), s.replid
	idx, to := s.w.index[old], s.idx()
	for slot := range s.slotOf {
		if s.slotOf[slot] == idx {
			s.give(slot, to)
		}
	}
	s.w.logf("%s becomes master in place of %s", short(s.id), short(old))
	s.broadcast()
}

func (s *server) broadcast() {
	for _, p := range s.known() {
		if other := s.reaches(p); other != nil && other != s && other.peers[s.id] != nil {
			other.hear(s)
		}
	}
}

// replicateData copies what answers at its master's address, some ticks late, and all of it after a new link.
func (s *server) replicateData() {
	if s.me().master {
		return
	}
	m := s.w.byIP[s.masterHost]
	serves := m != nil && m != s && m.alive() && (m.me().master || m.linked && m.synced)
	if !serves || s.w.now < s.noLinkUntil || !s.isAdmitted(m) {
		if s.linked {
			s.linked, s.lostLink = false, s.w.now
		}
		return
	}
	if !s.linked {
		s.linked, s.syncUntil = true, s.w.now+time.Duration(100+s.w.rnd.IntN(400))*time.Millisecond
	}
	if s.w.now < s.syncUntil || s.synced && s.w.rnd.IntN(3) == 0 {
		return
	}
	s.copyFrom(m)
}

// isAdmitted reports whether a server takes a replica: it has the user of its own shard alone, and that not while it is new.
func (s *server) isAdmitted(m *server) bool {
	return (m.user == s.user || s.w.isWithout("user")) && (m.admits || s.w.isWithout("admission"))
}

func (s *server) copyFrom(m *server) {
	s.synced, s.linkedOnce = true, true
	s.data = maps.Clone(m.data)
	s.offset, s.functions = m.offset, m.functions
	switch s.replid {
	case m.replid:
	case m.former:
		s.former, s.replid = s.replid, m.replid
	default:
		s.former, s.replid = "", m.replid
	}
}

func short(id string) string {
	if len(id) > 6 {
		return id[:6]
	}
	return id
}

// write has a client write some keys. It is told where to by the owner, and asks where it is sent.
func (w *world) write() {
	for range 4 {
		key := w.keys[w.rnd.IntN(len(w.keys))]
		slot := slotOfKey(key)
		var owners []*server
		for _, s := range w.servers {
			if s.alive() && s.me().master && s.owns(slot) && s.ok() {
				owners = append(owners, s)
			}
		}
		if len(owners) == 0 {
			continue
		}
		s := owners[w.rnd.IntN(len(owners))]
		if w.now < s.queueUntil {
			continue
		}
		if _, has := s.data[key]; !has && s.moving[slot] != "" {
			i := slices.IndexFunc(w.servers, func(o *server) bool { return o.alive() && o.id == s.moving[slot] })
			if i < 0 || w.servers[i].imports[slot] == "" && !w.servers[i].owns(slot) {
				continue
			}
			s = w.servers[i]
		}
		s.data[key] = w.acked[key] + 1
		s.offset += 10
		w.acked[key]++
	}
}
