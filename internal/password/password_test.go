// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package password

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

//go:embed testdata/rule.json
var rule []byte

type row struct {
	Name, Clean, Refused string
	Raw                  []byte
}

func rows(t *testing.T) []row {
	t.Helper()
	var all []row
	assert.NilError(t, json.Unmarshal(rule, &all))
	return all
}

func TestClean(t *testing.T) {
	t.Parallel()
	for _, r := range rows(t) {
		got, err := Clean(r.Raw)
		assert.Equal(t, got, r.Clean, r.Name)
		assert.Equal(t, fmt.Sprint(err), orNil(r.Refused), r.Name)
	}
}

func orNil(text string) string {
	if text == "" {
		return "<nil>"
	}
	return text
}

// The charts' scripts have the rule in the function read_secret, which is the same text in each. UTF-8 is the operator's to check.
func TestScriptsHaveTheRule(t *testing.T) {
	t.Parallel()
	function := ""
	for _, script := range []string{"rediscluster/files/common.sh", "mysql/files/accounts.sh"} {
		text, err := os.ReadFile(filepath.Join("../../helm-charts", script))
		assert.NilError(t, err)
		_, rest, found := strings.Cut(string(text), "read_secret() {")
		body, _, ends := strings.Cut(strings.ReplaceAll(rest, "\t", "  "), "\n}\n")
		assert.Assert(t, found && ends, script)
		assert.Assert(t, function == "" || function == body, "%s differs", script)
		function = body
	}
	ran := 0
	for _, shell := range [][]string{{"dash"}, {"bash"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		ran++
		for _, r := range rows(t) {
			if r.Name == "no UTF-8" {
				continue
			}
			file := filepath.Join(t.TempDir(), "password")
			assert.NilError(t, os.WriteFile(file, r.Raw, 0o600))
			script := "read_secret() {" + function + "\n}\n" + `if read_secret "$0"; then printf '%s' "$secret"; else printf 'refused: %s' "$refusal"; fi`
			out, err := exec.Command(shell[0], append(shell[1:], "-euc", script, file)...).CombinedOutput()
			assert.NilError(t, err, "%s %s: %s", shell, r.Name, out)
			if r.Refused == "" {
				assert.Equal(t, string(out), r.Clean, "%s %s", shell, r.Name)
			} else {
				assert.Assert(t, strings.HasPrefix(string(out), "refused: it "), "%s %s: %q", shell, r.Name, out)
			}
		}
	}
	assert.Assert(t, ran > 0, "this machine has no shell")
}
