// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/cluster"
)

type schemaProps = apiextensionsv1.JSONSchemaProps

func command(t *testing.T, file string, arguments ...string) *exec.Cmd {
	t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(cluster.Root(), file)
	}
	return exec.CommandContext(t.Context(), file, arguments...)
}

// script runs a script of this repository and returns what it prints.
func script(t *testing.T, file string, arguments ...string) []byte {
	t.Helper()
	out, err := command(t, file, arguments...).Output()
	assert.NilError(t, err, "%s %v", file, arguments)
	return out
}

// at changes a property of the CRD's spec, by its path; items stands for the elements of a list.
func at(path string, change func(*schemaProps)) func(*schemaProps) {
	first, rest, more := strings.Cut(path, ".")
	return func(parent *schemaProps) {
		if first == "items" {
			if more {
				at(rest, change)(parent.Items.Schema)
			} else {
				change(parent.Items.Schema)
			}
			return
		}
		property, ok := parent.Properties[first]
		if !ok {
			panic("no property " + path)
		}
		if more {
			at(rest, change)(&property)
		} else {
			change(&property)
		}
		parent.Properties[first] = property
	}
}

func set(value string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(value)} }

// make crd-safety refuses what could harm those who have resources or read them, as OLM v1 does.
func TestCRDSafety(t *testing.T) {
	for name, c := range map[string]struct {
		change func(spec *schemaProps)
		says   string // the check that fails; none for a safe change
	}{
		"nothing":             {func(*schemaProps) {}, ""},
		"new optional field":  {func(s *schemaProps) { s.Properties["more"] = schemaProps{Type: "string"} }, ""},
		"new text":            {func(s *schemaProps) { s.Description = "other" }, ""},
		"wider enum":          {at("rollout.order", func(p *schemaProps) { p.Enum = append(p.Enum, *set(`"Other"`)) }), "enum"},
		"wider limit":         {at("web.replica", func(p *schemaProps) { p.Maximum = ptr.To(*p.Maximum + 1) }), ""},
		"removed field":       {func(s *schemaProps) { delete(s.Properties, "cronJobs") }, "existingFieldRemoval"},
		"removed inner field": {at("cronJobs.items", func(p *schemaProps) { delete(p.Properties, "suspend") }), "existingFieldRemoval"},
		"new required field":  {at("web", func(p *schemaProps) { p.Required = append(p.Required, "image") }), "required"},
		"narrower enum":       {at("rollout.order", func(p *schemaProps) { p.Enum = p.Enum[1:] }), "enum"},
		"new enum":            {at("cronJobs.items.timeZone", func(p *schemaProps) { p.Enum = []apiextensionsv1.JSON{*set(`"a"`)} }), "enum"},
		"smaller maximum":     {at("web.replica", func(p *schemaProps) { p.Maximum = ptr.To(*p.Maximum - 1) }), "maximum"},
		"greater minimum":     {at("web.replica", func(p *schemaProps) { p.Minimum = ptr.To(*p.Minimum + 1) }), "minimum"},
		"fewer items":         {at("cronJobs", func(p *schemaProps) { p.MaxItems = ptr.To(int64(1)) }), "maxItems"},
		"changed default":     {at("mysql.storage.size", func(p *schemaProps) { p.Default = set(`"1Gi"`) }), "default"},
		"new default":         {at("web.port", func(p *schemaProps) { p.Default = set("81") }), "default"},
		"removed default":     {at("mysql.storage.size", func(p *schemaProps) { p.Default = nil }), "default"},
		"changed type":        {at("paused", func(p *schemaProps) { p.Type = "string" }), "type"},
		"new rule": {func(s *schemaProps) {
			s.XValidations = append(s.XValidations, apiextensionsv1.ValidationRule{Rule: "!has(self.web)"})
		}, "unhandled"},
		"an inner rule (list)": {at("cronJobs.items", func(p *schemaProps) {
			p.XValidations = append(p.XValidations, apiextensionsv1.ValidationRule{Rule: "false"})
		}), "unhandled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := read[apiextensionsv1.CustomResourceDefinition](t, crdFile)
			before := crd.DeepCopy()
			at("spec", c.change)(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
			out, err := command(t, "hack/crd-safety.sh", write(t, "old.yaml", before), write(t, "new.yaml", &crd)).CombinedOutput()
			if c.says == "" {
				assert.NilError(t, err, "%s", out)
				return
			}
			assert.Assert(t, err != nil, "accepted: %s", out)
			assert.Assert(t, strings.Contains(string(out), c.says), "%s", out)
			assert.Assert(t, strings.Contains(string(out), "not safe"), "%s", out)
		})
	}
}

func write(t *testing.T, name string, crd *apiextensionsv1.CustomResourceDefinition) string {
	t.Helper()
	data, err := yaml.Marshal(crd)
	assert.NilError(t, err)
	file := filepath.Join(t.TempDir(), name)
	assert.NilError(t, os.WriteFile(file, data, 0o600))
	return file
}
