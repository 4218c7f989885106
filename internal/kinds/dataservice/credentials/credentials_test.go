// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/object"
)

const (
	platformSecret = "sample-platform"
	mysqlSecret    = "mysql-dataservice-credentials"
	claim          = "data-mysql-dataservice-0"
)

// fixture is a DataService in a pretended namespace of live objects.
type fixture struct {
	t    *testing.T
	ds   *dsv1.DataService
	live map[string]*unstructured.Unstructured // kind/name
}

func newFixture(t *testing.T, spec string) *fixture {
	t.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "data", UID: "uid"}}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	dsv1.SetDefaults(ds)
	return &fixture{t: t, ds: ds, live: map[string]*unstructured.Unstructured{}}
}

func (f *fixture) try(k *Keeper) (*Plan, error) {
	f.t.Helper()
	graph, err := component.NewGraph(&f.ds.Spec)
	assert.NilError(f.t, err)
	return k.Plan(f.ds, graph, func(kind, name string) (*unstructured.Unstructured, error) { return f.live[kind+"/"+name], nil })
}

func (f *fixture) plan(k *Keeper) *Plan {
	f.t.Helper()
	p, err := f.try(k)
	assert.NilError(f.t, err)
	return p
}

// create makes the planned Secrets live.
func (f *fixture) create(p *Plan) {
	for _, secret := range p.Secrets {
		f.live["Secret/"+secret.GetName()] = secret.DeepCopy()
	}
}

// valuesOf decodes a planned Secret.
func valuesOf(t *testing.T, p *Plan, name string) map[string]string {
	t.Helper()
	for _, secret := range p.Secrets {
		if secret.GetName() != name {
			continue
		}
		found := map[string]string{}
		encoded, _, err := unstructured.NestedStringMap(secret.Object, "data")
		assert.NilError(t, err)
		for key, value := range encoded {
			decoded, err := base64.StdEncoding.DecodeString(value)
			assert.NilError(t, err)
			found[key] = string(decoded)
		}
		return found
	}
	t.Fatalf("Secret %s is not planned", name)
	return nil
}

func namesOf(p *Plan) []string {
	names := []string{}
	for _, secret := range p.Secrets {
		names = append(names, secret.GetName())
	}
	return names
}

// counting generates values that tell how often one was needed.
func counting() (*Keeper, *int) {
	n := 0
	return newKeeper(func() (string, error) { n++; return fmt.Sprintf("generated-%d", n), nil }), &n
}

const inCluster = "{mysql: {}, eureka: {}, proxy: {}}"

func TestWhichSecrets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec            string
		want            []string
		mysql, platform string
		checksum        bool
	}{
		"nothing":                 {"{}", []string{}, "", "", false},
		"no user":                 {"{eureka: {}}", []string{}, "", "", false},
		"middleware alone":        {"{mysql: {}}", []string{mysqlSecret}, mysqlSecret, "", false},
		"in the cluster":          {inCluster, []string{platformSecret, mysqlSecret}, mysqlSecret, platformSecret, false},
		"another name":            {"{mysql: {name: db}}", []string{"db-credentials"}, "db-credentials", "", false},
		"an account of one's own": {"{mysql: {credentialsSecret: mine}, web: {}}", []string{platformSecret}, "mine", platformSecret, false},
		"further accounts":        {"{mysql: {users: [{name: a}, {name: b}]}}", []string{"mysql-dataservice-users", mysqlSecret}, mysqlSecret, "", false},
		"elsewhere, in the spec":  {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a', username: u, password: p}}, web: {}}", []string{platformSecret, "mysql-dataservice-third-party"}, "mysql-dataservice-third-party", platformSecret, true},
		"elsewhere, in a Secret":  {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {name: theirs}}}, web: {}}", []string{platformSecret}, "theirs", platformSecret, false},
		"elsewhere, for nobody":   {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {name: theirs}}}}", []string{}, "theirs", "", false},
		"a Secret without a name": {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {}}}}", []string{"mysql-dataservice-third-party"}, "mysql-dataservice-third-party", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFixture(t, test.spec).plan(NewKeeper())
			assert.DeepEqual(t, namesOf(p), test.want)
			assert.Equal(t, p.Credentials.MySQLSecret, test.mysql)
			assert.Equal(t, p.Credentials.PlatformSecret, test.platform)
			assert.Equal(t, p.Credentials.MySQLChecksum != "", test.checksum)
		})
	}
}

