// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"time"
)

// pass advances the time of all servers.
func (w *world) pass(d time.Duration) {
	for end := w.now + d; w.now < end; {
		w.now += simTick
		for _, s := range w.servers {
			if s.alive() {
				if (w.now-s.begun)%simProbe == time.Duration(s.id[0]%10)*time.Second {
					s.probe()
				}
				s.handshakes()
				s.gossip()
				s.detect()
				s.elect()
				s.replicateData()
			}
		}
	}
}

// probe simulates alive.sh: it writes marks and notes to the volume.
func (s *server) probe() {
	s.used = s.w.now
	switch m := s.w.byIP[s.masterHost]; {
	case s.unproven:
		if s.unproven = s.shut && s.me().master; s.unproven && !s.isFollowed() {
			s.proveAlone()
		}
	case !s.me().master:
		if s.linked && s.synced && m != nil && m.shown > 0 {
			s.seenOf, s.seen = m.id, m.shown
		}
	case s.count(s.id) > 0:
		if next := s.neighbor(1); next != nil && next.shown > 0 {
			s.seenOf, s.seen = next.id, next.shown
		}
		s.mark = max(s.mark+1, s.w.now)
		s.shown = s.mark
	}
}

// proveAlone admits replicas of a master without replicas if all other masters with slots answer, and none of them has
// noted a later mark.
func (s *server) proveAlone() {
	for _, id := range s.sized() {
		if id == s.id {
			continue
		}
		p := s.peers[id]
		if p == nil {
			return
		}
		if other := s.reaches(p); other == nil || other.hasLater(s) {
			return
		}
	}
	s.unproven, s.shut, s.admits = false, false, true
}

// neighbor returns the next (by is 1) or the previous (-1) master in the order of ids, or nil if that master is not reached.
func (s *server) neighbor(by int) *server {
	all := s.sized()
	i := slices.Index(all, s.id)
	if i < 0 || len(all) < 2 {
		return nil
	}
	p := s.peers[all[(i+by+len(all))%len(all)]]
	if p == nil {
		return nil
	}
	return s.reaches(p)
}

// hasLater reports whether a server has noted a later mark of another server's volume than that volume has.
func (s *server) hasLater(of *server) bool {
	return s.seenOf == of.id && s.seen > of.mark && !s.w.isWithout("mark")
}

// hasRecent reports whether a server has noted one of the last marks of another server's volume.
func (s *server) hasRecent(of *server) bool {
	return s.seenOf == of.id && s.seen > 0 && of.mark-s.seen <= leastPast && !s.w.isWithout("mark")
}

// handshakes ends each handshake after one tick. Both servers then know each other's id and address.
func (s *server) handshakes() {
	for _, p := range s.known() {
		if p.met == 0 || s.w.now < p.met {
			continue
		}
		delete(s.peers, p.id)
		if other := s.w.byIP[p.ip]; other != nil && other.alive() {
			s.learn(other)
			other.learn(s)
		}
	}
}

// learn adds a peer after MEET, or updates its address.
func (s *server) learn(other *server) {
	if s == other {
		return
	}
	p := s.peers[other.id]
	if p == nil {
		me := other.me()
		s.peers[other.id] = &peer{id: other.id, ip: other.ip, master: me.master, masterID: me.masterID, epoch: me.epoch, pong: s.w.now}
		return
	}
	s.address(p, other.ip)
	p.pong = s.w.now
}

// address simulates a packet that a peer sends from a new address. Redis then also replicates from that address.
func (s *server) address(p *peer, ip string) {
	if p.ip != ip {
		p.ip = ip
		if s.me().masterID == p.id {
			s.masterHost, s.linked = ip, false
		}
	}
}

// gossip pings some peers. Both sides exchange their own state and the state of some other nodes.
func (s *server) gossip() {
	for _, p := range s.known() {
		if late := s.w.now-p.pong > simTimeout/2; p.id == s.id || !late && s.w.rnd.IntN(5) != 0 {
			continue
		}
		other := s.reaches(p)
		if other == nil {
			// If another node answers at the address of the peer, redis drops the address, and does not consider the
			// peer failed any more.
			if stranger := s.w.byIP[p.ip]; p.met == 0 && stranger != nil && stranger.alive() && stranger.id != p.id {
				p.ip = ""
			}
			continue
		}
		if back := other.peers[s.id]; back != nil && back.met == 0 {
			other.address(back, s.ip)
			other.hear(s)
		}
		s.hear(other)
	}
}

