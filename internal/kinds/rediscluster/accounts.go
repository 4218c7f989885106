// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

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
	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/password"
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
	problem          string // why that is refused
	at               time.Time
}

func newAccounts(c client.Client, live client.Reader) *accounts {
	return &accounts{client: c, live: live, now: time.Now, known: map[types.NamespacedName]account{}}
}

// access returns how the servers of a cluster are reached, and why the password in its Secret is refused. Without a Secret there is
// no password, and servers refuse to answer.
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

// lookAgain reads the Secret of a user again while a server does not run, which may be because its password is refused. It returns
// why it is refused.
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

// readPassword returns the password in a Secret, which may not be there; problem says why the password is refused.
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
	if value, _, err = password.In(secret, keyPassword); err != nil {
		return "", err.Error(), nil //nolint:nilerr // a person has to mend it, and the status says so
	}
	return value, "", nil
}
