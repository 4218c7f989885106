// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Keys of Secrets. The Secret of the authorities has keys for two authorities: for clients and for members.
const (
	keyCert, keyKey, keyCA        = "tls.crt", "tls.key", "ca.crt"
	keyClientCA, keyClientCAKey   = "ca.crt", "ca.key"
	keyMembersCA, keyMembersCAKey = "peer-ca.crt", "peer-ca.key"
	suffixCA                      = "-ca"
	suffixServer, suffixPeer      = "-server-tls", "-peer-tls"
	suffixClient                  = "-client-tls"
)

// LostError reports that the authorities of a cluster are lost. Running members would not accept certificates of new ones.
type LostError struct{ Secret, Cluster string }

func (e *LostError) Error() string {
	return fmt.Sprintf("Secret %s with the certificate authorities of %s is missing: restore the Secret from a backup; or, to make new authorities, set spec.replicas to 0, delete the Secrets %s, %s and %s, and set spec.replicas back",
		e.Secret, e.Cluster, "*"+suffixServer, "*"+suffixPeer, "*"+suffixClient)
}

// ForeignError reports that the Secret of the authorities contains authorities that the members do not trust. Either
// the record names other authorities, or the authorities in the Secret have not signed the certificate in the Secret
// Leaf.
type ForeignError struct {
	Secret, Leaf string
	Recorded     membership.Fingerprint
}

func (e *ForeignError) Error() string {
	evidence := "they did not sign Secret " + e.Leaf
	if e.Leaf == "" {
		evidence = fmt.Sprintf("the SHA-256 sums of their %s and %s begin with %.16s and %.16s", keyClientCA, keyMembersCA, e.Recorded.Clients, e.Recorded.Members)
	}
	return fmt.Sprintf("Secret %s has other certificate authorities than the running members trust (%s): restore the former Secret; until then, the operator writes nothing. "+
		"To replace authorities, restore the former Secret first, then set spec.tls.rotation. To use the authorities that the Secret has now, set spec.replicas to 0, wait until no pod is left, and set spec.replicas back", e.Secret, evidence)
}

// tlsSecrets returns the names of the Secrets that pods mount; empty without TLS.
func tlsSecrets(ec *etcdv1.EtcdCluster) (server, peer string) {
	switch ec.Spec.TLS.Mode {
	case etcdv1.TLSAuto:
		return ec.Name + suffixServer, ec.Name + suffixPeer
	case etcdv1.TLSSecrets:
		return ec.Spec.TLS.ServerSecret, ec.Spec.TLS.PeerSecret
	case etcdv1.TLSOff:
	}
	return "", ""
}

// clientSecret returns the name of the Secret of clients and of the operator; empty without TLS.
func clientSecret(ec *etcdv1.EtcdCluster) string {
	switch ec.Spec.TLS.Mode {
	case etcdv1.TLSAuto:
		return ec.Name + suffixClient
	case etcdv1.TLSSecrets:
		return ec.Spec.TLS.ClientSecret
	case etcdv1.TLSOff:
	}
	return ""
}

// serverName returns the name that the server's certificate must contain. The operator checks this name, because it
// connects to IP addresses.
func serverName(ec *etcdv1.EtcdCluster) string { return ec.Name + "." + ec.Namespace + ".svc" }

// keeper caches created certificates for the lifetime of the process, so that a deleted Secret is restored unchanged. It is safe for
// concurrent use.
type keeper struct {
	now func() time.Time

	mu          sync.Mutex
	authorities map[string]authorities // by namespace/name of the Secret
	made        map[string]bool        // by the same key: this process created the authorities, and has not observed a live Secret yet
	leaves      map[string]database.Pair
}

func newKeeper(now func() time.Time) *keeper {
	return &keeper{now: now, authorities: map[string]authorities{}, made: map[string]bool{}, leaves: map[string]database.Pair{}}
}

