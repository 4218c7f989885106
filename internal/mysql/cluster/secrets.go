// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Suffixes of the names of the operator's Secrets for a database.
const (
	suffixCredentials = "-credentials" // accounts of root and of the clients
	suffixMembers     = "-members"     // accounts that members use among themselves
	suffixCA          = "-ca"          // the authority of members and operator; no pod mounts it
	suffixMemberTLS   = "-member-tls"  // the certificate of the members
	suffixBackupTLS   = "-backup-tls"  // the certificate of pods that make backups, only for queries of members; exists with spec.backup
)

// suffixes lists all suffixes. The authority precedes its certificates.
var suffixes = []string{suffixCredentials, suffixMembers, suffixCA, suffixMemberTLS, suffixBackupTLS}

// isLeaf reports whether a Secret has a certificate that the authority can sign again.
func isLeaf(suffix string) bool { return suffix == suffixMemberTLS || suffix == suffixBackupTLS }

const (
	keyCert, keyKey, keyCA = "tls.crt", "tls.key", "ca.crt"
	keyCAKey               = "ca.key"
	keyUsername            = "username"
	// operatorName is the DNS name in the operator's certificate. Agents identify the operator by this name.
	operatorName = mysqlmember.Operator
	// clientName is the default name of the clients' account.
	clientName = "app"
)

// passwordKeys are the keys of the generated values in Secrets.
var passwordKeys = map[string][]string{
	suffixCredentials: {"root-password", "password"},
	suffixMembers:     {"agent-password", "replication-password"},
}

// ForeignError reports that the members do not trust the authority in a Secret.
type ForeignError struct{ Secret, Leaf string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("Secret %s has another certificate authority than the running members trust (it did not sign Secret %s): restore the former Secret", e.Secret, e.Leaf)
}

// keeper plans the generated Secrets of databases. It is safe for concurrent use.
type keeper struct {
	now     func() time.Time
	secrets *database.Secrets

	mu  sync.Mutex
	own map[types.NamespacedName]database.Pair // the operator's certificate, by the Secret of the authority
}

func newKeeper(now func() time.Time) *keeper {
	return &keeper{now: now, secrets: database.NewSecrets(), own: map[types.NamespacedName]database.Pair{}}
}

func secretKey(mc *mysqlv1.MySQLCluster, suffix string) types.NamespacedName {
	return types.NamespacedName{Namespace: mc.Namespace, Name: mc.Name + suffix}
}

// plan returns the planned Secrets of a database.
func (k *keeper) plan(mc *mysqlv1.MySQLCluster, owner object.Owner, in reconcile.Inputs, formed, runs bool) (secrets []*unstructured.Unstructured, err error) {
	for _, suffix := range suffixes {
		if suffix == suffixCredentials && mc.Spec.CredentialsSecret != "" || suffix == suffixBackupTLS && mc.Spec.Backup == nil {
			continue
		}
		live, err := in.Lookup("Secret", mc.Name+suffix)
		if err != nil {
			return nil, err
		}
		data, err := k.data(mc, suffix, live, formed, runs)
		if lost := (*database.LostError)(nil); errors.As(err, &lost) {
			if live, err = object.UnseenSecret(owner, in.LookupLive, lost.Secret, lost); err == nil {
				data, err = k.data(mc, suffix, live, formed, runs)
			}
		}
		if err != nil {
			return nil, err
		}
		s := database.Secret(owner, part, suffix, data)
		if !isLeaf(suffix) {
			s.SetAnnotations(map[string]string{object.AnnotationPolicy: object.PolicyKeep})
		}
		if _, err := object.Finish(s, owner); err != nil {
			return nil, err
		}
		secrets = append(secrets, s)
	}
	return secrets, nil
}

// data returns the planned data of a Secret.
func (k *keeper) data(mc *mysqlv1.MySQLCluster, suffix string, live *unstructured.Unstructured, formed, runs bool) (map[string][]byte, error) {
	content := database.Content{
		IsValid: func(data map[string][]byte) bool { return k.isValid(mc, suffix, data) },
		IsFixed: suffix == suffixMembers && formed || suffix == suffixCA && runs,
		Create:  func() (map[string][]byte, error) { return k.create(mc, suffix) },
	}
	switch {
	case passwordKeys[suffix] != nil && formed, suffix == suffixCA && runs:
		content.Lost = &database.LostError{Secret: mc.Name + suffix, Database: "MySQLCluster " + mc.Name}
	case isLeaf(suffix) && live != nil && runs && k.isForeign(mc, live):
		content.Lost = &ForeignError{Secret: mc.Name + suffixCA, Leaf: mc.Name + suffix}
	}
	return k.secrets.Data(secretKey(mc, suffix), live, content)
}

