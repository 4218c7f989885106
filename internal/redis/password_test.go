// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/redis/server"
	"d3os.com/d3os-operator/internal/redis/topology"
)

func secretWith(name, value string) *unstructured.Unstructured {
	o := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
	o.SetName(name)
	o.Object["data"] = map[string]any{keyPassword: base64.StdEncoding.EncodeToString([]byte(value))}
	return o
}

// Every container gets a user's password without a trailing newline, including the environment of the exporter. If the password is
// invalid, the plan fails with an error that names the Secret.
func TestUserPasswordIsCleanInEveryContainer(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]struct{ secret, err string }{
		"pw":   {secret: "mine"},
		"pw\n": {secret: "cache-password"},
		"":     {err: "the key password of Secret mine is not used: it is empty"},
		"\n":   {err: "the key password of Secret mine is not used: it is empty"},
		"p\tw": {err: "the key password of Secret mine is not used: it has the control character 0x09"},
	} {
		rc := read(t, "minimal")
		rc.Spec.CredentialsSecret = "mine"
		rc.Spec.Pod = append(rc.Spec.Pod[:0], rc.Spec.Pod...)
		p := testPlanner(t)
		in := there{}.Inputs()
		in.LookupLive = func(string, string) (*unstructured.Unstructured, error) { return secretWith("mine", value), nil }
		plan, err := p.plan(rc, ownerOf(rc), in)
		if want.err != "" {
			assert.ErrorContains(t, err, want.err, "%q", value)
			continue
		}
		assert.NilError(t, err)
		text, err := json.Marshal(plan.Parts[0].Objects)
		assert.NilError(t, err)
		assert.Equal(t, strings.Contains(string(text), `"secretName":"mine"`), want.secret == "mine", "%q", value)
		assert.Equal(t, strings.Contains(string(text), `"secretName":"cache-password"`), want.secret != "mine", "%q", value)
		if want.secret == "mine" {
			assert.Equal(t, len(plan.Secrets), 0)
			continue
		}
		assert.Equal(t, plan.Secrets[0].GetName(), want.secret)
		assert.Equal(t, passwordIn(plan.Secrets[0]), "pw")
	}
}

// A running cluster is maintained even if its Secret is invalid, and the status begins with the Secret's problem.
func TestRefusedPasswordIsNamedFirst(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	rc.Spec.CredentialsSecret = "mine"
	in := withRecord(t, rc, topology.Record{Formed: true}).Inputs()
	in.LookupLive = func(string, string) (*unstructured.Unstructured, error) { return secretWith("mine", "p\r\n"), nil }
	_, err := testPlanner(t).plan(rc, ownerOf(rc), in)
	assert.NilError(t, err)

	reader, now := &secretReader{password: "pw"}, time.Unix(0, 0)
	k := &Kind{accounts: newAccounts(nil, reader), planner: testPlanner(t)}
	k.accounts.now = func() time.Time { return now }
	_, _, err = k.accounts.access(t.Context(), rc)
	assert.NilError(t, err)
	reader.password, now = "p\r\n", now.Add(readAgain)
	obs := Observation{Nodes: []topology.Node{{Pod: "cache-0-0"}}}
	assert.NilError(t, k.judgePassword(t.Context(), rc, &obs))
	report(k, rc, &obs, nil)
	assert.Assert(t, strings.HasPrefix(rc.Status.Message, "the key password of Secret mine is not used: it has the control character 0x0d"), rc.Status.Message)
}

// secretReader reads one Secret with a password, and counts the reads.
type secretReader struct {
	client.Reader
	password string
	reads    int
}

func (r *secretReader) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.reads++
	into.(*unstructured.Unstructured).Object["data"] = map[string]any{keyPassword: base64.StdEncoding.EncodeToString([]byte(r.password))}
	return nil
}