// plan returns the planned Secrets of a cluster. It returns none if the operator does not create the cluster's certificates.
func (k *keeper) plan(ec *etcdv1.EtcdCluster, owner object.Owner, in reconcile.Inputs, record membership.Record, runs bool) ([]*unstructured.Unstructured, error) {
	if ec.Spec.TLS.Mode != etcdv1.TLSAuto {
		return nil, nil
	}
	live := map[string]*unstructured.Unstructured{}
	for _, suffix := range []string{suffixCA, suffixServer, suffixPeer, suffixClient} {
		found, err := in.Lookup("Secret", ec.Name+suffix)
		if err != nil {
			return nil, err
		}
		live[suffix] = found
	}
	secrets, err := k.from(ec, owner, live, record, runs)
	if lost := (*LostError)(nil); errors.As(err, &lost) {
		if live[suffixCA], err = object.UnseenSecret(owner, in.LookupLive, lost.Secret, lost); err == nil {
			return k.from(ec, owner, live, record, runs)
		}
	}
	return secrets, err
}

// from computes the planned Secrets of a cluster from the live ones, by suffix.
func (k *keeper) from(ec *etcdv1.EtcdCluster, owner object.Owner, live map[string]*unstructured.Unstructured, record membership.Record, runs bool) ([]*unstructured.Unstructured, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	made, err := k.authority(ec, live, record, runs)
	if err != nil && replicasOf(&ec.Spec) == 0 && runs {
		return k.asTheyAre(owner, live)
	}
	if err != nil {
		return nil, err
	}
	secrets := []*unstructured.Unstructured{database.Secret(owner, part, suffixCA, made.data())}
	secrets[0].SetAnnotations(made.annotations())
	for _, l := range leaves(ec) {
		pair, err := k.leaf(ec, l, made.of(l), live[l.suffix])
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, database.Secret(owner, part, l.suffix, map[string][]byte{keyCert: pair.Cert, keyKey: pair.Key, keyCA: made.trusted(l)}))
	}
	return secrets, finish(secrets, owner)
}

// asTheyAre plans the live Secrets unchanged. It is used while a cluster is being parked: its pods are deleted,
// whatever the Secrets contain.
func (*keeper) asTheyAre(owner object.Owner, live map[string]*unstructured.Unstructured) (secrets []*unstructured.Unstructured, err error) {
	for _, suffix := range []string{suffixCA, suffixServer, suffixPeer, suffixClient} {
		if live[suffix] == nil {
			continue
		}
		data := map[string][]byte{}
		encoded, _, _ := unstructured.NestedMap(live[suffix].Object, "data")
		for key := range encoded {
			data[key] = dataIn(live[suffix], key)
		}
		kept := database.Secret(owner, part, suffix, data)
		if suffix == suffixCA {
			kept.SetAnnotations(authoritiesIn(live[suffix]).annotations())
		}
		secrets = append(secrets, kept)
	}
	return secrets, finish(secrets, owner)
}

func finish(secrets []*unstructured.Unstructured, owner object.Owner) error {
	for _, s := range secrets {
		if _, err := object.Finish(s, owner); err != nil {
			return err
		}
	}
	return nil
}

// authority returns the authorities of the members. Members trust only the authorities that existed when they started.
// So while pods run, it accepts only two: the cached authorities, or those in the live Secret if they are recorded and
// have signed the live certificates. It accepts or creates others only while no pod exists.
func (k *keeper) authority(ec *etcdv1.EtcdCluster, live map[string]*unstructured.Unstructured, record membership.Record, runs bool) (authorities, error) {
	key := ec.Namespace + "/" + ec.Name + suffixCA
	found, known := authoritiesIn(live[suffixCA]), k.authorities[key]
	if live[suffixCA] != nil {
		delete(k.made, key)
	}
	switch {
	case runs && known.valid():
		return known, nil
	case runs && found.valid() && !found.continues(record.Authority):
		return authorities{}, &ForeignError{Secret: ec.Name + suffixCA, Recorded: record.Authority}
	case found.valid():
		if stranger := unsigned(ec, live, found); runs && stranger != "" {
			return authorities{}, &ForeignError{Secret: ec.Name + suffixCA, Leaf: stranger}
		}
		k.authorities[key] = found
		return found, nil
	case known.valid() && (replicasOf(&ec.Spec) > 0 || k.made[key]):
		return known, nil
	case runs || replicasOf(&ec.Spec) > 0 && (record.Cluster != 0 || live[suffixServer] != nil || live[suffixPeer] != nil):
		return authorities{}, &LostError{Secret: ec.Name + suffixCA, Cluster: "EtcdCluster " + ec.Name}
	}
	made, err := k.makeAuthorities(ec)
	if err != nil {
		return authorities{}, err
	}
	k.authorities[key], k.made[key] = made, true
	return made, nil
}

