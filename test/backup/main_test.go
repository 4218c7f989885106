// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup_test tests the operator's promises about backups, on a real API server with Kubernetes' Job controllers, and with pods of
// the emulator. A DataBackup creates one Job, even if the operator crashes, and its status shows the message of the Job's pod.
package backup_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness/stage"
)

const patience = 3 * time.Minute

var suite = &stage.Suite{
	Patience: func() time.Duration { return patience }, Parallel: 2,
	Lists: []client.ObjectList{
		&dsv1.DataServiceList{}, &backupv1.DataBackupList{}, &backupv1.DataRestoreList{}, &batchv1.JobList{}, &batchv1.CronJobList{}, &appsv1.StatefulSetList{},
		&corev1.PersistentVolumeClaimList{}, &corev1.PodList{},
	},
}

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "agent" {
		os.Exit(program(os.Args[1:]))
	}
	os.Exit(suite.Main(m, cluster.Options{Name: "backup"}, nil))
}

// Files in the store. If fileFail exists, the program fails. fileRuns contains a line for each run.
const (
	fileFail = "fail"
	fileRuns = "runs"
)

// program replaces the agent in tests of the operator alone. It follows the agent's contract, without a database.
func program(args []string) int {
	if len(args) == 2 && args[0] == "install" {
		self, err := os.Executable()
		if err == nil {
			err = os.Symlink(self, args[1])
		}
		return report("", err)
	}
	if args[0] == "proxy" { // like a mesh's proxy, it does not end by itself
		time.Sleep(time.Hour) // the test ends the process
	}
	flags := map[string]string{}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	if args[0] == "restore" {
		return restore(flags, args)
	}
	password, err := os.ReadFile(os.Getenv("AGENT_PASSWORD_FILE"))
	if err != nil || len(password) == 0 {
		return report(flags["report"], fmt.Errorf("read the password: %w", err))
	}
	for _, variable := range os.Environ() {
		if strings.Contains(variable, string(password)) {
			return report(flags["report"], fmt.Errorf("a password is in the environment"))
		}
	}
	store := flags["folder"]
	if args[0] != "backup" {
		return report(flags["report"], fmt.Errorf("the command %s is not part of this test", args[0]))
	}
	runs, err := os.OpenFile(filepath.Join(store, fileRuns), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(runs, flags["source"])
	}
	if err != nil {
		return report(flags["report"], err)
	}
	if _, err := os.Stat(filepath.Join(store, fileFail)); err == nil {
		return exit(flags["report"], 10, map[string]any{
			"command": "backup", "reason": "AccessDenied", "message": "the server at " + flags["server"] + " refused user " + flags["user"],
		})
	}
	return exit(flags["report"], 0, map[string]any{
		"command": "backup", "ok": true, "id": "20260102T150405Z-0a1b2c3d", "bytes": 73400320, "storedBytes": 13002342, "tables": 42,
		"rows": 120000, "server": "5.7.44", "seconds": 5.4, "position": map[string]any{"file": "binlog.000042", "offset": 1547},
		"warnings": []string{"table app.log has the engine MyISAM"},
	})
}

// restore replaces `agent restore`, without a database: it refuses a volume that is not empty, and writes a file to an empty volume.
func restore(flags map[string]string, args []string) int {
	if _, err := os.Stat(filepath.Join(flags["folder"], fileFail)); err == nil {
		return exit(flags["report"], 32, map[string]any{"command": "restore", "reason": "NotFound", "message": "no backup is older than " + flags["to-time"]})
	}
	if slices.Contains(args, "--validate") {
		return exit(flags["report"], 0, map[string]any{"command": "restore", "ok": true, "id": "20260102T150405Z-0a1b2c3d", "bytes": 73400320, "server": "5.7.44"})
	}
	taken, err := os.ReadDir(flags["volume"])
	if err == nil && len(taken) > 0 {
		return exit(flags["report"], 43, map[string]any{"command": "restore", "reason": "NotEmpty", "message": "the volume is not empty"})
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(flags["volume"], "restored"), []byte(flags["backup"]+" "+flags["to-time"]), 0o600)
	}
	runs, openErr := os.OpenFile(filepath.Join(flags["folder"], fileRuns), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if openErr == nil {
		_, openErr = fmt.Fprintln(runs, flags["source"])
	}
	if err = errors.Join(err, openErr); err != nil {
		return report(flags["report"], err)
	}
	return exit(flags["report"], 0, map[string]any{
		"command": "restore", "ok": true, "id": "20260102T150405Z-0a1b2c3d", "bytes": 73400320, "tables": 42, "rows": 120000, "server": "5.7.44", "seconds": 200,
		"position": map[string]any{"file": "binlog.000042", "offset": 1547}, "restoredTo": "2026-01-02T15:29:59Z", "transactions": 7,
		"later": map[string]any{"transactions": 12, "first": "2026-01-02T15:30:01Z", "reached": "2026-01-02T16:00:00Z"},
	})
}

func report(file string, err error) int {
	if err == nil {
		return 0
	}
	return exit(file, 1, map[string]any{"command": "backup", "reason": "Failed", "message": err.Error()})
}

func exit(file string, code int, result map[string]any) int {
	text, err := json.Marshal(result)
	if err == nil && file != "" {
		err = os.WriteFile(file, text, 0o600)
	}
	fmt.Println(string(text))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}
