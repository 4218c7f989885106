// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/redis/server"
)

// readAgain is the minimum time between two reads of one Secret of a user.
const readAgain = 10 * time.Second

// accounts caches the passwords of clusters. The operator's cache of objects contains the operator's own Secrets, but
// no Secrets of users. So a user's Secret is read once. It is read again only while its password is invalid, or while a
// server refuses the password or does not run. A password stays in use while at least one server accepts it, even if the
// Secret has changed.
type accounts struct {
	client client.Client
	live   client.Reader
	now    func() time.Time

	mu    sync.Mutex
	known map[types.NamespacedName]account // by cluster
}

type account struct {
	secret, password string
	latest           string // the Secret's value at the last read
	problem          string // why that value is invalid
	at               time.Time
}

func newAccounts(c client.Client, live client.Reader) *accounts {
	return &accounts{client: c, live: live, now: time.Now, known: map[types.NamespacedName]account{}}
}

// access returns the credentials for the servers of a cluster, and the reason why the password in its Secret is invalid. Without a Secret
// the password is empty, and servers refuse it.
func (a *accounts) access(ctx context.Context, rc *redisv1.RedisCluster) (used server.Access, problem string, err error) {
	key := client.ObjectKeyFromObject(rc)
	if rc.Spec.CredentialsSecret == "" {
		used.Password, _, err = readPassword(ctx, a.client, types.NamespacedName{Namespace: rc.Namespace, Name: secretOf(rc)})
		return used, "", err
	}
	a.mu.Lock()
	known, ok := a.known[key]
	a.mu.Unlock()
	if ok && known.secret == rc.Spec.CredentialsSecret && (known.password != "" || a.now().Sub(known.at) < readAgain) {
		return server.Access{Password: known.password}, known.problem, nil
	}
	known = account{secret: rc.Spec.CredentialsSecret, at: a.now()}
	if known.latest, known.problem, err = readPassword(ctx, a.live, types.NamespacedName{Namespace: rc.Namespace, Name: known.secret}); err != nil {
		return server.Access{}, "", err
	}
	known.password = known.latest
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[key] = known
	return server.Access{Password: known.password}, known.problem, nil
}

// lookAgain reads a user's Secret again while a server does not run, because an invalid password may be the cause. It returns the reason
// why the password is invalid.
func (a *accounts) lookAgain(ctx context.Context, rc *redisv1.RedisCluster) (problem string, err error) {
	key := client.ObjectKeyFromObject(rc)
	a.mu.Lock()
	known := a.known[key]
	a.mu.Unlock()
	if rc.Spec.CredentialsSecret == "" || known.secret != rc.Spec.CredentialsSecret || a.now().Sub(known.at) < readAgain {
		return known.problem, nil
	}
	if known.latest, known.problem, err = readPassword(ctx, a.live, types.NamespacedName{Namespace: rc.Namespace, Name: known.secret}); err != nil {
		return "", err
	}
	known.at = a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[key] = known
	return known.problem, nil
}

// refused handles servers that refuse the password in use. others reports whether another server accepts that password.
// If readAgain has passed since the last read of the Secret, refused reads it again. stands reports whether this call
// has read the Secret, and the Secret still contains the password in use: a new pod would accept it. differs reports
// whether the Secret contains another password, with which a new pod would start.
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
	latest, problem, err := readPassword(ctx, from, types.NamespacedName{Namespace: rc.Namespace, Name: secretOf(rc)})
	if err != nil {
		return false, false, err
	}
	known = account{secret: rc.Spec.CredentialsSecret, password: used.Password, latest: latest, problem: problem, at: a.now()}
	if !others && latest != "" {
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

// readPassword returns the password in a Secret. If the Secret is missing or its password is invalid, problem is the reason.
func readPassword(ctx context.Context, from client.Reader, key types.NamespacedName) (value, problem string, err error) {
	secret := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = from.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Sprintf("Secret %s does not exist", key.Name), nil
	case err != nil:
		return "", "", fmt.Errorf("read the password in Secret %s: %w", key, err)
	}
	secret.SetName(key.Name)
	if value, _, err = object.PasswordIn(secret, keyPassword); err != nil {
		return "", err.Error(), nil //nolint:nilerr // the status reports it; a user must fix it
	}
	return value, "", nil
}
