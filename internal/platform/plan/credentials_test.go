// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
)

const (
	platformSecret = "sample-platform"
	mysqlSecret    = "mysql-dataservice-credentials"
	claim          = "data-mysql-dataservice-0"
)

// fixture is a DataService with live objects in a fake namespace.
type fixture struct {
	t      *testing.T
	ds     *dsv1.DataService
	live   map[string]*unstructured.Unstructured // kind/name
	fails  string                                // kind whose objects cannot be read
	asked  []string                              // kind/name of each read
	others *Users
}

var errBoom = errors.New("boom")

func (f *fixture) look(kind, name string) (*unstructured.Unstructured, error) {
	if kind == f.fails {
		return nil, errBoom
	}
	f.asked = append(f.asked, kind+"/"+name)
	return f.live[kind+"/"+name], nil
}

func newFixture(t *testing.T, spec string) *fixture {
	t.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "data", UID: "uid"}}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	dsv1.SetDefaults(ds)
	return &fixture{t: t, ds: ds, live: map[string]*unstructured.Unstructured{}}
}

func (f *fixture) try(k *Keeper) (*SecretsPlan, error) {
	f.t.Helper()
	graph, err := component.NewGraph(&f.ds.Spec)
	assert.NilError(f.t, err)
	return k.Plan(f.ds, graph, f.look, f.others)
}

func (f *fixture) plan(k *Keeper) *SecretsPlan {
	f.t.Helper()
	p, err := f.try(k)
	assert.NilError(f.t, err)
	return p
}

// create makes the planned Secrets live objects.
func (f *fixture) create(p *SecretsPlan) {
	for _, secret := range p.Secrets {
		f.live["Secret/"+secret.GetName()] = secret.DeepCopy()
	}
}

// valuesOf decodes a planned Secret.
func valuesOf(t *testing.T, p *SecretsPlan, name string) map[string]string {
	t.Helper()
	i := slices.Index(namesOf(p), name)
	assert.Assert(t, i >= 0, "Secret %s is not planned", name)
	var secret corev1.Secret
	assert.NilError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(p.Secrets[i].Object, &secret))
	found := map[string]string{}
	for key, value := range secret.Data {
		found[key] = string(value)
	}
	return found
}

func namesOf(p *SecretsPlan) []string {
	names := []string{}
	for _, secret := range p.Secrets {
		names = append(names, secret.GetName())
	}
	return names
}

// counting returns a keeper whose generated values are numbers, and a pointer to the count.
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
		"nothing":                      {"{}", []string{}, "", "", false},
		"no component with a password": {"{eureka: {}}", []string{}, "", "", false},
		"middleware alone":             {"{mysql: {}}", []string{mysqlSecret}, mysqlSecret, "", false},
		"in the cluster":               {inCluster, []string{platformSecret, mysqlSecret}, mysqlSecret, platformSecret, false},
		"another name":                 {"{mysql: {name: db}}", []string{"db-credentials"}, "db-credentials", "", false},
		"a user's account":             {"{mysql: {credentialsSecret: mine}, web: {}}", []string{platformSecret}, "mine", platformSecret, false},
		"further accounts":             {"{mysql: {users: [{name: a}, {name: b}]}}", []string{"mysql-dataservice-users", mysqlSecret}, mysqlSecret, "", false},
		"third party, in the spec":     {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a', username: u, password: p}}, web: {}}", []string{platformSecret, "mysql-dataservice-third-party"}, "mysql-dataservice-third-party", platformSecret, true},
		"third party, in a Secret":     {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {name: theirs}}}, web: {}}", []string{platformSecret}, "theirs", platformSecret, false},
		"third party without services": {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {name: theirs}}}}", []string{}, "theirs", "", false},
		"a Secret without a name":      {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {}}}}", []string{"mysql-dataservice-third-party"}, "mysql-dataservice-third-party", "", true},
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
		secret := p.Secrets[slices.Index(namesOf(p), name)]
		assert.Equal(t, secret.GroupVersionKind().String(), "/v1, Kind=Secret")
		assert.Equal(t, secret.GetNamespace(), "data")
		assert.DeepEqual(t, secret.GetLabels(), map[string]string{
			"app.kubernetes.io/instance": "sample", "app.kubernetes.io/name": want.component,
			"app.kubernetes.io/managed-by": "d3os-operator", "app.kubernetes.io/part-of": "dataservice",
		})
		assert.Equal(t, len(secret.GetAnnotations()[object.AnnotationDigest]), 24)
		assert.Equal(t, object.OutlivesOwner(secret), want.kept)
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
		assert.Assert(t, !object.OutlivesOwner(secret), kind)
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
	assert.Assert(t, metav1.GetControllerOf(first.Secrets[1]) != nil, "the Secret is deleted with the DataService")
	assert.DeepEqual(t, f.plan(k), first)

	// If the username or the password changes, the checksum changes, even if a letter only moves from one to the other.
	seen := map[string]bool{first.Credentials.MySQLChecksum: true}
	for _, pair := range [][2]string{{"u", "q"}, {"v", "p"}, {"", "up"}, {"up", ""}, {"", ""}} {
		f := newFixture(t, spec(pair[0], pair[1]))
		p := f.plan(k)
		assert.DeepEqual(t, valuesOf(t, p, name), map[string]string{"username": pair[0], "password": pair[1]})
		assert.Assert(t, !seen[p.Credentials.MySQLChecksum], "%v", pair)
		seen[p.Credentials.MySQLChecksum] = true
	}
	// The checksum depends on a secret key: with another key, the same account has another checksum.
	assert.Assert(t, newFixture(t, spec("u", "p")).plan(NewKeeper()).Credentials.MySQLChecksum != first.Credentials.MySQLChecksum)
}

