// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/guard"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// steps are the steps of a server's first start. In each case, the pod is killed after one step. The first steps create files and folders.
var steps = []string{"ibdata1", "mysql", "sys", "mysql/general_log.CSV", "files", "CREATE DATABASE", "CREATE USER", "GRANT"}

// The pod ends at any step of a server's first start. The guard in the next pod starts the server again from the beginning. That server
// serves with the account and the schema of the first start.
func TestFirstStartBrokenOff(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			programs := rig.Programs(t, flavour)
			for i, step := range steps {
				if !rig.Full() && i != 1 && (i != 5 || flavour == server.MySQL) { // each case takes half a minute with MySQL
					continue
				}
				t.Run(strings.ReplaceAll(step, "/", "-"), func(t *testing.T) {
					volume := t.TempDir()
					if err := firstPod(t, programs, volume, step); err == nil {
						t.Fatal("the server was not killed")
					}
					assert.NilError(t, firstPod(t, programs, volume, ""))
					aside, err := filepath.Glob(filepath.Join(volume, "mysql-unfinished-*"))
					assert.NilError(t, err)
					assert.Equal(t, len(aside), 1)
				})
			}
		})
	}
}

// firstPod acts as the pod of a new database: it runs the guard, the steps of the image's entry point, and the server. The pod is killed
// after the given step, or not killed if step is "". firstPod returns an error unless the server serves with the account.
func firstPod(t *testing.T, p restore.Programs, volume, step string) error {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	found, err := guard.ReadVolume(volume, "mysql")
	assert.NilError(t, err)
	found, _, err = found.StartOver(volume, "mysql", guard.Record{})
	assert.NilError(t, err)
	_, err = found.Remember(volume, nil, guard.Record{})
	assert.NilError(t, err)
	data := filepath.Join(volume, "mysql")
	assert.NilError(t, os.MkdirAll(data, 0o755)) // the kubelet creates the folder of a subPath
	go func() {
		for ; step != "" && ctx.Err() == nil; time.Sleep(time.Millisecond) { // polling interval
			if made, _ := filepath.Glob(filepath.Join(data, step)); len(made) > 0 {
				kill()
			}
		}
	}()
	i := &restore.Instance{Programs: p, Data: data}
	defer i.Kill()
	if _, err := os.Stat(filepath.Join(data, "mysql")); err != nil { // docker-entrypoint.sh: DATABASE_ALREADY_EXISTS
		if err := firstFiles(ctx, p, data); err != nil || step == "files" {
			return cmp.Or(err, errKilled)
		}
		if err := i.Start(ctx); err != nil {
			return err
		}
		conn, err := i.Connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		for _, statement := range []string{"CREATE DATABASE platform", "CREATE USER services@'%' IDENTIFIED BY 'x'", "GRANT ALL ON platform.* TO services@'%'"} {
			if err := conn.Do(statement); err != nil {
				return err
			}
			if step != "" && strings.HasPrefix(statement, step) {
				return errKilled
			}
		}
		if err := i.Stop(ctx); err != nil {
			return err
		}
	}
	if err := i.Start(ctx); err != nil {
		return err
	}
	conn, err := server.Connect(ctx, server.Options{Address: i.Options().Address, User: "services", Password: "x"})
	if err != nil {
		return err
	}
	conn.Close()
	return i.Stop(ctx)
}

var errKilled = errors.New("killed")

// firstFiles creates the first files as the image's entry point does. It fails if the folder is not empty. The whole process group ends
// with ctx.
func firstFiles(ctx context.Context, p restore.Programs, data string) error {
	args := []string{"--no-defaults", "--datadir=" + data, "--user=root", "--innodb-buffer-pool-size=64M"}
	program := p.Server
	if p.Version.Flavour == server.MariaDB {
		program = p.Install
		args = append(args, "--skip-test-db", "--auth-root-authentication-method=normal")
	} else {
		args = append(args, "--initialize-insecure")
	}
	words := &strings.Builder{}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = words, words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("make the first files: %w: %s", err, words)
	}
	return nil
}
