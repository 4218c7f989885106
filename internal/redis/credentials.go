// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// keyPassword is the key of the password in the Secret.
const keyPassword = "password"

// LostError reports that a cluster exists but its password is lost. Its servers keep the lost password: logins with a new password would
// fail.
type LostError struct{ Secret, Cluster string }

func (e *LostError) Error() string {
	return fmt.Sprintf("Secret %s with the password of %s does not exist: create the Secret again, with the former password in key %s, "+
		"or with a password of your choice if none of the pods runs", e.Secret, e.Cluster, keyPassword)
}

// secretOf returns the name of the Secret with a cluster's password.
func secretOf(rc *redisv1.RedisCluster) string {
	if rc.Spec.CredentialsSecret != "" {
		return rc.Spec.CredentialsSecret
	}
	return rc.Name + "-credentials"
}

// passwords caches planned passwords for the lifetime of the process: a deleted Secret is recreated with the password of the servers.
type passwords struct {
	generate func() (string, error)
	mu       sync.Mutex
	known    map[types.NamespacedName]string // by Secret
	proven   map[types.NamespacedName]string // by Secret: accepted by servers
	refuted  map[types.NamespacedName]string // by Secret: refused by servers
	users    *object.UserSecrets
}

func newPasswords(generate func() (string, error)) *passwords {
	return &passwords{generate: generate, known: map[types.NamespacedName]string{}, proven: map[types.NamespacedName]string{},
		refuted: map[types.NamespacedName]string{}, users: object.NewUserSecrets()}
}

// random returns a new password of 128 bits.
func random() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}

// plan returns the planned Secret of a cluster, or nil if pods read the user's Secret directly. If pods read a copy of
// the user's Secret, copied is the password for that copy.
func (p *passwords) plan(rc *redisv1.RedisCluster, owner object.Owner, live *unstructured.Unstructured, record topology.Record, copied string) (*unstructured.Unstructured, error) {
	name, value, keep := copyOf(rc), copied, false
	switch {
	case rc.Spec.CredentialsSecret == "":
		var err error
		if value, err = p.password(rc, passwordIn(live), record); err != nil {
			return nil, err
		}
		name, keep = secretOf(rc), keepsData(&rc.Spec)
	case copied == "":
		return nil, nil
	}
	secret := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
	secret.SetName(name)
	secret.SetNamespace(rc.Namespace)
	secret.SetLabels(owner.Labels(part))
	if keep {
		secret.SetAnnotations(map[string]string{object.AnnotationPolicy: object.PolicyKeep})
	}
	secret.Object["type"] = string(corev1.SecretTypeOpaque)
	secret.Object["data"] = map[string]any{keyPassword: base64.StdEncoding.EncodeToString([]byte(value))}
	_, err := object.Finish(secret, owner)
	return secret, err
}

// password returns the password of the live Secret, else the cached one, else a new one. An edit of the Secret does not change the password
// of running servers. The operator first tries the edited password, because a user may also have changed it on the servers. If the servers
// refuse it, the operator restores the previous password.
func (p *passwords) password(rc *redisv1.RedisCluster, live string, record topology.Record) (string, error) {
	key := types.NamespacedName{Namespace: rc.Namespace, Name: secretOf(rc)}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch proven := p.proven[key]; {
	case live != "" && proven != "" && live == p.refuted[key]:
		p.known[key] = proven
	case live != "":
		p.known[key] = live
	case p.known[key] != "":
	case record.Formed:
		return "", &LostError{Secret: key.Name, Cluster: "RedisCluster " + rc.Name}
	default:
		generated, err := p.generate()
		if err != nil {
			return "", fmt.Errorf("generate the password of Secret %s: %w", key, err)
		}
		p.known[key] = generated
	}
	return p.known[key], nil
}

// prove records whether servers accept the password used. taken reports whether any server accepts it, and refused
// whether any server refuses it. While another password is proven (accepted by servers), one refusal is enough to
// refute the password used. If no server accepts the proven password any more, a user has changed the servers. The
// proven password is then dropped, because the Secret may have the new one.
func (p *passwords) prove(rc *redisv1.RedisCluster, used string, taken, refused bool) {
	key := types.NamespacedName{Namespace: rc.Namespace, Name: secretOf(rc)}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case refused && p.proven[key] != "" && p.proven[key] != used:
		p.refuted[key] = used
	case taken:
		p.proven[key] = used
		delete(p.refuted, key)
	case refused:
		delete(p.proven, key)
	}
}

// adopt caches the password of a live Secret instead of a password that was generated before the Secret was observed. It reports whether
// that changes the plan. A password that servers accept is kept.
func (p *passwords) adopt(rc *redisv1.RedisCluster, live *unstructured.Unstructured) bool {
	key := types.NamespacedName{Namespace: rc.Namespace, Name: secretOf(rc)}
	value := passwordIn(live)
	p.mu.Lock()
	defer p.mu.Unlock()
	if value == "" || live.GetName() != key.Name || p.known[key] == value || p.proven[key] != "" {
		return false
	}
	p.known[key] = value
	return true
}

func (p *passwords) forget(namespace, cluster string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: cluster + "-credentials"}
	delete(p.known, key)
	delete(p.proven, key)
	delete(p.refuted, key)
}

// passwordIn returns the password in a Secret, or "" if the Secret is nil or the password invalid.
func passwordIn(secret *unstructured.Unstructured) string {
	if secret == nil {
		return ""
	}
	value, _, err := object.PasswordIn(secret, keyPassword)
	if err != nil {
		return ""
	}
	return value
}

// copyOf returns the name of the operator's copy of a user's Secret. The copy lacks the trailing newline, which containers would get in
// their environment.
func copyOf(rc *redisv1.RedisCluster) string { return rc.Name + "-password" }

// copied returns the password of the user's Secret if the password has a trailing newline, and otherwise "". It returns an error if the
// password is invalid. A missing Secret is not an error: pods wait for it.
func (p *passwords) copied(rc *redisv1.RedisCluster, lookup object.Lookup) (string, error) {
	if rc.Spec.CredentialsSecret == "" {
		return "", nil
	}
	values, isCut, err := p.users.Read(rc.Namespace, rc.Spec.CredentialsSecret, lookup, keyPassword)
	if err != nil || !isCut {
		return "", err
	}
	return values[keyPassword], nil
}
