// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"
)

// faultKind is a kind of fault, usual or odd. Some kinds need a change of the spec.
type faultKind struct {
	name    string
	usual   uint8
	odd     uint16
	changes uint8
}

var faultKinds = []faultKind{
	{name: "a container ends", usual: 1},
	{name: "a pod is deleted", usual: 1 << 1},
	{name: "a volume is emptied", usual: 1 << 2},
	{name: "a claim and its pod are deleted", usual: 1 << 3},
	{name: "data is damaged", usual: 1 << 4},
	{name: "a volume in an earlier state", odd: oddPast},
	{name: "claims are deleted", odd: oddClaims},
	{name: "a corrupt member", odd: oddCorrupt},
	{name: "another record", odd: oddRecord},
	{name: "addresses are exchanged", odd: oddMixed},
	{name: "a wrong template", odd: oddTemplate, changes: 1},
	{name: "an image that does not exist", odd: oddImage, changes: 1},
	{name: "authorities are replaced", odd: oddRotation, changes: 1},
	{name: "damaged data mends by itself", usual: 1 << 4, odd: oddMends},
}

// pairOf returns a world of three members with two kinds of faults. stale is the maximum number of delayed steps.
func pairOf(t *testing.T, a, b faultKind, stale uint8) world {
	t.Helper()
	w := odd(t, 3, a.odd|b.odd, budget{faults: 2, changes: max(a.changes, b.changes), stale: stale})
	w.usual = a.usual | b.usual
	return w
}

// TestExplorePairs runs all pairs of kinds of faults. The second fault happens at any point of the repair of the first.
// With -short (make test), it runs a tenth of the pairs.
func TestExplorePairs(t *testing.T) {
	t.Parallel()
	i, most := 0, 40_000
	if testing.Short() {
		most = 5_000
	}
	for first, a := range faultKinds {
		for _, b := range faultKinds[first:] {
			if i++; testing.Short() && i%10 != 0 {
				continue
			}
			t.Run(a.name+", "+b.name, func(t *testing.T) {
				t.Parallel()
				e := explore(t, pairOf(t, a, b, 0), most, Decide)
				for _, line := range e.harm {
					t.Log(line)
				}
				if len(e.harm) > 0 {
					t.Error("the operator did harm, or did not repair the cluster")
				}
				t.Logf("%d states, at most %d passes until all was well", len(e.how), e.longest)
			})
		}
	}
}

// If one of the proofs in harms is disabled, a pair of faults does harm.
func TestExplorePairsFindHarm(t *testing.T) {
	if testing.Short() {
		t.Skip("it tests the model alone: make verify runs it, and go test without -short")
	}
	t.Parallel()
	for name, c := range harms {
		if c.without == "recovered" {
			continue // needs three faults: two for the recovery
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, a := range faultKinds {
				if c.odd&a.odd != c.odd {
					continue
				}
				for _, b := range faultKinds {
					w := pairOf(t, a, b, c.left.stale)
					w.left.changes = max(w.left.changes, c.left.changes)
					w.without = c.without
					e := explore(t, w, 60_000, c.decide)
					if len(e.harm) > 0 && strings.Contains(e.harm[len(e.harm)-1], c.says) {
						t.Logf("%s, %s: %s", a.name, b.name, e.harm[len(e.harm)-1])
						return
					}
				}
			}
			t.Errorf("without the proof, no pair of faults causes the harm: %s", c.says)
		})
	}
}