// A user's password stays in use as long as a server accepts it. The Secret is read again only while a server refuses it, at an interval.
func TestAccountsOfTheUser(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	rc.Spec.CredentialsSecret = "mine"
	secret, now := &secretReader{password: "first"}, time.Unix(0, 0)
	a := newAccounts(nil, secret)
	a.now = func() time.Time { return now }
	used := func() server.Access {
		t.Helper()
		access, _, err := a.access(t.Context(), rc)
		assert.NilError(t, err)
		return access
	}
	refused := func(others bool) (stands, differs bool) {
		t.Helper()
		stands, differs, err := a.refused(t.Context(), rc, used(), others)
		assert.NilError(t, err)
		return stands, differs
	}
	assert.Equal(t, used().Password, "first")
	secret.password = "second"
	assert.Equal(t, used().Password, "first")
	assert.Equal(t, secret.reads, 1)

	now = now.Add(readAgain)
	stands, differs := refused(true)
	assert.Assert(t, !stands && differs, "the other servers accept the former password")
	assert.Equal(t, used().Password, "first")
	_, differs = refused(true)
	assert.Assert(t, differs)
	assert.Equal(t, secret.reads, 2, "the Secret was read a moment ago")

	secret.password, now = "first", now.Add(readAgain)
	stands, differs = refused(true)
	assert.Assert(t, stands && !differs, "the Secret has the password in use, so a new pod would accept it")
	stands, _ = refused(true)
	assert.Assert(t, !stands, "the Secret was not read again, and may have been changed since")

	secret.password, now = "second", now.Add(readAgain)
	_, differs = refused(false)
	assert.Assert(t, !differs, "no server accepts the former password any more")
	assert.Equal(t, used().Password, "second")
}

// servers returns nodes with settings; nil is a node that does not answer.
func servers(settings ...map[string]string) []topology.Node {
	var nodes []topology.Node
	for _, s := range settings {
		nodes = append(nodes, topology.Node{Running: true, Reached: s != nil, Settings: s})
	}
	return nodes
}

// A changed setting is written to the file for the next start only after the running servers have accepted it.
func TestSettingsAreHeldBack(t *testing.T) {
	t.Parallel()
	type values = map[string]string
	rc := read(t, "minimal")
	rc.Generation = 1
	rc.Spec.Config = map[string]redisv1.Setting{"maxmemory-policy": "allkeys-lru", "hz": "10", "save": ""}
	h := newHolds()
	assert.DeepEqual(t, h.file(rc, nil), values{"maxmemory-policy": "allkeys-lru", "hz": "10", "save": ""}) // a new cluster
	file := object.Empty(object.ConfigMapKind)
	write := func(text string) { file.Object["data"] = map[string]any{keySettings: text} }
	write("hz 10\nmaxmemory-policy allkeys-lru\nsave \"\"\n")
	assert.DeepEqual(t, newHolds().file(rc, file), h.file(rc, file)) // the same after a restart of the operator

	rc.Generation, rc.Spec.Config = 2, map[string]redisv1.Setting{"maxmemory-policy": "no-such", "hz": "20"}
	old := values{"maxmemory-policy": "allkeys-lru", "hz": "10"}
	assert.DeepEqual(t, h.file(rc, file), old)
	assert.Assert(t, !h.judge(rc, servers(old)), "no server has accepted a new setting yet")
	assert.DeepEqual(t, h.file(rc, file), old)
	assert.Assert(t, !h.judge(rc, servers(nil, nil)), "no node answers")
	assert.DeepEqual(t, h.file(rc, file), old)
	assert.Assert(t, h.judge(rc, servers(values{"maxmemory-policy": "allkeys-lru", "hz": "20"}, nil)))
	assert.DeepEqual(t, h.file(rc, file), values{"maxmemory-policy": "allkeys-lru", "hz": "20"})
	assert.DeepEqual(t, newHolds().file(rc, file), old) // after a restart the operator queries first
	write("hz 20\nmaxmemory-policy allkeys-lru\n")
	assert.DeepEqual(t, h.file(rc, file), values{"maxmemory-policy": "allkeys-lru", "hz": "20"})
	assert.Assert(t, !h.judge(rc, servers(values{"maxmemory-policy": "allkeys-lru", "hz": "20"})), "the refused setting is held back forever")

	down := servers(nil)
	down[0].Running = false
	assert.Assert(t, h.judge(rc, down), "no node runs: the file may be the cause")
	assert.DeepEqual(t, h.file(rc, file), values{"maxmemory-policy": "no-such", "hz": "20"})
	h.forget(rc.Namespace, rc.Name)
	assert.Equal(t, len(h.known), 0)
}

