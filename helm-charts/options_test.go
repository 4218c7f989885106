// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/harness/process"
)

// Each value of a setting reaches mysqld unchanged, or is refused. Plain values are written without quotes, as in earlier releases.
func TestOptions(t *testing.T) {
	t.Parallel()
	mysqld, err := process.Program("MARIADB", "mariadb", "mysqld")
	assert.NilError(t, err)
	for _, test := range []struct {
		value   string
		plain   bool
		refused string
	}{
		{"400", true, ""},
		{"STRICT_TRANS_TABLES,NO_ZERO_DATE", true, ""},
		{"SET NAMES 'utf8mb4'", true, ""},
		{"SET @a='b # c'", true, ""},
		{`SET @a="b;c"; SET @d=';'`, true, ""},
		{"; a", true, ""},
		{"=a = b", true, ""},
		{`C:\data`, true, ""},
		{`a\`, true, ""},
		{`it's`, true, ""},
		{"密码", false, ""},
		{"a#b", false, ""},
		{"#", false, ""},
		{`a'#b`, false, ""},
		{`"a" # 'b"`, false, "quotes"},
		{"  a ", false, ""},
		{" ", false, ""},
		{"\ta\v", false, ""},
		{"a\u00e0", false, ""},
		{`C:\new\table\s\b`, false, ""},
		{`a\\b`, false, ""},
		{`a\"b#`, false, ""},
		{`#\`, false, ""},
		{`"a`, true, ""},
		{`'a" 'b`, true, ""},
		{` "a"`, false, ""},
		{"400 # the limit", false, "comment"},
		{"400\t#", false, "comment"},
		{`"a"`, false, "quotes"},
		{`'a','b'`, false, "quotes"},
		{`"`, false, "quotes"},
		{"a\nb", false, "one line"},
		{strings.Repeat("x", 3980), true, ""},
		{strings.Repeat(`\n`, 1300), false, ""},
		{strings.Repeat("x", 4000), false, "shorter"},
		{strings.Repeat(`\`, 2000), false, "shorter"},
	} {
		err := render.CheckOption("config", "init_connect", test.value)
		if test.refused != "" {
			assert.ErrorContains(t, err, test.refused, "%q", test.value)
			continue
		}
		assert.NilError(t, err, "%q", test.value)
		text := formatted(t, "mysqld", "", map[string]any{"init_connect": test.value})
		assert.Equal(t, text == "\n[mysqld]\ninit_connect = "+test.value+"\n", test.plain, "%q", text)
		file := filepath.Join(t.TempDir(), "my.cnf")
		assert.NilError(t, os.WriteFile(file, []byte(text), 0o600))
		printed, err := exec.Command(mysqld, "--defaults-file="+file, "--print-defaults").Output()
		assert.NilError(t, err)
		_, options, _ := strings.Cut(string(printed), "arguments:\n")
		options, _, _ = strings.Cut(options, " --innodb-use-native-aio")
		assert.Equal(t, strings.TrimSuffix(options, "\n"), "--init_connect="+test.value, "%s", text)
	}
}
