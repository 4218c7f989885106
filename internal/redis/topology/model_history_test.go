// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// ledger stores the values that clients could read some seconds before each fault. After the fault, the cluster must
// still have these values, and keys that were deleted before the fault must stay deleted.
type ledger struct {
	*run
	past []map[int]int // by second

	pastRecord Record // the record at the previous fault
	kinds      []int  // kinds of faults; default: all
	safe       map[int]int
}

// note adds the present acknowledged writes to past, which covers the last seconds.
func (l *ledger) note() {
	if l.past = append(l.past, maps.Clone(l.acked)); len(l.past) > 6 {
		l.past = l.past[1:]
	}
}

// work runs passes of the operator for the time d, with concurrent clients.
func (l *ledger) work(d time.Duration) {
	for until := l.now + d; l.now < until; {
		l.onePass()
		l.note()
	}
}

// lost describes each key of safe that a client does not find, or finds with an older value.
func (l *ledger) lost() []string {
	var all []string
	for key, want := range l.safe {
		got := -1
		for _, s := range l.servers {
			if s.alive() && s.me().master && s.owns(slotOfKey(key)) {
				got = max(got, s.data[key])
			}
		}
		switch deleted := l.deleted[key]; {
		case got <= 0 && deleted < want:
			all = append(all, fmt.Sprintf("key %d is not there, and write %d was acknowledged", key, want))
		case got > 0 && got < max(want, min(deleted, want)):
			all = append(all, fmt.Sprintf("key %d has %d, and %d was acknowledged (deleted by %d)", key, got, want, deleted))
		}
	}
	slices.Sort(all)
	return all
}

// faultKinds are the kinds of faults that a ledger injects, by number.
var faultKinds = []string{
	"exchanged addresses", "a replica away for minutes", "keys deleted while a replica is away", "a damaged file", "a volume in an earlier state", "an emptied master",
	"a new node at a master's address", "pods without an image", "claims that are being deleted", "an earlier record", "a master with one key left", "parked while a replica lacks data", "a volume in an earlier state at a restart of all",
	"a replica cut off for minutes", "masters that return right before a takeover",
}

// fault injects a fault of a random kind in a random shard.
func (l *ledger) fault() {
	l.inject(l.rnd.IntN(3), func() int {
		if len(l.kinds) == 0 {
			return l.rnd.IntN(11)
		}
		return l.kinds[l.rnd.IntN(len(l.kinds))]
	})
}

