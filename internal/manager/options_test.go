// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/manager"
)

// OLM's variable says which namespaces to watch; a flag wins over it.
func TestWatchNamespaces(t *testing.T) {
	for _, c := range []struct {
		variable string
		args     []string
		want     []string
	}{
		{"", nil, nil},
		{"a", nil, []string{"a"}},
		{"a,b", nil, []string{"a", "b"}},
		{"a,b", []string{"--watch-namespaces= c ,,d"}, []string{"c", "d"}},
		{"a,b", []string{"--watch-namespaces="}, nil},
	} {
		t.Setenv("WATCH_NAMESPACE", c.variable)
		o, err := manager.ParseOptions(c.args)
		assert.NilError(t, err)
		assert.DeepEqual(t, o.WatchNamespaces, c.want)
	}
}

// Every default image has a variable of its own that replaces it.
func TestRelatedImages(t *testing.T) {
	want := map[string]string{}
	for component := range values.DefaultImages() {
		want[component] = "mirror.example.com/" + component
		t.Setenv(values.RelatedImage(component), want[component])
	}
	o, err := manager.ParseOptions(nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, o.Images, want)
	assert.Equal(t, values.RelatedImage("gateway-master"), "RELATED_IMAGE_GATEWAY_MASTER")
}

// OLM v0 gives the operator variables; a flag wins over them.
func TestMaxRollouts(t *testing.T) {
	for name, test := range map[string]struct {
		env  string
		args []string
		want int
		err  string
	}{
		"none":           {"", nil, 0, ""},
		"flag":           {"", []string{"--max-rollouts=2"}, 2, ""},
		"variable":       {"3", nil, 3, ""},
		"both":           {"3", []string{"--max-rollouts=0"}, 0, ""},
		"wrong flag":     {"", []string{"--max-rollouts=-1"}, 0, "-1 is less than 0"},
		"wrong variable": {"many", nil, 0, "MAX_ROLLOUTS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MAX_ROLLOUTS", test.env)
			o, err := manager.ParseOptions(test.args)
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, o.MaxRollouts, test.want)
		})
	}
}
