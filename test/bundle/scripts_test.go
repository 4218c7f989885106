// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/cluster"
)

// stub writes a program that appends its working directory and its arguments to a file, and returns its folder and that file.
func stub(t *testing.T, name string) (folder, calls string) {
	t.Helper()
	folder, calls = t.TempDir(), filepath.Join(t.TempDir(), "calls")
	program := "#!/bin/sh\necho \"$PWD $*\" >>'" + calls + "'\n"
	assert.NilError(t, os.WriteFile(filepath.Join(folder, name), []byte(program), 0o700))
	return folder, calls
}

// Each module that has code of this repository is scanned: for known vulnerabilities, and by gosec.
func TestScannersReadEveryModule(t *testing.T) {
	t.Parallel()
	modules := []string{"cmd/agent", "cmd/kubectl-dataservice", ".", "hack/monitoring", "hack/node/programs", "test/images", "test/scorecard"}
	assert.DeepEqual(t, strings.Fields(string(script(t, "hack/modules.sh"))), modules)
	for program, file := range map[string]string{"govulncheck": "hack/govulncheck.sh", "golangci-lint": "hack/gosec.sh"} {
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

// make crd-safety compares every CRD that the newest release has, and refuses to lose one.
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
		assert.Check(t, strings.Contains(out, "bundle/manifests/"+crd+" takes all"), out)
	}
	gone := "example.com_things.yaml"
	assert.NilError(t, os.WriteFile(filepath.Join(manifests, gone), mustRead(t, "bundle/manifests/"+crds[0]), 0o600))
	out, err = run()
	assert.Assert(t, err != nil && strings.Contains(out, gone+": the release before has this CRD"), out)
}
