// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "testing"

func TestAddressesAreNotGivenTwice(t *testing.T) {
	first, err := ClaimNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release() //nolint:errcheck // the process ends
	second, err := ClaimNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release() //nolint:errcheck // the process ends
	seen := map[string]bool{first.Host(): true}
	for range 3000 {
		for _, n := range []*Network{first, second} {
			address := n.Next()
			if seen[address] {
				t.Fatalf("%s is given twice", address)
			}
			seen[address] = true
		}
	}
}
