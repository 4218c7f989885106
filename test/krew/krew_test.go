// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build krew

// Package krew tests that krew installs the kubectl plugin from the archives and the index that make plugin-archives writes.
package krew

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/cluster"
)

// version is the version of the archives in this test.
const version = "9.8.7"

// index holds the fields of plugins/dataservice.yaml under test.
type index struct {
	Spec struct {
		Version   string
		Platforms []struct {
			URI      string
			Bin      string
			Selector struct{ MatchLabels map[string]string }
		}
	}
}

// run runs a command, and returns its output.
func run(t *testing.T, dir string, environ []string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environ...)
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s: %s", strings.Join(command, " "), out)
	return string(out)
}

// One command makes the archives of all platforms, and an index from which krew installs the plugin. The test contacts no other machine.
func TestInstall(t *testing.T) {
	work := t.TempDir()
	archives := filepath.Join(work, "archives")
	server := httptest.NewServer(http.FileServer(http.Dir(archives)))
	t.Cleanup(server.Close)
	run(t, cluster.Root(), []string{"VERSION=" + version, "PLUGIN_URL=" + server.URL, "PLUGIN_OUT=" + archives}, "hack/plugin.sh")

	data, err := os.ReadFile(filepath.Join(archives, "plugins/dataservice.yaml"))
	assert.NilError(t, err)
	var made index
	assert.NilError(t, yaml.Unmarshal(data, &made))
	assert.Equal(t, made.Spec.Version, "v"+version)
	want := strings.Fields(os.Getenv("PLUGIN_PLATFORMS"))
	if len(want) == 0 {
		want = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}
	}
	var got []string
	for _, platform := range made.Spec.Platforms {
		labels := platform.Selector.MatchLabels
		got = append(got, labels["os"]+"/"+labels["arch"])
		_, err := os.Stat(filepath.Join(archives, strings.TrimPrefix(platform.URI, server.URL)))
		assert.NilError(t, err, "the index names an archive that is not there")
		assert.Equal(t, strings.HasSuffix(platform.Bin, ".exe"), labels["os"] == "windows")
	}
	assert.DeepEqual(t, got, want)

	// An index is a git repository with a folder plugins.
	repository := filepath.Join(work, "index")
	assert.NilError(t, os.MkdirAll(filepath.Join(repository, "plugins"), 0o750))
	assert.NilError(t, os.WriteFile(filepath.Join(repository, "plugins/dataservice.yaml"), data, 0o600))
	author := []string{"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com"}
	run(t, repository, author, "git", "init", "--quiet", "--initial-branch=main")
	run(t, repository, author, "git", "add", ".")
	run(t, repository, author, "git", "commit", "--quiet", "--message=v"+version)

	root := filepath.Join(work, "krew")
	tools := cmp.Or(os.Getenv("TOOLS"), filepath.Join(cluster.Root(), "bin/tools"))
	krew, kubectl := filepath.Join(tools, "krew"), filepath.Join(tools, "kubectl")
	environ := []string{"KREW_ROOT=" + root, "KREW_NO_UPGRADE_CHECK=1", "HOME=" + work,
		"PATH=" + filepath.Join(root, "bin") + ":" + tools + ":" + os.Getenv("PATH")}
	run(t, work, environ, krew, "index", "add", "d3os", "file://"+repository)
	found := run(t, work, environ, krew, "search", "dataservice")
	assert.Assert(t, strings.Contains(found, "d3os/dataservice"), found)
	run(t, work, environ, krew, "install", "d3os/dataservice")
	assert.Assert(t, strings.Contains(run(t, work, environ, krew, "list"), "d3os/dataservice"))

	help := run(t, work, environ, kubectl, "dataservice", "--version")
	assert.Assert(t, strings.Contains(help, version), "%s on %s/%s", help, runtime.GOOS, runtime.GOARCH)
	// The archive also contains the other files that a user needs.
	for _, name := range []string{"LICENSE", "NOTICES", "kubectl_complete-dataservice"} {
		files, err := filepath.Glob(filepath.Join(root, "store/dataservice/*", name))
		assert.NilError(t, err)
		assert.Equal(t, len(files), 1, name)
	}
	run(t, work, environ, krew, "uninstall", "dataservice")
	_, err = os.Lstat(filepath.Join(root, "bin/kubectl-dataservice"))
	assert.Assert(t, os.IsNotExist(err), "%v", err)
}
