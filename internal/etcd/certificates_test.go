// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/test/databasetest"
)

// The condition names the certificate that expires first, or an unreadable one. Without TLS there is no condition.
func TestCertificatesValid(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	valid := func(secret string, life, left time.Duration) certificate {
		return certificate{secret: secret, key: "tls.crt", Validity: database.Validity{From: now.Add(left - life), Until: now.Add(left)}}
	}
	damaged := certificate{secret: "peer", key: "ca.crt", problem: "there is no certificate"}
	for name, c := range map[string]struct {
		mode   etcdv1.TLSMode
		found  []certificate
		reason string
		says   string
	}{
		"without TLS":                     {etcdv1.TLSOff, nil, "", ""},
		"nothing was read":                {etcdv1.TLSAuto, nil, "", ""},
		"good":                            {etcdv1.TLSAuto, []certificate{valid("a", 90*day, 31*day)}, etcdv1.ReasonCertificatesValid, ""},
		"the operator renews too late":    {etcdv1.TLSAuto, []certificate{valid("a", 90*day, 31*day), valid("b", 90*day, 14*day)}, etcdv1.ReasonCertificateExpires, "Secret b, tls.crt: it is valid until 2026-01-16T03:04:05Z: renewal by the operator is overdue"},
		"the user renews too late":        {etcdv1.TLSSecrets, []certificate{valid("a", 90*day, 14*day)}, etcdv1.ReasonCertificateExpires, "check the program that renews it"},
		"a certificate with a short life": {etcdv1.TLSSecrets, []certificate{valid("a", day, 8*time.Hour)}, etcdv1.ReasonCertificatesValid, ""},
		"the first to expire":             {etcdv1.TLSSecrets, []certificate{valid("a", 90*day, 14*day), valid("b", 90*day, -day)}, etcdv1.ReasonCertificateExpired, "Secret b, tls.crt: it was valid until 2026-01-01T03:04:05Z"},
		"damaged":                         {etcdv1.TLSSecrets, []certificate{valid("a", 90*day, -day), damaged}, etcdv1.ReasonCertificateUnreadable, "Secret peer, ca.crt: there is no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec := &etcdv1.EtcdCluster{}
			ec.Name, ec.Spec.TLS.Mode = "store", c.mode
			if c.mode == etcdv1.TLSSecrets {
				ec.Spec.TLS.ClientSecret = "client"
			}
			v := view{ec: ec, observed: Observation{certificates: c.found}}
			v.certificates(reconcile.Conditions{List: &ec.Status.Conditions, Generation: 1, Now: metav1.NewTime(now)})
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

// No pod, ConfigMap or input of a digest contains a private key.
func TestKeysAreInSecretsAlone(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	data, err := json.Marshal(planOf(t, ec, there{}).Parts[0].Objects)
	assert.NilError(t, err)
	assert.Assert(t, !bytes.Contains(data, []byte("PRIVATE")) && bytes.Contains(data, []byte("store-peer-tls")))
}

// While members run, a deleted or exchanged Secret does not replace their authorities. If the Secret is missing while no pod exists, new
// authorities are created.
func TestAuthoritiesChangeWithoutMembersAlone(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	formed := membership.Record{Cluster: 1, Replicas: 3}
	plan := func(k *keeper, live there, runs bool) (there, error) {
		return secretsIn(k.plan(ec, ownerOf(ec), live.Inputs(), formed, runs))
	}
	of := func(l there) authorities { return authoritiesIn(l["Secret/store-ca"]) }
	made := func() (*keeper, there) {
		k := newKeeper(func() time.Time { return today })
		found, err := secretsIn(k.plan(ec, ownerOf(ec), there{}.Inputs(), membership.Record{}, false))
		assert.NilError(t, err)
		return k, found
	}
	k, own := made()
	_, other := made()
	swapped := maps.Clone(own)
	swapped["Secret/store-ca"] = other["Secret/store-ca"]

	back, err := plan(k, swapped, true)
	assert.NilError(t, err)
	assert.Assert(t, of(back).Clients.Equal(of(own).Clients), "the authorities that the members trust are restored")
	assert.Assert(t, !k.adopt(ec, other["Secret/store-ca"]))
	restarted := newKeeper(func() time.Time { return today })
	_, err = plan(restarted, swapped, true)
	assert.ErrorContains(t, err, "Secret store-ca has other certificate authorities than the running members trust")

	ec.Spec.Replicas = new(int32)
	delete(own, "Secret/store-ca")
	stays, err := plan(k, own, true)
	assert.NilError(t, err)
	assert.Assert(t, of(stays).Clients.Equal(k.authorities["data/store-ca"].Clients), "the authorities stay while a pod is left")
	old := of(stays)
	renewed, err := plan(k, own, false)
	assert.NilError(t, err)
	assert.Assert(t, !of(renewed).Clients.Equal(old.Clients) && !of(renewed).Members.Equal(old.Members), "parked: the keys are new")
	again, err := plan(k, own, false)
	assert.NilError(t, err)
	assert.Assert(t, of(again).Clients.Equal(of(renewed).Clients), "the authorities are created only once, although the cache does not show them yet")

	// The operator crashes before the new authorities sign certificates, and then a user starts the cluster again.
	own["Secret/store-ca"] = renewed["Secret/store-ca"]
	*ec.Spec.Replicas = 3
	signed, err := plan(newKeeper(func() time.Time { return today }), own, false)
	assert.NilError(t, err)
	assert.Assert(t, pairIn(signed["Secret/store-peer-tls"], keyCert, keyKey).SignedBy(of(renewed).Members))
}

// Only the server certificate contains the additional names. This certificate is renewed once when the names change.
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

// secretsIn returns planned Secrets as live objects.
func secretsIn(secrets []*unstructured.Unstructured, err error) (there, error) {
	found := there{}
	for _, s := range secrets {
		found["Secret/"+s.GetName()] = s
	}
	return found, err
}

// secrets returns the Secrets that a keeper plans for a running cluster.
func (k *keeper) secrets(ec *etcdv1.EtcdCluster, live there) (there, error) {
	return secretsIn(k.plan(ec, ownerOf(ec), live.Inputs(), membership.Record{Cluster: 1, Replicas: 3}, true))
}

// recorded returns the possible values of the record's Authority at the end of a phase. In the phase Trust, these are the
// authorities that sign next. In the other phases, they are the authorities that sign now.
func recorded(from membership.AuthorityPhase, live there) []membership.Fingerprint {
	a := authoritiesIn(live["Secret/store-ca"])
	if from == membership.AuthoritiesTrust {
		return []membership.Fingerprint{a.Next.fingerprint()}
	}
	return []membership.Fingerprint{a.fingerprint()}
}

// In each phase of a replacement, the certificates of the previous and of the next phase are trusted. After a crash
// between the writes of two Secrets, the next operator continues. It never adopts authorities of another phase or
// cluster.
func TestPhasesOfAuthoritiesOverlap(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	now := func() time.Time { return today }
	begun := newKeeper(now)
	live, err := secretsIn(begun.plan(ec, ownerOf(ec), there{}.Inputs(), membership.Record{}, false))
	assert.NilError(t, err)
	original := authoritiesIn(live["Secret/store-ca"])
	ec.Spec.TLS.Rotation = "a"
	phases := []there{live}
	for _, from := range []membership.AuthorityPhase{membership.AuthoritiesAtRest, membership.AuthoritiesTrust, membership.AuthoritiesSign} {
		assert.ErrorContains(t, begun.rotate(ec, "Other"), "refused")
		assert.NilError(t, begun.rotate(ec, from))
		next, err := begun.secrets(ec, live)
		assert.NilError(t, err)
		for written := range next { // the operator crashes after the write of one Secret
			partly := maps.Clone(live)
			partly[written] = next[written]
			for _, of := range recorded(from, live) {
				_, err := newKeeper(now).plan(ec, ownerOf(ec), partly.Inputs(), membership.Record{Cluster: 1, Replicas: 3, Authority: of}, true)
				assert.NilError(t, err, "%s after phase %s, recorded %v", written, from, of)
			}
			again, err := newKeeper(now).secrets(ec, partly)
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
	assert.Equal(t, len(last.data()), 4, "no former authority is left")
	assert.Equal(t, len(dataIn(phases[2]["Secret/store-ca"], "former-ca.key")), 0, "a key that signs nothing any more is not kept")

	swapped := maps.Clone(live)
	swapped["Secret/store-ca"] = phases[0]["Secret/store-ca"] // as after the restore of an older backup
	_, err = newKeeper(now).secrets(ec, swapped)
	assert.ErrorContains(t, err, "other certificate authorities than the running members trust")
}

// After a restart, the operator accepts only the recorded authorities, even if a user has exchanged all Secrets. While
// the Secrets contain other authorities, the operator changes no running object. If no pod exists, the
// operator accepts the authorities in the Secrets. It starts pods only after the old authorities are removed from the record.
func TestRecordedAuthoritiesAloneAreAccepted(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	now := func() time.Time { return today }
	exchange := func() there {
		found, err := secretsIn(newKeeper(now).plan(ec, ownerOf(ec), there{}.Inputs(), membership.Record{}, false))
		assert.NilError(t, err)
		return found
	}
	own, others := exchange(), exchange()
	record := membership.Record{Cluster: 1, Replicas: 3, Authority: authoritiesIn(own["Secret/store-ca"]).fingerprint()}
	for name, c := range map[string]struct {
		live     there
		replicas int32
		runs     bool
		says     string
	}{
		"the recorded authorities":                    {own, 3, true, ""},
		"other authorities":                           {others, 3, true, "Secret store-ca has other certificate authorities"},
		"other authorities, and no pod":               {others, 3, false, ""},
		"other authorities, while pods stop":          {others, 0, true, ""},
		"other authorities, parked":                   {others, 0, false, ""},
		"no authorities, while pods stop":             {there{"Secret/store-client-tls": own["Secret/store-client-tls"]}, 0, true, ""},
		"no authorities":                              {there{"Secret/store-client-tls": own["Secret/store-client-tls"]}, 3, true, "is missing"},
		"the recorded authorities, and other signers": {mixed(own, others), 3, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ec := ec.DeepCopy()
			ec.Spec.Replicas = &c.replicas
			secrets, err := newKeeper(now).plan(ec, ownerOf(ec), c.live.Inputs(), record, c.runs)
			if c.says != "" {
				assert.ErrorContains(t, err, c.says)
				return
			}
			assert.NilError(t, err)
			if c.replicas == 0 && c.runs {
				assert.Equal(t, len(secrets), len(c.live))
				for _, s := range secrets {
					assert.DeepEqual(t, s.Object["data"], c.live["Secret/"+s.GetName()].Object["data"])
				}
			}
		})
	}
	for authority, pods := range map[membership.Fingerprint]int{record.Authority: 0, {}: 3, authoritiesIn(others["Secret/store-ca"]).fingerprint(): 3} {
		noted := record
		noted.Authority = authority
		live := maps.Clone(others)
		maps.Copy(live, withRecord(t, ec, noted))
		assert.Equal(t, database.Replicas(databasetest.Find(planOf(t, ec, live), object.StatefulSetKind.Kind, "store")), pods, "recorded: %v", authority)
	}
	k := newKeeper(now)
	_, err := k.plan(ec, ownerOf(ec), own.Inputs(), record, true)
	assert.NilError(t, err)
	back, err := k.plan(ec, ownerOf(ec), others.Inputs(), record, true)
	assert.NilError(t, err)
	assert.DeepEqual(t, back[0].Object["data"], own["Secret/store-ca"].Object["data"]) // an operator that has cached the authorities restores the Secrets
}

// mixed returns Secrets with certificates of one cluster and with the authorities of another one.
func mixed(authorities, certificates there) there {
	found := maps.Clone(certificates)
	found["Secret/store-ca"] = authorities["Secret/store-ca"]
	for _, suffix := range []string{suffixServer, suffixPeer, suffixClient} {
		s := found["Secret/store"+suffix].DeepCopy()
		s.Object["data"].(map[string]any)[keyCA] = authorities["Secret/store"+suffix].Object["data"].(map[string]any)[keyCA]
		found["Secret/store"+suffix] = s
	}
	return found
}

// Authorities are replaced after two thirds of their lifetime. A certificate never outlives the authority that signed it.
func TestAuthoritiesAreDueInTime(t *testing.T) {
	t.Parallel()
	k := newKeeper(func() time.Time { return today })
	made, err := k.makeAuthorities(read(t, "minimal"))
	assert.NilError(t, err)
	assert.Assert(t, !made.isDue(today.Add(database.AuthorityLife/2)))
	assert.Assert(t, made.isDue(today.Add(database.AuthorityLife*2/3)))
	assert.Assert(t, database.AuthorityLife/3 > 4*database.LeafLife)
}
