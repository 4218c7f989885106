// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/object"
)

func secretWith(name, value string) *unstructured.Unstructured {
	o := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
	o.SetName(name)
	o.Object["data"] = map[string]any{keyPassword: base64.StdEncoding.EncodeToString([]byte(value))}
	return o
}

// Every container gets a user's password without the newline at its end, the exporter's environment included. A password that is
// refused is named, and no pod is made with it.
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

// A cluster that runs is healed whatever its Secret has by now, and the status begins with what is wrong with it.
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
	w := World{Nodes: []topology.Node{{Pod: "cache-0-0"}}}
	assert.NilError(t, k.judgePassword(t.Context(), rc, &w))
	k.Status(rc, kinds.Seen[World]{Observed: &w}, metav1.Now())
	assert.Assert(t, strings.HasPrefix(rc.Status.Message, "the key password of Secret mine is not used: it has the control character 0x0d"), rc.Status.Message)
}
