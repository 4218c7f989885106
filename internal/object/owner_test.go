// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// An object does not belong to the owner by its labels alone, because any user can write labels.
func TestOwns(t *testing.T) {
	t.Parallel()
	owner := Owner{GroupVersionKind: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"}, Namespace: "n", Name: "a", UID: "1"}
	other := owner
	other.Name = "b"
	controlledBy := func(uid string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: "Thing", Name: "a", UID: "1"}, {Kind: "Thing", Name: "a", UID: "0", Controller: ptr.To(uid == "0")}, {
			Kind: "Thing", Name: "a", UID: "1", Controller: ptr.To(uid == "1")}}
	}
	written := map[string]string{AnnotationDigest: "d"}
	foreign := owner.Labels("p")
	foreign[LabelManagedBy] = "helm"
	for name, c := range map[string]struct {
		object metav1.ObjectMeta
		owns   bool
	}{
		"controlled":                            {metav1.ObjectMeta{OwnerReferences: controlledBy("1")}, true},
		"of an earlier resource of this name":   {metav1.ObjectMeta{OwnerReferences: controlledBy("0"), Labels: owner.Labels("p"), Annotations: written}, false},
		"retained":                              {metav1.ObjectMeta{Labels: owner.Labels("p"), Annotations: map[string]string{AnnotationPolicy: PolicyKeep}}, true},
		"without its owner reference":           {metav1.ObjectMeta{Labels: owner.Labels("p"), Annotations: written}, true},
		"labels alone":                          {metav1.ObjectMeta{Labels: owner.Labels("p")}, false},
		"of another resource":                   {metav1.ObjectMeta{Labels: other.Labels("p"), Annotations: written}, false},
		"of another operator":                   {metav1.ObjectMeta{Labels: foreign, Annotations: written}, false},
		"an owner reference without controller": {metav1.ObjectMeta{OwnerReferences: controlledBy("")}, false},
	} {
		assert.Equal(t, owner.Owns(&c.object), c.owns, name)
	}
}

type row struct {
	Name, Clean, Refused string
	Raw                  []byte
}

func rows(t *testing.T) []row {
	t.Helper()
	rule, err := os.ReadFile("../contract/testdata/rule.json")
	assert.NilError(t, err)
	var all []row
	assert.NilError(t, json.Unmarshal(rule, &all))
	return all
}

// The function read_secret in the charts' scripts applies the rule of contract.CleanSecret, except the check of UTF-8.
// The text of the function is the same in all scripts.
func TestScriptsHaveTheRule(t *testing.T) {
	t.Parallel()
	function := ""
	for _, script := range []string{"rediscluster/files/common.sh", "mysql/files/accounts.sh"} {
		text, err := os.ReadFile(filepath.Join("../../helm-charts", script))
		assert.NilError(t, err)
		_, rest, found := strings.Cut(string(text), "read_secret() {")
		body, _, ends := strings.Cut(strings.ReplaceAll(rest, "\t", "  "), "\n}\n")
		assert.Assert(t, found && ends, script)
		assert.Assert(t, function == "" || function == body, "%s differs", script)
		function = body
	}
	ran := 0
	for _, shell := range [][]string{{"dash"}, {"bash"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		ran++
		for _, r := range rows(t) {
			if r.Name == "no UTF-8" {
				continue
			}
			file := filepath.Join(t.TempDir(), "password")
			assert.NilError(t, os.WriteFile(file, r.Raw, 0o600))
			script := "read_secret() {" + function + "\n}\n" + `if read_secret "$0"; then printf '%s' "$secret"; else printf 'refused: %s' "$refusal"; fi`
			out, err := exec.Command(shell[0], append(shell[1:], "-euc", script, file)...).CombinedOutput()
			assert.NilError(t, err, "%s %s: %s", shell, r.Name, out)
			if r.Refused == "" {
				assert.Equal(t, string(out), r.Clean, "%s %s", shell, r.Name)
			} else {
				assert.Assert(t, strings.HasPrefix(string(out), "refused: it "), "%s %s: %q", shell, r.Name, out)
			}
		}
	}
	assert.Assert(t, ran > 0, "this machine has no shell")
}

// When Read looks up a Secret, it drops cached values that are at least five minutes old. So passwords that no resource
// uses leave the cache.
func TestWhatWasReadIsForgotten(t *testing.T) {
	t.Parallel()
	r := NewUserSecrets()
	now := time.Unix(0, 0)
	r.Now = func() time.Time { return now }
	lookup := func(_, name string) (*unstructured.Unstructured, error) {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "data": map[string]any{"password": "cHc="}}}, nil
	}
	for _, name := range []string{"a", "b"} {
		values, _, err := r.Read("data", name, lookup, "password")
		assert.NilError(t, err)
		assert.Equal(t, values["password"], "pw")
		assert.Equal(t, len(r.known), 1)
		now = now.Add(untilClean)
	}
}