// hear applies the header of a known peer's packet, and its gossip about others.
func (s *server) hear(from *server) {
	p := s.peers[from.id]
	if p == nil {
		return
	}
	me := from.me()
	p.pong, p.possibly = s.w.now, false
	if p.fail && (!me.master || s.count(p.id) == 0 || s.w.now-p.failedAt > 2*simTimeout) {
		p.fail = false
	}
	p.master, p.masterID = me.master, me.masterID
	s.current = max(s.current, from.current)
	if me.master {
		p.epoch = max(p.epoch, me.epoch)
		if s.me().master && me.epoch == s.me().epoch && from.id > s.id {
			s.current++
			s.me().epoch = s.current
		}
		s.claims(from)
		s.update(from)
	}
	for _, third := range from.known() {
		mine := s.peers[third.id]
		switch {
		case third.met != 0 || third.id == s.id || s.w.rnd.IntN(2) == 0:
		case mine == nil:
			if other := s.w.byIP[third.ip]; other != nil && other.alive() && other.id == third.id && s.banned[third.id] <= s.w.now {
				s.learn(other)
			}
		case (mine.fail || mine.possibly) && mine.ip != third.ip && !third.fail && !third.possibly:
			mine.ip = third.ip // gossip does not change replication
		}
	}
}

// demote makes a master, or its replica, follow the master to which it has lost all its slots. The server will drop
// writes that it had not replicated.
func (s *server) demote(id string) {
	s.demoted = true
	s.w.demotions++
	s.follow(id)
}

// follow makes the server a replica. The server keeps its data until it gets the data of the master.
func (s *server) follow(id string) {
	me := s.me()
	me.master, me.masterID = false, id
	s.moving, s.imports = map[int]string{}, map[int]string{}
	s.version++
	s.masterHost, s.linked, s.synced = s.peers[id].ip, false, false
	s.lostLink = s.w.now
	s.electAt = 0
}

// detect marks silent peers. A peer that a majority of masters marks is failed.
func (s *server) detect() {
	masters := s.sized()
	for _, p := range s.known() {
		if p.id == s.id || p.met != 0 || p.ip == "" || s.w.now-p.pong <= simTimeout {
			continue
		}
		p.possibly = !p.fail
		votes := 0
		for _, id := range masters {
			if id == s.id {
				votes++
			} else if q := s.peers[id]; q != nil {
				if m := s.reaches(q); m != nil {
					if r := m.peers[p.id]; r != nil && (r.possibly || r.fail) {
						votes++
					}
				}
			}
		}
		if !p.fail && 2*votes > len(masters) {
			p.fail, p.possibly, p.failedAt = true, false, s.w.now
		}
	}
}

// elect starts an election if the master has failed and the data is recent enough.
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

// ask requests the votes of the masters.
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

// takeOver promotes a replica to the place of its master, and broadcasts the promotion.
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

// replicateData copies from the server at its master's address. Some ticks copy nothing, and a new link first needs a
// full synchronization.
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

// isAdmitted reports whether master m accepts this replica. Both need the replication user of the same shard, and on a
// new, empty server that user is disabled.
func (s *server) isAdmitted(m *server) bool {
	return (m.user == s.user || s.w.isWithout("user")) && (m.admits && !m.shut || s.w.isWithout("admission"))
}

func (s *server) copyFrom(m *server) {
	s.synced, s.linkedOnce, s.demoted, s.queueUntil = true, true, false, 0
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

// write makes a client write some keys. The client starts at the owner and follows redirections.
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
			if i < 0 || w.servers[i] == s || w.servers[i].imports[slot] == "" && !w.servers[i].owns(slot) {
				continue
			}
			s = w.servers[i]
		}
		s.data[key] = w.acked[key] + 1
		s.offset += 10
		w.acked[key]++
	}
}
