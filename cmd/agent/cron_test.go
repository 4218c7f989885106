// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
)

// TestMain runs the agent in this test binary if a test starts it as the agent.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_AGENT") != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// agent returns a command that runs this program.
func agent(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "RUN_AGENT=yes")
	return cmd
}

// The program starts a command every second. After a run that fails, the program is not ready until a run succeeds. On
// SIGTERM, it gives the command time to end.
func TestCronRuns(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	address := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	listen := "--listen=" + strings.Replace(address, "127.0.0.1", "[127.0.0.1]", 1) // the form that the chart writes
	cmd := agent(t, "cron", "--schedule=* * * * * *", listen, "--", "sh", "-c", `cd `+folder+`; echo run >> runs
		if test -e fail; then exit 3; fi
		if test -e stay; then trap 'sleep 0.2; echo ended > end; exit 0' TERM; touch staying; while :; do sleep 0.05; done; fi`)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	assert.NilError(t, cmd.Start())
	check := func() (string, error) {
		text, err := agent(t, "cron", "--check", listen).Output()
		return string(text), err
	}
	until := func(what string, is func() bool) {
		t.Helper()
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if is() {
				return poll.Success()
			}
			return poll.Continue("%s", what)
		}, poll.WithTimeout(rig.Patience))
	}
	until("the agent is ready before the first run", func() bool { text, err := check(); return err == nil && text == "ok\n" })
	until("two runs", func() bool {
		text, _ := os.ReadFile(filepath.Join(folder, "runs"))
		return strings.Count(string(text), "run") >= 2
	})
	touch(t, folder, "fail")
	until("the agent is not ready", func() bool {
		text, err := check()
		return err != nil && strings.HasPrefix(text, "RunFailed: the run of ") && strings.HasSuffix(text, ": exit code 3\n")
	})
	assert.NilError(t, os.Remove(filepath.Join(folder, "fail")))
	until("the agent is ready again", func() bool { _, err := check(); return err == nil })
	touch(t, folder, "stay")
	until("a run that stays", func() bool { _, err := os.Stat(filepath.Join(folder, "staying")); return err == nil })
	assert.Assert(t, strings.Contains(scrape(t, address), "dataservice_cron_active 1\n"))
	assert.NilError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.NilError(t, cmd.Wait(), output.String())
	ended, err := os.ReadFile(filepath.Join(folder, "end"))
	assert.NilError(t, err, "the agent did not wait for the command")
	assert.Equal(t, string(ended), "ended\n")
}

func TestCronRefusesWrongFlags(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen=127.0.0.1:0", "--schedule=* * * * * *"}, "no command is given"},
		{[]string{"--schedule=* * * * * *", "--", "true"}, "--listen is required"},
		{[]string{"--listen=127.0.0.1:0", "--schedule=1 0 0 30 2 *", "--", "true"}, "is never due"},
		{[]string{"--listen=127.0.0.1:0", "--schedule=* * * * * *", "--time-zone=Europe/Nowhere", "--", "true"}, "is not known"},
		{[]string{"--listen=127.0.0.1:0", "--schedule=* * * * * *", "--concurrency-policy=forbid", "--", "true"}, "use Allow, Forbid or Replace"},
		{[]string{"--listen=127.0.0.1:0", "--starting-deadline-seconds=soon", "--", "true"}, "invalid value"},
	} {
		cmd := agent(t, append([]string{"cron"}, row.args...)...)
		var output bytes.Buffer
		cmd.Stderr = &output
		err := cmd.Run()
		assert.ErrorContains(t, err, fmt.Sprintf("exit status %d", exitUsage), "%v", row.args)
		assert.Assert(t, strings.Contains(output.String(), row.want), "%v: %s", row.args, output.String())
	}
}

func touch(t *testing.T, folder, name string) {
	t.Helper()
	assert.NilError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
}

func scrape(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	assert.NilError(t, err)
	response, err := http.DefaultClient.Do(request)
	assert.NilError(t, err)
	defer response.Body.Close() // the body was read to its end
	text, err := io.ReadAll(response.Body)
	assert.NilError(t, err)
	return string(text)
}
