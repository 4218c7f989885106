// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/test/harness/process"
)

// A third party with http:// is healthy if it answers with a status below 500, even if it refuses HEAD.
func TestCheckOfHTTP(t *testing.T) {
	t.Parallel()
	deployment := made(t, component.ChartThirdParty, "{url: 'https://a'}")["Deployment/release-probe"]
	command, _ := at(deployment, "spec", "template", "spec", "containers", 0, "readinessProbe", "exec", "command").([]any)
	assert.Equal(t, len(command), 3, "%v", deployment)
	script, _ := command[2].(string)
	curl, err := process.Program("NGINX", "nginx", "curl")
	assert.NilError(t, err)
	for _, test := range []struct {
		head, get int
		want      string // of standard error; "" for a success
	}{
		{200, 500, ""}, {302, 500, ""}, {405, 200, ""}, {401, 200, ""}, {403, 404, ""}, {404, 401, ""}, {501, 200, ""}, {500, 200, ""},
		{500, 500, "answers with status 500"}, {405, 503, "answers with status 503"}, {503, 502, "answers with status 502"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(map[string]int{http.MethodHead: test.head, http.MethodGet: test.get}[r.Method])
		}))
		check := func() (string, error) {
			cmd := exec.Command("/bin/sh", "-c", script)
			cmd.Env = []string{"PATH=" + filepath.Dir(curl) + ":/usr/bin:/bin", "CHECK_URL=" + server.URL}
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		out, err := check()
		assert.Equal(t, err == nil, test.want == "", "%v: %s", test, out)
		assert.Assert(t, is.Contains(out, test.want), "%v", test)
		server.Close()
		out, err = check()
		assert.Assert(t, err != nil, "a server that is away")
		assert.Assert(t, is.Contains(out, "curl: (7)"))
	}
}