// inject injects a fault after which at least one volume of each shard still has the shard's data. The values that
// clients could read some seconds before the fault must survive it. inject returns false, and injects no fault, unless
// the shard has a running master and a running replica.
func (l *ledger) inject(shard int, draw func() int) bool {
	if len(l.past) > 0 {
		l.safe = l.past[0]
	}
	names := slices.Sorted(maps.Keys(l.pods))
	master, replica := l.role(shard, true), l.role(shard, false)
	if master == nil || replica == nil {
		return false
	}
	kind := draw()
	switch kind {
	case 0:
		l.logf("EVENT pods come back with each other's addresses")
		var ips []string
		names = slices.DeleteFunc(names, func(name string) bool { return l.pods[name].s == nil })
		for _, name := range names {
			ips = append(ips, l.pods[name].s.ip)
		}
		few := l.rnd.IntN(2) == 0
		l.rnd.Shuffle(len(ips), func(i, j int) { ips[i], ips[j] = ips[j], ips[i] })
		for i, name := range names {
			if p := l.pods[name]; !few || p == master || p.shard != shard && l.rnd.IntN(2) == 0 {
				p.nextIP = ips[i]
				l.kill(p, time.Duration(l.rnd.IntN(3000))*time.Millisecond)
			}
		}
		master.startsAt = l.now + time.Duration(l.rnd.IntN(120))*time.Second
	case 1:
		l.logf("EVENT %s is away for minutes, and then %s", replica.name, master.name)
		l.kill(replica, time.Hour)
		l.work(2 * time.Minute)
		l.safe = l.past[0]
		l.kill(master, time.Duration(30+l.rnd.IntN(120))*time.Second)
		replica.startsAt = l.now
	case 2:
		l.logf("EVENT the key space of %s becomes empty, and %s restarts", master.name, replica.name)
		l.kill(replica, time.Hour)
		l.work(time.Duration(1+l.rnd.IntN(20)) * time.Second)
		l.empty(master.s)
		l.work(6 * time.Second)
		l.safe = l.past[0]
		replica.startsAt, replica.s.noLinkUntil = l.now, l.now+10*time.Second
	case 3:
		l.logf("EVENT the file of %s is damaged", master.name)
		l.kill(master, time.Duration(l.rnd.IntN(3000))*time.Millisecond)
		l.volumes[master.name].damaged = true
	case 4:
		l.logf("EVENT the volume of %s is one of the past", master.name)
		past := master.s.snapshot()
		l.servers = append(l.servers, past)
		l.work(2*simProbe + time.Second)
		l.safe = l.past[0]
		l.kill(master, time.Duration(l.rnd.IntN(2+58*l.rnd.IntN(2)))*time.Second)
		l.volumes[master.name], past.queueUntil = past, l.now+10*time.Minute // later writes would hide a loss
	case 5:
		l.logf("EVENT %s restarts without its data under its old id, and %s is cut off from it", master.name, replica.name)
		l.kill(master, time.Second)
		clear(l.volumes[master.name].data)
		if l.rnd.IntN(2) == 0 {
			l.volumes[master.name].used = 0 // storage has reverted the time of the last use
		} else {
			l.volumes[master.name].queueUntil = l.now + 12*time.Second // no client writes, because either server could lose the write
		}
		replica.s.noLinkUntil = l.now + 12*time.Second
	case 6:
		l.logf("EVENT a new node without data has the address of %s", master.name)
		master.nextIP = master.s.ip
		l.kill(master, time.Duration(l.rnd.IntN(3000))*time.Millisecond)
		l.volumes[master.name] = nil
	case 7:
		l.logf("EVENT no pod has an image, and all but a few are deleted")
		l.wrongImage(names, func(*pod) bool { return l.rnd.IntN(4) > 0 })
	case 8:
		l.logf("EVENT shard %d has no image, and its claims are being deleted", shard)
		l.wrongImage(names, func(p *pod) bool { return p.shard == shard })
		for _, p := range l.pods {
			if p.shard == shard {
				l.volumes[p.name].leaving = true
			}
		}
		l.setImage(false)
		l.work(30 * time.Second)
		for _, v := range l.volumes {
			v.leaving = false // a user has cancelled the deletion
		}
	case 9:
		l.logf("EVENT the record is one of the past, and %s is killed", master.name)
		l.record = l.pastRecord
		if l.rnd.IntN(2) == 0 {
			l.record.Histories = nil
		}
		l.kill(master, time.Duration(l.rnd.IntN(60_000))*time.Millisecond)
	case 10:
		l.logf("EVENT %s restarts with one key at another address, no history is recorded, and %s finds it by hearsay", master.name, replica.name)
		l.hearsay(master, replica)
	case 12:
		l.logf("EVENT all pods restart, and the volume of %s is one of the past", master.name)
		past := master.s.snapshot()
		l.servers = append(l.servers, past)
		l.work([]time.Duration{21 * time.Second, time.Minute, 130 * time.Second}[l.rnd.IntN(3)])
		l.safe = l.past[0]
		l.restartAll(l.rnd.IntN(2) == 0)
		l.volumes[master.name], past.queueUntil = past, l.now+10*time.Minute // later writes would hide a loss
	case 11:
		l.logf("EVENT %s is cut off from %s, and the cluster is parked", replica.name, master.name)
		l.parkCutOff(replica)
	case 13:
		l.logf("EVENT %s is cut off from %s for minutes, which is then away", replica.name, master.name)
		replica.s.noLinkUntil = l.now + 2*time.Minute + 5*time.Second
		replica.s.queueUntil = l.now + 12*time.Minute // later writes would hide a loss
		l.work(2 * time.Minute)
		l.safe = l.past[0]
		l.kill(master, time.Duration(30+l.rnd.IntN(120))*time.Second)
	case 14:
		l.logf("EVENT %s and the master of another shard are away, and come back right before a takeover", master.name)
		l.backBeforeTakeover(shard)
	}
	return true
}