func (k *keeper) isValid(mc *mysqlv1.MySQLCluster, suffix string, data map[string][]byte) bool {
	switch suffix {
	case suffixCA:
		return authority(data).Valid()
	case suffixMemberTLS, suffixBackupTLS:
		ca := k.authority(mc)
		return bytes.Equal(data[keyCA], ca.Cert) && database.Pair{Cert: data[keyCert], Key: data[keyKey]}.Check(leafOf(mc, suffix), ca, k.now()) == nil
	}
	for _, name := range passwordKeys[suffix] {
		if _, err := contract.CleanSecret(data[name]); err != nil {
			return false
		}
	}
	_, err := contract.CleanSecret(data[keyUsername])
	return suffix != suffixCredentials || err == nil
}

// isForeign reports whether an authority other than the planned one has signed the live certificate of the members.
func (k *keeper) isForeign(mc *mysqlv1.MySQLCluster, live *unstructured.Unstructured) bool {
	data := database.SecretData(live)
	pair := database.Pair{Cert: data[keyCert], Key: data[keyKey]}
	return pair.Valid() && !pair.SignedBy(k.authority(mc))
}

func authority(data map[string][]byte) database.Pair {
	return database.Pair{Cert: data[keyCA], Key: data[keyCAKey]}
}

// authority returns the planned authority of the members.
func (k *keeper) authority(mc *mysqlv1.MySQLCluster) database.Pair {
	return authority(k.secrets.Known(secretKey(mc, suffixCA)))
}

// leafOf describes the certificate in a Secret. Pods that make backups use one certificate. All members share another
// certificate, as servers and as clients of each other.
func leafOf(mc *mysqlv1.MySQLCluster, suffix string) database.Leaf {
	if suffix == suffixBackupTLS {
		return database.Leaf{Name: "backup", Client: true}
	}
	var hosts []string
	for ordinal := range maxMembers {
		hosts = append(hosts, podDomain(mc, ordinal), podDomain(mc, ordinal)+".cluster.local")
	}
	return database.Leaf{Name: "member", Hosts: hosts, Client: true}
}

// create returns new data for a Secret.
func (k *keeper) create(mc *mysqlv1.MySQLCluster, suffix string) (map[string][]byte, error) {
	switch suffix {
	case suffixCA:
		made, err := database.NewAuthority("members of "+mc.Namespace+"/"+mc.Name, k.now())
		return map[string][]byte{keyCA: made.Cert, keyCAKey: made.Key}, err
	case suffixMemberTLS, suffixBackupTLS:
		ca := k.authority(mc)
		made, err := ca.Issue(leafOf(mc, suffix), k.now())
		return map[string][]byte{keyCert: made.Cert, keyKey: made.Key, keyCA: ca.Cert}, err
	}
	data := map[string][]byte{}
	if suffix == suffixCredentials {
		data[keyUsername] = []byte(clientName)
	}
	for _, name := range passwordKeys[suffix] {
		data[name] = []byte(rand.Text())
	}
	return data, nil
}

// adopt caches the content of a live Secret instead of content that was generated before the Secret was observed. It
// reports whether that changes the plan.
func (k *keeper) adopt(mc *mysqlv1.MySQLCluster, live *unstructured.Unstructured) bool {
	suffix, ok := strings.CutPrefix(live.GetName(), mc.Name)
	return ok && k.secrets.Adopt(live, func(data map[string][]byte) bool { return k.isValid(mc, suffix, data) })
}

func (k *keeper) forget(namespace, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, suffix := range suffixes {
		key := types.NamespacedName{Namespace: namespace, Name: name + suffix}
		k.secrets.Forget(key)
		delete(k.own, key)
	}
}

// reach returns the Reach of a database. The operator certificate in it exists only in this process. Reach.TLS is nil until the authority
// was planned.
func (k *keeper) reach(mc *mysqlv1.MySQLCluster) Reach {
	r := Reach{Host: func(ordinal int) string { return podDomain(mc, ordinal) }}
	key := secretKey(mc, suffixCA)
	k.mu.Lock()
	defer k.mu.Unlock()
	ca, leaf := k.authority(mc), database.Leaf{Name: operatorName, Hosts: []string{operatorName}, Client: true}
	if !ca.Valid() {
		return r
	}
	if k.own[key].Check(leaf, ca, k.now()) != nil {
		made, err := ca.Issue(leaf, k.now())
		if err != nil {
			return r
		}
		k.own[key] = made
	}
	certificate, err := tls.X509KeyPair(k.own[key].Cert, k.own[key].Key)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(ca.Cert) {
		return r
	}
	r.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, RootCAs: roots}
	return r
}
