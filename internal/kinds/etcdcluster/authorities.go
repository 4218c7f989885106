// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

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
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/certs"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/server"
	"d3os.com/d3os-operator/internal/kinds/stateful/proof"
	"d3os.com/d3os-operator/internal/object"
)

const (
	// The authorities that are to sign are behind these prefixes, and those that signed: the latter without their keys.
	prefixNext, prefixFormer = "next-", "former-"
	// annotationRotation on the Secret of the authorities is the value of spec.tls.rotation for which they were made, and
	// annotationSince when the phase of their replacement began.
	annotationRotation = "etcd.database.coreos.com/rotation"
	annotationSince    = "etcd.database.coreos.com/rotation-since"
)

// pairs are an authority for clients and one for members.
type pairs struct{ Clients, Members certs.Pair }

func (p pairs) valid() bool { return p.Clients.Valid() && p.Members.Valid() }

func (p pairs) of(l leaf) certs.Pair {
	if l.members {
		return p.Members
	}
	return p.Clients
}

// authorities are those of one cluster: which sign, which are to sign, and which signed and are trusted still.
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

// all are the authorities that are trusted. Those of the phases Trust and Sign are the same.
func (a authorities) all() []pairs { return []pairs{a.Former, a.pairs, a.Next} }

// trusted returns the certificates of those that are trusted by who uses a leaf.
func (a authorities) trusted(l leaf) []byte {
	return slices.Concat(a.Former.of(l).Cert, a.of(l).Cert, a.Next.of(l).Cert)
}

// data is that of the Secret of the authorities.
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

// authoritiesIn reads them from their Secret, which may be nil. Of those that are to sign, all is there or nothing.
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

// makeAuthorities makes new ones.
func (k *keeper) makeAuthorities(ec *etcdv1.EtcdCluster) (made authorities, err error) {
	made.Rotation = ec.Spec.TLS.Rotation
	if made.Clients, err = certs.NewAuthority("clients of "+ec.Namespace+"/"+ec.Name, k.now()); err != nil {
		return made, fmt.Errorf("make the certificate authority of clients: %w", err)
	}
	if made.Members, err = certs.NewAuthority("members of "+ec.Namespace+"/"+ec.Name, k.now()); err != nil {
		return made, fmt.Errorf("make the certificate authority of members: %w", err)
	}
	return made, nil
}

// rotate begins the phase after one. The plan writes it: an operator that ends before that has changed nothing, and one that ends
// between two Secrets leaves them in phases next to each other.
func (k *keeper) rotate(ec *etcdv1.EtcdCluster, from membership.AuthorityPhase) error {
	key := ec.Namespace + "/" + ec.Name + suffixCA
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.authorities[key]
	if !a.valid() || a.phase() != from {
		return proof.Refuse("the certificate authorities are in phase %s, not %s", a.phase(), from)
	}
	switch from {
	case membership.AuthoritiesAtRest:
		made, err := k.makeAuthorities(ec)
		if err != nil {
			return err
		}
		a.Next, a.Rotation = made.pairs, made.Rotation
	case membership.AuthoritiesTrust:
		a.Former = pairs{certs.Pair{Cert: a.Clients.Cert}, certs.Pair{Cert: a.Members.Cert}}
		a.pairs, a.Next = a.Next, pairs{}
	case membership.AuthoritiesSign:
		a.Former = pairs{}
	}
	a.Since = k.now().UTC().Format(time.RFC3339)
	k.authorities[key] = a
	return nil
}

// unsigned returns the name of a Secret with a certificate that none of the authorities signed, or nothing.
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

// isDue reports whether two thirds of the life of an authority are over.
func (a authorities) isDue(now time.Time) bool {
	return slices.ContainsFunc([]certs.Pair{a.Clients, a.Members}, func(p certs.Pair) bool {
		valid, err := certs.ValidityOf(p.Cert)
		return err == nil && !now.Before(certs.Renew(valid.From, valid.Until))
	})
}

// seeAuthorities returns the authorities of a cluster as they are planned, once the cache has all Secrets as they are planned; before,
// where the operator makes none, and where no replacement was ever begun or wanted, nothing.
func (k *Kind) seeAuthorities(ctx context.Context, ec *etcdv1.EtcdCluster) (*server.Authorities, *membership.Authorities, error) {
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
	if !wanted && a.Since == "" {
		return nil, nil, nil // they were never replaced, so all members trust them
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
		Phase: a.phase(), Wanted: wanted, Held: err == nil && k.now().Sub(since) >= k.servers.Overlap(),
	}, nil
}

// planned returns the authorities of a cluster as they were planned last.
func (k *keeper) planned(ec *etcdv1.EtcdCluster) authorities {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.authorities[ec.Namespace+"/"+ec.Name+suffixCA]
}

// isPublished reports whether the live Secrets have the authorities that are planned, and certificates of theirs.
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