// backBeforeTakeover stops the masters of a shard and of the next shard: two of three masters. The operator decides to
// promote a replica. Before it runs that step, the masters start again, and clients write data that the replicas do not
// have yet.
func (l *ledger) backBeforeTakeover(shard int) {
	var masters, replicas []*pod
	for _, of := range []int{shard, (shard + 1) % 3} {
		if m, r := l.role(of, true), l.role(of, false); m != nil && r != nil {
			masters, replicas = append(masters, m), append(replicas, r)
			l.kill(m, time.Hour)
		}
	}
	back := func() {
		l.between = nil
		for _, m := range masters {
			m.startsAt = min(m.startsAt, l.now)
		}
	}
	l.between = func(s Step) {
		if s.Action != ActionFailover || s.Mode == "" {
			return
		}
		back()
		for _, r := range replicas {
			r.s.noLinkUntil = l.now + 20*time.Second
			r.s.queueUntil = l.now + 10*time.Minute // later writes would hide a loss
		}
		for until := l.now + 15*time.Second; l.now < until; {
			l.sets()
			l.pass(simTick)
			l.write()
			if until-l.now > 5*time.Second {
				l.safe = maps.Clone(l.acked)
			}
		}
	}
	for end := l.now + time.Minute; l.between != nil && l.now < end; {
		l.work(time.Second)
	}
	back()
}

// parkCutOff parks the cluster while a replica has no link and lacks data of its master, and then starts the cluster
// again. The replica may outlive its master.
func (l *ledger) parkCutOff(replica *pod) {
	replica.s.noLinkUntil = l.now + 20*time.Second
	l.work(7 * time.Second)
	l.safe = l.past[0]
	if l.wanted.Parked = true; l.isWithout("stop") {
		l.record.Parked = true
	}
	for end := l.now + 10*time.Minute; ; {
		m := l.onePass().Model
		if m.Settled && m.Phase == PhaseParked || strings.Contains(m.Reason, "accept-data-loss") { // a cluster whose data is in doubt is not parked
			break
		}
		if l.now > end {
			l.t.Fatalf("not parked: %s, %s, steps %v", m.Verdict, m.Reason, l.last.Steps)
		}
	}
	l.wanted.Parked = false
}

// wrongImage deletes some pods and gives their new pods an image that cannot be pulled.
func (l *ledger) wrongImage(names []string, has func(*pod) bool) {
	l.setImage(true)
	for _, name := range names {
		if p := l.pods[name]; has(p) {
			l.remove(p)
		}
	}
	l.work(time.Duration(1+l.rnd.IntN(20)) * time.Second)
	l.setImage(l.rnd.IntN(3) == 0)
	l.work(10 * time.Second)
	l.setImage(false)
}

// hearsay restarts a master with a single remaining key, while its replica has no link. The replica learns the master's
// new address only from gossip of other nodes, so it does not replicate from that address.
func (l *ledger) hearsay(master, replica *pod) {
	l.kill(master, 0)
	v := l.volumes[master.name]
	if held := slices.Sorted(maps.Keys(v.data)); len(held) > 1 {
		for _, key := range held[1:] {
			delete(v.data, key)
		}
	}
	delete(l.record.Histories, master.shard)
	replica.s.noLinkUntil = l.now + time.Hour
	l.work(5 * time.Second)
	replica.s.noLinkUntil, replica.s.masterHost, replica.s.linked = 0, "127.0.0.99", false
	l.work(20 * time.Second)
	if replica.running && !replica.s.me().master {
		l.wanted.Consent = []string{master.s.id} // a user gives up the master's data
		l.work(20 * time.Second)
		l.wanted.Consent = nil
	}
}

