// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	"gotest.tools/v3/assert"
	ctrl "sigs.k8s.io/controller-runtime"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/platform/values"
)

// OLM sets the watched namespaces by a variable. OLM v0 also sets the number of concurrent rollouts by a variable. Flags override both.
func TestFlagsWinOverVariables(t *testing.T) {
	for name, test := range map[string]struct {
		namespaces, rollouts string // variables
		args                 []string
		watch                []string
		most                 int
		err                  string
	}{
		"no variable and no flag": {},
		"a namespace":             {namespaces: "a", watch: []string{"a"}},
		"several namespaces":      {namespaces: "a,b", watch: []string{"a", "b"}},
		"other namespaces":        {namespaces: "a,b", args: []string{"--watch-namespaces= c ,,d"}, watch: []string{"c", "d"}},
		"all namespaces":          {namespaces: "a,b", args: []string{"--watch-namespaces="}},
		"rollouts, by a flag":     {args: []string{"--max-rollouts=2"}, most: 2},
		"rollouts":                {rollouts: "3", most: 3},
		"no limit, by a flag":     {rollouts: "3", args: []string{"--max-rollouts=0"}},
		"wrong flag":              {args: []string{"--max-rollouts=-1"}, err: "-1 is less than 0"},
		"wrong variable":          {rollouts: "many", err: "MAX_ROLLOUTS"},
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

// The wait between two pods of a change is one minute, unless a flag or the variable sets another time.
func TestMinReady(t *testing.T) {
	for name, test := range map[string]struct {
		variable string
		args     []string
		want     time.Duration
		err      string
	}{
		"no variable and no flag": {want: time.Minute},
		"a variable":              {variable: "2m", want: 2 * time.Minute},
		"a flag":                  {variable: "2m", args: []string{"--min-ready=0"}},
		"wrong variable":          {variable: "long", err: "MIN_READY"},
		"below zero":              {args: []string{"--min-ready=-1s"}, err: "--min-ready: -1s is less than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MIN_READY", test.variable)
			o, err := manager.ParseOptions(test.args)
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, o.MinReady, test.want)
		})
	}
}

// --v is the verbosity of klog: a higher number prints more. It sets the same level as --zap-log-level.
func TestVerbosity(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		level zapcore.Level // zap's level: the negative verbosity
		err   string
	}{
		"none":                  {args: []string{"--v=0"}},
		"five":                  {args: []string{"--v=5"}, level: -5},
		"two arguments":         {args: []string{"-v", "5"}, level: -5},
		"everything":            {args: []string{"--v=1000"}, level: -127},
		"after --zap-log-level": {args: []string{"--zap-log-level=2", "--v=5"}, level: -5},
		"before":                {args: []string{"--v=5", "--zap-log-level=2"}, level: -2},
		"negative":              {args: []string{"--v=-1"}, err: `"-1" for flag -v: -1 is less than 0`},
		"a word":                {args: []string{"--v=debug"}, err: `"debug" for flag -v`},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := manager.ParseOptions(test.args)
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.NilError(t, err)
			assert.Assert(t, o.Log.Level.Enabled(test.level) && !o.Log.Level.Enabled(test.level-1))
		})
	}
}

// --kubeconfig wins over $KUBECONFIG.
func TestKubeconfig(t *testing.T) {
	write := func(server string) string {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		assert.NilError(t, os.WriteFile(file, []byte("{clusters: [{name: a, cluster: {server: '"+server+"'}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}"), 0o600))
		return file
	}
	t.Setenv("KUBECONFIG", write("https://variable.example"))
	for host, args := range map[string][]string{
		"https://variable.example": nil,
		"https://flag.example":     {"--kubeconfig", write("https://flag.example")},
	} {
		_, err := manager.ParseOptions(args)
		assert.NilError(t, err)
		found, err := ctrl.GetConfig()
		assert.NilError(t, err)
		assert.Equal(t, found.Host, host)
	}
}

func TestVersion(t *testing.T) {
	o, err := manager.ParseOptions([]string{"--v=5", "--version"})
	assert.NilError(t, err)
	assert.Assert(t, o.PrintVersion)
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
