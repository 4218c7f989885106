// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"d3os.com/d3os-operator/internal/object"
)

// A value is generated once. If a Secret is deleted or emptied, the operator restores it with the same values. A restarted
// operator does so too, if it has read the live Secret before the loss.
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

// A DataService never reads the values of another DataService.
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

// If the password of existing data is lost, no other password is generated.
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
		assert.ErrorContains(t, err, "restore it from a backup")
		assert.Equal(t, *generated, 0)

		// A claim that is being deleted does not count as data: new passwords are generated.
		f.live["PersistentVolumeClaim/"+claim].SetDeletionTimestamp(ptr.To(metav1.Now()))
		f.plan(k)
		assert.Equal(t, *generated, 2)
	}

	// If a Secret only lacks the operator's label, its values are not lost: a new operator reads the Secret from the
	// API server.
	f := newFixture(t, "{mysql: {}}")
	k, _ := counting()
	made := f.plan(k)
	f.live["PersistentVolumeClaim/"+claim] = &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": claim}}}
	unlabelled := made.Secrets[0].DeepCopy()
	unstructured.RemoveNestedField(unlabelled.Object, "metadata", "labels", object.LabelManagedBy)
	f.others = &Users{Live: func(string, string) (*unstructured.Unstructured, error) { return unlabelled, nil }}
	k, generated := counting()
	assert.DeepEqual(t, f.plan(k), made)
	assert.Equal(t, *generated, 0)

	// If a Secret has no label at all, an error is returned, because the Secret may not belong to the database.
	unlabelled.SetLabels(nil)
	k, generated = counting()
	_, err := f.try(k)
	assert.ErrorContains(t, err, "Secret "+mysqlSecret+" exists, but its labels do not name DataService sample")
	assert.Equal(t, *generated, 0)

	// A DaemonSet has no volume, so no data needs the lost password, and a new one is generated.
	f = newFixture(t, "{mysql: {kind: DaemonSet}}")
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
		assert.Equal(t, *generated, 0, "no value is generated while an error hides whether a Secret or data exists")
	}
}

// An operator that has just started may not see a Secret yet. Its generated values are then replaced by the values in use. A Secret with
// values from the spec is not adopted.
func TestValuesInUseAreAdopted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, inCluster)
	first := f.plan(NewKeeper())
	k := NewKeeper()
	assert.Assert(t, valuesOf(t, f.plan(k), mysqlSecret)["password"] != valuesOf(t, first, mysqlSecret)["password"])
	for _, live := range first.Secrets {
		assert.Assert(t, k.Adopt(f.ds, live))
		assert.Assert(t, !k.Adopt(f.ds, live), "the values were adopted already")
	}
	assert.DeepEqual(t, f.plan(k), first)
	assert.Assert(t, !k.Adopt(f.ds, nil))
	edited := first.Secrets[0].DeepCopy()
	assert.NilError(t, unstructured.SetNestedField(edited.Object, "b3RoZXI=", "data", keyGatewayUsername))
	assert.Assert(t, !k.Adopt(f.ds, edited), "a value that was not generated is not adopted")
	foreign := first.Secrets[0].DeepCopy()
	foreign.SetName("mysql-dataservice-third-party")
	assert.Assert(t, !k.Adopt(f.ds, foreign))
}

// If the product's services are declared, their secret is the key of the checksum, as in earlier versions, so an upgrade
// of the operator restarts no pod. Otherwise the checksum has a separate key, which does not change while the Secret
// exists.
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
	assert.Equal(t, f.plan(k).Credentials.MySQLChecksum, p.Credentials.MySQLChecksum, "the key is stable before the Secret exists")
	f.create(p)
	assert.Equal(t, f.plan(NewKeeper()).Credentials.MySQLChecksum, p.Credentials.MySQLChecksum, "another operator finds the key")

	f = newFixture(t, "{"+elsewhere+", web: {}}")
	p = f.plan(k)
	assert.DeepEqual(t, valuesOf(t, p, name), map[string]string{"username": "u", "password": "p"})
	assert.Equal(t, p.Credentials.MySQLChecksum, checksumWith(valuesOf(t, p, platformSecret)["jwt-secret"]))
}

