// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func authority(t *testing.T) Pair {
	t.Helper()
	a, err := NewAuthority("clients of data/etcd", now)
	assert.NilError(t, err)
	assert.Assert(t, a.Valid())
	return a
}

// An issued certificate is valid under its authority only, for its names and uses only.
func TestIssue(t *testing.T) {
	t.Parallel()
	a := authority(t)
	leaf := Leaf{Name: "server", Hosts: []string{"etcd.data.svc", "127.0.0.1"}}
	server, err := a.Issue(leaf, now)
	assert.NilError(t, err)
	client, err := a.Issue(Leaf{Name: "client", Client: true}, now)
	assert.NilError(t, err)
	roots := x509.NewCertPool()
	assert.Assert(t, roots.AppendCertsFromPEM(a.Cert))
	verify := func(p Pair, host string, usage x509.ExtKeyUsage, at time.Time) error {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		assert.NilError(t, err)
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	assert.NilError(t, verify(server, "etcd.data.svc", x509.ExtKeyUsageServerAuth, now))
	assert.NilError(t, verify(server, "127.0.0.1", x509.ExtKeyUsageServerAuth, now))
	assert.ErrorContains(t, verify(server, "other", x509.ExtKeyUsageServerAuth, now), "not other")
	assert.ErrorContains(t, verify(server, "", x509.ExtKeyUsageClientAuth, now), "usage")
	assert.NilError(t, verify(client, "", x509.ExtKeyUsageClientAuth, now))
	assert.ErrorContains(t, verify(client, "", x509.ExtKeyUsageServerAuth, now), "usage")
	assert.ErrorContains(t, verify(server, "", x509.ExtKeyUsageServerAuth, now.Add(LeafLife+time.Second)), "expired")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	a, other := authority(t), authority(t)
	leaf := Leaf{Name: "server", Hosts: []string{"b", "a", "127.0.0.1"}}
	good, err := a.Issue(leaf, now)
	assert.NilError(t, err)
	stranger, err := other.Issue(leaf, now)
	assert.NilError(t, err)
	more := Leaf{Name: "server", Hosts: []string{"a", "b", "c", "127.0.0.1"}}
	for name, c := range map[string]struct {
		pair      Pair
		leaf      Leaf
		authority Pair
		at        time.Time
		want      string
	}{
		"good":                             {good, leaf, a, now, ""},
		"after half of its lifetime":       {good, leaf, a, now.Add(LeafLife / 2), ""},
		"after two thirds of its lifetime": {good, leaf, a, now.Add(LeafLife / 3 * 2), "due to be renewed"},
		"another authority":                {stranger, leaf, a, now, "another certificate authority"},
		"more names":                       {good, more, a, now, "other names"},
		"the key of another certificate":   {Pair{good.Cert, stranger.Key}, leaf, a, now, "the key is not"},
		"no certificate":                   {Pair{}, leaf, a, now, "no certificate"},
		"no key":                           {Pair{Cert: good.Cert}, leaf, a, now, "no key"},
		"authority is wrong":               {good, leaf, Pair{}, now, "certificate authority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.pair.Check(c.leaf, c.authority, c.at)
			if c.want == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
	_, err = Pair{}.Issue(leaf, now)
	assert.ErrorContains(t, err, "certificate authority")
}
