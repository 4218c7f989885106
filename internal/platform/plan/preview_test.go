// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"gotest.tools/v3/assert"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// YAML parses some texts without quotes as booleans or numbers. Like the API server, Parse refuses such values where a
// text is expected, instead of converting them.
func TestATextThatYAMLReadsOtherwiseIsRefused(t *testing.T) {
	t.Parallel()
	head := "apiVersion: " + dsv1.GroupVersion.String() + "\nkind: DataService\n"
	for text, problem := range map[string]string{
		"metadata: {name: a, namespace: n}":                  "metadata.namespace: must be a text, but YAML reads a bool: put the value in quotes",
		"metadata: {name: 1e3}":                              "metadata.name: must be a text, but YAML reads a number: put the value in quotes",
		"metadata: {name: a, annotations: {b: on}}":          "metadata.annotations: must be a text, but YAML reads a bool: put the value in quotes",
		"metadata: {name: a}\nspec: {web: {image: 1.0}}":     "spec.web.image: must be a text, but YAML reads a number: put the value in quotes",
		"metadata: {name: a}\nspec: {web: {env: {A: no}}}":   "spec.web.env: must be a text, but YAML reads a bool: put the value in quotes",
		"metadata: {name: a}\nspec: {web: {replica: two}}":   "json: cannot unmarshal string",
		"metadata: {name: a}\nspec: {web: {replicas: 2}}":    `json: unknown field "replicas"`,
		"metadata: {name: a}\nspec: {web: {}, web: {}}":      "already",
		"metadata: {name: 'n', namespace: \"on\"}":           "",
		"metadata: {name: a}\nspec: {web: {env: {A: 'no'}}}": "",
	} {
		_, err := Parse([]byte(head + text))
		if problem == "" {
			assert.NilError(t, err, text)
			continue
		}
		assert.ErrorContains(t, err, problem, text)
	}
}