func unstructuredOf(kind, name string, more map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
	o.SetName(name)
	for key, value := range more {
		o.Object[key] = value
	}
	return o
}

// If a user's password ends with a newline, containers get it without the newline, from a copy of the Secret. An
// invalid value is reported before an object uses it. Workloads that already use such a value keep it.
func TestUserAccountIsCleanInEveryContainer(t *testing.T) {
	t.Parallel()
	const mysql, elsewhere = "{mysql: {credentialsSecret: mine}}", "{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {name: mine}}}}"
	const redis, cluster = "{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a', secretRef: {name: mine}}}}", "{redis: {credentialsSecret: mine}}"
	claimed := unstructuredOf("PersistentVolumeClaim", claim, nil)
	runs := unstructuredOf("Deployment", "web", map[string]any{"spec": []any{map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "mine"}}}}})
	copied := unstructuredOf("Secret", "mysql-dataservice-clean", nil)
	for name, test := range map[string]struct {
		spec, password string
		live           *unstructured.Unstructured
		want, err      string
	}{
		"clean":                            {mysql, "pw", nil, "mine", ""},
		"a newline":                        {mysql, "pw\n", nil, "mysql-dataservice-clean", ""},
		"a newline, of a third party":      {elsewhere, "pw\n", nil, "mysql-dataservice-clean", ""},
		"a newline of redis":               {redis, "pw\n", nil, "redis-external-clean", ""},
		"a newline of a cluster":           {cluster, "pw\n", nil, "redis-password", ""},
		"a cluster":                        {cluster, "pw", nil, "mine", ""},
		"empty":                            {mysql, "", nil, "", "mysql: the key password of Secret mine is not used: it is empty"},
		"two newlines":                     {elsewhere, "pw\n\n", nil, "", "mysql: the key password of Secret mine is not used: it has the control character 0x0a"},
		"data made by 0.2.0":               {mysql, "pw\n", claimed, "mine", ""},
		"data made by 0.2.0, with a tab":   {mysql, "p\tw", claimed, "mine", ""},
		"data made by 0.2.0, with backups": {"{mysql: {credentialsSecret: mine, backup: {destination: {claim: {name: c}}}}}", "pw\n", claimed, "", "change that password in the database and in the Secret"},
		"a workload of 0.2.0":              {elsewhere, "pw\n", runs, "mine", ""},
		"the copy exists":                  {mysql, "pw\n", copied, "mysql-dataservice-clean", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.spec)
			f.others = &Users{
				Live: func(string, string) (*unstructured.Unstructured, error) {
					value := func(text string) any { return base64.StdEncoding.EncodeToString([]byte(text)) }
					return unstructuredOf("Secret", "mine", map[string]any{"data": map[string]any{keyRootPassword: value("r"), keyUsername: value("u"), keyPassword: value(test.password)}}), nil
				},
				List: func(kind string) ([]*unstructured.Unstructured, error) {
					if test.live != nil && test.live.GetKind() == kind {
						return []*unstructured.Unstructured{test.live}, nil
					}
					return nil, nil
				},
			}
			if test.live != nil {
				f.live[test.live.GetKind()+"/"+test.live.GetName()] = test.live
			}
			p, err := f.try(NewKeeper())
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.NilError(t, err)
			got := p.Credentials.MySQLSecret
			if got == "" {
				got = p.Credentials.RedisSecret
			}
			assert.Equal(t, got, test.want)
			if test.want == "mysql-dataservice-clean" {
				assert.Equal(t, valuesOf(t, p, test.want)[keyPassword], "pw")
			}
		})
	}
}
