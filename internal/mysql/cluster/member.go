// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/mysql/client"
	"d3os.com/d3os-operator/internal/mysql/replication"
)

// The states of members.
const (
	stateWell     = "Well"
	stateStarting = "Starting"
	stateEmpty    = "Empty"
	stateJoining  = "Joining"
	stateLagging  = "Lagging"
	stateDown     = "Down"
	stateLost     = "Lost"
	stateForeign  = "Foreign"
	stateErrant   = "Errant"
	stateLeaving  = "Leaving"
)

var states = []string{stateWell, stateStarting, stateEmpty, stateJoining, stateLagging, stateDown, stateLost, stateForeign, stateErrant, stateLeaving}

// longestPosition is the maximum length of a member's position in the status, in bytes.
const longestPosition = 256

// member returns the status of a member.
func (obs *Observation) member(mc *mysqlv1.MySQLCluster, i int, decided replication.Decision) mysqlv1.MemberStatus {
	m, look := obs.Members[i], obs.Looks[i]
	s := mysqlv1.MemberStatus{Name: database.PodName(mc.Name, m.Ordinal), Ordinal: int32(m.Ordinal)} //nolint:gosec // a few members
	switch {
	case m.Server == "":
	case m.Identity == obs.Record.Primary:
		s.Role = "Primary"
	case obs.Record.IsVoter(m.Identity):
		s.Role = "Voter"
	case m.Role == replication.RoleReplica:
		s.Role = "Reader"
	}
	s.State, s.Message = obs.stateOf(m, look, decided, maxLag(&mc.Spec))
	if m.Ordinal >= replicasOf(&mc.Spec) {
		s.State = stateLeaving
	}
	if problem := obs.Problems[s.Name]; problem != "" && s.State != stateWell {
		s.Message = problem
	}
	if m.Running {
		s.Position = m.Received.String()
		s.Position = s.Position[:min(len(s.Position), longestPosition)]
		s.Version = look.Answer.State.Version
	}
	if s.State == stateLagging {
		s.Lag = fmt.Sprintf("%ds", look.Answer.State.Lag/10*10)
	}
	return s
}

// stateOfVolume maps the state of a volume to the state of its member. It lists the volumes on which a server starts
// only after a step.
var stateOfVolume = map[replication.Volume]struct{ state, message string }{
	replication.VolumeForeign: {stateForeign, "its volume has data of another member"},
	replication.VolumeLost:    {stateLost, "its data is lost"},
	replication.VolumeEmpty:   {stateEmpty, ""},
	replication.VolumeSingle:  {stateJoining, "its volume has the data of the former single server"},
}

// stateOf returns the state of a member, and the reason why it is not healthy.
func (obs *Observation) stateOf(m replication.Member, look client.Look, decided replication.Decision, maxLag int) (state, message string) {
	isErrant := decided.Model.State == replication.StateErrant && decided.Step != nil && decided.Step.Member.Ordinal == m.Ordinal
	switch {
	case !m.Answers && m.Silent:
		return stateDown, "its agent does not answer"
	case !m.Answers:
		return stateStarting, ""
	case look.Answer.Making != "":
		return stateJoining, "it gets its data"
	case stateOfVolume[m.Volume].state != "":
		return stateOfVolume[m.Volume].state, stateOfVolume[m.Volume].message
	case !m.Running && m.Silent:
		return stateDown, "its server does not answer"
	case !m.Running:
		return stateStarting, ""
	case isErrant:
		return stateErrant, "it has transactions that the primary lacks"
	case m.Identity == obs.Record.Primary:
		if obs.isServed() {
			return stateWell, ""
		}
		return stateStarting, ""
	case m.Role != replication.RoleReplica || m.Source != obs.Record.Primary.Ordinal || !m.Connected:
		return stateStarting, look.Answer.State.Problem
	case look.Answer.State.Problem != "":
		return stateLagging, look.Answer.State.Problem
	case look.Answer.State.Lag > maxLag:
		return stateLagging, fmt.Sprintf("it is more than %d s behind", maxLag) // the exact time would change the status in each pass
	}
	return stateWell, ""
}
