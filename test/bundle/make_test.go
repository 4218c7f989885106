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

	"d3os.com/d3os-operator/test/cluster"
)

// `make docker-build docker-push deploy` uses one image and the cluster of kubectl, as in every project of the Operator SDK. A target that starts
// its own cluster never uses that of ~/.kube/config. CRDs are applied server-side: a client-side apply keeps a copy of each in an annotation, whose
// size is bounded.
func TestMakeDeploys(t *testing.T) {
	home := t.TempDir()
	mine := filepath.Join(home, ".kube", "config")
	assert.NilError(t, os.MkdirAll(filepath.Dir(mine), 0o755))
	assert.NilError(t, os.WriteFile(mine, nil, 0o600))
	dryRun := func(args ...string) string {
		command := exec.Command("make", append([]string{"--dry-run", "--no-print-directory", "CONTAINER_TOOL=podman"}, args...)...)
		command.Dir = cluster.Root()
		command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
			return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=") || strings.HasPrefix(variable, "KUBECONFIG=")
		}), "HOME="+home)
		out, err := command.CombinedOutput()
		assert.NilError(t, err, string(out))
		return string(out)
	}
	const image = "registry.example.com/team/operator:v9"
	out := dryRun("docker-build", "docker-push", "deploy", "IMG="+image)
	for _, want := range []string{"-t '" + image + "'", "podman push '" + image + "'", "s|image: controller:latest|image: " + image + "|",
		"apply --server-side --force-conflicts -f dist/install.yaml", "using the cluster of KUBECONFIG=" + mine} {
		assert.Assert(t, strings.Contains(out, want), "%s is missing in\n%s", want, out)
	}
	assert.Assert(t, strings.Contains(dryRun("install"), "apply --server-side --force-conflicts -k config/crd"))
	for _, args := range [][]string{{"deploy", "KUBECONFIG=/elsewhere"}, {"cluster-up"}} {
		out := dryRun(args...)
		assert.Assert(t, !strings.Contains(out, mine), out)
	}
}

// The script that starts clusters names a target that exists, and that builds its tools only.
func TestMissingToolsOfAClusterNameTheirTarget(t *testing.T) {
	command := exec.Command(filepath.Join(cluster.Root(), "hack/cluster.sh"), "up")
	command.Env = append(os.Environ(), "TOOLS="+t.TempDir(), "CLUSTER_DIR="+t.TempDir())
	out, err := command.CombinedOutput()
	assert.ErrorContains(t, err, "exit status 1")
	assert.Assert(t, strings.Contains(string(out), "run 'make cluster-tools' first"), string(out))
	command = exec.Command("make", "--dry-run", "cluster-tools")
	command.Dir = cluster.Root()
	out, err = command.CombinedOutput()
	assert.NilError(t, err, string(out))
	assert.Assert(t, !strings.Contains(string(out), "mysqld"), string(out))
}
