// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// healthy returns a database of three members in epoch 4. Member 0 is the primary; members 1 and 2 are voters.
func healthy() Observation {
	id := func(i int) Identity { return Identity{i, servers[i+1]} }
	o := Observation{Record: Record{Epoch: 4, Revision: 9, Formed: true, Primary: id(0), Voters: []Identity{id(1), id(2)}, Acknowledgements: 1}}
	for i := range size {
		m := Member{Identity: id(i), UID: "u", Answers: true, Volume: VolumeOwn, Running: true, Promised: 4, Revision: 9, Executed: sets[1], Received: sets[1]}
		if i == 0 {
			m.Role, m.Epoch, m.Demands, m.Routed, m.Writable, m.End = RolePrimary, 4, 1, true, true, Position{File: "b", Offset: 1}
		} else {
			m.Role, m.Acknowledges, m.Connected, m.CaughtUp, m.ReadTo = RoleReplica, true, true, true, Position{File: "b", Offset: 1}
		}
		o.Members = append(o.Members, m)
	}
	return o
}

func silent(m *Member) { *m = Member{Identity: Identity{Ordinal: m.Ordinal}, Silent: true, Bad: true} }

// useless makes members bad: they have been disconnected for a long time.
func useless(o *Observation, ordinals ...int) {
	for _, i := range ordinals {
		o.Members[i].Bad, o.Members[i].Connected = true, false
	}
}

// failing gives a member an outdated pod, and an agent that has reported for a long time why the server does not run.
func failing(m *Member) {
	m.Outdated, m.Running, m.Failing, m.Silent, m.Bad, m.Role, m.Connected = true, false, true, true, true, RoleNone, false
}

// putBack resets the volume of the primary to an older state, and starts its server on it. The voters have a
// transaction of that server that the volume lacks.
func putBack(o *Observation) {
	for i := range o.Members {
		m := &o.Members[i]
		m.Received = maps.Clone(sets[1])
		if m.Executed = m.Received; i > 0 {
			m.Received[o.Record.Primary.Server] = []interval{{1, 2}}
		}
	}
	o.Members[0].Role = RoleNone
}

// behind makes member 2 lack a transaction that the primary has removed from its logs, because the member was stopped
// for a long time.
func behind(o *Observation) {
	o.Record.Voters = o.Record.Voters[:1]
	o.Members[2] = Member{Identity: o.Members[2].Identity, UID: "u", Answers: true, Running: true, Volume: VolumeOwn, Received: sets[1], Executed: sets[1]}
	o.Members[0].Executed, o.Members[0].Received, o.Members[0].Purged, o.Members[0].Cut = sets[3], sets[3], sets[3], []int{2}
	o.Members[1].Executed, o.Members[1].Received = sets[3], sets[3]
}

// torn makes member 2 a replica that cannot read its relay log. It is not a voter.
func torn(o *Observation) {
	o.Record.Voters = o.Record.Voters[:1]
	m := &o.Members[2]
	m.Bad, m.CaughtUp, m.Acknowledges, m.Damage, m.Orders = true, false, false, DamageLog, renewOrders
}

// personal makes all members log in with the passwords of their servers.
func personal(o *Observation) {
	o.Members[0].Servers = map[int]string{}
	for i := range o.Members {
		o.Members[i].Orders = personalOrders
		if i > 0 {
			o.Members[0].Servers[i], o.Members[i].Personal = o.Members[i].Server, true
		}
	}
}

// errants gives each named member a transaction that its own server has written.
func errants(o *Observation, ordinals ...int) {
	for _, i := range ordinals {
		m := &o.Members[i]
		m.Received = m.Received.With(GTIDs{m.Server: {{1, 1}}})
		m.Executed = m.Received
	}
}

// twoErrant makes members 1 and 2 errant, while the primary runs without voters.
func twoErrant(o *Observation) {
	errants(o, 1, 2)
	o.Record.Voters, o.Record.Acknowledgements, o.Members[0].Demands = nil, 0, 0
	for i := 1; i < size; i++ {
		o.Members[i].Role, o.Members[i].Acknowledges, o.Members[i].Connected = RoleNone, false, false
	}
}

// twoCopies makes a database lose the primary and the voter. Two readers remain. Each has a transaction that the other lacks, and the
// second reader has more transactions.
func twoCopies(o *Observation) {
	id := Identity{3, servers[4]}
	o.Members[1].Received, o.Members[2].Received = sets[1], sets[6]
	o.Members[1].Executed, o.Members[2].Executed = sets[1], sets[6]
	o.Record.Voters = []Identity{id}
	o.Members[0] = Member{Answers: true, Volume: VolumeLost}
	o.Members = append(o.Members, Member{Identity: Identity{Ordinal: 3}, Answers: true, Volume: VolumeEmpty})
}

// twoCopiesToken is the consent to continue with member 1 of twoCopies.
const twoCopiesToken = "4-9-s1-1-b9558e79"

// single returns a change to a database that was never formed. Its first volume has the data of a single server, and the other volumes have
// the state others.
func single(mark, adopt string, others Volume) func(*Observation, *Want) {
	return func(o *Observation, w *Want) {
		o.Record, w.Adopt = Record{}, adopt
		for i := range o.Members {
			o.Members[i] = Member{Identity: Identity{Ordinal: i}, Answers: true, Volume: others}
		}
		o.Members[0].Volume, o.Members[0].Mark = VolumeSingle, mark
	}
}

