// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The simulated Redis Cluster consists of servers with views, config epochs, gossip with lag, failure detection, elections, open slots
// and replication. It models everything that Decide can observe. It refuses the commands that Redis refuses, and loses the data that
// Redis loses.

const (
	simTick    = 100 * time.Millisecond
	simTimeout = 2 * time.Second        // cluster-node-timeout
	simProbe   = 10 * time.Second       // between two runs of alive.sh
	simDelay   = 800 * time.Millisecond // CLUSTER_WRITABLE_DELAY, 2 s with a node timeout of 5 s
)

// server is one redis process with its volume.
type server struct {
	w  *world
	id string
	ip string
	up bool // the process runs

	frozen   bool
	peers    map[string]*peer // its view of other nodes and of itself
	slotOf   [Slots]int32     // index into w.ids, plus 1; 0 means no owner
	moving   map[int]string
	imports  map[int]string
	data     map[int]int // key -> the sequence of its last write
	banned   map[string]time.Duration
	current  uint64 // current epoch
	voted    uint64
	votedFor map[string]time.Duration

	masterHost string
	linked     bool
	syncUntil  time.Duration
	synced     bool // the server got its master's data after its start
	lostLink   time.Duration
	offset     int64
	electAt    time.Duration
	settings   map[string]string
	functions  string

	run            string // run id
	begun          time.Duration
	replid, former string
	linkedOnce     bool          // the server has had a link since its start
	user           string        // user of replication: identifies cluster and shard
	admits         bool          // other servers may replicate from this server; false for a new, empty node
	damaged        bool          // its file is damaged
	demoted        bool          // another master has its slots: the next copy from that master replaces its own writes
	leaving        bool          // its claim is being deleted, together with its pod
	used           time.Duration // on the volume: the last probe
	mark           time.Duration // on the volume: the last mark of a master, see alive.sh
	shown          time.Duration // the mark that the server has shown to other nodes since its start
	seenOf         string        // on the volume: the node whose mark is noted in seen
	seen           time.Duration
	usedBefore     time.Duration // on the volume: value of used at a start after which nothing proved that the volume was in its latest state
	unproven       bool          // on the volume: nothing proved that the volume was in its latest state
	shut           bool          // no replica may copy from this server until that is proved
	noLinkUntil    time.Duration // until then, the server has no link
	queueUntil     time.Duration // until then, no client writes to the server

	counts   map[int32]int // slots of each node, by slotOf
	version  int           // increases with each change of slotOf and imports; ranges are computed once per version
	cached   int
	ranges   map[int32][]Range
	heardAll map[string][3]int // peer -> both versions and the peer's epoch when an exchange last changed nothing
}

func (s *server) give(slot int, idx int32) {
	if old := s.slotOf[slot]; old != 0 {
		if s.counts[old]--; s.counts[old] == 0 {
			delete(s.counts, old)
		}
	}
	if idx != 0 {
		s.counts[idx]++
	}
	s.slotOf[slot] = idx
	s.version++
}

// tally counts the slots of each node in the server's view.
func (s *server) tally() {
	if s.ranges != nil && s.cached == s.version {
		return
	}
	s.cached, s.ranges = s.version, map[int32][]Range{}
	for slot := 0; slot < Slots; {
		o, from := s.slotOf[slot], slot
		for slot < Slots && s.slotOf[slot] == o {
			slot++
		}
		if o != 0 {
			s.ranges[o] = append(s.ranges[o], Range{from, slot - 1})
		}
	}
}

type peer struct {
	id, ip, masterID string
	epoch            uint64
	master           bool
	pong             time.Duration
	possibly, fail   bool
	failedAt         time.Duration
	met              time.Duration // end of the handshake; 0 after it
}

type world struct {
	rnd     *rand.Rand
	now     time.Duration
	ids     []string
	index   map[string]int32
	servers []*server // all servers, including removed servers
	byIP    map[string]*server
	lastIP  int
	keys    []int // every key; slotOfKey returns its slot
	acked   map[int]int
	moved   int // slots that got another owner
	log     []string

	demotions int // by gossip

	deleted map[int]int // key -> the sequence of its last deletion
	names   int
	without string // the proof that is disabled
}

func (w *world) isWithout(proof string) bool { return strings.Contains(w.without, proof) }

func (w *world) newName() string {
	w.names++
	return fmt.Sprint("n", w.names)
}

func newWorld(seed uint64) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)), index: map[string]int32{}, byIP: map[string]*server{}, acked: map[int]int{}, deleted: map[int]int{}}
	for i := range 32 {
		slot := i * Slots / 32
		w.keys = append(w.keys, slot*4, slot*4+1)
	}
	return w
}

func slotOfKey(key int) int { return key / 4 }

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%8.2fs ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) newID() string {
	const hex = "0123456789abcdef"
	id := make([]byte, idLength)
	for i := range id {
		id[i] = hex[w.rnd.IntN(16)]
	}
	w.index[string(id)] = int32(len(w.ids)) + 1
	w.ids = append(w.ids, string(id))
	return string(id)
}

func (w *world) newIP() string {
	w.lastIP++
	return fmt.Sprintf("127.9.%d.%d", w.lastIP/250, w.lastIP%250+1)
}

// newServer returns a process on an empty volume.
func (w *world) newServer() *server {
	s := &server{w: w, data: map[int]int{}, settings: map[string]string{"maxmemory": "0"}}
	s.forgetAll()
	w.servers = append(w.servers, s)
	return s
}

