// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"strings"
	"testing"
)

// A step has no effect if one of its facts has changed.
func TestProve(t *testing.T) {
	t.Parallel()
	bad := func(o *Observation, _ *Want) {
		o.Members[1].Bad, o.Members[0].Cut, o.Members[0].CutEnd = true, []int{1}, Position{File: "b", Offset: 1}
	}
	empty := func(o *Observation, _ *Want) {
		o.Record.Voters = o.Record.Voters[:1]
		o.Members[2], o.Members[0].Cut = Member{Identity: Identity{Ordinal: 2}, UID: "u", Answers: true, Volume: VolumeEmpty}, []int{2}
	}
	errant := func(o *Observation, _ *Want) {
		empty(o, nil)
		o.Members[2] = Member{Identity: Identity{2, servers[3]}, UID: "u", Answers: true, Running: true, Volume: VolumeOwn, Received: sets[3], Executed: sets[3]}
	}
	promised := func(o *Observation, _ *Want) {
		silent(&o.Members[0])
		for i := 1; i < size; i++ {
			o.Members[i].Promised, o.Members[i].Role = 5, RoleNone
		}
	}
	accepted := func(o *Observation, w *Want) {
		promised(o, w)
		twoCopies(o)
		w.AcceptLoss = twoCopiesToken
	}
	unread := func(o *Observation, _ *Want) { torn(o) }
	unapplied := func(o *Observation, _ *Want) {
		torn(o)
		o.Members[2].Damage = DamageData
	}
	restarted := func(o *Observation, _ *Want) { o.Members[0].Role = RoleNone }
	asked := func(_ *Observation, w *Want) { w.Switch, w.To = true, 2 }
	for name, c := range map[string]struct {
		decided func(*Observation, *Want)
		later   func(*Observation)
		what    string
	}{
		"the record was written":               {bad, func(o *Observation) { o.Record.Revision++ }, "revision 10"},
		"the primary admits the refused voter": {bad, func(o *Observation) { o.Members[0].Cut = nil }, "Cut"},
		"the voter was refused again":          {bad, func(o *Observation) { o.Members[0].CutEnd.Offset++ }, "Cut"},
		"the refusing primary restarted":       {bad, func(o *Observation) { o.Members[0].Instance = "i" }, "Cut"},
		"a voter without the log":              {bad, func(o *Observation) { o.Members[2].ReadTo.Offset = 0 }, "HasLog"},
		"a voter that lost its source":         {bad, func(o *Observation) { o.Members[2].Connected = false }, "HasLog"},
		"a voter of another server":            {bad, func(o *Observation) { o.Members[2].SourceServer = servers[9] }, "HasLog"},
		"a volume that has data":               {empty, func(o *Observation) { o.Members[2].Volume = VolumeOwn }, "Empty"},
		"another server's data to adopt":       {single("0a1b2c3d", "0a1b2c3d", VolumeEmpty), func(o *Observation) { o.Members[0].Mark = "ffffffff" }, "Single"},
		"data to adopt that was adopted":       {single("0a1b2c3d", "0a1b2c3d", VolumeEmpty), func(o *Observation) { o.Members[0].Volume = VolumeOwn }, "Single"},
		"data of a second member":              {single("0a1b2c3d", "0a1b2c3d", VolumeEmpty), func(o *Observation) { o.Members[1].Volume = VolumeOwn }, "Empty"},
		"another pod of an empty volume":       {empty, func(o *Observation) { o.Members[2].UID = "v" }, "has changed"},
		"a primary that demands nothing":       {empty, func(o *Observation) { o.Members[0].Demands = 0 }, "Serves"},
		"the primary got the surplus":          {errant, func(o *Observation) { o.Members[0].Executed = sets[3] }, "Errant"},
		"the errant member is a primary":       {errant, func(o *Observation) { o.Members[2].Role = RolePrimary }, "Errant"},
		"a relay log that is readable":         {unread, func(o *Observation) { o.Members[2].Damage = "" }, "Damaged"},
		"a torn log, more transactions":        {unread, func(o *Observation) { o.Members[2].Received = sets[3] }, "Damaged"},
		"a torn log of a voter":                {unread, func(o *Observation) { o.Record.Voters = healthy().Record.Voters }, "Damaged"},
		"a torn log of the primary":            {unread, func(o *Observation) { o.Members[2].Role = RolePrimary }, "Damaged"},
		"data that matches again":              {unapplied, func(o *Observation) { o.Members[2].Damage = "" }, "Damaged"},
		"damaged data, more transactions":      {unapplied, func(o *Observation) { o.Members[2].Received = sets[3] }, "Damaged"},
		"damaged data of a voter":              {unapplied, func(o *Observation) { o.Record.Voters = healthy().Record.Voters }, "Damaged"},
		"a member that connects": {func(o *Observation, _ *Want) { behind(o) }, func(o *Observation) {
			o.Members[2].Role, o.Members[2].Connected = RoleReplica, true
		}, "Behind"},
		"a primary of an older state that has all again": {func(o *Observation, _ *Want) { putBack(o) }, func(o *Observation) {
			o.Members[0].Received = o.Members[1].Received
		}, "Ahead"},
		"the primary answers": {promised, func(o *Observation) { o.Members[0] = healthy().Members[0] }, "Silent"},
		"the primary of an accepted loss answers": {accepted, func(o *Observation) {
			o.Members[0] = healthy().Members[0]
			o.Members[0].Received = sets[1]
		}, "Gone"},
		"a member received after its promise":  {promised, func(o *Observation) { o.Members[2].Received = sets[3] }, "Promised"},
		"a member follows after its promise":   {promised, func(o *Observation) { o.Members[2].Role = RoleReplica }, "Promised"},
		"a member promised a later epoch":      {promised, func(o *Observation) { o.Members[2].Promised = 6 }, "Promised"},
		"a member is silent after its promise": {promised, func(o *Observation) { silent(&o.Members[2]) }, "Promised"},
		"a candidate has a relay log":          {restarted, func(o *Observation) { o.Members[0].Received = sets[3] }, "Drained"},
		"a candidate has other data":           {restarted, func(o *Observation) { o.Members[0].Server = servers[9] }, "has changed"},
		"a successor lags":                     {asked, func(o *Observation) { o.Members[2].ReadTo.Offset = 0 }, "HasLog"},
	} {
		o, want := healthy(), wanted
		c.decided(&o, &want)
		step := Decide(want, o).Step
		if step == nil {
			t.Fatalf("%s: no step", name)
		}
		if err := step.Prove(o); err != nil {
			t.Errorf("%s: before the change: %v", name, err)
		}
		c.later(&o)
		if err := step.Prove(o); err == nil || !strings.Contains(err.Error(), c.what) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