// role returns a pod of a shard whose server has the given role, or nil.
func (l *ledger) role(shard int, master bool) *pod {
	for _, name := range slices.Sorted(maps.Keys(l.pods)) {
		if p := l.pods[name]; p.shard == shard && p.running && p.s.me().master == master {
			return p
		}
	}
	return nil
}

// empty acts as a client that deletes all keys of a server, and then writes no keys to the server for a while.
func (l *ledger) empty(s *server) {
	for key := range s.data {
		l.acked[key]++
		l.deleted[key] = l.acked[key]
		delete(s.data, key)
	}
	s.offset += 10
	s.queueUntil = l.now + 30*time.Second
}

// If at least one volume of each shard keeps the shard's data, a fault loses no write that was acknowledged some seconds before it.
func TestModelHistory(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 10) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			for _, lost := range history(t, seed, "", nil) {
				t.Error(lost)
			}
		})
	}
}

// All pods restart after storage has reset the volume of one master by seconds or minutes, with an earlier config epoch
// or the same one. The replica keeps the newer data, and the shard waits for a user's decision. Every ten seconds, the
// master writes a mark and its replica notes it, so a reset by 20 seconds is always detected.
func TestModelVolumeOfThePast(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 10) {
		for i, kind := range []string{"an earlier epoch", "the same epoch", "the same epoch and addresses", "the same epoch and addresses, restarted twice"} {
			for j, back := range []time.Duration{20 * time.Second, time.Minute, 130 * time.Second} {
				if testing.Short() && (int(seed)+i+j)%3 != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s %s by %s", name(seed), kind, back), func(t *testing.T) {
					t.Parallel()
					l := &ledger{run: newRun(t, seed, 3, 2, 2)}
					l.wanted.Shards, l.planned = []int{2, 2, 2}, false
					l.settle(time.Minute)
					l.work(30 * time.Second)
					master := l.role(l.rnd.IntN(3), true)
					past := master.s.snapshot()
					l.servers = append(l.servers, past)
					if kind == "an earlier epoch" {
						master.s.current += 10
						master.s.me().epoch = master.s.current
					}
					l.work(back)
					l.safe = l.past[0]
					l.restartAll(strings.Contains(kind, "addresses"))
					l.volumes[master.name], past.queueUntil = past, l.now+time.Hour // later writes would hide a loss
					if strings.HasSuffix(kind, "twice") {
						l.work(10 * time.Second)
						l.restartAll(true)
					}
					l.work(5 * time.Minute)
					m := l.last.Model
					assert.Assert(t, !m.Settled && !m.Redundant, m.Reason)
					if !past.up {
						assert.Equal(t, m.Verdict, SlotsLost, m.Reason) // the server has queried its replica, and does not start
					} else {
						assert.Assert(t, strings.Contains(m.Reason, "storage has put the volume of "+master.name+" back"), m.Reason)
					}
					assert.Assert(t, strings.Contains(m.Reason, fmt.Sprintf("accept-data-loss: %q", past.id)), m.Reason)
					l.wanted.Consent = []string{past.id}
					l.mend()
					assert.Equal(t, len(l.lost()), 0, "%v", l.lost())
					l.oracle()
				})
			}
		}
	}
}

