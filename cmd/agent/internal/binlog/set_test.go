// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/internal/contract"
)

// Sets behave like maps of GTIDs.
func TestSets(t *testing.T) {
	t.Parallel()
	ids := []string{"3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"}
	random := chance.New(t, 1)
	make2 := func() (Set, map[string]bool) {
		all, text := map[string]bool{}, []string{}
		for range random.Intn(8) {
			id, from := ids[random.Intn(2)], 1+random.Intn(20)
			to := from + random.Intn(5)
			text = append(text, strings.ToUpper(id)+fmt.Sprintf(":%d-%d:%d", from, to, from))
			for n := from; n <= to; n++ {
				all[fmt.Sprintf("%s:%d", id, n)] = true
			}
		}
		set, err := ParseSet(strings.Join(text, ",\n"))
		assert.NilError(t, err)
		for range random.Intn(4) {
			gtid := fmt.Sprintf("%s:%d", ids[random.Intn(2)], 1+random.Intn(25))
			assert.NilError(t, set.Add(gtid))
			all[gtid] = true
		}
		return set, all
	}
	for range 3000 {
		a, inA := make2()
		b, inB := make2()
		again, err := ParseSet(a.String())
		assert.NilError(t, err)
		assert.Equal(t, again.String(), a.String())
		subset := true
		for _, id := range ids {
			for n := 1; n < 30; n++ {
				gtid := fmt.Sprintf("%s:%d", id, n)
				subset = subset && (inA[gtid] || !inB[gtid])
				for _, c := range []struct{ has, wants bool }{
					{a.Has(gtid), inA[gtid]}, {a.Union(b).Has(gtid), inA[gtid] || inB[gtid]}, {a.Minus(b).Has(gtid), inA[gtid] && !inB[gtid]}, {a.And(b).Has(gtid), inA[gtid] && inB[gtid]},
				} {
					if c.has != c.wants {
						t.Fatalf("a wrong result for %s with the sets %s and %s", gtid, a, b)
					}
				}
			}
		}
		assert.Equal(t, a.Contains(b), subset, "%s and %s", a, b)
	}
	for _, text := range []string{ids[0] + ":tag:1-5", ids[0] + ":5-1", ids[0] + ":0", "x:1-"} {
		if _, err := ParseSet(text); contract.ReasonOf(err) != contract.ReasonRefused {
			t.Errorf("%s: %v", text, err)
		}
	}
}