// isRunning reports whether a cluster has pods, or its StatefulSet has replicas.
func isRunning(set *unstructured.Unstructured, in reconcile.Inputs) (bool, error) {
	if database.Replicas(set) > 0 || in.Pods == nil {
		return database.Replicas(set) > 0, nil
	}
	pods, err := in.Pods(part)
	return len(pods) > 0, err
}

// leaf returns the certificate in the live Secret if it is valid. Otherwise it returns the cached certificate, or a new
// one.
func (k *keeper) leaf(ec *etcdv1.EtcdCluster, l leaf, authority database.Pair, live *unstructured.Unstructured) (database.Pair, error) {
	key := ec.Namespace + "/" + ec.Name + l.suffix
	for _, pair := range []database.Pair{pairIn(live, keyCert, keyKey), k.leaves[key]} {
		if pair.Check(l.Leaf, authority, k.now()) == nil {
			k.leaves[key] = pair
			return pair, nil
		}
	}
	made, err := authority.Issue(l.Leaf, k.now())
	if err != nil {
		return made, fmt.Errorf("make the certificate of Secret %s%s: %w", ec.Name, l.suffix, err)
	}
	k.leaves[key] = made
	return made, nil
}

// adopt caches the content of a live Secret instead of content that was generated before the Secret was observed. It
// reports whether that changes the plan. An invalid live certificate changes nothing, because a valid one is planned
// already.
func (k *keeper) adopt(ec *etcdv1.EtcdCluster, live *unstructured.Unstructured) bool {
	key := live.GetNamespace() + "/" + live.GetName()
	k.mu.Lock()
	defer k.mu.Unlock()
	if live.GetName() == ec.Name+suffixCA {
		found := authoritiesIn(live)
		if !found.valid() || !k.made[key] || found.Clients.Equal(k.authorities[key].Clients) && found.Members.Equal(k.authorities[key].Members) {
			return false
		}
		k.authorities[key] = found
		delete(k.made, key)
		return true
	}
	found := pairIn(live, keyCert, keyKey)
	for _, l := range leaves(ec) {
		if live.GetName() != ec.Name+l.suffix || found.Equal(k.leaves[key]) {
			continue
		}
		authority := k.authorities[ec.Namespace+"/"+ec.Name+suffixCA].of(l)
		if found.Check(l.Leaf, authority, k.now()) == nil {
			k.leaves[key] = found
			return true
		}
	}
	return false
}

func (k *keeper) forget(namespace, cluster string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.authorities, namespace+"/"+cluster+suffixCA)
	delete(k.made, namespace+"/"+cluster+suffixCA)
	for _, suffix := range []string{suffixServer, suffixPeer, suffixClient} {
		delete(k.leaves, namespace+"/"+cluster+suffix)
	}
}

// pairIn returns a certificate and its key in a Secret, which may be nil.
func pairIn(secret *unstructured.Unstructured, cert, key string) database.Pair {
	return database.Pair{Cert: dataIn(secret, cert), Key: dataIn(secret, key)}
}

func dataIn(secret *unstructured.Unstructured, key string) []byte {
	if secret == nil {
		return nil
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", key)
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	return data
}
