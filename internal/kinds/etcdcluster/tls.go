// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/certs"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/object"
)

// The keys of Secrets. That of the authorities has those of two: clients' and members'.
const (
	keyCert, keyKey, keyCA        = "tls.crt", "tls.key", "ca.crt"
	keyClientCA, keyClientCAKey   = "ca.crt", "ca.key"
	keyMembersCA, keyMembersCAKey = "peer-ca.crt", "peer-ca.key"
	suffixCA                      = "-ca"
	suffixServer, suffixPeer      = "-server-tls", "-peer-tls"
	suffixClient                  = "-client-tls"
)

// LostError says that the authorities of a cluster are gone. Certificates of new ones would not be accepted by the members
// that run.
type LostError struct{ Secret, Cluster string }

func (e *LostError) Error() string {
	return fmt.Sprintf("Secret %s with the certificate authorities of %s is gone: restore it from a backup; or set spec.replicas to 0, delete the Secrets %s, %s and %s, and set it back, for new ones",
		e.Secret, e.Cluster, "*"+suffixServer, "*"+suffixPeer, "*"+suffixClient)
}

// ForeignError says that a Secret has other authorities than those that the members trust.
type ForeignError struct{ Secret, Leaf string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("Secret %s has other certificate authorities than the running members trust (they did not sign Secret %s): put the former ones back; "+
		"or set spec.replicas to 0, and back, to go over to these", e.Secret, e.Leaf)
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

// clientSecret returns the name of the Secret with which clients, and the operator, connect; empty without TLS.
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

// serverName is the name that the certificate of the server must have: the operator connects to addresses.
func serverName(ec *etcdv1.EtcdCluster) string { return ec.Name + "." + ec.Namespace + ".svc" }

// leaf is one certificate of a cluster.
type leaf struct {
	suffix  string
	members bool // signed by the authority of members
	certs.Leaf
}

// leaves returns the certificates of a cluster.
func leaves(ec *etcdv1.EtcdCluster) []leaf {
	service := []string{ec.Name, ec.Name + "." + ec.Namespace, serverName(ec), serverName(ec) + ".cluster.local", "localhost", "127.0.0.1"}
	service = append(service, names(ec.Spec.TLS.AdditionalNames)...)
	var pods []string
	for ordinal := range membership.MaxReplicas {
		pods = append(pods, podDomain(ec, ordinal), podDomain(ec, ordinal)+".cluster.local")
	}
	return []leaf{
		// A server connects to itself, as a client.
		{suffixServer, false, certs.Leaf{Name: "server", Hosts: once(append(service, pods...)), Client: true}},
		{suffixPeer, true, certs.Leaf{Name: "member", Hosts: pods, Client: true}},
		{suffixClient, false, certs.Leaf{Name: "client", Client: true}},
	}
}

// once returns names in order, each once: a certificate with one twice would be made again in each pass.
func once(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// names returns names as a certificate has them: an address in its shortest form.
func names(given []string) (found []string) {
	for _, name := range given {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		found = append(found, name)
	}
	return found
}

// keeper remembers what it made while the process lives: a Secret that somebody deletes comes back as it was. It is
// safe for concurrent use.
type keeper struct {
	now func() time.Time

	mu          sync.Mutex
	authorities map[string]authorities // by namespace/name of the Secret
	made        map[string]bool        // those that no live Secret has shown yet
	leaves      map[string]certs.Pair
}

func newKeeper(now func() time.Time) *keeper {
	return &keeper{now: now, authorities: map[string]authorities{}, made: map[string]bool{}, leaves: map[string]certs.Pair{}}
}

// plan returns the Secrets that a cluster should have; none unless the operator makes its certificates.
func (k *keeper) plan(ec *etcdv1.EtcdCluster, owner object.Owner, in kinds.Inputs, record membership.Record, runs bool) ([]*unstructured.Unstructured, error) {
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
	k.mu.Lock()
	defer k.mu.Unlock()
	made, err := k.authority(ec, live, record, runs)
	if err != nil {
		return nil, err
	}
	secrets := []*unstructured.Unstructured{secret(ec, owner, suffixCA, made.data())}
	secrets[0].SetAnnotations(made.annotations())
	for _, l := range leaves(ec) {
		pair, err := k.leaf(ec, l, made.of(l), live[l.suffix])
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, secret(ec, owner, l.suffix, map[string][]byte{keyCert: pair.Cert, keyKey: pair.Key, keyCA: made.trusted(l)}))
	}
	for _, s := range secrets {
		if _, err := object.Finish(s, owner); err != nil {
			return nil, err
		}
	}
	return secrets, nil
}

// authority returns those of the members: while pods run, those remembered, or those in the live Secret that signed the live
// certificates. Members trust the authorities with which they started, so others are taken, or made, only while there is no pod.
func (k *keeper) authority(ec *etcdv1.EtcdCluster, live map[string]*unstructured.Unstructured, record membership.Record, runs bool) (authorities, error) {
	key := ec.Namespace + "/" + ec.Name + suffixCA
	found, known := authoritiesIn(live[suffixCA]), k.authorities[key]
	if live[suffixCA] != nil {
		delete(k.made, key)
	}
	switch {
	case runs && known.valid():
		return known, nil
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

// isRunning reports whether a cluster has pods, or its StatefulSet is to have some.
func isRunning(set *unstructured.Unstructured, in kinds.Inputs) (bool, error) {
	if replicasIn(set) > 0 || in.Pods == nil {
		return replicasIn(set) > 0, nil
	}
	pods, err := in.Pods(part)
	return len(pods) > 0, err
}

// leaf returns the certificate in the live Secret while it is good, else the one remembered, else a new one.
func (k *keeper) leaf(ec *etcdv1.EtcdCluster, l leaf, authority certs.Pair, live *unstructured.Unstructured) (certs.Pair, error) {
	key := ec.Namespace + "/" + ec.Name + l.suffix
	for _, pair := range []certs.Pair{pairIn(live, keyCert, keyKey), k.leaves[key]} {
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

// adopt remembers what is in a live Secret in place of what was made because that Secret had not been seen. It reports
// whether that changes the plan. A certificate that is not good any more changes nothing: another one was planned in its place.
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

func secret(ec *etcdv1.EtcdCluster, owner object.Owner, suffix string, data map[string][]byte) *unstructured.Unstructured {
	s := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
	s.SetName(ec.Name + suffix)
	s.SetNamespace(ec.Namespace)
	s.SetLabels(owner.Labels(part))
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString(value)
	}
	s.Object["type"], s.Object["data"] = string(corev1.SecretTypeOpaque), encoded
	return s
}

// pairIn returns a certificate and its key in a Secret, which may be nil.
func pairIn(secret *unstructured.Unstructured, cert, key string) certs.Pair {
	return certs.Pair{Cert: dataIn(secret, cert), Key: dataIn(secret, key)}
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
