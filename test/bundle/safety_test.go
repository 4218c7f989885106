// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

type schemaProps = apiextensionsv1.JSONSchemaProps

func command(t *testing.T, file string, arguments ...string) *exec.Cmd {
	t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(cluster.Root(), file)
	}
	return exec.CommandContext(t.Context(), file, arguments...)
}

// script runs a script of this repository and returns its output.
func script(t *testing.T, file string, arguments ...string) []byte {
	t.Helper()
	out, err := command(t, file, arguments...).Output()
	assert.NilError(t, err, "%s %v", file, arguments)
	return out
}

// at changes a property of the CRD's spec, given by its path. "items" stands for the elements of a list.
func at(path string, change func(*schemaProps)) func(*schemaProps) {
	first, rest, more := strings.Cut(path, ".")
	if more {
		change = at(rest, change)
	}
	return func(parent *schemaProps) {
		if first == "items" {
			change(parent.Items.Schema)
			return
		}
		property, ok := parent.Properties[first]
		if !ok {
			panic("no property " + path)
		}
		change(&property)
		parent.Properties[first] = property
	}
}

func set(value string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(value)} }

// crd-safety.sh refuses changes that could harm existing resources or their clients, as OLM v1 does. make test tests only one case
// of each answer.
func TestCRDSafety(t *testing.T) {
	for name, c := range map[string]struct {
		change func(spec *schemaProps)
		says   string // the check that fails; empty for a safe change
	}{
		"what harms no user": {func(s *schemaProps) {
			s.Properties["more"], s.Description, s.XValidations[0].Message = schemaProps{Type: "string"}, "other", "other"
			at("web.replica", func(p *schemaProps) { p.Maximum = ptr.To(*p.Maximum + 1) })(s)
		}, ""},
		"narrower rule":      {func(s *schemaProps) { s.XValidations[0].Rule += " && false" }, "unhandled"},
		"wider enum":         {at("rollout.order", func(p *schemaProps) { p.Enum = append(p.Enum, *set(`"Other"`)) }), "enum"},
		"removed field":      {func(s *schemaProps) { delete(s.Properties, "cronJobs") }, "existingFieldRemoval"},
		"new required field": {at("web", func(p *schemaProps) { p.Required = append(p.Required, "image") }), "required"},
		"narrower enum":      {at("rollout.order", func(p *schemaProps) { p.Enum = p.Enum[1:] }), "enum"},
		"smaller maximum":    {at("web.replica", func(p *schemaProps) { p.Maximum = ptr.To(*p.Maximum - 1) }), "maximum"},
		"greater minimum":    {at("web.replica", func(p *schemaProps) { p.Minimum = ptr.To(*p.Minimum + 1) }), "minimum"},
		"fewer items":        {at("cronJobs", func(p *schemaProps) { p.MaxItems = ptr.To(int64(1)) }), "maxItems"},
		"changed default":    {at("mysql.storage.size", func(p *schemaProps) { p.Default = set(`"1Gi"`) }), "default"},
		"new default":        {at("web.port", func(p *schemaProps) { p.Default = set("81") }), "default"},
		"removed default":    {at("mysql.storage.size", func(p *schemaProps) { p.Default = nil }), "default"},
		"changed type":       {at("paused", func(p *schemaProps) { p.Type = "string" }), "type"},
		"an inner rule (list)": {at("cronJobs.items", func(p *schemaProps) {
			p.XValidations = append(p.XValidations, apiextensionsv1.ValidationRule{Rule: "false"})
		}), "unhandled"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "what harms no user" && name != "removed field" {
				harness.Long(t)
			}
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

func write(t *testing.T, name string, content any) string {
	t.Helper()
	data, err := yaml.Marshal(content)
	assert.NilError(t, err)
	file := filepath.Join(t.TempDir(), name)
	assert.NilError(t, os.WriteFile(file, data, 0o600))
	return file
}

// review is an entry of hack/crd-safety-reviewed.yaml.
type review struct {
	Path    string `json:"path"`
	Added   string `json:"added,omitempty"`
	Removed string `json:"removed,omitempty"`
	Why     string `json:"why"`
}

// setRule adds a rule to a schema of a CRD if has is true, and otherwise removes the rule.
func setRule(crd *apiextensionsv1.CustomResourceDefinition, path, rule string, has bool) {
	at(path, func(p *schemaProps) {
		p.XValidations = slices.DeleteFunc(p.XValidations, func(v apiextensionsv1.ValidationRule) bool { return v.Rule == rule })
		if has {
			p.XValidations = append(p.XValidations, apiextensionsv1.ValidationRule{Rule: rule})
		}
	})(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
}

// Reviewed changes of rules pass; the reversed changes fail. An entry that matches no change must be removed.
func TestReviewedChangesOfRules(t *testing.T) {
	const file = "hack/crd-safety-reviewed.yaml"
	older := read[apiextensionsv1.CustomResourceDefinition](t, crdFile)
	newer := older.DeepCopy()
	reviews := slices.DeleteFunc(read[[]review](t, file), func(r review) bool { return r.Added+r.Removed == "" }) // omits reviews of patterns and defaults
	reviews = append(reviews, review{Path: "spec.web", Added: "true", Why: "a test"}, review{Path: "spec.web", Removed: "!false", Why: "a test"})
	for _, r := range reviews {
		setRule(&older, r.Path, r.Added+r.Removed, r.Removed != "")
		setRule(newer, r.Path, r.Added+r.Removed, r.Added != "")
	}
	reviewed := write(t, "reviewed.yaml", reviews)
	before, after := write(t, "old.yaml", &older), write(t, "new.yaml", newer)
	run := func(arguments ...string) (string, error) {
		c := command(t, "hack/crd-safety.sh", arguments...)
		c.Env = append(os.Environ(), "REVIEWED="+reviewed)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := run(before, after)
	assert.NilError(t, err, out)
	out, err = run(after, before)
	assert.Assert(t, err != nil && strings.Contains(out, "unhandled"), out)

	rules := exec.CommandContext(t.Context(), "go", "run", "./hack/crdrules", "-all", reviewed, after, after, filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"))
	rules.Dir = cluster.Root()
	data, err := rules.CombinedOutput()
	assert.Assert(t, err != nil && strings.Contains(string(data), "does not exist between these CRDs: remove the review"), "%s", data)
}

// stub writes a program that appends its working directory, with links resolved, and its arguments to a file. It returns the program's folder and the file.
func stub(t *testing.T, name string) (folder, calls string) {
	t.Helper()
	folder, calls = t.TempDir(), filepath.Join(t.TempDir(), "calls")
	program := "#!/bin/sh\necho \"$(pwd -P) $*\" >>'" + calls + "'\n"
	assert.NilError(t, os.WriteFile(filepath.Join(folder, name), []byte(program), 0o700))
	return folder, calls
}

// The vulnerability scanner and gosec scan each module with code of this repository.
func TestScannersReadEveryModule(t *testing.T) {
	t.Parallel()
	modules := []string{"client", "cmd/agent", "cmd/kubectl-dataservice", ".", "hack/monitoring", "hack/node/programs", "internal/contract", "test/helm4", "test/images", "test/scorecard"}
	assert.DeepEqual(t, strings.Fields(string(script(t, "hack/modules.sh"))), modules)
	for program, file := range map[string]string{"govulncheck": "hack/govulncheck.sh", "golangci-lint": "hack/lint.sh"} {
		folder, calls := stub(t, program)
		c := command(t, file)
		c.Env = append(os.Environ(), "TOOLS="+folder)
		out, err := c.CombinedOutput()
		assert.NilError(t, err, "%s", out)
		data, err := os.ReadFile(calls)
		assert.NilError(t, err)
		for _, module := range modules {
			scanned := func(call string) bool {
				return strings.Contains(call, " -C "+module+" ") || strings.HasPrefix(call, filepath.Join(cluster.Root(), module)+" ")
			}
			assert.Check(t, slices.ContainsFunc(strings.Split(string(data), "\n"), scanned), "%s does not scan %s:\n%s", file, module, data)
		}
	}
}

// crd-safety.sh compares every CRD of the newest release, and fails if a CRD no longer exists.
func TestEveryReleasedCRDIsCompared(t *testing.T) {
	t.Parallel()
	previous := strings.TrimSpace(string(script(t, "hack/released.sh", strings.TrimSpace(string(mustRead(t, "VERSION"))))))
	released := t.TempDir()
	manifests := filepath.Join(released, "v"+previous, "manifests")
	assert.NilError(t, os.MkdirAll(manifests, 0o700))
	crds := []string{"etcd.database.coreos.com_etcdclusters.yaml", "redis.middleware.hc.cn_redisclusters.yaml"}
	for _, crd := range crds {
		assert.NilError(t, os.WriteFile(filepath.Join(manifests, crd), mustRead(t, "bundle/manifests/"+crd), 0o600))
	}
	folder, _ := stub(t, "crdify")
	run := func() (string, error) {
		c := command(t, "hack/crd-safety.sh")
		c.Env = append(os.Environ(), "CRDIFY="+filepath.Join(folder, "crdify"), "RELEASES="+released)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := run()
	assert.NilError(t, err, out)
	for _, crd := range crds {
		assert.Check(t, strings.Contains(out, "bundle/manifests/"+crd+" accepts every resource"), out)
	}
	gone := "example.com_things.yaml"
	assert.NilError(t, os.WriteFile(filepath.Join(manifests, gone), mustRead(t, "bundle/manifests/"+crds[0]), 0o600))
	out, err = run()
	assert.Assert(t, err != nil && strings.Contains(out, gone+": the release before has this CRD"), out)
}
