// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"d3os.com/d3os-operator/test/harness"
)

// dataservice runs a command of the plugin on the platform, through kubectl, and returns what it printed with its exit code.
func dataservice(t *testing.T, arguments string) string {
	t.Helper()
	return shell(t, fmt.Sprintf(`export PATH=$PWD/bin:$PATH
code=0
kubectl dataservice --namespace %s %s || code=$?
echo "exit code $code"`, platformNamespace, arguments))
}

// testPlugin uses the kubectl plugin as people do, on real pods: what breaks is named in the words of a real kubelet, and a
// rollback mends it.
func testPlugin(t *testing.T) {
	says := func(arguments string, words ...string) {
		t.Helper()
		eventually(t, arguments, patience, func(context.Context) error {
			return harness.Mentions(dataservice(t, arguments), words...) //nolint:contextcheck // the shell ends with the test
		})
	}
	says("status "+sample, "Running", "exit code 0")
	says("why "+sample, "nothing is wrong", "exit code 0")
	says("diff "+sample, "nothing changes", "exit code 0")
	says("mysql "+sample+" -- --execute 'select 6 * 7'", "42", "exit code 0")
	says("logs "+sample+" proxy --tail 1", "[proxy-", "exit code 0")

	// The history begins with a change under this version.
	shell(t, "kubectl patch --namespace "+platformNamespace+" dataservice "+sample+` --type merge --patch '{"spec": {"auth": {"env": {"HISTORY": "begins"}}}}'
kubectl wait --namespace `+platformNamespace+` deployment/auth --for 'jsonpath={.spec.template.spec.containers[0].env[?(@.name=="HISTORY")].value}=begins' --timeout 1m`)
	says("status "+sample, "Running", "exit code 0")
	says("history "+sample, "Current", "exit code 0")
	for _, broken := range []struct{ field, cause string }{
		{`"image": "registry.invalid/proxy:v1"`, "registry.invalid/proxy:v1"},
		{`"command": ["/there-is-none"]`, "/there-is-none"},
	} {
		shell(t, fmt.Sprintf(`kubectl patch --namespace %s dataservice %s --type merge --patch '{"spec": {"proxy": {%s}}}'`, platformNamespace, sample, broken.field))
		eventually(t, "why names "+broken.cause, patience, func(context.Context) error {
			lines := strings.SplitN(dataservice(t, "why "+sample), "\n", 3) //nolint:contextcheck // the shell ends with the test
			return harness.Mentions(strings.Join(lines[:min(2, len(lines))], "\n"), "proxy: pod proxy-", broken.cause, "look at Pod proxy-")
		})
		says("rollback "+sample+" --yes", "goes back to revision", "exit code 0")
		says("status "+sample, "Running", "exit code 0")
	}
}