func TestSecretsAreComplete(t *testing.T) {
	t.Parallel()
	f := newFixture(t, inCluster)
	p := f.plan(NewKeeper())
	for name, want := range map[string]struct {
		component string
		keys      []string
		kept      bool
	}{
		platformSecret: {"platform", []string{"gateway-username", "gateway-password", "jwt-secret"}, false},
		mysqlSecret:    {"mysql", []string{"username", "password", "root-password"}, true},
	} {
		i := 0
		for namesOf(p)[i] != name {
			i++
		}
		secret := p.Secrets[i]
		assert.Equal(t, secret.GroupVersionKind().String(), "/v1, Kind=Secret")
		assert.Equal(t, secret.GetNamespace(), "data")
		assert.DeepEqual(t, secret.GetLabels(), map[string]string{
			"app.kubernetes.io/instance": "sample", "app.kubernetes.io/name": want.component,
			"app.kubernetes.io/managed-by": "d3os-operator", "app.kubernetes.io/part-of": "dataservice",
		})
		assert.Equal(t, len(secret.GetAnnotations()[object.AnnotationDigest]), 24)
		assert.Equal(t, object.Kept(secret), want.kept)
		if want.kept {
			assert.Equal(t, len(secret.GetOwnerReferences()), 0)
		} else {
			assert.Equal(t, metav1.GetControllerOf(secret).UID, f.ds.UID)
		}
		data := valuesOf(t, p, name)
		assert.Equal(t, len(data), len(want.keys))
		for _, key := range want.keys {
			assert.Assert(t, data[key] != "", "%s lacks %s", name, key)
		}
	}
	assert.Equal(t, valuesOf(t, p, mysqlSecret)["username"], "dataservice")
	assert.Equal(t, valuesOf(t, p, platformSecret)["gateway-username"], "admin")
}

func TestRetentionDeleteGivesAnOwner(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		f := newFixture(t, "{mysql: {kind: "+kind+", storage: {retention: Delete}}}")
		secret := f.plan(NewKeeper()).Secrets[0]
		assert.Assert(t, !object.Kept(secret), kind)
		assert.Equal(t, metav1.GetControllerOf(secret).UID, f.ds.UID, kind)
	}
}

func TestGeneratedValuesAreLongAndDifferent(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		p := newFixture(t, inCluster).plan(NewKeeper())
		for name, keys := range map[string][]string{platformSecret: {"jwt-secret", "gateway-password"}, mysqlSecret: {"password", "root-password"}} {
			for _, key := range keys {
				value := valuesOf(t, p, name)[key]
				assert.Equal(t, len(value), 32, "16 bytes in hexadecimal: it needs no quoting anywhere")
				assert.Equal(t, strings.Trim(value, "0123456789abcdef"), "")
				assert.Assert(t, !seen[value], "generated twice")
				seen[value] = true
			}
		}
	}
}

func TestValuesAreGeneratedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, inCluster)
	k, generated := counting()
	first := f.plan(k)
	assert.Equal(t, *generated, 4)
	f.create(first)
	assert.DeepEqual(t, f.plan(k), first)

	// Another process knows the live Secrets alone.
	other, afterRestart := counting()
	assert.DeepEqual(t, f.plan(other), first)
	assert.Equal(t, *afterRestart, 0)
	assert.Equal(t, *generated, 4)
}

// A Secret that somebody deletes or empties comes back as it was.
func TestValuesAreRemembered(t *testing.T) {
	t.Parallel()
	f := newFixture(t, inCluster)
	k, generated := counting()
	first := f.plan(k)
	f.create(first)
	delete(f.live, "Secret/"+mysqlSecret)
	unstructured.RemoveNestedField(f.live["Secret/"+platformSecret].Object, "data", "jwt-secret")
	assert.NilError(t, unstructured.SetNestedField(f.live["Secret/"+platformSecret].Object, "", "data", "gateway-password"))
	assert.DeepEqual(t, f.plan(k), first)
	assert.Equal(t, *generated, 4)
}

