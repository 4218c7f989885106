// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/platform/values"
)

// OLM sets the watched namespaces by a variable, and OLM v0 the number of concurrent rollouts. A flag wins over each.
func TestFlagsWinOverVariables(t *testing.T) {
	for name, test := range map[string]struct {
		namespaces, rollouts string // variables
		args                 []string
		watch                []string
		most                 int
		err                  string
	}{
		"nothing said":        {},
		"a namespace":         {namespaces: "a", watch: []string{"a"}},
		"several namespaces":  {namespaces: "a,b", watch: []string{"a", "b"}},
		"other namespaces":    {namespaces: "a,b", args: []string{"--watch-namespaces= c ,,d"}, watch: []string{"c", "d"}},
		"all namespaces":      {namespaces: "a,b", args: []string{"--watch-namespaces="}},
		"rollouts, by a flag": {args: []string{"--max-rollouts=2"}, most: 2},
		"rollouts":            {rollouts: "3", most: 3},
		"any rollouts":        {rollouts: "3", args: []string{"--max-rollouts=0"}},
		"wrong flag":          {args: []string{"--max-rollouts=-1"}, err: "-1 is less than 0"},
		"wrong variable":      {rollouts: "many", err: "MAX_ROLLOUTS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WATCH_NAMESPACE", test.namespaces)
			t.Setenv("MAX_ROLLOUTS", test.rollouts)
			o, err := manager.ParseOptions(test.args)
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, o.WatchNamespaces, test.watch)
			assert.Equal(t, o.MaxRollouts, test.most)
		})
	}
}

// Every default image can be replaced by its variable.
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
