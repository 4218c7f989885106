// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/certs"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
)

// The condition names the certificate that ends first, or one that cannot be read; without TLS there is none.
func TestCertificatesValid(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	valid := func(secret string, life, left time.Duration) certificate {
		return certificate{secret: secret, key: "tls.crt", Validity: certs.Validity{From: now.Add(left - life), Until: now.Add(left)}}
	}
	damaged := certificate{secret: "peer", key: "ca.crt", problem: "there is no certificate"}
	for name, c := range map[string]struct {
		mode   etcdv1.TLSMode
		found  []certificate
		reason string
		says   string
	}{
		"without TLS":              {etcdv1.TLSOff, nil, "", ""},
		"nothing was read":         {etcdv1.TLSAuto, nil, "", ""},
		"good":                     {etcdv1.TLSAuto, []certificate{valid("a", 90*day, 31*day)}, etcdv1.ReasonCertificatesValid, ""},
		"the operator's is late":   {etcdv1.TLSAuto, []certificate{valid("a", 90*day, 31*day), valid("b", 90*day, 14*day)}, etcdv1.ReasonCertificateExpires, "Secret b, tls.crt: it is valid until 2026-01-16T03:04:05Z: the operator renews"},
		"one's own is late":        {etcdv1.TLSSecrets, []certificate{valid("a", 90*day, 14*day)}, etcdv1.ReasonCertificateExpires, "look at what renews it"},
		"short lives are no fault": {etcdv1.TLSSecrets, []certificate{valid("a", day, 8*time.Hour)}, etcdv1.ReasonCertificatesValid, ""},
		"the first to end":         {etcdv1.TLSSecrets, []certificate{valid("a", 90*day, 14*day), valid("b", 90*day, -day)}, etcdv1.ReasonCertificateExpired, "Secret b, tls.crt: it was valid until 2026-01-01T03:04:05Z"},
		"damaged":                  {etcdv1.TLSSecrets, []certificate{valid("a", 90*day, -day), damaged}, etcdv1.ReasonCertificateUnreadable, "Secret peer, ca.crt: there is no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec := &etcdv1.EtcdCluster{}
			ec.Name, ec.Spec.TLS.Mode = "store", c.mode
			if c.mode == etcdv1.TLSSecrets {
				ec.Spec.TLS.ClientSecret = "client"
			}
			v := view{ec: ec, world: World{certificates: c.found}}
			v.certificates(kinds.Conditions{List: &ec.Status.Conditions, Generation: 1, Now: metav1.NewTime(now)})
			is := meta.FindStatusCondition(ec.Status.Conditions, etcdv1.ConditionCertificatesValid)
			if c.reason == "" {
				assert.Assert(t, is == nil)
				return
			}
			assert.Equal(t, is.Reason, c.reason)
			assert.Equal(t, is.Status == metav1.ConditionTrue, c.reason == etcdv1.ReasonCertificatesValid)
			assert.Assert(t, strings.Contains(is.Message, c.says), is.Message)
		})
	}
}

// No key is in a pod, in a ConfigMap or in anything that a digest is made of.
func TestKeysAreInSecretsAlone(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	data, err := json.Marshal(planOf(t, ec, there{}).Parts[0].Objects)
	assert.NilError(t, err)
	assert.Assert(t, !bytes.Contains(data, []byte("PRIVATE")) && bytes.Contains(data, []byte("store-peer-tls")))
}

// Authorities are never exchanged under members that run, and a Secret that is deleted while the cluster is parked gets new keys.
func TestAuthoritiesChangeWithoutMembersAlone(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	formed := membership.Record{Cluster: 1, Replicas: 3}
	plan := func(k *keeper, live there, runs bool) (there, error) {
		secrets, err := k.plan(ec, ownerOf(ec), live.Inputs(), formed, runs)
		found := there{}
		for _, s := range secrets {
			found["Secret/"+s.GetName()] = s
		}
		return found, err
	}
	of := func(l there) authorities { return authoritiesIn(l["Secret/store-ca"]) }
	made := func() (*keeper, there) {
		k := newKeeper(func() time.Time { return today })
		secrets, err := k.plan(ec, ownerOf(ec), there{}.Inputs(), membership.Record{}, false)
		assert.NilError(t, err)
		found := there{}
		for _, s := range secrets {
			found["Secret/"+s.GetName()] = s
		}
		return k, found
	}
	k, own := made()
	_, other := made()
	swapped := maps.Clone(own)
	swapped["Secret/store-ca"] = other["Secret/store-ca"]

	back, err := plan(k, swapped, true)
	assert.NilError(t, err)
	assert.Assert(t, of(back).Clients.Equal(of(own).Clients), "what the members trust is put back")
	assert.Assert(t, !k.adopt(ec, other["Secret/store-ca"]))
	restarted := newKeeper(func() time.Time { return today })
	_, err = plan(restarted, swapped, true)
	assert.ErrorContains(t, err, "Secret store-ca has other certificate authorities than the running members trust")

	ec.Spec.Replicas = new(int32)
	delete(own, "Secret/store-ca")
	stays, err := plan(k, own, true)
	assert.NilError(t, err)
	assert.Assert(t, of(stays).Clients.Equal(k.authorities["data/store-ca"].Clients), "a pod is left")
	old := of(stays)
	renewed, err := plan(k, own, false)
	assert.NilError(t, err)
	assert.Assert(t, !of(renewed).Clients.Equal(old.Clients) && !of(renewed).Members.Equal(old.Members), "parked: the keys are new")
	again, err := plan(k, own, false)
	assert.NilError(t, err)
	assert.Assert(t, of(again).Clients.Equal(of(renewed).Clients), "once, until the cache shows them")

	// The operator ends before it signs certificates with them, and the cluster is unparked.
	own["Secret/store-ca"] = renewed["Secret/store-ca"]
	*ec.Spec.Replicas = 3
	signed, err := plan(newKeeper(func() time.Time { return today }), own, false)
	assert.NilError(t, err)
	assert.Assert(t, pairIn(signed["Secret/store-peer-tls"], keyCert, keyKey).SignedBy(of(renewed).Members))
}

// Names of the user's are in the certificate that clients see, and in no other; it is made again once when they change.
func TestAdditionalNames(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	ec.Spec.TLS.AdditionalNames = []string{"*.example.com", "2001:DB8::0001", "localhost"}
	k := newKeeper(func() time.Time { return today })
	plan := func() map[string][]byte {
		secrets, err := k.plan(ec, ownerOf(ec), there{}.Inputs(), membership.Record{}, false)
		assert.NilError(t, err)
		found := map[string][]byte{}
		for _, s := range secrets {
			found[s.GetName()] = dataIn(s, keyCert)
		}
		return found
	}
	first := plan()
	for name, want := range map[string]bool{"store-server-tls": true, "store-peer-tls": false, "store-client-tls": false} {
		block, _ := pem.Decode(first[name])
		cert, err := x509.ParseCertificate(block.Bytes)
		assert.NilError(t, err)
		assert.Equal(t, cert.VerifyHostname("a.example.com") == nil, want, name)
		assert.Equal(t, cert.VerifyHostname("2001:db8::1") == nil, want, name)
	}
	assert.DeepEqual(t, plan(), first)
	ec.Spec.TLS.AdditionalNames = nil
	assert.Assert(t, !bytes.Equal(plan()["store-server-tls"], first["store-server-tls"]))
}