// What another process learnt from the live Secrets, it remembers too.
func TestWhatIsReadIsRemembered(t *testing.T) {
	t.Parallel()
	f := newFixture(t, inCluster)
	first := f.plan(NewKeeper())
	f.create(first)
	k, generated := counting()
	f.plan(k)
	f.live = map[string]*unstructured.Unstructured{"PersistentVolumeClaim/" + claim: {}}
	assert.DeepEqual(t, f.plan(k), first)
	assert.Equal(t, *generated, 0)
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

func TestThirdPartyInline(t *testing.T) {
	t.Parallel()
	spec := func(username, password string) string {
		return fmt.Sprintf("{mysql: {kind: 3, thirdParty: {url: 'mysql://a', username: '%s', password: '%s'}}, web: {}}", username, password)
	}
	k := NewKeeper()
	f := newFixture(t, spec("u", "p"))
	first := f.plan(k)
	const name = "mysql-dataservice-third-party"
	assert.DeepEqual(t, valuesOf(t, first, name), map[string]string{"username": "u", "password": "p"})
	assert.Assert(t, metav1.GetControllerOf(first.Secrets[1]) != nil, "it goes with the DataService")
	assert.DeepEqual(t, f.plan(k), first)

	// Any change of them changes the checksum; so does moving a letter from one to the other.
	seen := map[string]bool{first.Credentials.MySQLChecksum: true}
	for _, pair := range [][2]string{{"u", "q"}, {"v", "p"}, {"", "up"}, {"up", ""}, {"", ""}} {
		f := newFixture(t, spec(pair[0], pair[1]))
		p := f.plan(k)
		assert.DeepEqual(t, valuesOf(t, p, name), map[string]string{"username": pair[0], "password": pair[1]})
		assert.Assert(t, !seen[p.Credentials.MySQLChecksum], "%v", pair)
		seen[p.Credentials.MySQLChecksum] = true
	}
	// It is keyed: nobody can compute it from a guessed password.
	assert.Assert(t, newFixture(t, spec("u", "p")).plan(NewKeeper()).Credentials.MySQLChecksum != first.Credentials.MySQLChecksum)
}

// The user's own Secret is used by name; the operator neither reads nor writes it.
func TestSecretRefIsNotRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {name: theirs}}}, web: {}}")
	graph, err := component.NewGraph(&f.ds.Spec)
	assert.NilError(t, err)
	var asked []string
	_, err = NewKeeper().Plan(f.ds, graph, func(kind, name string) (*unstructured.Unstructured, error) {
		asked = append(asked, kind+"/"+name)
		return nil, nil
	})
	assert.NilError(t, err)
	assert.DeepEqual(t, asked, []string{"Secret/" + platformSecret})
}

// Each further account has a password of its own, under its name, that stays when others come.
func TestFurtherAccounts(t *testing.T) {
	t.Parallel()
	const secret = "mysql-dataservice-users"
	k := NewKeeper()
	f := newFixture(t, "{mysql: {users: [{name: a}]}}")
	p := f.plan(k)
	assert.Equal(t, p.Credentials.MySQLUsersSecret, secret)
	before := valuesOf(t, p, secret)
	assert.Equal(t, len(before["a"]), 32)
	f.create(p)
	f.ds.Spec.MySQL.Users = append(f.ds.Spec.MySQL.Users, dsv1.DatabaseUser{Name: "b"})
	after := valuesOf(t, f.plan(k), secret)
	assert.Equal(t, after["a"], before["a"])
	assert.Equal(t, len(after["b"]), 32)
	assert.Assert(t, after["a"] != after["b"])
	f.ds.Spec.MySQL.Users = f.ds.Spec.MySQL.Users[:1]
	assert.DeepEqual(t, valuesOf(t, f.plan(k), secret), before)
	for _, planned := range p.Secrets {
		assert.Assert(t, object.Kept(planned), planned.GetName())
	}
}

// What charts get to see of credentials has no value of one in it.
func TestNoValueLeaves(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{inCluster, "{mysql: {kind: 3, thirdParty: {url: 'mysql://a', username: distinctive-user, password: distinctive-password}}, web: {}}"} {
		p := newFixture(t, spec).plan(NewKeeper())
		seen, err := json.Marshal(p.Credentials)
		assert.NilError(t, err)
		for _, name := range namesOf(p) {
			for key, value := range valuesOf(t, p, name) {
				if key == "username" && value == "dataservice" {
					continue // the name of the product
				}
				for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
					assert.Assert(t, !strings.Contains(string(seen), form), "%s of %s is in %s", key, name, seen)
				}
			}
		}
		assert.Equal(t, reflect.TypeOf(p.Credentials).NumField(), 4, "a new field must be looked at here")
	}
}

func TestPreviewShowsPlaceholders(t *testing.T) {
	t.Parallel()
	p := newFixture(t, inCluster).plan(NewPreview())
	assert.DeepEqual(t, valuesOf(t, p, mysqlSecret), map[string]string{"username": "dataservice", "password": "(generated)", "root-password": "(generated)"})
}

func TestErrorsAreReported(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	f := newFixture(t, "{mysql: {}}")
	_, err := f.try(newKeeper(func() (string, error) { return "", boom }))
	assert.ErrorIs(t, err, boom)
	assert.ErrorContains(t, err, "generate root-password of Secret data/"+mysqlSecret)

	for _, failing := range []string{"Secret", "PersistentVolumeClaim"} {
		graph, err := component.NewGraph(&f.ds.Spec)
		assert.NilError(t, err)
		k, generated := counting()
		_, err = k.Plan(f.ds, graph, func(kind, _ string) (*unstructured.Unstructured, error) {
			if kind == failing {
				return nil, boom
			}
			return nil, nil
		})
		assert.ErrorIs(t, err, boom, failing)
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
