// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
)

// healthy is a database of three members, in epoch 4: 0 is the primary, 1 and 2 are voters.
func healthy() Observation {
	id := func(i int) Identity { return Identity{i, servers[i+1]} }
	o := Observation{Record: Record{Epoch: 4, Revision: 9, Formed: true, Primary: id(0), Voters: []Identity{id(1), id(2)}, Acknowledgements: 1}}
	for i := range size {
		m := Member{Identity: id(i), UID: "u", Answers: true, Volume: VolumeOwn, Running: true, Promised: 4, Revision: 9, Executed: sets[1], Received: sets[1]}
		if i == 0 {
			m.Role, m.Epoch, m.Demands, m.Routed, m.End = RolePrimary, 4, 1, true, Position{"b", 1}
		} else {
			m.Role, m.Acknowledges, m.Connected, m.CaughtUp, m.ReadTo = RoleReplica, true, true, true, Position{"b", 1}
		}
		o.Members = append(o.Members, m)
	}
	return o
}

func silent(m *Member) { *m = Member{Identity: Identity{Ordinal: m.Ordinal}, Silent: true, Bad: true} }

// The rows of the table, by what the first step is.
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
		"one look failed": {func(o *Observation, _ *Want) {
			lost(o)
			o.Members[0].Silent = false
		}, StatePrimaryUnseen, ""},
		"the primary is gone": {func(o *Observation, _ *Want) { lost(o) }, StatePrimaryLost, "Promise of 1 in 5"},
		"the primary is gone, and a person decides": {func(o *Observation, w *Want) {
			lost(o)
			w.Manual = true
		}, StatePrimaryLost, ""},
		"its volume is empty": {func(o *Observation, _ *Want) {
			o.Members[0] = Member{Answers: true, Volume: VolumeEmpty}
		}, StatePrimaryLost, "Promise of 1 in 5"},
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
		"the candidate's volume is another one": {func(o *Observation, _ *Want) {
			promised(o)
			o.Members[1].Server = servers[9]
		}, StateQuorumLost, ""},
		"both volumes are gone": {func(o *Observation, _ *Want) {
			o.Members[0] = Member{Answers: true, Volume: VolumeEmpty}
			o.Members[1] = Member{Identity: Identity{Ordinal: 1}, Answers: true, Volume: VolumeEmpty}
		}, StateLost, ""},
		"the primary started again": {func(o *Observation, _ *Want) { o.Members[0].Role = RoleNone }, StateRecorded, "Ticket primary:4:9:1 of 0"},
		"the primary started again, twice": {func(o *Observation, _ *Want) {
			o.Members[0].Role, o.Members[0].UsedTicket = RoleNone, "primary:4:9:1"
		}, StateRecorded, "Record 4: 0 with [1 2]/1"},
		"semi-sync demands too little": {func(o *Observation, _ *Want) { o.Members[0].Demands = 0 }, StateRecorded, "Serve of 0 in 4"},
		"two are writable":             {func(o *Observation, _ *Want) { o.Members[2].Role = RolePrimary }, StateSplit, "Ticket fence of 2"},
		"a voter started again": {func(o *Observation, _ *Want) {
			o.Members[1].Role, o.Members[1].Acknowledges = RoleNone, false
		}, StateJoining, "Follow of 1 in 4"},
		"a voter is bad": {func(o *Observation, _ *Want) { o.Members[1].Bad = true }, StateVoterBad, "Serve of 0 in 4"},
		"a voter is bad and cut off, the other lags": {func(o *Observation, _ *Want) {
			o.Members[1].Bad, o.Members[0].Cut, o.Members[0].CutEnd = true, []int{1}, Position{"b", 2}
		}, StateVoterBad, ""},
		"a voter is bad and cut off": {func(o *Observation, _ *Want) {
			o.Members[1].Bad, o.Members[0].Cut, o.Members[0].CutEnd = true, []int{1}, Position{"b", 1}
		}, StateVoterBad, "Record 4: 0 with [2]/1"},
		"a voter was bad and cut off": {func(o *Observation, _ *Want) { o.Members[0].Cut = []int{1} }, StateVoterBad, "Record 4: 0 with [1 2]/1"},
		"both voters are bad": {func(o *Observation, _ *Want) {
			o.Members[1].Bad, o.Members[2].Bad = true, true
		}, StateVoterBad, "Record 4: 0 with []/0"},
		"both voters are bad, and it blocks": {func(o *Observation, w *Want) {
			o.Members[1].Bad, o.Members[2].Bad, w.WhenAlone = true, true, Block
		}, StateVoterBad, ""},
		"a member has more": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2] = Member{Identity: o.Members[2].Identity, Answers: true, Running: true, Volume: VolumeOwn, Received: sets[3], Executed: sets[3]}
			o.Members[0].Cut = []int{2}
		}, StateErrant, "Ticket join:9:0:s1 of 2"},
		"a member has more, and commits wait": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2] = Member{Identity: o.Members[2].Identity, Answers: true, Running: true, Volume: VolumeOwn, Received: sets[3], Executed: sets[3]}
			o.Members[0].Cut, o.Members[0].Waiting = []int{2}, 1
		}, StateHealthy, ""},
		"a member is empty": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2], o.Members[0].Cut = Member{Identity: Identity{Ordinal: 2}, Answers: true, Volume: VolumeEmpty}, []int{2}
		}, StateJoining, "Ticket join:9:0:s1 of 2"},
		"a member is foreign": {func(o *Observation, _ *Want) {
			o.Record.Voters = o.Record.Voters[:1]
			o.Members[2], o.Members[0].Cut = Member{Identity: Identity{Ordinal: 2}, Answers: true, Volume: VolumeForeign}, []int{2}
		}, StateHealthy, ""},
		"a learner acknowledges": {func(o *Observation, _ *Want) { o.Record.Voters = o.Record.Voters[:1] }, StateRecorded, "Serve of 0 in 4"},
		"a learner has caught up": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Members[2].Acknowledges = o.Record.Voters[:1], false
		}, StateGrowing, "Record 4: 0 with [1 2]/1"},
		"a learner has caught up with one that is alone": {func(o *Observation, _ *Want) {
			o.Record.Voters, o.Record.Acknowledgements, o.Members[0].Demands = nil, 0, 0
			o.Members[1].Acknowledges, o.Members[2].Acknowledges = false, false
		}, StateGrowing, "Record 4: 0 with []/1"},
		"a commit waits though a voter is connected": {func(o *Observation, _ *Want) {
			o.Members[0].Waiting, o.Members[0].Blocked = 1, true
		}, StateBlocked, "Heartbeat of 0 in 4"},
		"another primary is asked for": {func(_ *Observation, w *Want) { w.Switch, w.To = true, 2 }, StateSwitchWanted, "Demote of 0 in 5"},
		"another primary is asked for, and lags": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[2].CaughtUp = true, 2, false
		}, StateSwitchWanted, ""},
		"another primary is asked for, and commits wait": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[0].Waiting = true, 2, 1
		}, StateSwitchWanted, ""},
		"the primary gave its epoch up": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[0].Promised, o.Members[0].Role = true, 2, 5, RoleNone
		}, StateSwitching, "Promise of 1 in 5"},
		"the primary gave its epoch up, and all promised": {func(o *Observation, w *Want) {
			promised(o)
			w.Switch, w.To = true, 2
			o.Members[0] = healthy().Members[0]
			o.Members[0].Promised, o.Members[0].Role = 5, RoleNone
		}, StateSwitching, "Record 5: 2 with [1]/1"},
		"the primary gave its epoch up, and has more": {func(o *Observation, w *Want) {
			w.Switch, w.To, o.Members[0].Promised, o.Members[0].Role, o.Members[0].Received = true, 2, 5, RoleNone, sets[3]
		}, StateSwitching, "Record 5: 0 with [1 2]/1"},
		"nothing was formed": {func(o *Observation, _ *Want) {
			o.Record = Record{}
			for i := range o.Members {
				o.Members[i] = Member{Identity: Identity{Ordinal: i}, Answers: true, Volume: VolumeEmpty}
			}
		}, StateFresh, "Ticket seed of 0"},
		"nothing was formed, and an agent is silent": {func(o *Observation, _ *Want) {
			o.Record = Record{}
			for i := range o.Members {
				o.Members[i] = Member{Identity: Identity{Ordinal: i}, Answers: i != 2, Volume: VolumeEmpty}
			}
		}, StateFresh, ""},
		"the record is lost": {func(o *Observation, _ *Want) { o.Record = Record{} }, StateRecordLost, ""},
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
	return fmt.Sprintf("%s of %d in %d", s.Action, s.Member.Ordinal, s.Epoch)
}
