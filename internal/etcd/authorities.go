// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/internal/object"
)

const (
	// Prefixes of keys in the Secret of the authorities. prefixNext is for the next authorities. prefixFormer is for
	// the former authorities, whose private keys are not in the Secret.
	prefixNext, prefixFormer = "next-", "former-"
	// annotationRotation is an annotation of the Secret of the authorities. Its value is the value of spec.tls.rotation
	// for which the authorities were created. The value of annotationSince is the time at which the present phase of
	// replacing the authorities began.
	annotationRotation = "etcd.database.coreos.com/rotation"
	annotationSince    = "etcd.database.coreos.com/rotation-since"
)

// pairs holds an authority for clients and one for members.
type pairs struct{ Clients, Members database.Pair }

func (p pairs) valid() bool { return p.Clients.Valid() && p.Members.Valid() }

func (p pairs) of(l leaf) database.Pair {
	if l.members {
		return p.Members
	}
	return p.Clients
}

// authorities holds the certificate authorities of one cluster. The embedded authorities sign now. Next contains the
// authorities that sign in the next phase. Former contains earlier authorities that are still trusted.
type authorities struct {
	pairs

	Next, Former pairs
	Rotation     string
	Since        string
}

func (a authorities) phase() membership.AuthorityPhase {
	switch {
	case len(a.Next.Clients.Cert) > 0:
		return membership.AuthoritiesTrust
	case len(a.Former.Clients.Cert) > 0:
		return membership.AuthoritiesSign
	}
	return membership.AuthoritiesAtRest
}

// all returns all trusted authorities. From the phase Trust to the phase Sign, the trusted authorities stay the same.
func (a authorities) all() []pairs { return []pairs{a.Former, a.pairs, a.Next} }

// fingerprint returns the SHA-256 sums of the certificates of two authorities.
func (p pairs) fingerprint() membership.Fingerprint {
	return membership.Fingerprint{Clients: database.Fingerprint(p.Clients.Cert), Members: database.Fingerprint(p.Members.Cert)}
}

// continues reports whether no authorities are recorded, or the recorded authorities sign now or in the next phase. All
// members accept certificates of the recorded authorities.
func (a authorities) continues(recorded membership.Fingerprint) bool {
	return recorded == (membership.Fingerprint{}) || recorded == a.fingerprint() || recorded == a.Next.fingerprint()
}

// trusted returns the certificates, as PEM, of all authorities that may have signed a certificate of the kind l.
func (a authorities) trusted(l leaf) []byte {
	return slices.Concat(a.Former.of(l).Cert, a.of(l).Cert, a.Next.of(l).Cert)
}

// data returns the data of the Secret of the authorities.
func (a authorities) data() map[string][]byte {
	data := map[string][]byte{}
	for prefix, p := range map[string]pairs{"": a.pairs, prefixNext: a.Next, prefixFormer: a.Former} {
		for key, value := range map[string][]byte{
			keyClientCA: p.Clients.Cert, keyClientCAKey: p.Clients.Key, keyMembersCA: p.Members.Cert, keyMembersCAKey: p.Members.Key,
		} {
			if len(value) > 0 {
				data[prefix+key] = value
			}
		}
	}
	return data
}

func (a authorities) annotations() map[string]string {
	annotations := map[string]string{object.AnnotationPolicy: object.PolicyKeep}
	if a.Rotation != "" {
		annotations[annotationRotation] = a.Rotation
	}
	if a.Since != "" {
		annotations[annotationSince] = a.Since
	}
	return annotations
}

// authoritiesIn reads the authorities from their Secret, which may be nil. Incomplete next authorities are dropped.
func authoritiesIn(secret *unstructured.Unstructured) (found authorities) {
	read := func(prefix string) pairs {
		return pairs{pairIn(secret, prefix+keyClientCA, prefix+keyClientCAKey), pairIn(secret, prefix+keyMembersCA, prefix+keyMembersCAKey)}
	}
	found.pairs, found.Next, found.Former = read(""), read(prefixNext), read(prefixFormer)
	if !found.Next.valid() {
		found.Next = pairs{}
	}
	if secret != nil {
		found.Rotation, found.Since = secret.GetAnnotations()[annotationRotation], secret.GetAnnotations()[annotationSince]
	}
	return found
}

// makeAuthorities creates new authorities.
func (k *keeper) makeAuthorities(ec *etcdv1.EtcdCluster) (made authorities, err error) {
	made.Rotation = ec.Spec.TLS.Rotation
	if made.Clients, err = database.NewAuthority("clients of "+ec.Namespace+"/"+ec.Name, k.now()); err != nil {
		return made, fmt.Errorf("make the certificate authority of clients: %w", err)
	}
	if made.Members, err = database.NewAuthority("members of "+ec.Namespace+"/"+ec.Name, k.now()); err != nil {
		return made, fmt.Errorf("make the certificate authority of members: %w", err)
	}
	return made, nil
}

