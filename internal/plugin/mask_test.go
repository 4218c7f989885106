// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestMaskOfTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial mysql://root:pa:ss/w@rd@db:3306/x": "dial mysql://***@db:3306/x",
		"dsn root:hunter2@tcp(db:3306)/x":        "dsn ***@tcp(db:3306)/x",
		"password=hunter2 user=root":             "password=*** user=root",
		`{"dbPassword": "hunt er2", "port": 1}`:  `{"dbPassword": ***, "port": 1}`,
		`"{\"password\":\"hunter2\"}"`:           `"{\"password\":***`,
		"requirepass hunter2":                    "requirepass ***",
		"mysql --password hunter2":               "mysql --password ***",
		"Authorization: Bearer abc.def":          "Authorization: ***",
		"ALTER USER a IDENTIFIED BY 'hunter 2'":  "ALTER USER a IDENTIFIED BY ***",
		"denied for 'a' (using password: YES)":   "denied for 'a' (using password: YES)",
		"pod auth-1: secret \"x\" not found":     "pod auth-1: secret \"x\" not found",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n": "***",
		"the cause is hunter2-known":             "the cause is ***",
	} {
		m := &Mask{known: []string{"hunter2-known"}}
		assert.Check(t, m.Text(text) == want, "%s: %s", text, m.Text(text))
	}
}

func TestMaskOfObjects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"kind": "Secret", "data": {"a": "LEAK"}, "stringData": {"a": "LEAK"}}`,
		`{"kind": "ConfigMap", "data": {"VARIABLE": "LEAK", "file": "a = 1\nurl = http://a:LEAK@b\n"}, "binaryData": {"a": "LEAK"}}`,
		`{"kind": "A", "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "LEAK"}, "managedFields": [{"a": "LEAK"}]}}`,
		`{"kind": "Pod", "spec": {"containers": [{"name": "a", "env": [{"name": "A", "value": "LEAK"}], "args": ["--token", "LEAK", "--password=LEAK"]}]}}`,
		`{"kind": "DataService", "spec": {"auth": {"env": {"A": "LEAK"}}, "mysql": {"thirdParty": {"password": "LEAK", "custom": {"a": "LEAK"}}}}}`,
		`{"kind": "A", "status": {"conditions": [{"message": "redis://:LEAK@b refused"}]}}`,
	} {
		o := map[string]any{}
		assert.NilError(t, json.Unmarshal([]byte(text), &o))
		(&Mask{}).Object(o)
		data, err := json.Marshal(o)
		assert.NilError(t, err)
		assert.Check(t, !strings.Contains(string(data), "LEAK"), string(data))
	}
	o := map[string]any{"spec": map[string]any{"password": "hunter2", "secretName": "kept", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "n", "key": "k"}}}}
	m := &Mask{}
	m.Object(o)
	assert.DeepEqual(t, o, map[string]any{"spec": map[string]any{"password": masked, "secretName": "kept", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "n", "key": "k"}}}})
	assert.Equal(t, m.Text("a hunter2."), "a ***.")
}