// Each row is a case of the decision table.
func TestDecide(t *testing.T) {
	t.Parallel()
	lost := func(o *Observation) {
		silent(&o.Members[0])
		o.Members[1].Connected, o.Members[2].Connected = false, false
	}
	promised := func(o *Observation) {
		lost(o)
		for i := 1; i < size; i++ {
			o.Members[i].Promised, o.Members[i].Role = 5, RoleNone
		}
	}
	for name, c := range map[string]struct {
		change func(o *Observation, want *Want)
		state  State
		step   string
	}{
		"all is well":           {nil, StateHealthy, ""},
		"the primary is unseen": {func(o *Observation, _ *Want) { silent(&o.Members[0]) }, StatePrimaryUnseen, ""},
		"one query failed": {func(o *Observation, _ *Want) {
			lost(o)
			o.Members[0].Silent = false
		}, StatePrimaryUnseen, ""},
		"the primary is gone": {func(o *Observation, _ *Want) { lost(o) }, StatePrimaryLost, "Promise of 1,2 in 5"},
		"the primary is gone, and failover is manual": {func(o *Observation, w *Want) {
			lost(o)
			w.Manual = true
		}, StatePrimaryLost, ""},
		"its volume is empty": {func(o *Observation, _ *Want) {
			o.Members[0] = Member{Answers: true, Volume: VolumeEmpty}
		}, StatePrimaryLost, "Promise of 1,2 in 5"},
		"its volume cannot be read": {func(o *Observation, _ *Want) {
			lost(o)
			o.Members[0] = Member{Answers: true, Running: true}
		}, StatePrimaryUnseen, ""},
		"its volume cannot be read, and it was alone": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Record.Acknowledgements = nil, 0
			o.Members[0] = Member{Answers: true, Silent: true}
		}, StateQuorumLost, ""},
		"a volume of a voter cannot be read": {func(o *Observation, _ *Want) {
			o.Members[1] = Member{Identity: Identity{Ordinal: 1}, Answers: true, Running: true}
		}, StateHealthy, ""},
		"one voter promised": {func(o *Observation, _ *Want) {
			promised(o)
			o.Members[2].Promised = 4
		}, StateSwitching, "Promise of 2 in 5"},
		"one voter promised, and its receiver runs": {func(o *Observation, _ *Want) {
			promised(o)
			o.Members[2].Role = RoleReplica
		}, StateSwitching, "Promise of 2 in 5"},
		"one voter promised, the other is gone": {func(o *Observation, _ *Want) {
			promised(o)
			silent(&o.Members[2])
		}, StateQuorumLost, ""},
		"one voter promised, and the primary is back": {func(o *Observation, _ *Want) { o.Members[1].Promised = 5 }, StateSwitching, "Record 5: 0 with [1 2]/1"},
		"all promised": {func(o *Observation, _ *Want) { promised(o) }, StateSwitching, "Record 5: 1 with [2]/1"},
		"one received more": {func(o *Observation, _ *Want) {
			promised(o)
			o.Members[2].Executed, o.Members[2].Received = sets[3], sets[3]
		}, StateSwitching, "Record 5: 2 with []/1"},
		"one received more, and has not applied it": {func(o *Observation, _ *Want) {
			promised(o)
			o.Members[2].Received = sets[3]
		}, StateSwitching, ""},
		"each received something else": {func(o *Observation, _ *Want) {
			promised(o)
			o.Members[1].Received, o.Members[2].Received = sets[5], sets[3]
		}, StateDiverged, ""},
		"the candidate's data was replaced": {func(o *Observation, _ *Want) {
			promised(o)
			o.Members[1].Server = servers[9]
		}, StateQuorumLost, ""},
		"both volumes are gone": {func(o *Observation, _ *Want) {
			o.Members[0] = Member{Answers: true, Volume: VolumeEmpty}
			o.Members[1] = Member{Identity: Identity{Ordinal: 1}, Answers: true, Volume: VolumeEmpty}
		}, StateLost, ""},
		"the primary started again":                                 {func(o *Observation, _ *Want) { o.Members[0].Role = RoleNone }, StateRecorded, "Ticket primary:4:9:1 of 0"},
		"the primary started again on an older state of its volume": {func(o *Observation, _ *Want) { putBack(o) }, StatePrimaryLost, "Promise of 1,2 in 5"},
		"the primary started again on an older state, and all promised": {func(o *Observation, _ *Want) {
			putBack(o)
			for i := 1; i < size; i++ {
				o.Members[i].Promised, o.Members[i].Role = 5, RoleNone
			}
		}, StateSwitching, "Record 5: 1 with [2]/1"},
		"the primary started again on an older state, and failover is manual": {func(o *Observation, w *Want) {
			putBack(o)
			w.Manual = true
		}, StatePrimaryLost, ""},
		"a member has an older state of its volume": {func(o *Observation, _ *Want) {
			putBack(o)
			o.Record.Primary, o.Record.Voters = o.Members[1].Identity, []Identity{o.Members[2].Identity}
			o.Members[1] = healthy().Members[0]
			o.Members[1].Identity, o.Members[1].Executed, o.Members[1].Received = o.Record.Primary, o.Members[2].Executed, o.Members[2].Received
			o.Members[2].Source = 1
		}, StateJoining, "Ticket join:9:1:s2 of 0"},
		"the primary started again, twice": {func(o *Observation, _ *Want) {
			o.Members[0].Role, o.Members[0].UsedTicket = RoleNone, "primary:4:9:1"
		}, StateRecorded, "Record 4: 0 with [1 2]/1"},
		"semi-sync demands too little": {func(o *Observation, _ *Want) { o.Members[0].Demands = 0 }, StateRecorded, "Serve of 0 in 4"},
		"members log in with the password of all": {func(o *Observation, _ *Want) {
			personal(o)
			o.Members[0].Servers = nil
		}, StateRecorded, "Serve of 0 in 4"},
		"a member logs in with the password of all": {func(o *Observation, _ *Want) {
			personal(o)
			o.Members[1].Personal = false
		}, StateJoining, "Follow of 1 in 4"},
		"members log in with their own passwords": {func(o *Observation, _ *Want) { personal(o) }, StateHealthy, ""},
		"the agent of a member is older": {func(o *Observation, _ *Want) {
			personal(o)
			o.Members[1].Orders, o.Members[1].Personal = 1, false
			delete(o.Members[0].Servers, 1)
		}, StateHealthy, ""},
		"the agent of the primary is older": {func(o *Observation, _ *Want) {
			personal(o)
			o.Members[0].Orders, o.Members[0].Servers = 1, nil
		}, StateJoining, "Follow of 1 in 4"},
		"a member was recreated": {func(o *Observation, _ *Want) {
			personal(o)
			o.Record.Voters, o.Members[1].Server, o.Members[1].Acknowledges = o.Record.Voters[1:], servers[9], false
		}, StateRecorded, "Serve of 0 in 4"},
		"the primary only reads": {func(o *Observation, _ *Want) { o.Members[0].Writable = false }, StateRecorded, "Serve of 0 in 4"},
		"a pod is removed, and its server may still run": {func(o *Observation, w *Want) {
			w.Replicas, w.Members, o.Record.Voters, o.Members = 2, 3, o.Record.Voters[:1], o.Members[:2]
		}, StateRecorded, "Serve of 0 in 4"},
		"a pod is removed, and refused": {func(o *Observation, w *Want) {
			w.Replicas, w.Members, o.Record.Voters, o.Members = 2, 3, o.Record.Voters[:1], o.Members[:2]
			o.Members[0].Cut = []int{2}
		}, StateHealthy, ""},
		"two are writable": {func(o *Observation, _ *Want) { o.Members[2].Role = RolePrimary }, StateSplit, "Ticket fence of 2"},
		"a voter started again": {func(o *Observation, _ *Want) {
			o.Members[1].Role, o.Members[1].Acknowledges = RoleNone, false
		}, StateJoining, "Follow of 1 in 4"},
		"a voter is connected to another server at the primary's address": {func(o *Observation, _ *Want) {
			o.Members[1].SourceServer, o.Members[1].Received = servers[9], sets[3]
		}, StateJoining, "Follow of 1 in 4"},
		"a voter is connected to the primary": {func(o *Observation, _ *Want) { o.Members[1].SourceServer = servers[1] }, StateHealthy, ""},
		"the primary is gone, and a voter receives from another server": {func(o *Observation, _ *Want) {
			lost(o)
			o.Members[1].Connected, o.Members[1].SourceServer = true, servers[9]
		}, StatePrimaryLost, "Promise of 1,2 in 5"},
		"a voter is bad": {func(o *Observation, _ *Want) { o.Members[1].Bad = true }, StateVoterBad, "Serve of 0 in 4"},
		"a voter is bad and cut off, the other lags": {func(o *Observation, _ *Want) {
			o.Members[1].Bad, o.Members[0].Cut, o.Members[0].CutEnd = true, []int{1}, Position{File: "b", Offset: 2}
		}, StateVoterBad, ""},
		"a voter is bad and cut off": {func(o *Observation, _ *Want) {
			o.Members[1].Bad, o.Members[0].Cut, o.Members[0].CutEnd = true, []int{1}, Position{File: "b", Offset: 1}
		}, StateVoterBad, "Record 4: 0 with [2]/1"},
		"a voter was bad and cut off": {func(o *Observation, _ *Want) { o.Members[0].Cut = []int{1} }, StateVoterBad, "Record 4: 0 with [1 2]/1"},
		"both voters are bad":         {func(o *Observation, _ *Want) { useless(o, 1, 2) }, StateVoterBad, "Record 4: 0 with []/0"},
		"both voters are bad, and it blocks": {func(o *Observation, w *Want) {
			useless(o, 1, 2)
			w.WhenAlone = Block
		}, StateVoterBad, ""},
		"both voters lag, and acknowledge": {func(o *Observation, _ *Want) {
			o.Members[1].Bad, o.Members[2].Bad = true, true
		}, StateHealthy, ""},
		"both voters lag, and one is not connected": {func(o *Observation, _ *Want) {
			useless(o, 1)
			o.Members[2].Bad = true
		}, StateVoterBad, "Serve of 0 in 4"},
		"both voters lag, and one member is wanted": {func(o *Observation, w *Want) {
			o.Members[1].Bad, o.Members[2].Bad, w.Replicas = true, true, 1
		}, StateVoterBad, "Record 4: 0 with []/0"},
		"a voter has transactions of its own": {func(o *Observation, _ *Want) {
			o.Members[2].Received = maps.Clone(sets[1])
			o.Members[2].Received[o.Members[2].Server] = []interval{{1, 2}}
		}, StateVoterBad, "Serve of 0 in 4"},
		"both voters have transactions of their own": {func(o *Observation, _ *Want) { errants(o, 1, 2) }, StateVoterBad, "Serve of 0 in 4"},
		"the only voter of two members has transactions of its own": {func(o *Observation, w *Want) {
			errants(o, 1)
			w.Replicas, o.Record.Voters, o.Members = 2, o.Record.Voters[:1], o.Members[:2]
		}, StateVoterBad, "Record 4: 0 with []/0"},
		"the last voter has transactions of its own, and another member copies": {func(o *Observation, _ *Want) {
			errants(o, 1)
			o.Record.Voters, o.Members[0].Cut = o.Record.Voters[:1], []int{2}
			o.Members[2] = Member{Identity: o.Members[2].Identity, Answers: true, Volume: VolumeOwn, Ticket: "join:9:0:s1"}
		}, StateHealthy, ""},
		"two members have transactions of their own, and one copies": {func(o *Observation, _ *Want) {
			twoErrant(o)
			o.Members[1].Ticket = "join:9:0:s1"
		}, StateHealthy, ""},
		"two members have transactions of their own, and one cannot copy": {func(o *Observation, _ *Want) {
			twoErrant(o)
			o.Members[1].Ticket, o.Members[1].FailedTicket = "join:9:0:s1", "join:9:0:s1"
		}, StateErrant, "Ticket join:9:0:s1 of 2"},
		"two members have transactions of their own, and one with a ticket is gone": {func(o *Observation, _ *Want) {
			twoErrant(o)
			silent(&o.Members[1])
			o.Members[1].Ticket, o.Members[0].Cut = "join:9:0:s1", []int{1}
		}, StateErrant, "Ticket join:9:0:s1 of 2"},
		"a member has transactions of its own, and an empty one copies": {func(o *Observation, _ *Want) {
			twoErrant(o)
			o.Members[1] = Member{Identity: Identity{Ordinal: 1}, Answers: true, Volume: VolumeEmpty, Ticket: "join:9:0:s1"}
			o.Members[0].Cut = []int{1}
		}, StateHealthy, ""},
		"a voter has transactions that the primary has not shown yet": {func(o *Observation, _ *Want) {
			o.Members[2].Received = maps.Clone(sets[1])
			o.Members[2].Received[o.Members[0].Server] = []interval{{1, 999}}
		}, StateHealthy, ""},
		"both voters are bad, one is cut off, and it blocks": {func(o *Observation, w *Want) {
			useless(o, 1, 2)
			o.Members[0].Cut, w.WhenAlone = []int{1}, Block
		}, StateVoterBad, "Record 4: 0 with [1 2]/1"},
		"a member has more transactions": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2] = Member{Identity: o.Members[2].Identity, Answers: true, Running: true, Volume: VolumeOwn, Received: sets[3], Executed: sets[3]}
			o.Members[0].Cut = []int{2}
		}, StateErrant, "Ticket join:9:0:s1 of 2"},
		"a member has more transactions, and commits wait": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2] = Member{Identity: o.Members[2].Identity, Answers: true, Running: true, Volume: VolumeOwn, Received: sets[3], Executed: sets[3]}
			o.Members[0].Cut, o.Members[0].Waiting = []int{2}, 1
		}, StateHealthy, ""},
		"a member lacks transactions that the primary's logs no longer have": {func(o *Observation, _ *Want) { behind(o) }, StateJoining, "Ticket join:9:0:s1 of 2"},
		"a member lacks transactions that the primary's logs no longer have, and copies": {func(o *Observation, _ *Want) {
			behind(o)
			o.Members[2].Ticket = "join:9:0:s1"
		}, StateHealthy, ""},
		"a member lacks transactions that the primary's logs no longer have, and it is the only one": {func(o *Observation, w *Want) {
			behind(o)
			w.Replicas, o.Record.Voters = 3, nil
			silent(&o.Members[1])
			o.Members[0].Cut = []int{1, 2}
		}, StateVoterBad, "Record 4: 0 with []/0"},
		"a member lacks transactions that the primary's logs still have": {func(o *Observation, _ *Want) {
			behind(o)
			o.Members[0].Purged = sets[1]
		}, StateJoining, "Follow of 2 in 4"},
		"a member has more transactions, and the primary is busy": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2] = Member{Identity: o.Members[2].Identity, Answers: true, Running: true, Volume: VolumeOwn, Received: maps.Clone(sets[3]), Executed: sets[3]}
			o.Members[2].Received[o.Members[2].Server] = []interval{{1, 2}}
			o.Members[0].Cut, o.Members[0].Busy = []int{2}, true
		}, StateErrant, "Ticket join:9:0:s1 of 2"},
		"a member has received transactions that the busy primary shows later": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2] = Member{Identity: o.Members[2].Identity, Answers: true, Running: true, Volume: VolumeOwn, Received: maps.Clone(sets[1]), Executed: sets[1]}
			o.Members[2].Received[o.Members[0].Server] = []interval{{1, 999}}
			o.Members[0].Cut, o.Members[0].Busy = []int{2}, true
		}, StateHealthy, ""},
		"a member is empty": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2], o.Members[0].Cut = Member{Identity: Identity{Ordinal: 2}, Answers: true, Volume: VolumeEmpty}, []int{2}
		}, StateJoining, "Ticket join:9:0:s1 of 2"},
		"two members are empty, and one has a ticket": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Record.Acknowledgements, o.Members[0].Demands, o.Members[0].Cut = nil, 0, 0, []int{1, 2}
			o.Members[1] = Member{Identity: Identity{Ordinal: 1}, Answers: true, Volume: VolumeEmpty, Ticket: "join:9:0:" + o.Members[0].Server}
			o.Members[2] = Member{Identity: Identity{Ordinal: 2}, Answers: true, Volume: VolumeEmpty}
		}, StateHealthy, ""},
		"two members are empty, and one failed to copy": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Record.Acknowledgements, o.Members[0].Demands, o.Members[0].Cut = nil, 0, 0, []int{1, 2}
			o.Members[1] = Member{Identity: Identity{Ordinal: 1}, Answers: true, Volume: VolumeEmpty, Ticket: "join:9:0:" + o.Members[0].Server}
			o.Members[1].FailedTicket = o.Members[1].Ticket
			o.Members[2] = Member{Identity: Identity{Ordinal: 2}, Answers: true, Volume: VolumeEmpty}
		}, StateJoining, "Ticket join:9:0:s1 of 2"},
		"a member is foreign": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2], o.Members[0].Cut = Member{Identity: Identity{Ordinal: 2}, Answers: true, Volume: VolumeForeign}, []int{2}
		}, StateHealthy, ""},
		"a learner acknowledges": {func(o *Observation, _ *Want) { o.Record.Voters = o.Record.Voters[:1] }, StateRecorded, "Serve of 0 in 4"},
		"a learner has caught up": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Members[2].Acknowledges = o.Record.Voters[:1], false
		}, StateGrowing, "Record 4: 0 with [1 2]/1"},
		"a learner has caught up with a primary that is alone": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Record.Acknowledgements, o.Members[0].Demands = nil, 0, 0
			o.Members[1].Acknowledges, o.Members[2].Acknowledges = false, false
		}, StateGrowing, "Record 4: 0 with []/1"},
		"a primary that was alone needs a copy, and its replicas have the old revision": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Record.Revision, o.Members[0].Demands = nil, 10, 0
			o.Members[1].Acknowledges, o.Members[2].Acknowledges = false, false
		}, StateJoining, "Follow of 1 in 4"},
		"a primary that was alone needs a copy": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Members[0].Demands = nil, 0
			o.Members[1].Acknowledges, o.Members[2].Acknowledges = false, false
		}, StateRecorded, "Serve of 0 in 4"},
		"a learner follows, and has not caught up": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Members[2].Acknowledges, o.Members[2].CaughtUp = o.Record.Voters[:1], false, false
		}, StateGrowing, ""},
		"commits wait for a learner that has not applied the log": {func(o *Observation, _ *Want) {
			o.Record.Voters = nil
			for i := 1; i < size; i++ {
				o.Members[i].Acknowledges, o.Members[i].CaughtUp = false, false
			}
		}, StateGrowing, "Record 4: 0 with [1]/1"},
		"commits wait for a learner, and the second one has caught up": {func(o *Observation, _ *Want) {
			o.Record.Voters = nil
			o.Members[1].Acknowledges, o.Members[2].Acknowledges = false, false
			o.Members[1].CaughtUp = false
		}, StateGrowing, "Record 4: 0 with [2]/1"},
		"commits wait for a learner, and the second one has the log": {func(o *Observation, _ *Want) {
			o.Record.Voters = nil
			o.Members[1].Acknowledges, o.Members[2].Acknowledges = false, false
			o.Members[1].ReadTo = Position{File: "b"}
		}, StateGrowing, "Record 4: 0 with [2]/1"},
		"commits wait for a learner that can never apply the log": {func(o *Observation, _ *Want) {
			silent(&o.Members[2])
			o.Record.Voters, o.Members[0].Cut = nil, []int{2}
			o.Members[1].Acknowledges, o.Members[1].CaughtUp, o.Members[1].Damage = false, false, DamageData
		}, StateGrowing, ""},
		"commits wait for a learner that has not received the log": {func(o *Observation, _ *Want) {
			o.Record.Voters = nil
			for i := 1; i < size; i++ {
				o.Members[i].Acknowledges, o.Members[i].CaughtUp, o.Members[i].ReadTo = false, false, Position{File: "b"}
			}
		}, StateGrowing, ""},
		"a commit waits though a voter is connected": {func(o *Observation, _ *Want) {
			o.Members[0].Waiting, o.Members[0].Blocked = 1, true
		}, StateBlocked, "Heartbeat of 0 in 4"},
		"another primary is wanted": {func(_ *Observation, w *Want) { w.Switch, w.To = true, 2 }, StateSwitchWanted, "Demote of 0 in 5"},
		"another primary is wanted, and lags": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[2].CaughtUp = true, 2, false
		}, StateSwitchWanted, ""},
		"another primary is wanted, and a voter lags": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[1].CaughtUp = true, 2, false
		}, StateSwitchWanted, ""},
		"another primary is wanted, and a voter that must leave lags": {func(o *Observation, w *Want) {
			w.Replicas = 1
			o.Record.Primary, o.Record.Voters = o.Members[2].Identity, []Identity{o.Members[0].Identity, o.Members[1].Identity}
			o.Members[0], o.Members[2] = o.Members[2], o.Members[0]
			o.Members[0].Identity, o.Members[2].Identity = o.Members[2].Identity, o.Members[0].Identity
			o.Members[0].Source, o.Members[1].Source, o.Members[1].CaughtUp = 2, 2, false
		}, StateSwitchWanted, "Demote of 2 in 5"},
		"another primary is wanted, and a voter is not connected": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[1].Connected = true, 2, false
		}, StateSwitchWanted, ""},
		"another primary is wanted, and commits wait": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[0].Waiting = true, 2, 1
		}, StateSwitchWanted, ""},
		"the primary gave up its epoch": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[0].Promised, o.Members[0].Role = true, 2, 5, RoleNone
		}, StateSwitching, "Promise of 1,2 in 5"},
		"the primary gave up its epoch, and all promised": {func(o *Observation, w *Want) {
			promised(o)
			w.Switch, w.To = true, 2
			o.Members[0] = healthy().Members[0]
			o.Members[0].Promised, o.Members[0].Role = 5, RoleNone
		}, StateSwitching, "Record 5: 2 with [1]/1"},
		"the primary gave up its epoch, and has more transactions": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[0].Promised, o.Members[0].Role, o.Members[0].Received = true, 2, 5, RoleNone, sets[3]
		}, StateSwitching, "Record 5: 0 with [1 2]/1"},
		"no member is wanted": {func(_ *Observation, w *Want) { w.Replicas = 0 }, StateParked, ""},
		"no member is wanted, and one is lost": {func(o *Observation, w *Want) {
			lost(o)
			w.Replicas = 0
		}, StateParked, ""},
		"two members are wanted":              {func(_ *Observation, w *Want) { w.Replicas = 2 }, StateVoterBad, "Serve of 0 in 4"},
		"one member is wanted":                {func(_ *Observation, w *Want) { w.Replicas = 1 }, StateVoterBad, "Record 4: 0 with []/0"},
		"one member is wanted, and it blocks": {func(_ *Observation, w *Want) { w.Replicas, w.WhenAlone = 1, Block }, StateVoterBad, "Record 4: 0 with []/0"},
		"the primary is not wanted": {func(o *Observation, w *Want) {
			w.Replicas = 2
			o.Record.Primary, o.Record.Voters = o.Members[2].Identity, []Identity{o.Members[0].Identity, o.Members[1].Identity}
			o.Members[0], o.Members[2] = o.Members[2], o.Members[0]
			o.Members[0].Identity, o.Members[2].Identity = o.Members[2].Identity, o.Members[0].Identity
			o.Members[0].Source, o.Members[1].Source = 2, 2
		}, StateSwitchWanted, "Demote of 2 in 5"},
		"all pods are outdated": {func(o *Observation, _ *Want) {
			for i := range o.Members {
				o.Members[i].Outdated = true
			}
		}, StateRolling, "Serve of 0 in 4"},
		"a member is outdated, and another one has just become ready": {func(o *Observation, w *Want) {
			w.WellFor, o.Members[0].WellFor, o.Members[1].WellFor, o.Members[2].WellFor = time.Minute, time.Hour, time.Hour, time.Second
			o.Members[1].Outdated = true
		}, StateRolling, ""},
		"a member is outdated, and all others have been well for long": {func(o *Observation, w *Want) {
			w.WellFor, o.Members[0].WellFor, o.Members[2].WellFor = time.Minute, time.Minute, time.Hour
			o.Members[1].Outdated = true
		}, StateRolling, "Serve of 0 in 4"},
		"the primary is outdated, and another one has just become ready": {func(o *Observation, w *Want) {
			w.WellFor, o.Members[0].WellFor, o.Members[1].WellFor, o.Members[2].WellFor = time.Minute, time.Hour, time.Hour, time.Second
			o.Members[0].Outdated = true
		}, StateRolling, ""},
		"the change failed on a member, and a voter's server is down": {func(o *Observation, w *Want) {
			w.WellFor, o.Members[0].WellFor, o.Members[2].WellFor, o.Members[2].Ended = time.Minute, time.Hour, time.Second, "container mysql ended: OOMKilled"
			o.Members[2].UID = "u"
			o.Members[1].UID, o.Members[1].Outdated, o.Members[1].Down = "u", true, true
		}, StateRolling, ""},
		"a voter's server is down, and the change has not failed": {func(o *Observation, w *Want) {
			w.WellFor, o.Members[0].WellFor, o.Members[2].WellFor = time.Minute, time.Hour, time.Second
			o.Members[1].UID, o.Members[1].Outdated, o.Members[1].Down = "u", true, true
		}, StateRolling, "DeletePod of 1 in 4"},
		"a voter is outdated, the other lags": {func(o *Observation, _ *Want) {
			o.Members[1].Outdated, o.Members[2].CaughtUp = true, false
		}, StateRolling, ""},
		"the only voter is outdated": {func(o *Observation, w *Want) {
			w.Replicas, o.Record.Voters, o.Members, o.Members[1].Outdated = 2, o.Record.Voters[:1], o.Members[:2], true
		}, StateRolling, "DeletePod of 1 in 4"},
		"a member that is no voter is outdated": {func(o *Observation, w *Want) {
			w.MaxVoters, o.Record.Voters = 1, o.Record.Voters[:1]
			o.Members[2].Outdated, o.Members[2].Acknowledges = true, false
		}, StateRolling, "DeletePod of 2 in 4"},
		"the primary is outdated": {func(o *Observation, _ *Want) { o.Members[0].Outdated = true }, StateSwitchWanted, "Demote of 0 in 5"},
		"the primary is outdated, and a member is no voter yet": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Members[0].Outdated, o.Members[0].Cut = o.Record.Voters[:1], true, []int{2}
			o.Members[2] = Member{Identity: Identity{Ordinal: 2}, Silent: true}
		}, StateRolling, ""},
		"the primary is outdated, and wanted as the primary": {func(o *Observation, w *Want) {
			o.Members[0].Outdated, w.Switch, w.To = true, true, 0
		}, StateSwitchWanted, "Demote of 0 in 5"},
		"the only member is outdated": {func(o *Observation, w *Want) {
			w.Replicas, o.Record.Voters, o.Record.Acknowledgements, o.Members = 1, nil, 0, o.Members[:1]
			o.Members[0].Outdated, o.Members[0].Demands = true, 0
		}, StateRolling, "DeletePod of 0 in 4"},
		"the only member is outdated, and its server does not start": {func(o *Observation, w *Want) {
			w.Replicas, o.Record.Voters, o.Record.Acknowledgements, o.Members = 1, nil, 0, o.Members[:1]
			failing(&o.Members[0])
		}, StateRolling, "DeletePod of 0 in 4"},
		"the only member's server does not start": {func(o *Observation, w *Want) {
			w.Replicas, o.Record.Voters, o.Record.Acknowledgements, o.Members = 1, nil, 0, o.Members[:1]
			failing(&o.Members[0])
			o.Members[0].Outdated = false
		}, StateQuorumLost, ""},
		"the only voter is outdated, its server does not start, and it blocks": {func(o *Observation, w *Want) {
			w.Replicas, w.WhenAlone, o.Record.Voters, o.Members = 2, Block, o.Record.Voters[:1], o.Members[:2]
			failing(&o.Members[1])
		}, StateRolling, "DeletePod of 1 in 4"},
		"nothing was formed, and an outdated pod fails to create the first data": {func(o *Observation, _ *Want) {
			o.Record = Record{}
			for i := range o.Members {
				o.Members[i] = Member{Identity: Identity{Ordinal: i}, UID: "u", Answers: true, Volume: VolumeEmpty, Bad: true, Outdated: true}
			}
			o.Members[0].Ticket, o.Members[0].FailedTicket = SeedTicket, SeedTicket
		}, StateRolling, "DeletePod of 0 in 0"},
		"nothing was formed, and an outdated pod cannot run": {func(o *Observation, _ *Want) {
			o.Record = Record{}
			for i := range o.Members {
				o.Members[i] = Member{Identity: Identity{Ordinal: i}, UID: "u", Answers: i > 0, Volume: VolumeEmpty}
			}
			o.Members[0].Outdated, o.Members[0].Down = true, true
		}, StateRolling, "DeletePod of 0 in 0"},
		"no pod can run, and all are outdated": {func(o *Observation, _ *Want) {
			for i := range o.Members {
				silent(&o.Members[i])
				o.Members[i].UID, o.Members[i].Outdated, o.Members[i].Down = "u", true, true
			}
		}, StateRolling, "DeletePod of 0 in 4"},
		"a reader cannot read its relay log": {func(o *Observation, _ *Want) { torn(o) }, StateJoining, "Follow of 2 in 4"},
		"a reader has not been damaged for long": {func(o *Observation, _ *Want) {
			torn(o)
			o.Members[2].Bad = false
		}, StateGrowing, ""},
		"a reader with an older agent cannot read its relay log": {func(o *Observation, _ *Want) {
			torn(o)
			o.Members[2].Orders = personalOrders
		}, StateJoining, "Ticket join:9:0:s1 of 2"},
		"a reader's data differs": {func(o *Observation, _ *Want) {
			torn(o)
			o.Members[2].Damage = DamageData
		}, StateJoining, "Ticket join:9:0:s1 of 2"},
		"a voter cannot read its relay log": {func(o *Observation, _ *Want) {
			voters := o.Record.Voters
			torn(o)
			o.Record.Voters, o.Members[2].Acknowledges = voters, true
		}, StateVoterBad, "Serve of 0 in 4"},
		"the only voter cannot read its relay log, and it blocks": {func(o *Observation, w *Want) {
			w.Replicas, w.WhenAlone, o.Record.Voters, o.Members = 2, Block, o.Record.Voters[:1], o.Members[:2]
			o.Members[1].Bad, o.Members[1].Damage = true, DamageLog
		}, StateVoterBad, "Record 4: 0 with []/1"},
		"the loss of both volumes is accepted": {func(o *Observation, w *Want) {
			o.Members[0], o.Members[1] = Member{Answers: true, Volume: VolumeLost}, Member{Identity: Identity{Ordinal: 1}, Answers: true, Volume: VolumeEmpty}
			w.AcceptLoss = "4-9-s1"
		}, StateSwitching, "Promise of 2 in 5"},
		"the loss of both volumes is accepted, and the copy has promised": {func(o *Observation, w *Want) {
			o.Members[0], o.Members[1] = Member{Answers: true, Volume: VolumeLost}, Member{Identity: Identity{Ordinal: 1}, Answers: true, Volume: VolumeEmpty}
			o.Members[2].Promised, o.Members[2].Role = 5, RoleNone
			w.AcceptLoss = "4-9-s1"
		}, StateSwitching, "Record 5: 2 with []/1"},
		"the loss is accepted, and the copy with more transactions lacks one": {func(o *Observation, w *Want) {
			twoCopies(o)
			w.AcceptLoss = "4-9-s1"
		}, StateLost, ""},
		"the loss is accepted, and the copy that is named is not the last one": {func(o *Observation, w *Want) {
			twoCopies(o)
			w.AcceptLoss = twoCopiesToken
		}, StateSwitching, "Promise of 1,2 in 5"},
		"the loss is accepted, the copy is named, and all promised": {func(o *Observation, w *Want) {
			twoCopies(o)
			for i := 1; i < size; i++ {
				o.Members[i].Promised, o.Members[i].Role = 5, RoleNone
			}
			w.AcceptLoss = twoCopiesToken
		}, StateSwitching, "Record 5: 1 with []/1"},
		"the loss is accepted, the copy is named, and another one has more since": {func(o *Observation, w *Want) {
			twoCopies(o)
			o.Members[2].Received = sets[7]
			o.Members[1].Received = sets[6]
			w.AcceptLoss = twoCopiesToken
		}, StateLost, ""},
		"two copies are left, and one has all of the other": {func(o *Observation, w *Want) {
			twoCopies(o)
			for i := 1; i < size; i++ {
				o.Members[i].Received, o.Members[i].Promised, o.Members[i].Role = sets[1<<i-1], 5, RoleNone
				o.Members[i].Executed = o.Members[i].Received
			}
			w.AcceptLoss = "4-9-s1"
		}, StateSwitching, "Record 5: 2 with []/1"},
		"another loss is accepted": {func(o *Observation, w *Want) {
			o.Members[0], o.Members[1] = Member{Answers: true, Volume: VolumeLost}, Member{Identity: Identity{Ordinal: 1}, Answers: true, Volume: VolumeEmpty}
			w.AcceptLoss = "4-8-s1"
		}, StateLost, ""},
		"the loss is accepted, and a voter is silent": {func(o *Observation, w *Want) {
			o.Members[0] = Member{Answers: true, Volume: VolumeEmpty}
			o.Members[1] = Member{Identity: Identity{Ordinal: 1}, Answers: true, Volume: VolumeEmpty}
			silent(&o.Members[2])
			w.AcceptLoss = "4-9-s1"
		}, StateLost, ""},
		"the volume of a primary that was alone is gone": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Record.Acknowledgements = nil, 0
			o.Members[0] = Member{Answers: true, Volume: VolumeEmpty}
		}, StateLost, ""},
		"the loss is accepted while the primary is only silent": {func(o *Observation, w *Want) {
			lost(o)
			silent(&o.Members[1])
			w.AcceptLoss = "4-9-s1"
		}, StateQuorumLost, ""},
		"a member copies": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2] = Member{Identity: Identity{Ordinal: 2}, Answers: true, Volume: VolumeEmpty, Ticket: "join:7:0:s1"}
			o.Members[0].Cut, o.Members[0].Waiting, o.Members[0].Blocked = []int{2}, 1, true
		}, StateBlocked, "Heartbeat of 0 in 4"},
		"a member has a ticket to copy another primary": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2] = Member{Identity: Identity{Ordinal: 2}, Answers: true, Volume: VolumeEmpty, Ticket: "join:7:1:s2"}
			o.Members[0].Cut = []int{2}
		}, StateJoining, "Ticket join:9:0:s1 of 2"},
		"deadlock of commits and the copy of a member": {func(o *Observation, w *Want) {
			w.WhenAlone, o.Record.Voters = Block, nil
			for i := 1; i < size; i++ {
				o.Members[i] = Member{Identity: Identity{Ordinal: i}, Answers: true, Volume: VolumeEmpty}
			}
			o.Members[0].Cut, o.Members[0].Waiting = []int{1, 2}, 1
		}, StateBlocked, ""},
		"five members, a voter is removed": {func(o *Observation, w *Want) {
			w.Replicas, o.Record.Voters = 5, o.Record.Voters[:1]
			for i := size; i < 5; i++ {
				m := o.Members[2]
				m.Identity, m.Acknowledges, m.CaughtUp = Identity{i, servers[i+1]}, false, i == 4
				o.Members = append(o.Members, m)
			}
			silent(&o.Members[2])
			o.Members[0].Cut = []int{2}
		}, StateGrowing, "Record 4: 0 with [1 4]/1"},
		"nothing was formed": {func(o *Observation, _ *Want) {
			o.Record = Record{}
			for i := range o.Members {
				o.Members[i] = Member{Identity: Identity{Ordinal: i}, Answers: true, Volume: VolumeEmpty}
			}
		}, StateFresh, "Ticket seed of 0"},
		"the data of one server":              {single("0a1b2c3d", "0a1b2c3d", VolumeEmpty), StateFresh, "Ticket adopt:0a1b2c3d of 0"},
		"the data of another server":          {single("0a1b2c3d", "ffffffff", VolumeEmpty), StateRecordLost, ""},
		"the data of one server, unexpected":  {single("0a1b2c3d", "", VolumeEmpty), StateRecordLost, ""},
		"two members have single-server data": {single("0a1b2c3d", "0a1b2c3d", VolumeSingle), StateRecordLost, ""},
		"the data of one server is gone": {func(o *Observation, w *Want) {
			single("", "0123456789abcdef01234567", VolumeEmpty)(o, w)
			o.Members[0].Volume = VolumeEmpty
		}, StateRecordLost, ""},
		"nothing was formed, and an agent is silent": {func(o *Observation, _ *Want) {
			o.Record = Record{}
			for i := range o.Members {
				o.Members[i] = Member{Identity: Identity{Ordinal: i}, Answers: i != 2, Volume: VolumeEmpty}
			}
		}, StateFresh, ""},
		"the record is lost": {func(o *Observation, _ *Want) { o.Record = Record{} }, StateRecordLost, ""},
		"an older record":    {func(o *Observation, _ *Want) { o.Record.Revision-- }, StateRecordLost, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, want := healthy(), wanted
			if c.change != nil {
				c.change(&o, &want)
			}
			d := Decide(want, o)
			assert.Equal(t, d.Model.State, c.state, d.Model.Message)
			assert.Equal(t, brief(d.Step), c.step)
			if (d.Model.State == StateLost) != (d.Model.Token != "") && want.AcceptLoss != o.Record.LossToken() {
				t.Errorf("the token of the state %s is %q", d.Model.State, d.Model.Token)
			}
			if len(d.Model.Message) > 120 {
				t.Errorf("the message has %d characters: %s", len(d.Model.Message), d.Model.Message)
			}
		})
	}
}

