// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/mysql"
)

type (
	facts        = mysql.Facts
	records      = []mysql.Record
	switchRecord = mysql.Record
	switchClaim  = mysql.Claim
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	clean := func(database string) switchRecord { return switchRecord{Database: database, HasData: true} }
	by := func(database, by, at string, turn int) switchRecord {
		return switchRecord{Database: database, HasData: true, ReplacedBy: by, ReplacedAt: at, Turn: turn}
	}
	restored, plain := &switchClaim{UID: "u", RestoredTo: "T1"}, &switchClaim{UID: "u"}
	const t1, t2 = "everything since T1", "everything since T2"
	for name, c := range map[string]struct {
		facts  facts
		active string
		act    mysql.Act
		reason string
		says   string
	}{
		"nothing is there":                {facts{Wanted: "a"}, "a", "", "", ""},
		"a database starts":               {facts{Wanted: "a", Running: []string{"a"}}, "a", "", "", ""},
		"it runs":                         {facts{Wanted: "a", Running: []string{"a"}, Records: records{clean("a")}}, "a", "", "", ""},
		"its record was deleted":          {facts{Wanted: "a", Running: []string{"a"}}, "a", "", "", ""},
		"another name, nothing prepared":  {facts{Wanted: "b", Running: []string{"a"}, Records: records{clean("a")}}, "a", "", dsv1.ReasonNotPrepared, "ConfigMap a-data"},
		"its workload was deleted, too":   {facts{Wanted: "b", Records: records{clean("a")}}, "a", "", dsv1.ReasonNotPrepared, ""},
		"it was never ready":              {facts{Wanted: "b", Running: []string{"a"}}, "a", "", dsv1.ReasonNotPrepared, ""},
		"a claim without a DataRestore":   {facts{Wanted: "b", Records: records{clean("a")}, Prepared: plain, Accepted: t1}, "a", "", dsv1.ReasonNotPrepared, ""},
		"prepared, no consent":            {facts{Wanted: "b", Records: records{clean("a")}, Prepared: restored}, "a", "", dsv1.ReasonLossNotAccepted, t1},
		"another consent":                 {facts{Wanted: "b", Records: records{clean("a")}, Prepared: restored, Accepted: t2}, "a", "", dsv1.ReasonLossNotAccepted, t1},
		"consent":                         {facts{Wanted: "b", Records: records{clean("a")}, Prepared: restored, Accepted: t1}, "a", mysql.Enlist, dsv1.ReasonStopping, ""},
		"enlisted":                        {facts{Wanted: "b", Records: records{clean("a"), by("b", "a", "", 1)}, Prepared: restored, Accepted: t1}, "a", mysql.Replace, dsv1.ReasonStopping, ""},
		"enlisted, the name set back":     {facts{Wanted: "a", Records: records{clean("a"), by("b", "a", "", 1)}}, "a", "", "", ""},
		"enlisted, the claim deleted":     {facts{Wanted: "b", Records: records{clean("a"), by("b", "a", "", 1)}, Accepted: t1}, "a", "", dsv1.ReasonNotPrepared, ""},
		"enlisted, the claim made again":  {facts{Wanted: "b", Records: records{clean("a"), by("b", "a", "", 1)}, Prepared: plain, Accepted: "everything since an unknown moment"}, "a", "", dsv1.ReasonNotPrepared, ""},
		"replaced":                        {facts{Wanted: "b", Records: records{by("a", "b", "T2", 2), by("b", "a", "", 1)}, Prepared: restored, Accepted: t1}, "b", mysql.Reinstate, dsv1.ReasonSwitching, ""},
		"switched":                        {facts{Wanted: "b", Running: []string{"b"}, Records: records{by("a", "b", "T2", 2), clean("b")}, Accepted: t1}, "b", "", "", ""},
		"switched, the old one comes up":  {facts{Wanted: "b", Running: []string{"a", "b"}, Records: records{by("a", "b", "T2", 2), clean("b")}}, "b", "", "", ""},
		"back, no consent":                {facts{Wanted: "a", Records: records{by("a", "b", "T2", 2), clean("b")}, Prepared: plain, Accepted: t1}, "b", "", dsv1.ReasonLossNotAccepted, t2},
		"back":                            {facts{Wanted: "a", Records: records{by("a", "b", "T2", 2), clean("b")}, Prepared: plain, Accepted: t2}, "b", mysql.Replace, dsv1.ReasonStopping, ""},
		"back, replaced":                  {facts{Wanted: "a", Records: records{by("a", "b", "T2", 2), by("b", "a", "T3", 3)}, Prepared: plain}, "a", mysql.Reinstate, dsv1.ReasonSwitching, ""},
		"back, its volume is gone":        {facts{Wanted: "a", Records: records{by("a", "b", "T2", 2), clean("b")}, Accepted: t2}, "b", "", dsv1.ReasonNotPrepared, ""},
		"a third one":                     {facts{Wanted: "c", Records: records{by("a", "b", "T2", 2), clean("b")}, Prepared: restored, Accepted: t1}, "b", mysql.Enlist, dsv1.ReasonStopping, ""},
		"from the third to the first one": {facts{Wanted: "a", Records: records{by("a", "b", "T2", 2), by("b", "c", "T3", 4), clean("c")}, Prepared: plain}, "c", "", dsv1.ReasonLossNotAccepted, t2},
		"the data in use was given up":    {facts{Wanted: "b", Records: records{by("a", "b", "T2", 2)}}, "b", "", "", ""},
		"recreated by a user":             {facts{Wanted: "b", Running: []string{"b"}, Records: records{clean("a"), clean("b")}}, "b", "", "", ""},
		"and back, time not recorded":     {facts{Wanted: "a", Running: []string{"b"}, Records: records{clean("a"), clean("b")}, Prepared: plain}, "b", "", dsv1.ReasonLossNotAccepted, "everything since an unknown moment"},
		"no record shows which":           {facts{Wanted: "c", Records: records{clean("a"), clean("b")}}, "", "", mysql.ReasonAmbiguous, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.facts.IsRetained = true
			v := mysql.JudgeSwitch(c.facts)
			assert.Equal(t, fmt.Sprint(v.Active, " ", v.Act, " ", v.Reason), fmt.Sprint(c.active, " ", c.act, " ", c.reason), v.Message)
			assert.Assert(t, strings.Contains(v.Message, c.says), v.Message)
			assert.Equal(t, v.Message != "", v.Reason != "")
			assert.Equal(t, v.IsStopping, v.Reason == dsv1.ReasonStopping)
			assert.Equal(t, v.IsBarred, v.Act == mysql.Reinstate)
			if c.facts.IsRetained = false; v.IsStopping {
				assert.Equal(t, mysql.JudgeSwitch(c.facts).Reason, dsv1.ReasonNotRetained)
			}
		})
	}
}

