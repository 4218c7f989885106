// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"
)

// root is the folder of the repository.
const root = "../.."

// Each kind is in the lists that are written by hand and that no other test compares with the CRDs. The message names the file and the missing text.
func TestEveryKindIsListed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("bases/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 5)
	references, err := filepath.Glob(root + "/docs/reference/*.md")
	assert.NilError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		var crd struct {
			Spec struct {
				Group string
				Names struct{ Kind, Plural, Singular string }
			}
		}
		assert.NilError(t, yaml.Unmarshal(data, &crd))
		names := &crd.Spec.Names
		lists(t, "config/crd/kustomization.yaml", "- "+file+"\n")
		lists(t, "PROJECT", "  kind: "+names.Kind+"\n")
		lists(t, "config/rbac/role.yaml", "  - "+names.Plural+"/status\n")
		lists(t, "docs/gitops.md", "`resource.customizations.health."+crd.Spec.Group+"_"+names.Kind+"`")
		lists(t, "docs/install.md", names.Plural+"."+crd.Spec.Group) // kubectl delete crd
		lists(t, "docs/use/go-client.md", names.Kind)
		for _, role := range []string{"admin", "editor", "viewer"} {
			role = names.Singular + "_" + role + "_role.yaml"
			lists(t, "config/rbac/kustomization.yaml", "- "+role+"\n")
			lists(t, "config/rbac/"+role, "  resources: ["+names.Plural+"]\n")
		}
		found := ""
		for _, page := range references {
			text, err := os.ReadFile(page)
			assert.NilError(t, err)
			if strings.Contains(string(text), "\n### "+names.Kind+"\n") {
				found = page
			}
		}
		if found == "" {
			t.Errorf("no page in docs/reference has the kind %s: add its package to the target docs of the Makefile, and run make docs", names.Kind)
		} else {
			lists(t, "docs/README.md", "](reference/"+filepath.Base(found)+")")
		}
	}
}

// lists fails a test when a file does not have a text.
func lists(t *testing.T, file, text string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Error(err)
	} else if !strings.Contains(string(data), text) {
		t.Errorf("%s lacks %q", file, strings.TrimSpace(text))
	}
}
