// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
)

// If a user's Secret is missing or lacks a key, the problem names the Secret and the key. All other problems of the cluster are still
// reported.
func TestIncompleteSecretsAreNamed(t *testing.T) {
	t.Parallel()
	authority, err := database.NewAuthority("test", time.Now())
	assert.NilError(t, err)
	pair, err := authority.Issue(database.Leaf{Name: "client", Client: true}, time.Now())
	assert.NilError(t, err)
	for name, c := range map[string]struct {
		data    map[string][]byte
		problem string // "": no problem
	}{
		"complete":                       {map[string][]byte{keyCert: pair.Cert, keyKey: pair.Key, keyCA: authority.Cert}, ""},
		"no authority":                   {map[string][]byte{keyCert: pair.Cert, keyKey: pair.Key}, "Secret client, ca.crt: there is no certificate"},
		"no key":                         {map[string][]byte{keyCert: pair.Cert, keyCA: authority.Cert}, "Secret client, tls.key: "},
		"the key of another certificate": {map[string][]byte{keyCert: pair.Cert, keyKey: authority.Key, keyCA: authority.Cert}, "Secret client, tls.key: "},
		"no certificate":                 {map[string][]byte{keyKey: pair.Key, keyCA: authority.Cert}, "Secret client, tls.crt: there is no certificate"},
		"no Secret at all":               {nil, "Secret client, tls.crt: there is no such Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec := read(t, "minimal")
			ec.Spec.TLS = etcdv1.TLS{Mode: etcdv1.TLSSecrets, ServerSecret: "server", PeerSecret: "server", ClientSecret: "client"}
			secret := func(name string, data map[string][]byte) *corev1.Secret {
				return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ec.Namespace, Name: name}, Data: data}
			}
			objects := []client.Object{secret("server", map[string][]byte{keyCert: pair.Cert, keyKey: pair.Key, keyCA: authority.Cert})}
			if c.data != nil {
				objects = append(objects, secret("client", c.data))
			}
			live := fake.NewClientBuilder().WithObjects(objects...).Build()
			a := newAccounts(live, live)
			account, err := a.of(t.Context(), ec)
			assert.NilError(t, err)
			assert.Equal(t, account.access.Secret, "client")
			reason, message := worst(account.certificates, renewer(ec), time.Now())
			assert.Equal(t, reason == etcdv1.ReasonCertificateUnreadable, c.problem != "", message)
			assert.Assert(t, strings.HasPrefix(message, c.problem), message)
			assert.Equal(t, len(a.known) == 0, c.problem != "", "a correction counts at once")
		})
	}
}