// At most one database has a clean record, so at most one server can start. This holds for every sequence of names in
// the spec, and also if an operator repeats a write whose result it has not seen.
func TestNoOrderOfActsFreesTwo(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	claims := map[string]*switchClaim{"a": {UID: "1"}, "b": {UID: "2", RestoredTo: "T0"}, "c": {UID: "3", RestoredTo: "T0"}}
	type state map[string]switchRecord
	seen := map[string]bool{}
	var explore func(s state, depth int)
	explore = func(s state, depth int) {
		key := ""
		clean := 0
		for _, n := range names {
			r, is := s[n]
			key += fmt.Sprint(r.ReplacedBy, r.ReplacedAt, r.Turn, is, ";")
			if is && r.HasData && r.ReplacedBy == "" {
				clean++
			}
		}
		assert.Assert(t, clean <= 1, "%+v", s)
		if seen[key] || depth == 0 {
			return
		}
		seen[key] = true
		for _, wanted := range names {
			f := facts{Wanted: wanted, IsRetained: true, Prepared: claims[wanted]}
			for _, r := range s {
				f.Records = append(f.Records, r)
			}
			if v := mysql.JudgeSwitch(f); v.Reason == dsv1.ReasonLossNotAccepted {
				_, f.Accepted, _ = strings.Cut(v.Message, "acceptLoss: \"")
				f.Accepted, _, _ = strings.Cut(f.Accepted, "\"")
			}
			v := mysql.JudgeSwitch(f)
			assert.Assert(t, v.Active != "" && v.Reason != dsv1.ReasonLossNotAccepted, "%+v", v)
			next := state{}
			for n, r := range s {
				next[n] = r
			}
			switch v.Act {
			case mysql.None:
				continue
			case mysql.Enlist:
				r := next[wanted]
				next[wanted] = switchRecord{Database: wanted, HasData: true, ReplacedBy: v.Active, ReplacedAt: r.ReplacedAt, Turn: v.Turn}
			case mysql.Replace:
				next[v.Active] = switchRecord{Database: v.Active, HasData: true, ReplacedBy: wanted, ReplacedAt: fmt.Sprint("T", v.Turn), Turn: v.Turn}
			case mysql.Reinstate:
				next[v.Active] = switchRecord{Database: v.Active, HasData: true}
			}
			explore(next, depth-1)
		}
	}
	explore(state{"a": {Database: "a", HasData: true}}, 12)
	assert.Assert(t, len(seen) > 100, "%d states", len(seen))
	t.Logf("%d states", len(seen))
}
