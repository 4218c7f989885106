// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	testcluster "d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// installed returns a folder with the plugin. The plugin is this test's binary: TestMain runs the plugin's commands if the binary has that
// name.
func installed(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	assert.NilError(t, err)
	assert.NilError(t, os.Symlink(self, filepath.Join(folder, "kubectl-dataservice")))
	return folder
}

// The tour of the demo (make tour) prints the expected screens, and restores the platform. Each step waits at most a minute.
func TestTour(t *testing.T) {
	harness.Long(t)
	e := newEnv(t, "view")
	e.Start()
	sample := harness.Small()
	e.CreateReady(sample)
	path := installed(t) + ":" + os.Getenv("KUBEBUILDER_ASSETS") + ":" + os.Getenv("PATH")
	tour := exec.CommandContext(t.Context(), "hack/tour.sh", e.Namespace, name, e.file(sample))
	tour.Dir = testcluster.Root()
	tour.Env = append(os.Environ(), "KUBECONFIG="+suite.Kubeconfig, "PATH="+path)
	out, err := tour.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.NilError(t, harness.Mentions(string(out), "Running 6/6", "ImagePullBackOff", "look at Pod proxy-", "~ proxy", "restarts 1 pod",
		"Good", "goes back to revision 1", "DriftCorrected", "That was the tour"), "%s", out)
	e.says(exitYes, []string{"Running 6/6"}, "status", name)
}

// kubectl finds the plugin, passes flags and the exit code, and requests completions from the plugin.
func TestThroughKubectl(t *testing.T) {
	e := newEnv(t, "view")
	e.Start()
	e.CreateReady(harness.Small())
	folder := installed(t)
	complete := filepath.Join(testcluster.Root(), "cmd/kubectl-dataservice/kubectl_complete-dataservice")
	assert.NilError(t, os.Symlink(complete, filepath.Join(folder, "kubectl_complete-dataservice")))
	kubectl := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+suite.Kubeconfig, "PATH="+folder+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	text, err := kubectl("dataservice", "status", name, "--namespace", e.Namespace)
	assert.NilError(t, err, "%s", text)
	assert.Assert(t, strings.Contains(text, "Running 6/6"), text)
	text, err = kubectl("dataservice", "status", "nothing", "--namespace", e.Namespace)
	var exit *exec.ExitError
	assert.Assert(t, errors.As(err, &exit) && exit.ExitCode() == exitError, "%v %s", err, text)
	text, err = kubectl("__complete", "dataservice", "why", "--namespace", e.Namespace, name, "")
	assert.NilError(t, err, "%s", text)
	assert.Assert(t, strings.Contains(text, "mysql\n"), text)
}
