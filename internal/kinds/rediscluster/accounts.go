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

// readAgain is how often a Secret of the user's is read while servers refuse its password.
const readAgain = 30 * time.Second

// accounts know the passwords of clusters. The operator's own Secrets are in its cache. One of the
// user's is not: it is read once, and again when servers refuse its password.
type accounts struct {
	client client.Client
	live   client.Reader
	now    func() time.Time

	mu    sync.Mutex
	known map[types.NamespacedName]account // by cluster
}

type account struct {
	secret, password string
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
	a.known[key] = account{rc.Spec.CredentialsSecret, password, a.now()}
	return server.Access{Password: password}, nil
}

// refused says that a server did not take the password.
func (a *accounts) refused(cluster types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.known[cluster]; ok && a.now().Sub(known.at) >= readAgain {
		delete(a.known, cluster)
	}
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
