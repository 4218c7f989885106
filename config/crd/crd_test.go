// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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

// kubernetes are the fields with types of Kubernetes, whose own fields are not nullable.
var kubernetes = []string{"affinity", "resources", "tolerations", "topologySpreadConstraints", "env", "envs", "livenessProbe", "readinessProbe"}

// Each optional field is nullable or has a default: the API server takes null for any other field with POST and refuses it with server-side
// apply, which Argo CD and Flux use.
func TestOptionalFieldsMayBeNull(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("bases/*.yaml")
	assert.NilError(t, err)
	more, err := filepath.Glob(root + "/config/compat/bases/*.yaml")
	assert.NilError(t, err)
	count := 0
	for _, file := range append(files, more...) {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		assert.NilError(t, yaml.Unmarshal(data, crd))
		for _, version := range crd.Spec.Versions {
			var look func(path string, schema apiextensionsv1.JSONSchemaProps)
			look = func(path string, schema apiextensionsv1.JSONSchemaProps) {
				for name, field := range schema.Properties {
					count++
					if field.Default == nil && !field.Nullable && !slices.Contains(schema.Required, name) {
						t.Errorf("%s: %s.%s is optional, and null is refused by server-side apply: add +nullable", file, path, name)
					}
					if field.Nullable && len(field.Enum) > 0 {
						t.Errorf("%s: %s.%s is nullable, and its enum refuses null: use a pattern", file, path, name)
					}
					if !slices.Contains(kubernetes, name) {
						look(path+"."+name, field)
					}
				}
				if schema.Items != nil && schema.Items.Schema != nil {
					look(path+"[]", *schema.Items.Schema)
				}
				if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
					look(path+"{}", *schema.AdditionalProperties.Schema)
				}
			}
			look("spec", version.Schema.OpenAPIV3Schema.Properties["spec"])
		}
	}
	assert.Assert(t, count > 500, "%d fields", count)
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
