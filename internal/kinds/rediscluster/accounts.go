// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/object"
)

// readAgain is how often a Secret is held against what servers take, while some of them refuse the password.
const readAgain = 10 * time.Second

// accounts know the passwords of clusters. The operator's own Secrets are in its cache. One of the
// user's is not: it is read once, and again when servers refuse its password. A password that servers take is used for as
// long as one of them does, whatever the Secret says by then.
type accounts struct {
	client client.Client
	live   client.Reader
	now    func() time.Time

	mu    sync.Mutex
	known map[types.NamespacedName]account // by cluster
}

type account struct {
	secret, password string
	latest           string // what the Secret had when it was read last
	at               time.Time
}

func newAccounts(c client.Client, live client.Reader) *accounts {
	return &accounts{client: c, live: live, now: time.Now, known: map[types.NamespacedName]account{}}
}

// access returns how the servers of a cluster are reached. Without a Secret there is no password, and
// servers refuse to answer.
func (a *accounts) access(ctx context.Context, rc *redisv1.RedisCluster) (server.Access, error) {
	key := client.ObjectKeyFromObject(rc)
	if rc.Spec.CredentialsSecret == "" {
		password, err := readPassword(ctx, a.client, types.NamespacedName{Namespace: rc.Namespace, Name: secretOf(rc)})
		return server.Access{Password: password}, err
	}
	a.mu.Lock()
	known, ok := a.known[key]
	a.mu.Unlock()
	if ok && known.secret == rc.Spec.CredentialsSecret && (known.password != "" || a.now().Sub(known.at) < readAgain) {
		return server.Access{Password: known.password}, nil
	}
	password, err := readPassword(ctx, a.live, types.NamespacedName{Namespace: rc.Namespace, Name: rc.Spec.CredentialsSecret})
	if err != nil {
		return server.Access{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[key] = account{secret: rc.Spec.CredentialsSecret, password: password, latest: password, at: a.now()}
	return server.Access{Password: password}, nil
}

// refused says that some server did not take the password in use, and whether another one did. From time to time it reads
// the Secret again. It returns whether the Secret has been found to have the password in use just now, so that a
// new pod would take it, and whether it was found to have another one.
func (a *accounts) refused(ctx context.Context, rc *redisv1.RedisCluster, used server.Access, others bool) (stands, differs bool, err error) {
	key := client.ObjectKeyFromObject(rc)
	a.mu.Lock()
	known := a.known[key]
	a.mu.Unlock()
	if a.now().Sub(known.at) < readAgain {
		return false, others && known.latest != used.Password, nil
	}
	from := a.live
	if rc.Spec.CredentialsSecret == "" {
		from = a.client
	}
	latest, err := readPassword(ctx, from, types.NamespacedName{Namespace: rc.Namespace, Name: secretOf(rc)})
	if err != nil {
		return false, false, err
	}
	known = account{secret: rc.Spec.CredentialsSecret, password: used.Password, latest: latest, at: a.now()}
	if !others {
		known.password = latest
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[key] = known
	return others && latest == used.Password, others && latest != used.Password, nil
}

func (a *accounts) forget(cluster types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, cluster)
}

func readPassword(ctx context.Context, from client.Reader, key types.NamespacedName) (string, error) {
	secret := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := client.IgnoreNotFound(from.Get(ctx, key, secret)); err != nil {
		return "", fmt.Errorf("read the password in Secret %s: %w", key, err)
	}
	return passwordIn(secret), nil // none in an empty one
}
