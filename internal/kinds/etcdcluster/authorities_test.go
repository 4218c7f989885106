// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"bytes"
	"maps"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/certs"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
)

// secrets returns those that a keeper plans for a cluster that runs.
func (k *keeper) secrets(t *testing.T, ec *etcdv1.EtcdCluster, live there, runs bool) (there, error) {
	t.Helper()
	secrets, err := k.plan(ec, ownerOf(ec), live.Inputs(), membership.Record{Cluster: 1, Replicas: 3}, runs)
	found := there{}
	for _, s := range secrets {
		found["Secret/"+s.GetName()] = s
	}
	return found, err
}

// In each phase of a replacement, what was signed in the phase before and in the one after it is trusted. An operator that ends between
// the writes of two Secrets goes on, and the authorities of another phase or cluster are taken by none.
func TestPhasesOfAuthoritiesOverlap(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	now := func() time.Time { return today }
	begun := newKeeper(now)
	first, err := begun.plan(ec, ownerOf(ec), there{}.Inputs(), membership.Record{}, false)
	assert.NilError(t, err)
	live := there{}
	for _, s := range first {
		live["Secret/"+s.GetName()] = s
	}
	original := authoritiesIn(live["Secret/store-ca"])
	ec.Spec.TLS.Rotation = "a"
	phases := []there{live}
	for _, from := range []membership.AuthorityPhase{membership.AuthoritiesAtRest, membership.AuthoritiesTrust, membership.AuthoritiesSign} {
		assert.ErrorContains(t, begun.rotate(ec, "Other"), "refused")
		assert.NilError(t, begun.rotate(ec, from))
		next, err := begun.secrets(t, ec, live, true)
		assert.NilError(t, err)
		for written := range next { // one Secret is written, and the operator ends
			partly := maps.Clone(live)
			partly[written] = next[written]
			again, err := newKeeper(now).secrets(t, ec, partly, true)
			assert.NilError(t, err, "%s after phase %s", written, from)
			for _, l := range leaves(ec) {
				for _, other := range []there{live, next} {
					shown := pairIn(other["Secret/store"+l.suffix], keyCert, keyKey)
					trusted := false
					for _, one := range authoritiesIn(again["Secret/store-ca"]).all() {
						trusted = trusted || shown.SignedBy(one.of(l))
					}
					assert.Assert(t, trusted, "%s after phase %s", l.suffix, from)
				}
			}
		}
		live = next
		phases = append(phases, next)
	}
	trusts := func(s there) []byte { return dataIn(s["Secret/store-peer-tls"], keyCA) }
	assert.Assert(t, bytes.Equal(trusts(phases[1]), trusts(phases[2])), "no pod is replaced for the second phase")
	last := authoritiesIn(live["Secret/store-ca"])
	assert.Equal(t, last.Rotation, "a")
	assert.Assert(t, !bytes.Equal(last.Clients.Key, original.Clients.Key) && !bytes.Equal(last.Members.Key, original.Members.Key), "the keys are new")
	assert.Equal(t, len(last.data()), 4, "nothing of the former ones is left")
	assert.Equal(t, len(dataIn(phases[2]["Secret/store-ca"], "former-ca.key")), 0, "a key that signs nothing any more is not kept")

	swapped := maps.Clone(live)
	swapped["Secret/store-ca"] = phases[0]["Secret/store-ca"] // as from a backup of the time before
	_, err = newKeeper(now).secrets(t, ec, swapped, true)
	assert.ErrorContains(t, err, "other certificate authorities than the running members trust")
}

// Authorities are due for a replacement after two thirds of their life, long before a certificate outlives one of them.
func TestAuthoritiesAreDueInTime(t *testing.T) {
	t.Parallel()
	k := newKeeper(func() time.Time { return today })
	made, err := k.makeAuthorities(read(t, "minimal"))
	assert.NilError(t, err)
	assert.Assert(t, !made.isDue(today.Add(certs.AuthorityLife/2)))
	assert.Assert(t, made.isDue(today.Add(certs.AuthorityLife*2/3)))
	assert.Assert(t, certs.AuthorityLife/3 > 4*certs.LeafLife)
}
