// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// pod is a pod of a StatefulSet, with the server on its volume.
type pod struct {
	name, uid, host string
	shard, ordinal  int
	s               *server
	startsAt        time.Duration
	running         bool
	outdated        bool
	isWrong         bool          // the image cannot be pulled
	ran             bool          // its container has started
	starved         bool          // its container ends again and again, in this pod
	nextIP          string        // the address after its restart; empty: a new one
	hiddenUntil     time.Duration // until then, the operator cannot reach the pod
	brokenUntil     time.Duration // until then, its container does not start
	asksUntil       time.Duration // until then, its container queries replicas about the state of its volume
}

// operator drives a simulated cluster: it observes, decides and takes one step. It may crash between any two commands.
type operator struct {
	*world
	wanted  Wanted
	record  Record
	pods    map[string]*pod
	volumes map[string]*server
	hosts   int
	uids    int
	budget  int // commands until the operator crashes; negative: never
	deaths  int // remaining crashes
	taken   map[string]time.Duration
	commits int
	isWrong bool // the image of new pods cannot be pulled
}

var (
	errDied    = errors.New("the operator died")
	errRefused = errors.New("refused")
)

func newOperator(seed uint64, shards ...int) *operator {
	return &operator{world: newWorld(seed), wanted: Wanted{Shards: shards, NodeTimeout: simTimeout, Generation: 1},
		pods: map[string]*pod{}, volumes: map[string]*server{}, hosts: 3, budget: -1, taken: map[string]time.Duration{}}
}

