// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/cluster"
)

// The list of images for a cluster without internet contains each image that the bundle's scorecard tests name.
func TestImagesListHasTheScorecard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(cluster.Root(), "bundle/tests/scorecard/config.yaml"))
	assert.NilError(t, err)
	named := regexp.MustCompile(`(?m)^ *image: (\S+)$`).FindAllStringSubmatch(string(text), -1)
	assert.Assert(t, len(named) > 2, "the scorecard's configuration has too few images: %v", named)
	command := exec.Command("hack/images.sh", "list")
	command.Dir = cluster.Root()
	command.Env = append(os.Environ(), "IMAGES_DIR="+t.TempDir(), "IMAGE_TAG_BASE=registry-edge.cosmoplat.com/dataservice/d3os-operator")
	out, err := command.Output()
	assert.NilError(t, err)
	for _, name := range named {
		assert.Assert(t, slices.Contains(strings.Fields(string(out)), name[1]), "%s is missing in\n%s", name[1], out)
	}
}

// `make docker-build docker-push deploy` uses one image and kubectl's current cluster, as in every project of the Operator SDK. A target
// that starts a cluster never uses the cluster of ~/.kube/config. make applies CRDs server-side, because a client-side apply stores each
// CRD in an annotation of limited size.
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

// demo.sh prints `export KUBECONFIG=…` of the embedded cluster. With that variable, each target uses the embedded cluster as if KUBECONFIG
// were unset, including targets that otherwise use ~/.kube/config.
func TestEmbeddedClusterIsNotTheUsers(t *testing.T) {
	home := t.TempDir()
	mine := filepath.Join(home, ".kube", "config")
	assert.NilError(t, os.MkdirAll(filepath.Dir(mine), 0o755))
	assert.NilError(t, os.WriteFile(mine, nil, 0o600))
	root := cluster.Root()
	for _, c := range []struct {
		kubeconfig, name string
		installs         bool
		user, used       string
	}{
		{"", "", false, "", root + "/.cluster/d3os/kubeconfig"},
		{root + "/.cluster/d3os/kubeconfig", "", false, "", root + "/.cluster/d3os/kubeconfig"},
		{".cluster/d3os/kubeconfig", "", false, "", root + "/.cluster/d3os/kubeconfig"},
		{root + "/.cluster/two/kubeconfig", "two", false, "", root + "/.cluster/two/kubeconfig"},
		{root + "/.cluster/d3os/kubeconfig", "", true, "", root + "/.cluster/d3os/kubeconfig"},
		{"", "", true, mine, mine},
		{"/elsewhere", "", false, "/elsewhere", "/elsewhere"},
		{"/elsewhere", "", true, "/elsewhere", "/elsewhere"},
	} {
		arguments := []string{"--silent", "--eval", `seen: ; @echo "user=$$USER_CLUSTER used=$$KUBECONFIG"`, "seen"}
		if c.installs {
			arguments = append(arguments, "INSTALLING=seen")
		}
		command := exec.Command("make", arguments...)
		command.Dir = root
		command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
			return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=") || strings.HasPrefix(variable, "KUBECONFIG=") ||
				strings.HasPrefix(variable, "CLUSTER_NAME=") || strings.HasPrefix(variable, "USER_CLUSTER=")
		}), "HOME="+home)
		if c.kubeconfig != "" {
			command.Env = append(command.Env, "KUBECONFIG="+c.kubeconfig)
		}
		if c.name != "" {
			command.Env = append(command.Env, "CLUSTER_NAME="+c.name)
		}
		out, err := command.CombinedOutput()
		assert.NilError(t, err, string(out))
		assert.Equal(t, strings.TrimSpace(string(out)), "user="+c.user+" used="+c.used, "%+v", c)
	}
}

// demo runs hack/demo.sh with fake programs. It returns the calls of the programs, and the agent's image that the operator gets.
func demo(t *testing.T, command string, environment func(folder string) []string) (calls, agent string) {
	t.Helper()
	folder := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(folder, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NilError(t, os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+text), 0o700))
	}
	script, err := os.ReadFile(filepath.Join(cluster.Root(), "hack/demo.sh"))
	assert.NilError(t, err)
	write("hack/demo.sh", string(script))
	write("hack/cluster.sh", `echo "cluster $*" >>calls`)
	write("bin/manager", `echo "$RELATED_IMAGE_AGENT" >agent.new && mv agent.new agent`)
	// The command that waits for the platform returns when the operator runs. A watch runs until the test ends it.
	write("kubectl", `echo "kubectl $*" >>calls
case " $* " in *' wait '*) until [[ -e agent ]]; do :; done;; *' --watch '*) exec tail -f /dev/null;; esac`)
	run := exec.Command(filepath.Join(folder, "hack/demo.sh"), command)
	run.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "CLUSTER_NAME=") || strings.HasPrefix(variable, "USER_CLUSTER=") || strings.HasPrefix(variable, "KUBECONFIG=") ||
			strings.HasPrefix(variable, "IMG=") || strings.HasPrefix(variable, "RELATED_IMAGE_AGENT=")
	}), "KUBECTL="+filepath.Join(folder, "kubectl"))
	run.Env = append(run.Env, environment(folder)...)
	out, err := run.CombinedOutput()
	assert.NilError(t, err, string(out))
	text, err := os.ReadFile(filepath.Join(folder, "calls"))
	assert.NilError(t, err)
	image, _ := os.ReadFile(filepath.Join(folder, "agent")) // absent unless the operator was started
	return string(text), strings.TrimSpace(string(image))
}

// demo-down stops the embedded cluster, even if KUBECONFIG names the embedded cluster. In the user's cluster it deletes only the namespace.
func TestDemoEndsItsOwnCluster(t *testing.T) {
	calls, _ := demo(t, "down", func(folder string) []string { return []string{"USER_CLUSTER=" + folder + "/.cluster/d3os/kubeconfig"} })
	assert.Equal(t, calls, "cluster down\n")
	calls, _ = demo(t, "down", func(string) []string { return []string{"USER_CLUSTER=/elsewhere"} })
	assert.Equal(t, calls, "kubectl delete namespace d3os-demo --ignore-not-found\n")
}

// The demo's operator gets the agent's image. Without this image, EtcdClusters, RedisClusters and backups fail. The user's cluster may
// not have that image, so there the operator gets only an image that the user sets.
func TestDemoHasAnAgent(t *testing.T) {
	for _, c := range []struct {
		environment []string
		agent       string
	}{
		{[]string{"IMG=registry.example.com/operator:v9"}, "registry.example.com/operator:v9"},
		{[]string{"IMG=registry.example.com/operator:v9", "RELATED_IMAGE_AGENT=registry.example.com/other:v1"}, "registry.example.com/other:v1"},
		{[]string{"IMG=registry.example.com/operator:v9", "USER_CLUSTER=/elsewhere"}, ""},
		{[]string{"IMG=registry.example.com/operator:v9", "USER_CLUSTER=/elsewhere", "RELATED_IMAGE_AGENT=registry.example.com/other:v1"}, "registry.example.com/other:v1"},
	} {
		_, agent := demo(t, "up", func(string) []string { return c.environment })
		assert.Equal(t, agent, c.agent, "%v", c.environment)
	}
}

// The script that starts clusters names an existing target of make. That target builds only the script's tools.
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
