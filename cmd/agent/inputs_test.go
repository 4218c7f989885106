// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"d3os.com/d3os-operator/internal/contract"
)

// A command refuses wrong flags before it reads anything. With such flags, it could remove more than the user wants, or
// write to another folder.
func TestOddFlagsAreRefused(t *testing.T) {
	volume := t.TempDir()
	for _, arguments := range []string{
		"prune --keep=-1", "prune --keep=1 --at-least=-1", "prune --keep-for=-1h", "prune --keep=1 --point-in-time=-1s", "prune --keep=", "prune --keep=9999999999999999999", "prune", "prune --keep=0", "prune --keep=1 --former=",
		"restore --volume=V --data=", "restore --volume=V --data=.", "restore --volume=V --data=..", "restore --volume=V --data=../other", "restore --volume=V --data=/", "restore --volume=V --data=a/b", "restore --volume=V --data=.hidden",
		"restore --volume=", "restore --volume=V --to-position=binlog.000001", "restore --volume=V --to-position=x:-1", "restore --volume=V --to-time=yesterday", "restore --volume=V --to-time=latest --to-position=a:4",
		"verify", "verify --scratch=", "archive --interval=0s --folder=V", "list --s3-bucket=b --s3-part-mib=-1", "list --s3-bucket=b --s3-endpoint=example.com", "list --folder=V --s3-bucket=b", "list more",
	} {
		words := strings.Fields(strings.ReplaceAll(arguments, "=V", "="+volume))
		if words[0] == "prune" || words[0] == "restore" || words[0] == "verify" {
			words = append(words, "--folder="+volume)
		}
		if code := run(append(words, "--report="+filepath.Join(t.TempDir(), "report"))); code != contract.Exits[contract.ReasonUsage] {
			t.Errorf("%s: exit code %d", arguments, code)
		}
	}
	left, err := os.ReadDir(volume)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}

// The command for a member of a MySQL database refuses to start unless its flags and environment name the pod, the volume and the other
// members. A refused command changes nothing on the volume.
func TestOddMembersAreRefused(t *testing.T) {
	whole := "--volume=V --ticket=V/ticket --secrets=V --tls=V --domain=db-headless.data.svc"
	for _, c := range []struct {
		pod, arguments string
		code           int
		says           string
	}{
		{"db-0", "", exitUsage, ""},
		{"db-0", strings.Replace(whole, "--domain=db-headless.data.svc", "", 1), exitUsage, ""},
		{"db-0", strings.Replace(whole, "--tls=V", "", 1), exitUsage, ""},
		{"db-0", whole + " --nothing", exitUsage, ""},
		{"db", whole, exitFailed, "is no pod of a StatefulSet"},
		{"db-5", whole, exitFailed, "is no pod of a StatefulSet with at most 5 members"},
		{"db-0", whole, exitFailed, "read the secret"},
	} {
		t.Setenv("POD_NAME", c.pod)
		t.Setenv("POD_NAMESPACE", "data")
		volume := t.TempDir()
		report := filepath.Join(t.TempDir(), "report")
		arguments := strings.Fields("member mysql --report=" + report + " " + strings.ReplaceAll(c.arguments, "=V", "="+volume))
		assert.Equal(t, run(arguments), c.code, "%s %v", c.pod, arguments)
		text, err := os.ReadFile(report)
		assert.Equal(t, err == nil, c.says != "", "%s %v", c.pod, arguments)
		assert.Assert(t, strings.Contains(string(text), c.says), "%s", text)
		left, err := os.ReadDir(volume)
		assert.NilError(t, err)
		assert.Equal(t, len(left), 0)
	}
}

// Kubernetes cuts a termination message at 4096 bytes, which makes its JSON unreadable. Names may contain any characters. The warnings use all
// bytes that are left.
func TestTerminationMessagesAreWhole(t *testing.T) {
	reported := func(t *testing.T, result contract.Result) (r contract.Result, size int) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "report")
		c := &config{termination: file}
		c.report(&result)
		text, err := os.ReadFile(file)
		assert.NilError(t, err)
		assert.NilError(t, json.Unmarshal(text, &r), "%s", text)
		assert.Assert(t, len(text) <= 4096, "%d bytes", len(text))
		return r, len(text)
	}
	for _, character := range []string{"a", "ü", "☃", "😀", "<", "\x01", "\"", "\n", "\xff"} {
		long := strings.Repeat(character, 5000)
		r, size := reported(t, contract.Result{Command: "backup", Reason: contract.ReasonDamaged, Message: long, Warnings: slices.Repeat([]string{long}, 6), Removed: []string{long}})
		assert.Check(t, r.Reason == contract.ReasonDamaged && len(r.Message) >= 40 && len(r.Warnings) == 6 && size > 4000, "%q: %d bytes, %q", character, size, r)
	}
	texts := func(n, size int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("warning ", i+1, strings.Repeat("x", size)))
		}
		return all
	}
	long := "dumps round (400): " + strings.Repeat("x", 4000) + ", `a`.`z`"
	for name, c := range map[string]struct {
		warnings  []string
		whole     int // number of first warnings that are not shortened
		want, min int // number of warnings, minimum number of bytes
		last      string
	}{
		"none":                   {nil, 0, 0, 0, ""},
		"few":                    {texts(7, 0), 7, 7, 0, "warning 7"},
		"as many as fit":         {texts(12, 300), 12, 12, 3700, "xxx"},
		"one long warning":       {[]string{long}, 0, 1, 4080, ", `a`.`z`"},
		"short leave their part": {append(texts(10, 20), long), 10, 11, 4080, ", `a`.`z`"},
		"two long":               {[]string{texts(1, 900)[0], long, long}, 1, 3, 4080, ", `a`.`z`"},
		"too many":               {texts(1000, 300), 0, 20, 4000, "more warnings (981): the last line of the log has all of them"},
	} {
		r, size := reported(t, contract.Result{Command: "backup", OK: true, ID: "20260102T150405Z-0a1b2c3d", Warnings: c.warnings})
		assert.Assert(t, cmp.Len(r.Warnings, c.want), name)
		assert.Check(t, cmp.DeepEqual(r.Warnings[:c.whole], c.warnings[:c.whole]), name)
		assert.Check(t, size >= c.min, "%s: %d bytes", name, size)
		assert.Check(t, c.want == 0 || strings.HasSuffix(r.Warnings[c.want-1], c.last), "%s: %q", name, r.Warnings)
	}
}

// The guard reports whether a start is the first start on a volume. A container that ends during this start may leave an incomplete
// database. The guard does not run before a restart of the container in the same pod, so the operator needs the report.
func TestReportOfTheGuard(t *testing.T) {
	for _, isFirst := range []bool{true, false} {
		volume := t.TempDir()
		if !isFirst {
			assert.NilError(t, os.MkdirAll(filepath.Join(volume, "mysql", "mysql"), 0o755))
		}
		file := filepath.Join(volume, "report")
		assert.Equal(t, guardVolume([]string{"--volume=" + volume, "--report=" + file, "--server=/nowhere"}), 0)
		text, err := os.ReadFile(file)
		assert.NilError(t, err)
		assert.Equal(t, strings.Contains(string(text), `"firstStart":true`), isFirst, "%s", text)
	}
}
