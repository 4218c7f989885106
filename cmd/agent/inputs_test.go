// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

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

// Kubernetes cuts a termination message at 4096 bytes, which makes its JSON unreadable. Names may contain any characters.
func TestTerminationMessagesAreWhole(t *testing.T) {
	for _, character := range []string{"a", "ü", "☃", "😀", "<", "\x01", "\"", "\n", "\xff"} {
		long := strings.Repeat(character, 5000)
		file := filepath.Join(t.TempDir(), "report")
		c := &config{termination: file}
		c.report(&contract.Result{Command: "backup", Reason: contract.ReasonDamaged, Message: long, Warnings: []string{long, long, long, long, long, long}, Removed: []string{long}})
		text, err := os.ReadFile(file)
		assert.NilError(t, err)
		var r contract.Result
		if err := json.Unmarshal(text, &r); err != nil || len(text) > 4096 || r.Reason != contract.ReasonDamaged || len(r.Message) < 40 || len(r.Warnings) != 5 {
			t.Errorf("%q: %d bytes, %v: %.200s", character, len(text), err, text)
		}
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