func brief(s *Step) string {
	switch {
	case s == nil:
		return ""
	case s.Action == ActionTicket:
		return fmt.Sprintf("Ticket %s of %d", s.Ticket, s.Member.Ordinal)
	case s.Action == ActionRecord:
		voters := []int{}
		for _, v := range s.Record.Voters {
			voters = append(voters, v.Ordinal)
		}
		return fmt.Sprintf("Record %d: %d with %v/%d", s.Record.Epoch, s.Record.Primary.Ordinal, voters, s.Record.Acknowledgements)
	}
	members := fmt.Sprint(s.Member.Ordinal)
	for _, m := range s.Others {
		members += fmt.Sprint(",", m.Ordinal)
	}
	return fmt.Sprintf("%s of %s in %d", s.Action, members, s.Epoch)
}

// If no copy has all transactions, the operator does not choose a copy. The notes name each copy, the transactions that only this copy has
// or lacks, and the consent to continue with it.
func TestChoice(t *testing.T) {
	t.Parallel()
	o := healthy()
	twoCopies(&o)
	d := Decide(wanted, o)
	assert.Equal(t, d.Model.Token, "")
	assert.DeepEqual(t, d.Model.Notes, []string{
		"only member 1 has the transactions a:1, and it lacks a:2-3: to continue with its data, set spec.replication.acceptLoss to " + twoCopiesToken,
		"only member 2 has the transactions a:2-3, and it lacks a:1: to continue with its data, set spec.replication.acceptLoss to 4-9-s1-2-" + twoCopiesToken[len("4-9-s1-1-"):],
	})
	silent(&o.Members[3]) // the data of the voter may still exist
	d = Decide(wanted, o)
	assert.Equal(t, len(d.Model.Notes), 0, "the choice is offered before all copies are known")
}

// A recreated member gets another password. While its former server is still the voter, the account of the new server
// is locked. A voter that does not answer keeps its password.
func TestServers(t *testing.T) {
	t.Parallel()
	o := healthy()
	personal(&o)
	o.Members[1].Server = servers[9]
	step := Decide(wanted, o).Step
	assert.DeepEqual(t, step.CutOthers, []int{1})
	assert.DeepEqual(t, step.Servers, map[int]string{2: servers[3]})
	o.Record.Voters, o.Members[1].Acknowledges = o.Record.Voters[1:], false
	step = Decide(wanted, o).Step
	assert.DeepEqual(t, step.Servers, map[int]string{1: servers[9], 2: servers[3]})
	o = healthy()
	personal(&o)
	silent(&o.Members[1])
	o.Members[0].Writable = false
	step = Decide(wanted, o).Step
	assert.DeepEqual(t, step.Servers, o.Members[0].Servers)
}