// Each further account has a separate password under its name. The password does not change when accounts are added.
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
		assert.Assert(t, object.OutlivesOwner(planned), planned.GetName())
	}
}

// The credentials for charts contain no secret value.
func TestNoValueLeaves(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{inCluster, "{mysql: {kind: 3, thirdParty: {url: 'mysql://a', username: distinctive-user, password: distinctive-password}}, web: {}}",
		"{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a', username: distinctive-user, password: distinctive-password}}}"} {
		p := newFixture(t, spec).plan(NewKeeper())
		seen, err := json.Marshal(p.Credentials)
		assert.NilError(t, err)
		for _, name := range namesOf(p) {
			for key, value := range valuesOf(t, p, name) {
				if key == "username" && value == "dataservice" {
					continue // the name of the product, which is also a part of the Secrets' names
				}
				for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
					assert.Assert(t, !strings.Contains(string(seen), form), "%s of %s is in %s", key, name, seen)
				}
			}
		}
		assert.Equal(t, reflect.TypeOf(p.Credentials).NumField(), 8, "a new field of the credentials must be added to this test")
	}
}

func TestPreviewShowsPlaceholders(t *testing.T) {
	t.Parallel()
	p := newFixture(t, inCluster).plan(NewPreview())
	assert.DeepEqual(t, valuesOf(t, p, mysqlSecret), map[string]string{"username": "dataservice", "password": "(generated)", "root-password": "(generated)"})
}

// The password of MongoDB is generated once and kept. A user's password is used without a trailing newline. A MongoDB outside of the
// cluster needs no password.
func TestMongoDB(t *testing.T) {
	t.Parallel()
	f, keeper := newFixture(t, "{mongodb: {name: documents}}"), NewKeeper()
	p := f.plan(keeper)
	assert.Equal(t, p.Credentials.MongoDBSecret, "documents-credentials")
	assert.Equal(t, len(p.Secrets), 1)
	secret := p.Secrets[0]
	assert.Assert(t, object.OutlivesOwner(secret) && len(secret.GetOwnerReferences()) == 0)
	d := decode(secret)
	assert.Equal(t, d[keyUsername], "dataservice")
	assert.Assert(t, len(d[keyPassword]) >= 16, d[keyPassword])
	assert.Equal(t, p.MongoDBPassword, d[keyPassword])
	f.live["Secret/documents-credentials"] = secret
	assert.Equal(t, decode(f.plan(NewKeeper()).Secrets[0])[keyPassword], d[keyPassword])

	p = newFixture(t, "{mongodb: {kind: ThirdParty, thirdParty: {url: 'mongodb://a'}}}").plan(NewKeeper())
	assert.Assert(t, len(p.Secrets) == 0 && p.Credentials.MongoDBSecret == "")
	assert.Equal(t, p.MongoDBPassword, "")

	f = newFixture(t, "{mongodb: {credentialsSecret: mine}}")
	p = f.plan(NewKeeper())
	assert.Assert(t, len(p.Secrets) == 0 && p.Credentials.MongoDBSecret == "mine")
	f.others = &Users{Live: f.look, List: func(string) ([]*unstructured.Unstructured, error) { return nil, nil }}
	p = f.plan(keeper)
	assert.Assert(t, len(p.Secrets) == 0 && p.Credentials.MongoDBSecret == "mine" && p.MongoDBPassword == "", "the Secret does not exist yet")
	f.live["Secret/mine"] = unstructuredOf("Secret", "mine", map[string]any{"data": map[string]any{keyPassword: base64.StdEncoding.EncodeToString([]byte("theirs"))}})
	p = f.plan(keeper)
	assert.Assert(t, len(p.Secrets) == 0 && p.Credentials.MongoDBSecret == "mine" && p.MongoDBPassword == "theirs")
	f.asked = nil
	assert.Equal(t, f.plan(keeper).MongoDBPassword, "theirs")
	assert.DeepEqual(t, f.asked, []string(nil)) // the Secret is cached for some minutes
}