// All pods of a cluster without replicas restart, and storage has reset the volume of one master. The shard waits until
// the user accepts the loss. Without a reset, no data is in doubt.
func TestModelVolumeOfThePastAlone(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 10) {
		for _, isReset := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %t", name(seed), isReset), func(t *testing.T) {
				t.Parallel()
				l := &ledger{run: newRun(t, seed, 1, 1, 1)}
				l.wanted.Shards, l.planned = []int{1, 1, 1}, false
				l.settle(time.Minute)
				l.work(30 * time.Second)
				master := l.role(l.rnd.IntN(3), true)
				past := master.s.snapshot()
				l.work(20 * time.Second)
				l.safe = l.past[0]
				l.restartAll(l.rnd.IntN(2) == 0)
				if !isReset {
					l.mend()
					l.work(3 * simProbe)
					later := master.s.mark - past.mark
					assert.Assert(t, later > 40*time.Second, later)
					assert.Equal(t, len(l.lost()), 0, "%v", l.lost())
					l.oracle()
					return
				}
				l.servers = append(l.servers, past)
				l.volumes[master.name] = past
				l.work(time.Minute)
				m := l.last.Model
				if !past.up { // another master had started earlier, and had noted a later mark
					assert.Equal(t, m.Verdict, Returning, m.Reason)
					assert.Assert(t, strings.Contains(m.Reason, fmt.Sprintf("accept-data-loss: %q", past.id)), m.Reason)
					return
				}
				assert.Equal(t, m.Verdict, SlotsLost, m.Reason)
				assert.Assert(t, strings.Contains(m.Reason, fmt.Sprintf("accept-data-loss: %q", keeps(past.id))), m.Reason)
				l.wanted.Consent = []string{keeps(past.id)}
				l.mend()
			})
		}
	}
}

// restartAll kills all pods. They restart within seconds.
func (l *ledger) restartAll(sameAddresses bool) {
	for _, name := range slices.Sorted(maps.Keys(l.pods)) {
		p := l.pods[name]
		if sameAddresses && p.running {
			p.nextIP = p.s.ip
		}
		l.kill(p, time.Duration(l.rnd.IntN(3000))*time.Millisecond)
	}
}

// All pods stop for a long time, and restart with their volumes. No data is in doubt afterwards, even if a replica has
// more keys than its master.
func TestModelAllWereAway(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 10) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			l := &ledger{run: newRun(t, seed, 3, 2, 2)}
			l.wanted.Shards, l.planned = []int{2, 2, 2}, false
			l.settle(time.Minute)
			l.work(8 * time.Second)
			master := l.role(l.rnd.IntN(3), true)
			for _, name := range slices.Sorted(maps.Keys(l.pods)) {
				p := l.pods[name]
				l.kill(p, time.Hour+time.Duration(l.rnd.IntN(60))*time.Second)
			}
			expired := slices.Sorted(maps.Keys(master.s.data))[0]
			delete(master.s.data, expired) // the key expires on the master, and its replica still has the key
			l.deleted[expired] = l.acked[expired]
			l.safe = maps.Clone(l.acked)
			l.now += time.Hour
			l.mend()
			assert.Equal(t, len(l.lost()), 0, "%v", l.lost())
			l.oracle()
		})
	}
}

// The servers of one, two or all shards run out of memory and exit, until their pods get more memory. No write is lost,
// and no consent is needed.
func TestModelStarves(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 10) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			l := &ledger{run: newRun(t, seed, 3, 2, 2)}
			l.wanted.Shards, l.planned = []int{2, 2, 2}, false
			l.settle(time.Minute)
			l.crashes(3)
			l.work(8 * time.Second)
			l.safe = l.past[0]
			for shard := range 1 + l.rnd.IntN(3) {
				for _, p := range l.pods {
					if p.shard == shard {
						l.kill(p, 0)
						p.starved = true
					}
				}
			}
			l.work(time.Minute)
			for _, p := range l.pods {
				p.outdated = true
			}
			l.mend()
			assert.Equal(t, len(l.lost()), 0, "%v", l.lost())
			l.oracle()
		})
	}
}