// rotate ends the given phase, and begins the next phase in the memory of this process. The next plan writes the new
// phase to the Secrets. A crash before the first write changes nothing. After a crash between the writes of two Secrets,
// these Secrets are in adjacent phases.
func (k *keeper) rotate(ec *etcdv1.EtcdCluster, from membership.AuthorityPhase) error {
	key := ec.Namespace + "/" + ec.Name + suffixCA
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.authorities[key]
	if !a.valid() || a.phase() != from {
		return steps.Refuse("the certificate authorities are in phase %s, not %s", a.phase(), from)
	}
	switch from {
	case membership.AuthoritiesAtRest:
		made, err := k.makeAuthorities(ec)
		if err != nil {
			return err
		}
		a.Next, a.Rotation = made.pairs, made.Rotation
	case membership.AuthoritiesTrust:
		a.Former = pairs{database.Pair{Cert: a.Clients.Cert}, database.Pair{Cert: a.Members.Cert}}
		a.pairs, a.Next = a.Next, pairs{}
	case membership.AuthoritiesSign:
		a.Former = pairs{}
	}
	a.Since = k.now().UTC().Format(time.RFC3339)
	k.authorities[key] = a
	return nil
}

// unsigned returns the name of a live Secret that belongs to other authorities, or "". None of the given authorities
// has signed the certificate in such a Secret, and the Secret's ca.crt differs from their certificates.
func unsigned(ec *etcdv1.EtcdCluster, live map[string]*unstructured.Unstructured, by authorities) string {
	for _, l := range leaves(ec) {
		pair := pairIn(live[l.suffix], keyCert, keyKey)
		signed := slices.ContainsFunc(by.all(), func(one pairs) bool { return pair.SignedBy(one.of(l)) })
		if pair.Valid() && !signed && !bytes.Equal(dataIn(live[l.suffix], keyCA), by.trusted(l)) {
			return ec.Name + l.suffix
		}
	}
	return ""
}

// isDue reports whether an authority has reached two thirds of its lifetime.
func (a authorities) isDue(now time.Time) bool {
	return slices.ContainsFunc([]database.Pair{a.Clients, a.Members}, func(p database.Pair) bool {
		valid, err := database.ValidityOf(p.Cert)
		return err == nil && !now.Before(database.Renew(valid.From, valid.Until))
	})
}

// seeAuthorities returns the planned authorities of a cluster. It returns nil in three cases:
//
//   - The operator creates no authorities.
//   - The cache does not show all planned Secrets yet.
//   - All members trust the recorded authorities, and no replacement is in progress or wanted.
func (k *Kind) seeAuthorities(ctx context.Context, ec *etcdv1.EtcdCluster, recorded membership.Fingerprint) (*server.Authorities, *membership.Authorities, error) {
	if ec.Spec.TLS.Mode != etcdv1.TLSAuto {
		return nil, nil, nil
	}
	live := map[string]*unstructured.Unstructured{}
	for _, suffix := range []string{suffixCA, suffixServer, suffixPeer, suffixClient} {
		secret := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := k.client.Get(ctx, client.ObjectKey{Namespace: ec.Namespace, Name: ec.Name + suffix}, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, nil, fmt.Errorf("read Secret %s: %w", ec.Name+suffix, err)
		}
		if err == nil {
			live[suffix] = secret
		}
	}
	a := k.planner.keeper.planned(ec)
	if !a.valid() || !isPublished(ec, live, a) {
		return nil, nil, nil
	}
	wanted := ec.Spec.TLS.Rotation != "" && ec.Spec.TLS.Rotation != a.Rotation || a.isDue(k.now())
	if !wanted && a.Since == "" && recorded == a.fingerprint() {
		return nil, nil, nil
	}
	next := a.fingerprint()
	if a.phase() == membership.AuthoritiesTrust {
		next = a.Next.fingerprint()
	}
	found := &server.Authorities{}
	for suffix, into := range map[string]*server.Authority{suffixClient: &found.Clients, suffixPeer: &found.Members} {
		of := leaf{suffix: suffix, members: suffix == suffixPeer}
		pair := pairIn(live[suffix], keyCert, keyKey)
		certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			return nil, nil, fmt.Errorf("read Secret %s: %w", ec.Name+suffix, err)
		}
		*into = server.Authority{Trusted: a.trusted(of), Signer: a.of(of).Cert, Pair: certificate}
	}
	since, err := time.Parse(time.RFC3339, a.Since)
	return found, &membership.Authorities{
		Phase: a.phase(), Wanted: wanted, Fingerprint: next, Held: err == nil && k.now().Sub(since) >= k.servers.Overlap(),
	}, nil
}

// planned returns the authorities of the last plan of a cluster.
func (k *keeper) planned(ec *etcdv1.EtcdCluster) authorities {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.authorities[ec.Namespace+"/"+ec.Name+suffixCA]
}

// isPublished reports whether the live Secrets contain the planned authorities, and certificates that these authorities have signed.
func isPublished(ec *etcdv1.EtcdCluster, live map[string]*unstructured.Unstructured, a authorities) bool {
	for key, value := range a.data() {
		if !bytes.Equal(dataIn(live[suffixCA], key), value) {
			return false
		}
	}
	for _, l := range leaves(ec) {
		if !bytes.Equal(dataIn(live[l.suffix], keyCA), a.trusted(l)) || !pairIn(live[l.suffix], keyCert, keyKey).SignedBy(a.of(l)) {
			return false
		}
	}
	return true
}
