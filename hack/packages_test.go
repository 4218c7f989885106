// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hack tests the scripts in this folder.
package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// machine has a folder with the commands that a script can find, and no others. Its apt-get records the arguments, and creates a command
// with the name of each package.
type machine struct{ commands, asked string }

func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{commands: t.TempDir(), asked: filepath.Join(t.TempDir(), "asked")}
	for _, name := range []string{"bash", "cat", "chmod", "dirname", "env", "flock", "mkdir", "mktemp", "rm", "stat", "tail"} {
		file, err := exec.LookPath(name)
		assert.NilError(t, err)
		assert.NilError(t, os.Symlink(file, filepath.Join(m.commands, name)))
	}
	m.add(t, "sudo", `shift; exec "$@"`)
	m.add(t, "apt-get", `echo "$*" >>`+m.asked+`
		[[ $1 == install ]] || exit 0
		for package; do
			[[ $package == -* || $package == install ]] || { : >"${0%/*}/$package" && chmod +x "${0%/*}/$package"; }
		done`)
	return m
}

func (m machine) add(t *testing.T, name, script string) {
	t.Helper()
	assert.NilError(t, os.WriteFile(filepath.Join(m.commands, name), []byte("#!/usr/bin/env bash\n"+script+"\n"), 0o700))
}

// run returns the recorded arguments of the machine's apt-get after the script has run.
func (m machine) run(t *testing.T, script string, arguments ...string) string {
	t.Helper()
	assert.NilError(t, os.RemoveAll(m.asked))
	command := exec.CommandContext(t.Context(), script, arguments...)
	command.Env = []string{"PATH=" + m.commands, "TMPDIR=" + t.TempDir(), "IMAGES_DIR=" + t.TempDir(), "IMAGE_TAG_BASE=localhost/d3os-operator"}
	out, err := command.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	asked, err := os.ReadFile(m.asked)
	if !os.IsNotExist(err) {
		assert.NilError(t, err)
	}
	return string(asked)
}

// The scripts that build images define a function named buildah. That function must not count as an installed command.
func TestImagesInstallBuildahWhereItIsMissing(t *testing.T) {
	fresh := newMachine(t)
	asked := fresh.run(t, "./images.sh", "packages")
	assert.DeepEqual(t, strings.Split(asked, "\n"), []string{
		"update -qq", "install -y -qq --no-install-recommends buildah netavark jq", "",
	})
	assert.Equal(t, fresh.run(t, "./images.sh", "packages"), "", "everything is installed already")
}

// hack/fresh.sh lists every target, either to run it on a fresh machine or with a comment that explains why it cannot.
func TestFreshMachineKnowsEveryTarget(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "./fresh.sh", "check").CombinedOutput()
	assert.NilError(t, err, "%s", out)
}
