// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"strings"
	"testing"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

func TestDonorOf(t *testing.T) {
	t.Parallel()
	at := func(ordinal int, s mysqlmember.State) member {
		return member{ordinal: ordinal, Answer: mysqlmember.Answer{State: &s}}
	}
	primary := mysqlmember.State{Role: mysqlmember.RolePrimary, Writable: true, Epoch: 3, Promised: 3, Demands: 1}
	with := func(s mysqlmember.State, change func(*mysqlmember.State)) mysqlmember.State {
		change(&s)
		return s
	}
	voter := mysqlmember.State{Role: mysqlmember.RoleReplica, Acknowledges: true, Connected: true, Source: 0, Promised: 3, Lag: 5}
	for name, c := range map[string]struct {
		members []member
		donor   int // -1 for none
		why     string
	}{
		"the voter with the least lag":          {[]member{at(0, primary), at(1, voter), at(2, with(voter, func(s *mysqlmember.State) { s.Lag = 1 }))}, 2, ""},
		"a reader is not copied":                {[]member{at(0, primary), at(1, voter), at(2, with(voter, func(s *mysqlmember.State) { s.Lag, s.Acknowledges = 0, false }))}, 1, ""},
		"not connected":                         {[]member{at(0, primary), at(1, with(voter, func(s *mysqlmember.State) { s.Connected = false }))}, -1, "no voter"},
		"with a problem":                        {[]member{at(0, primary), at(1, with(voter, func(s *mysqlmember.State) { s.Problem = "broken" }))}, -1, "no voter"},
		"of another primary":                    {[]member{at(0, primary), at(1, with(voter, func(s *mysqlmember.State) { s.Source = 2 }))}, -1, "no voter"},
		"cut off":                               {[]member{at(0, with(primary, func(s *mysqlmember.State) { s.Cut = []int{1} })), at(1, voter)}, -1, "no voter"},
		"the primary alone":                     {[]member{at(0, with(primary, func(s *mysqlmember.State) { s.Demands = 0 }))}, 0, ""},
		"no voter is demanded, but one follows": {[]member{at(0, with(primary, func(s *mysqlmember.State) { s.Demands = 0 })), at(1, voter)}, 1, ""},
		"a voter is demanded, and none follows": {[]member{at(0, primary)}, -1, "no voter follows the primary"},
		"no primary":                            {[]member{at(1, voter), at(2, voter)}, -1, "no member is a writable primary"},
		"the primary only reads":                {[]member{at(0, with(primary, func(s *mysqlmember.State) { s.Writable = false })), at(1, voter)}, -1, "no member is a writable primary"},
		"the primary is not protected":          {[]member{at(0, with(primary, func(s *mysqlmember.State) { s.Unprotected = true })), at(1, voter)}, -1, "no member is a writable primary"},
		"a newer epoch was promised":            {[]member{at(0, primary), at(1, with(voter, func(s *mysqlmember.State) { s.Promised = 4 })), at(2, voter)}, -1, "another member is becoming the primary"},
		"a former primary still answers":        {[]member{at(0, primary), at(1, with(primary, func(s *mysqlmember.State) { s.Epoch, s.Promised = 4, 4 })), at(2, with(voter, func(s *mysqlmember.State) { s.Source, s.Promised = 1, 4 }))}, 2, ""},
		"no member answers":                     {nil, -1, "no member is a writable primary"},
	} {
		donor, _, err := donorOf(c.members)
		switch {
		case c.donor >= 0 && (err != nil || donor.ordinal != c.donor):
			t.Errorf("%s: member %d, %v", name, donor.ordinal, err)
		case c.donor < 0 && (contract.ReasonOf(err) != contract.ReasonServerUnreachable || !strings.Contains(err.Error(), c.why)):
			t.Errorf("%s: member %d, %v", name, donor.ordinal, err)
		}
	}
}