// forgetAll simulates CLUSTER RESET HARD.
func (s *server) forgetAll() {
	s.id = s.w.newID()
	s.peers = map[string]*peer{s.id: {id: s.id, master: true}}
	s.slotOf, s.counts, s.heardAll = [Slots]int32{}, map[int32]int{}, map[string][3]int{}
	s.version++
	s.moving, s.imports, s.banned, s.votedFor = map[int]string{}, map[int]string{}, map[string]time.Duration{}, map[string]time.Duration{}
	s.current, s.voted, s.masterHost, s.linked, s.synced, s.electAt, s.admits = 0, 0, "", false, false, 0, false
}

// start runs a server at an address.
func (s *server) start(ip string) {
	s.stop()
	s.up, s.frozen, s.ip = true, false, ip
	s.linked, s.synced, s.offset, s.electAt, s.linkedOnce = false, false, 0, 0, false
	s.run, s.replid, s.former, s.begun = s.w.newName(), s.w.newName(), "", s.w.now
	s.shown, s.shut = 0, s.unproven
	s.admits = s.admits && (!s.me().master || s.count(s.id) > 0 || s.isFollowed())
	s.w.byIP[ip] = s
	for _, p := range s.peers {
		p.pong = s.w.now
	}
}

func (s *server) stop() {
	if s.up {
		s.up = false
		if s.w.byIP[s.ip] == s {
			delete(s.w.byIP, s.ip)
		}
	}
}

// snapshot returns a copy of the volume.
func (s *server) snapshot() *server {
	c := *s
	c.up, c.version, c.ranges = false, c.version+1, nil
	c.data, c.counts, c.moving, c.imports = maps.Clone(s.data), maps.Clone(s.counts), maps.Clone(s.moving), maps.Clone(s.imports)
	c.banned, c.votedFor, c.settings = maps.Clone(s.banned), maps.Clone(s.votedFor), maps.Clone(s.settings)
	c.heardAll, c.peers = map[string][3]int{}, map[string]*peer{}
	for id, p := range s.peers {
		q := *p
		c.peers[id] = &q
	}
	return &c
}

// isFollowed reports whether a replica of the server is in its view.
func (s *server) isFollowed() bool {
	for _, p := range s.peers {
		if p.masterID == s.id {
			return true
		}
	}
	return false
}

func (s *server) me() *peer        { return s.peers[s.id] }
func (s *server) alive() bool      { return s.up && !s.frozen }
func (s *server) idx() int32       { return s.w.index[s.id] }
func (s *server) owns(t int) bool  { return s.slotOf[t] == s.idx() }
func (s *server) known() []*peer   { return sortedPeers(s.peers) }
func (w *world) id(i int32) string { return w.ids[i-1] }

func sortedPeers(m map[string]*peer) []*peer {
	all := make([]*peer, 0, len(m))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[id])
	}
	return all
}

func (s *server) count(id string) int {
	return s.counts[s.w.index[id]]
}

// sized returns the masters that own slots in the server's view.
func (s *server) sized() []string {
	var all []string
	for o := range s.counts {
		all = append(all, s.w.id(o))
	}
	slices.Sort(all)
	return all
}

// reaches returns the living server at the address that s has of a peer, or nil.
func (s *server) reaches(p *peer) *server {
	if p.ip == "" || p.met != 0 {
		return nil
	}
	if other := s.w.byIP[p.ip]; other != nil && other.alive() && other.id == p.id {
		return other
	}
	return nil
}

// ok reports cluster_state: whether a majority of masters is reached. A master that has just started waits first, so that other nodes can reach
// it.
func (s *server) ok() bool {
	if s.me().master && s.w.now-s.begun < simDelay {
		return false
	}
	masters := s.sized()
	reached := 0
	for _, id := range masters {
		if p := s.peers[id]; id == s.id || p != nil && !p.fail && !p.possibly {
			reached++
		}
	}
	return len(masters) > 0 && 2*reached > len(masters)
}

func (s *server) keysIn(slot int) int64 {
	var n int64
	for key := range s.data {
		if slotOfKey(key) == slot {
			n++
		}
	}
	return n
}

func (s *server) dropSlot(slot int) {
	for key := range s.data {
		if slotOfKey(key) == slot {
			delete(s.data, key)
		}
	}
}

// view returns CLUSTER NODES.
func (s *server) view() []Entry {
	s.tally()
	var all []Entry
	for _, p := range s.known() {
		e := Entry{ID: p.id, IP: p.ip, Port: 6379, BusPort: 16379, Master: p.master, Replica: !p.master && p.met == 0, MasterID: p.masterID,
			Fail: p.fail, PossiblyFail: p.possibly, Handshake: p.met != 0, PongReceived: time.UnixMilli(1e12).Add(p.pong), Epoch: p.epoch,
			Owned: NewSlotSet(s.ranges[s.w.index[p.id]]...), Connected: s.reaches(p) != nil, NoAddress: p.ip == "" && p.met == 0}
		if p.id == s.id {
			e.Myself, e.Connected, e.IP, e.NoAddress = true, true, s.ip, false
			e.Migrating, e.Importing = maps.Clone(s.moving), maps.Clone(s.imports)
		}
		if e.Handshake {
			e.Master = false
		}
		all = append(all, e)
	}
	return all
}

// copies returns the latest value of each key on any server, for the check that no step destroys the last copy. It
// leaves out servers that have lost their slots to another master, because Redis drops their writes without a step.
func (w *world) copies() map[int]int {
	best := map[int]int{}
	for _, s := range w.servers {
		if s.demoted {
			continue
		}
		for key, value := range s.data {
			best[key] = max(best[key], value)
		}
	}
	return best
}
