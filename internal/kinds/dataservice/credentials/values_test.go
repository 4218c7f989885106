// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// Values are generated once. A Secret that somebody deletes or empties comes back as it was, also by an operator that has
// started since and learnt the values from the live Secrets.
func TestValuesAreGeneratedOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(f *fixture){
		"nothing is lost": func(*fixture) {},
		"a Secret is deleted, another emptied": func(f *fixture) {
			delete(f.live, "Secret/"+mysqlSecret)
			data := f.live["Secret/"+platformSecret].Object["data"].(map[string]any)
			delete(data, "jwt-secret")
			data["gateway-password"] = ""
		},
		"all are deleted": func(f *fixture) {
			f.live = map[string]*unstructured.Unstructured{"PersistentVolumeClaim/" + claim: {}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, inCluster)
			k, generated := counting()
			first := f.plan(k)
			f.create(first)
			later, afterRestart := counting()
			assert.DeepEqual(t, f.plan(later), first)
			lose(f)
			assert.DeepEqual(t, f.plan(k), first)
			assert.DeepEqual(t, f.plan(later), first)
			assert.Equal(t, *generated, 4)
			assert.Equal(t, *afterRestart, 0)
		})
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	f := newFixture(t, inCluster)
	k, generated := counting()
	first := f.plan(k)
	k.Forget("data", "other")
	k.Forget("other", "sample")
	assert.DeepEqual(t, f.plan(k), first)
	k.Forget("data", "sample")
	second := f.plan(k)
	assert.Equal(t, *generated, 8)
	assert.Assert(t, valuesOf(t, second, mysqlSecret)["password"] != valuesOf(t, first, mysqlSecret)["password"])
}

// One DataService never sees what belongs to another.
func TestDataServicesAreApart(t *testing.T) {
	t.Parallel()
	k, _ := counting()
	seen := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		for _, namespace := range []string{"x", "y"} {
			f := newFixture(t, inCluster)
			f.ds.Name, f.ds.Namespace = name, namespace
			password := valuesOf(t, f.plan(k), mysqlSecret)["password"]
			assert.Assert(t, !seen[password])
			seen[password] = true
		}
	}
}

// Data that was created with a password that is gone is not given another one.
func TestLostCredentials(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		f := newFixture(t, "{mysql: {kind: "+kind+"}}")
		f.live["PersistentVolumeClaim/"+claim] = &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": claim}}}
		k, generated := counting()
		_, err := f.try(k)
		var lost *LostError
		assert.Assert(t, errors.As(err, &lost), "%v", err)
		assert.Equal(t, *lost, LostError{Secret: mysqlSecret, Claim: claim})
		assert.ErrorContains(t, err, "restore the Secret, or delete the claim")
		assert.Equal(t, *generated, 0)

		// A claim on its way out holds nothing back.
		f.live["PersistentVolumeClaim/"+claim].SetDeletionTimestamp(ptr.To(metav1.Now()))
		f.plan(k)
		assert.Equal(t, *generated, 2)
	}

	// Without a volume there is nothing to open.
	f := newFixture(t, "{mysql: {kind: DaemonSet}}")
	f.live["PersistentVolumeClaim/"+claim] = &unstructured.Unstructured{}
	f.plan(NewKeeper())
}

func TestErrorsAreReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "{mysql: {}}")
	_, err := f.try(newKeeper(func() (string, error) { return "", errBoom }))
	assert.ErrorIs(t, err, errBoom)
	assert.ErrorContains(t, err, "generate root-password of Secret data/"+mysqlSecret)

	for _, f.fails = range []string{"Secret", "PersistentVolumeClaim"} {
		k, generated := counting()
		_, err = f.try(k)
		assert.ErrorIs(t, err, errBoom, f.fails)
		assert.Equal(t, *generated, 0, "nothing is generated while nobody knows whether there is something")
	}
}

// An operator that has just started may not see a Secret yet. What it generates then gives way to
// the values in use; a Secret with the spec's own values is not its business.
func TestValuesInUseAreAdopted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, inCluster)
	first := f.plan(NewKeeper())
	k := NewKeeper()
	assert.Assert(t, valuesOf(t, f.plan(k), mysqlSecret)["password"] != valuesOf(t, first, mysqlSecret)["password"])
	for _, live := range first.Secrets {
		assert.Assert(t, k.Adopt(f.ds, live))
		assert.Assert(t, !k.Adopt(f.ds, live), "there is nothing left to adopt")
	}
	assert.DeepEqual(t, f.plan(k), first)
	assert.Assert(t, !k.Adopt(f.ds, nil))
	edited := first.Secrets[0].DeepCopy()
	assert.NilError(t, unstructured.SetNestedField(edited.Object, "b3RoZXI=", "data", keyGatewayUsername))
	assert.Assert(t, !k.Adopt(f.ds, edited), "what is not generated is planned anew")
	foreign := first.Secrets[0].DeepCopy()
	foreign.SetName("mysql-dataservice-third-party")
	assert.Assert(t, !k.Adopt(f.ds, foreign))
}

// Where no service of the product is declared, there is no secret of theirs to key the checksum with:
// it has a key of its own, which stays as long as the Secret does. Where there are such services, it
// is keyed as it always was, so that an upgrade of the operator restarts none of their pods.
func TestTheChecksumIsAlwaysKeyed(t *testing.T) {
	t.Parallel()
	const name = "mysql-dataservice-third-party"
	const elsewhere = "mysql: {kind: 3, thirdParty: {url: 'mysql://a', username: u, password: p}}"
	checksumWith := func(key string) string {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte("1:up"))
		return hex.EncodeToString(mac.Sum(nil)[:12])
	}
	f := newFixture(t, "{"+elsewhere+", additionalServices: [{name: more, image: x, port: 80}]}")
	k, _ := counting()
	p := f.plan(k)
	own := valuesOf(t, p, name)["checksum-key"]
	assert.Equal(t, own, "generated-1")
	assert.Equal(t, p.Credentials.MySQLChecksum, checksumWith(own))
	assert.Equal(t, f.plan(k).Credentials.MySQLChecksum, p.Credentials.MySQLChecksum, "before the Secret is there")
	f.create(p)
	assert.Equal(t, f.plan(NewKeeper()).Credentials.MySQLChecksum, p.Credentials.MySQLChecksum, "another operator finds the key")

	f = newFixture(t, "{"+elsewhere+", web: {}}")
	p = f.plan(k)
	assert.DeepEqual(t, valuesOf(t, p, name), map[string]string{"username": "u", "password": "p"})
	assert.Equal(t, p.Credentials.MySQLChecksum, checksumWith(valuesOf(t, p, platformSecret)["jwt-secret"]))
}
