// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A certificate that the operator renews in time is never late.
func TestValidity(t *testing.T) {
	t.Parallel()
	a := authority(t)
	leaf, err := a.Issue(Leaf{Name: "client", Client: true}, now)
	assert.NilError(t, err)
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		text       []byte
		at         time.Duration
		late, over bool
	}{
		"new":                                  {leaf.Cert, 0, false, false},
		"due to be renewed":                    {leaf.Cert, LeafLife / 3 * 2, false, false},
		"late":                                 {leaf.Cert, LeafLife - 14*day, true, false},
		"expired":                              {leaf.Cert, LeafLife + time.Second, true, true},
		"an authority":                         {a.Cert, AuthorityLife - 31*day, false, false},
		"an authority, shortly before its end": {a.Cert, AuthorityLife - 29*day, true, false},
		"the first to expire counts":           {slices.Concat(a.Cert, leaf.Key, leaf.Cert), LeafLife - 14*day, true, false},
		"the first to expire comes first":      {slices.Concat(leaf.Cert, a.Cert), LeafLife - 14*day, true, false},
		"expired, with a valid authority":      {slices.Concat(leaf.Cert, a.Cert), LeafLife + time.Second, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := ValidityOf(c.text)
			assert.NilError(t, err)
			assert.Equal(t, v.IsLate(now.Add(c.at)), c.late)
			assert.Equal(t, v.IsOver(now.Add(c.at)), c.over)
		})
	}
	for text, want := range map[string]string{
		"":               "no certificate",
		string(leaf.Key): "no certificate",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": "read the certificate",
	} {
		_, err := ValidityOf([]byte(text))
		assert.ErrorContains(t, err, want)
	}
}
