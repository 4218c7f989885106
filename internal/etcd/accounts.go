// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/internal/object"
)

// readAgain is the time after which a user's Secret is read again: the certificate in the Secret may have been renewed,
// and the operator's cache does not contain Secrets of users.
const readAgain = 5 * time.Minute

// accounts caches the client credentials of clusters. It reads the operator's own Secrets from the client's cache.
type accounts struct {
	client client.Client
	live   client.Reader
	now    func() time.Time

	mu    sync.Mutex
	known map[string]account // by namespace/name of the cluster
}

// account holds the client credentials of a cluster, and the validity of its certificates.
type account struct {
	access       server.Access
	certificates []certificate
	secret       string
	at           time.Time
}

func newAccounts(c client.Client, live client.Reader) *accounts {
	return &accounts{client: c, live: live, now: time.Now, known: map[string]account{}}
}

// of returns the account of a cluster. While a Secret of the operator does not exist yet, the account trusts no server.
func (a *accounts) of(ctx context.Context, ec *etcdv1.EtcdCluster) (account, error) {
	name := clientSecret(ec)
	if name == "" {
		return account{}, nil
	}
	if ec.Spec.TLS.Mode == etcdv1.TLSAuto {
		return readAccount(ctx, a.client, ec, true)
	}
	key := ec.Namespace + "/" + ec.Name
	a.mu.Lock()
	known, ok := a.known[key]
	a.mu.Unlock()
	if ok && known.secret == name && a.now().Sub(known.at) < readAgain {
		return known, nil
	}
	read, err := readAccount(ctx, a.live, ec, false)
	if err != nil || slices.ContainsFunc(read.certificates, func(one certificate) bool { return one.problem != "" }) {
		return read, err // the user may correct the Secret at any time
	}
	read.secret, read.at = name, a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[key] = read
	return read, nil
}

func readAccount(ctx context.Context, from client.Reader, ec *etcdv1.EtcdCluster, optional bool) (found account, err error) {
	if found.access, err = readAccess(ctx, from, ec, clientSecret(ec), optional); err != nil {
		return found, err
	}
	found.certificates, err = readCertificates(ctx, from, ec, optional)
	return found, err
}

func (a *accounts) forget(namespace, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, namespace+"/"+name)
}

// readAccess builds a TLS configuration from a Secret with tls.crt, tls.key and ca.crt. Without tls.crt or tls.key, the
// members refuse the operator. Without ca.crt, the operator trusts no member. readCertificates reports the missing keys.
func readAccess(ctx context.Context, from client.Reader, ec *etcdv1.EtcdCluster, name string, optional bool) (server.Access, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName(ec), RootCAs: x509.NewCertPool()}
	secret := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := from.Get(ctx, client.ObjectKey{Namespace: ec.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		if optional {
			name = ""
		}
		return server.Access{TLS: config, Secret: name}, nil // the configuration trusts no server
	}
	if err != nil {
		return server.Access{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	config.RootCAs.AppendCertsFromPEM(dataIn(secret, keyCA))
	pair := pairIn(secret, keyCert, keyKey)
	if certificate, err := tls.X509KeyPair(pair.Cert, pair.Key); err == nil {
		config.Certificates = []tls.Certificate{certificate}
	}
	return server.Access{TLS: config, Secret: name}, nil
}