// A password that was changed only in the Secret is restored when the servers have refused it. A password that they accept is kept.
func TestEditedPassword(t *testing.T) {
	t.Parallel()
	rc, formed := read(t, "minimal"), topology.Record{Formed: true}
	p := newPasswords(random)
	secret := func(encoded string) *unstructured.Unstructured {
		o := object.Empty(object.ConfigMapKind)
		o.SetName("cache-credentials")
		o.Object["data"] = map[string]any{keyPassword: encoded}
		return o
	}
	plan := func(live *unstructured.Unstructured) string {
		made, err := p.plan(rc, ownerOf(rc), live, formed, "")
		assert.NilError(t, err)
		return passwordIn(made)
	}
	assert.Equal(t, plan(secret("b2xk")), "old")
	assert.Equal(t, plan(secret("bmV3")), "new", "it is unknown which password the servers accept")
	assert.Equal(t, plan(secret("b2xk")), "old", "the Secret can be corrected")
	p.prove(rc, "old", true, false)
	assert.Equal(t, plan(secret("bmV3")), "new", "the servers may accept both passwords")
	assert.Assert(t, !p.adopt(rc, secret("bmV3")), "a password that servers have accepted is not replaced")
	p.prove(rc, "new", true, true)
	assert.Equal(t, plan(secret("bmV3")), "old", "not all servers accept the new password")
	assert.Equal(t, plan(secret("eHg=")), "xx", "the servers have not refused this password yet")
	p.prove(rc, "xx", false, true)
	assert.Equal(t, plan(secret("eHg=")), "old", "the servers refuse it")
	p.prove(rc, "xx", true, false)
	assert.Equal(t, plan(secret("eHg=")), "xx", "the password was changed on the servers, too")
	p.prove(rc, "xx", false, true)
	assert.Equal(t, plan(secret("bmV3")), "new", "the servers do not accept the earlier password any more")
	p.forget(rc.Namespace, rc.Name)
	assert.Equal(t, len(p.known)+len(p.proven)+len(p.refuted), 0)
}

// A spec with a version that is too old stops no running pod: pods keep their image.
func TestUnsupportedVersionKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	live := withRecord(t, rc, topology.Record{Formed: true, Shards: []int{2, 2, 2}})
	before := planOf(t, rc, there{})
	for _, o := range before.Parts[0].Objects {
		if o.GetKind() == object.StatefulSetKind.Kind {
			live["StatefulSet/"+o.GetName()] = o
		}
	}
	live["Secret/cache-credentials"] = before.Secrets[0]
	rc.Spec.Version, rc.Generation = "3.2.8", rc.Generation+1
	after := planOf(t, rc, live)
	for i, o := range after.Parts[0].Objects {
		assert.Equal(t, object.Digest(o), object.Digest(before.Parts[0].Objects[i]), o.GetName())
	}
	assert.Equal(t, rc.Spec.Version, "3.2.8", "the resource itself is left alone")
}

// Pods of a shard on one node are reported.
func TestTogether(t *testing.T) {
	t.Parallel()
	obs := running()
	assert.Equal(t, len(together(obs.Nodes)), 0)
	obs.Nodes[3].Host = obs.Nodes[2].Host
	assert.DeepEqual(t, together(obs.Nodes), []string{"shard 1 has all of its pods on node node-2"})
	assert.DeepEqual(t, states(obs.Nodes), map[string]int{"master": 3, "replica": 3, "loading": 0, "unreachable": 0})
}