// sets simulates the controller of the StatefulSets: it creates and deletes pods. Volumes stay.
func (o *operator) sets() {
	planned := map[string]bool{}
	for shard, pods := range Planned(o.wanted.Shards, o.record) {
		for ordinal := range o.record.MayRun(shard, pods) {
			name := fmt.Sprintf("a-%d-%d", shard, ordinal)
			planned[name] = true
			if o.pods[name] == nil {
				o.uids++
				o.pods[name] = &pod{isWrong: o.isWrong, name: name, uid: fmt.Sprint("uid-", o.uids), shard: shard, ordinal: ordinal,
					host: fmt.Sprint("host-", o.rnd.IntN(o.hosts)), startsAt: o.now + time.Duration(200+o.rnd.IntN(1500))*time.Millisecond}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.pods)) {
		p := o.pods[name]
		switch {
		case !planned[name] && o.wanted.Parked:
			if o.rnd.IntN(4) == 0 { // each kubelet stops pods at its own pace
				o.retire(p)
			}
		case !planned[name]:
			o.remove(p)
		case p.isWrong, p.starved:
		case !p.running && o.now >= p.startsAt && o.now >= p.brokenUntil:
			if o.volumes[name] == nil {
				o.volumes[name] = o.newServer()
				o.restore(p)
			}
			o.begin(p)
		}
	}
}

// begin starts a pod's server on its volume, as start.sh does.
func (o *operator) begin(p *pod) {
	s := o.volumes[p.name]
	s.user = fmt.Sprint("shard-", p.shard)
	if s.damaged && !o.isWithout("file") {
		if !o.isReplaced(s) {
			return // the server reports the damage and exits
		}
		s = o.newServer() // the files are set aside
		s.user, o.volumes[p.name] = fmt.Sprint("shard-", p.shard), s
	} else if s.damaged {
		s.truncate()
	}
	if !o.isWithout("past") {
		isPast, asks := o.isOfThePast(p, s)
		if asks || isPast && !o.isReplaced(s) {
			return
		}
		if isPast {
			s = o.newServer()
			s.user, o.volumes[p.name] = fmt.Sprint("shard-", p.shard), s
		}
	}
	p.asksUntil = 0
	ip := p.nextIP
	if ip == "" || o.byIP[ip] != nil {
		ip = o.newIP()
	}
	p.s, p.running, p.ran, p.nextIP = s, true, true, ""
	s.start(ip)
}

// isReplaced reports whether another node claims the slots of a stopped server and has its data.
func (o *operator) isReplaced(s *server) bool {
	of := s.id
	if !s.me().master {
		of = s.me().masterID
	}
	for _, other := range o.servers {
		if other == s || !other.alive() || !other.ok() || other.user != s.user {
			continue
		}
		if other.me().master && other.count(other.id) > 0 && other.count(of)+other.count(s.id) == 0 || other.id == of && other.count(of) > 0 {
			return true
		}
	}
	return false
}

// The times of data.sh. A node's last contact with a master proves a reset of the master's volume if the contact was later
// than the last use of the volume: by leastPast for a linked replica, by mostPast for any other node.
const leastPast, mostPast = 30 * time.Second, 2 * time.Minute

// isOfThePast reports whether storage has reset the volume of a master to an earlier state, as data.sh does and with the
// same times. The proof is a later mark in a note of another server. If no server has noted one of the last marks, the
// times of the last contacts are a proof, too. If nothing is proved, isOfThePast queries the replicas for a while (asks),
// and notes on the volume that its state is not proven. A volume that was reset keeps its earlier note.
func (o *operator) isOfThePast(p *pod, s *server) (isPast, asks bool) {
	used, before := s.used, *s
	if s.unproven {
		used = s.usedBefore
	}
	defer func() {
		if isPast {
			s.unproven, s.usedBefore = before.unproven, before.usedBefore
		}
	}()
	s.unproven, s.usedBefore = false, 0
	if !s.me().master || s.count(s.id) == 0 {
		return false, false
	}
	proven := o.isWithout("mark")
	for _, other := range o.servers {
		if other != s && other.alive() && s.finds(other) {
			if other.hasLater(s) {
				return true, false
			}
			proven = proven || other.hasRecent(s)
		}
	}
	if !proven && !before.unproven && o.now > used+leastPast {
		if isPast, proven = o.isHeard(s, used); isPast {
			return true, false
		}
	}
	switch {
	case proven:
		return false, false
	case !s.isFollowed():
		s.unproven, s.usedBefore = len(s.sized()) > 1, used
		return false, false
	}
	isPast, proven, asks = o.isOutlived(s)
	if isPast || proven {
		return isPast, false
	}
	s.unproven, s.usedBefore = true, used
	if p.asksUntil == 0 {
		p.asksUntil = o.now + 10*time.Second
		if o.now > used+leastPast {
			p.asksUntil = o.now + 30*time.Second
		}
	}
	return false, asks && o.now < p.asksUntil
}

// isHeard reports whether a server that did not restart had contact with a master some time after the master's volume was last in use
// (isPast). For a volume without a mark, it also reports whether such a server had its last contact at that time (proven).
func (o *operator) isHeard(s *server, used time.Duration) (isPast, proven bool) {
	for _, other := range o.servers {
		p := other.peers[s.id]
		if p == nil || other == s || !other.alive() || p.met != 0 || p.pong <= other.begun {
			continue
		}
		me := other.me()
		linked := !me.master && me.masterID == s.id && other.synced && (other.linked || other.linkedOnce && other.lostLink >= p.pong-10*time.Second)
		if p.pong > used+mostPast || p.pong > used+leastPast && linked {
			return true, false
		}
		proven = proven || s.mark == 0 && (p.pong-used).Abs() <= leastPast
	}
	return false, proven
}

// finds reports whether a starting server can query another. Servers with some ids do not find nodes at new addresses.
func (s *server) finds(other *server) bool {
	p := s.peers[other.id]
	return p != nil && (p.ip == other.ip || s.id[0]%2 != 0)
}

// isOutlived reports whether a replica has noted a later mark than the master's volume has (isPast), and whether the
// replicas, or else the master that notes its marks, prove the opposite (proven). It also reports whether a replica does not answer (asks).
func (o *operator) isOutlived(s *server) (isPast, proven, asks bool) {
	for _, p := range s.known() {
		if p.masterID != s.id {
			continue
		}
		i := slices.IndexFunc(o.servers, func(r *server) bool { return r.alive() && r.id == p.id })
		switch {
		case i < 0 || !s.finds(o.servers[i]):
			asks = true
		case o.servers[i].hasLater(s):
			return true, false, false
		case o.servers[i].hasRecent(s):
			proven = true
		}
	}
	previous := s.neighbor(-1)
	return false, proven || !asks && (previous != nil || len(s.sized()) < 2), asks
}

// setImage chooses the image of new pods: one that can be pulled, or one that cannot. Pods with the other image become
// outdated.
func (o *operator) setImage(isWrong bool) {
	o.isWrong = isWrong
	for _, p := range o.pods {
		p.outdated = p.isWrong != isWrong
	}
}

// truncate simulates how redis loads a file that looks cut off: the data after the damage is lost.
func (s *server) truncate() {
	s.damaged = false
	for key := range s.data {
		if key%2 == 0 {
			delete(s.data, key)
		}
	}
}

// retire stops a pod as Kubernetes does: a master waits until its replicas have all writes, and then ends.
func (o *operator) retire(p *pod) {
	if p.running && p.s.alive() && p.s.me().master {
		for _, r := range o.servers {
			if r.alive() && r.linked && r.synced && r.masterHost == p.s.ip {
				r.copyFrom(p.s)
			}
		}
	}
	o.remove(p)
}

func (o *operator) remove(p *pod) {
	if p.running {
		p.s.stop()
	}
	if v := o.volumes[p.name]; v != nil && v.leaving {
		o.volumes[p.name] = nil
	}
	delete(o.pods, p.name)
}

// kill stops a pod's container, which restarts after a while.
func (o *operator) kill(p *pod, away time.Duration) {
	if p.running {
		p.s.stop()
		p.running = false
	}
	p.startsAt = o.now + away
}

// observe simulates Observe.
func (o *operator) observe() []Node {
	open := map[int]bool{}
	for _, p := range o.pods {
		if p.running {
			for slot := range p.s.moving {
				open[slot] = true
			}
			for slot := range p.s.imports {
				open[slot] = true
			}
		}
	}
	var nodes []Node
	for _, name := range slices.Sorted(maps.Keys(o.pods)) {
		p := o.pods[name]
		n := Node{Pod: name, UID: p.uid, Host: p.host, Shard: p.shard, Ordinal: p.ordinal, Running: p.running, Outdated: p.outdated, NeverUp: !p.ran,
			Stuck: p.starved && !p.running}
		if p.running {
			n.IP = p.s.ip
		}
		n.Sent = map[Action]time.Duration{}
		for _, action := range []Action{ActionFailover, ActionReplicate, ActionBumpEpoch} {
			if at, sent := o.taken[string(action)+name]; sent {
				n.Sent[action] = o.now - at
			}
		}
		if p.running && p.s.alive() && o.now >= p.hiddenUntil {
			o.read(&n, p.s, open)
		}
		nodes = append(nodes, n)
	}
	for shard, pods := range Planned(o.wanted.Shards, o.record) {
		for ordinal := o.record.MayRun(shard, pods); ordinal < pods && !o.record.Parked; ordinal++ {
			if name := fmt.Sprintf("a-%d-%d", shard, ordinal); o.pods[name] == nil {
				nodes = append(nodes, Node{Pod: name, Shard: shard, Ordinal: ordinal, Problem: "the pod does not exist"})
			}
		}
	}
	return nodes
}

func (o *operator) read(n *Node, s *server, open map[int]bool) {
	me := s.me()
	n.Reached, n.ID, n.View, n.StateOK, n.Keys, n.Settings = true, s.id, s.view(), s.ok(), int64(len(s.data)), maps.Clone(s.settings)
	n.UsedMemory, n.Functions, n.At = int64(len(s.data)), s.functions, time.UnixMilli(1e12).Add(o.now)
	n.RunID, n.Uptime, n.Closed = s.run, o.now-s.begun, me.master && (!s.admits || s.shut)
	n.Replication = Replication{Master: me.master, MasterHost: s.masterHost, LinkUp: s.linked && s.synced, Syncing: s.linked && !s.synced, Offset: s.offset,
		ID: s.replid, FormerID: s.former}
	if !s.linked && !s.linkedOnce {
		n.Replication.LinkDown = NeverLinked
	} else if !s.linked {
		n.Replication.LinkDown = o.now - s.lostLink
	}
	if n.Closed && s.shut {
		n.Used = time.UnixMilli(1e12).Add(cmp.Or(s.mark, s.usedBefore))
	}
	if s.seenOf != "" && !o.isWithout("mark") {
		n.Seen = map[string]time.Time{s.seenOf: time.UnixMilli(1e12).Add(s.seen)}
	}
	o.blind(n)
	if me.master {
		n.SlotKeys = map[int]int64{}
		for slot := range open {
			n.SlotKeys[slot] = s.keysIn(slot)
		}
	}
}

// blind simulates an operator without the disabled proof: it changes the report of a node so that Decide sees no
// trouble.
func (o *operator) blind(n *Node) {
	r := &n.Replication
	h := o.record.Histories[n.Shard]
	switch {
	case o.isWithout("history") && !r.Master && h.Repl != "":
		if m := o.byIP[r.MasterHost]; m == nil || m.id != n.self().MasterID {
			r.ID = h.Repl // hides that the data is from another source
		}
	case o.isWithout("link") && !r.Master:
		r.LinkDown = 0
	case o.isWithout("continuation") && r.Master && h.Run != "":
		n.RunID = h.Run // hides the restart
	case o.isWithout("run") && r.Master && n.Keys == 0:
		n.RunID, n.Uptime = "another", 24*time.Hour
	case o.isWithout("run") && !r.Master && h.Repl != "":
		r.ID = h.Repl
		r.LinkDown = max(r.LinkDown, 0)
	}
}

// at returns the server at the place of a step. It returns nil if the pod, its address or its node id has changed.
func (o *operator) at(place Place) *server {
	p := o.pods[place.Pod]
	if p == nil || p.uid != place.UID || !p.running || !p.s.alive() || o.now < p.hiddenUntil || p.s.ip != place.IP || p.s.id != place.ID {
		return nil
	}
	return p.s
}

// command runs before each command to a server. It returns errDied if the operator dies at this point. Sometimes it lets time pass
// first.
func (o *operator) command() error {
	o.commits++
	if o.budget == 0 {
		o.budget = -1
		if o.deaths--; o.deaths > 0 {
			o.budget = o.rnd.IntN(200)
		}
		clear(o.taken)
		o.logf("the operator dies")
		return errDied
	}
	if o.budget > 0 {
		o.budget--
	}
	if o.rnd.IntN(300) == 0 {
		o.pass(simTick)
		o.write()
	}
	return nil
}

// take runs a step.
func (o *operator) take(s Step) (err error) {
	if len(s.Batch) > 0 {
		var all error
		for _, one := range s.Batch {
			if err := o.take(one); errors.Is(err, errDied) {
				return err
			} else if err != nil {
				all = err
			}
		}
		return all
	}
	key := string(s.Action) + s.Node.Pod
	if last, did := o.taken[key]; did && s.Interval > 0 && o.now-last < s.Interval {
		return nil
	}
	o.taken[key] = o.now
	defer func() {
		if errors.Is(err, errRefused) {
			delete(o.taken, key)
		}
	}()
	switch s.Action {
	case ActionWait:
		return nil
	case ActionRecord:
		if s.Record.Parked {
			for _, v := range o.volumes {
				if v != nil && v.leaving {
					return errRefused
				}
			}
		}
		if err := o.command(); err != nil {
			return err
		}
		o.record = *s.Record
		return nil
	case ActionForget, ActionAssignSlot:
		return o.onEach(s)
	case ActionDeletePod:
		p := o.pods[s.Node.Pod]
		if v := o.volumes[s.Node.Pod]; p == nil || p.uid != s.Node.UID || s.Proof.NeverUp && p.ran || s.Proof.Stuck && p.running || v != nil && v.leaving && !o.isWithout("claim") {
			return errRefused
		}
		if err := o.isSameStart(s); err != nil {
			return err
		}
		if err := o.command(); err != nil {
			return err
		}
		o.remove(p)
		return nil
	default:
		return o.onNode(s)
	}
}

func (o *operator) onNode(s Step) error {
	n := o.at(s.Node)
	if n == nil {
		return errRefused
	}
	if s.Action == ActionMoveSlots {
		return o.moveSlots(s, n)
	}
	if err := o.command(); err != nil {
		return err
	}
	return o.single(s, n)
}
