// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "time"

// step lets time pass for all servers.
func (w *world) pass(d time.Duration) {
	for end := w.now + d; w.now < end; {
		w.now += simTick
		for _, s := range w.servers {
			if s.up {
				s.used = w.now
			}
			if s.alive() {
				s.handshakes()
				s.gossip()
				s.detect()
				s.elect()
				s.replicateData()
			}
		}
	}
}

// handshakes end after one tick: the peer is known by its id then, and its address is new.
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

// learn adds a peer that was met, or gives it its new address.
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

// address is what redis does when a peer itself shows up at another address: replication follows.
func (s *server) address(p *peer, ip string) {
	if p.ip != ip {
		p.ip = ip
		if s.me().masterID == p.id {
			s.masterHost, s.linked = ip, false
		}
	}
}

// gossip pings some peers. Both sides learn of each other and of some third ones.
func (s *server) gossip() {
	for _, p := range s.known() {
		if late := s.w.now-p.pong > simTimeout/2; p.id == s.id || !late && s.w.rnd.IntN(5) != 0 {
			continue
		}
		other := s.reaches(p)
		if other == nil {
			// Another node answers there: redis forgets the address, and does not find the node failing any more.
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

// hear takes in the header of a known peer's packet, and its gossip about others.
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
		p.epoch = me.epoch
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
			mine.ip = third.ip // gossip does not point replication anywhere
		}
	}
}

// follow makes the server a replica. Its data stays until its master's is there.
func (s *server) follow(id string) {
	me := s.me()
	me.master, me.masterID = false, id
	s.moving, s.imports = map[int]string{}, map[int]string{}
	s.version++
	s.masterHost, s.linked, s.synced = s.peers[id].ip, false, false
	s.lostLink = s.w.now
	s.electAt = 0
}

// detect marks silent peers, and those that a majority of masters finds silent.
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