// history injects a series of faults, and returns the keys that the first loss affects.
func history(t *testing.T, seed uint64, without string, kinds []int) []string {
	t.Helper()
	l := &ledger{run: newRun(t, seed, 3, 2, 2), kinds: kinds}
	l.wanted.Shards, l.planned, l.without = []int{2, 2, 2}, false, without
	l.settle(time.Minute)
	l.pastRecord = l.record
	for range 8 {
		l.crashes(3)
		l.work(8 * time.Second)
		recorded := l.record
		l.fault()
		l.mend()
		l.pastRecord = recorded
		if lost := l.lost(); len(lost) > 0 {
			return lost
		}
	}
	return nil
}

// mend runs the operator, without any consent, until the cluster is settled.
func (l *ledger) mend() {
	l.t.Helper()
	for end := l.now + 10*time.Minute; l.now < end; {
		if d := l.onePass(); d.Model.Settled {
			return
		}
	}
	if l.without == "" {
		l.t.Fatalf("not settled: %s, %s, steps %v", l.last.Model.Verdict, l.last.Model.Reason, l.last.Steps)
	}
}

// onlyPairs, in place of a seed, marks a proof that no single fault needs, because other proofs prevent the same losses.
const onlyPairs = 1 << 32

// proofs are the checks of the operator and of start.sh that prevent losses. "user" and "history" are disabled
// together, because a replica gets a foreign history only by copying from a foreign node, and the replication user
// already prevents that.
var proofs = []struct {
	proof string
	kinds []int  // kinds of faults that need the proof
	seed  uint64 // where the search starts for a seed that loses data without the proof
	what  string
}{
	{"user", []int{6}, onlyPairs, "a replication user for each shard: otherwise a replica copies from a foreign node at its master's address"},
	{"past", []int{4}, 0, "a server does not start on a reset volume: otherwise its replica gets the old data"},
	{"mark", []int{12}, 0, "the marks that other nodes have noted: otherwise a replica gets the old data of a reset volume after all pods have restarted"},
	{"claim", []int{8}, 0, "no pod is deleted while its claim is being deleted: otherwise its data is deleted, too"},
	{"continuation", nil, 2, "the master has the data of its replica: otherwise the replica copies from a master that restarted without its data"},
	{"user, history", []int{0}, 0, "the user and the recorded history: otherwise a replica with the data of a foreign node is promoted"},
	{"admission", []int{6}, 0, "a new node accepts no replica before it joins: otherwise a replica copies from an empty node at its master's address"},
	{"run", nil, 12, "the start of the master: otherwise a master that is legitimately empty is replaced"},
	{"stop", []int{11}, 213, "no pod stops while a replica lacks data of its master: otherwise the replica outlives the master and is elected"},
	{"link", []int{13}, 0, "the link until the master was lost: otherwise a replica that lacks the writes of minutes is promoted"},
	{"step", []int{14}, 0, "the proof right before a promotion: otherwise a replica is promoted over a master that runs again"},
	{"file", []int{3}, 0, "a server does not start on a damaged file: otherwise its replica gets only the undamaged part"},
}

// If any of these proofs is disabled, the model finds a loss.
func TestModelNeedsEachProof(t *testing.T) {
	if testing.Short() {
		t.Skip("it tests the model alone: make verify runs it, and go test without -short")
	}
	t.Parallel()
	for _, c := range proofs {
		if c.seed == onlyPairs {
			continue
		}
		t.Run(c.proof, func(t *testing.T) {
			t.Parallel()
			for seed := c.seed; seed < c.seed+100; seed++ {
				if lost := history(t, seed, c.proof, c.kinds); len(lost) > 0 {
					t.Logf("%s. Seed %d: %s", c.what, seed, lost[0])
					return
				}
			}
			t.Errorf("nothing is lost without this proof: %s", c.what)
		})
	}
}
