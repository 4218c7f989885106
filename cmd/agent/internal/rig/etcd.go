// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"gotest.tools/v3/assert"
)

// Etcd is a process of etcd with one member.
type Etcd struct {
	T        testing.TB
	Endpoint string
	Data     string
	cmd      *exec.Cmd
	done     <-chan struct{}
}

// EtcdTools returns a folder with the etcd of a release series, such as 3.6, and its restore program. Tests that need an old series run
// only in `make verify`.
func EtcdTools(t testing.TB, series string) string {
	t.Helper()
	if series != "3.6" {
		Long(t)
	}
	from := tools(t, "ETCD", "etcds", "etcd-"+series)
	folder := t.TempDir()
	for _, program := range []string{"etcd", "etcdutl", "etcdctl"} {
		if found := filepath.Join(from, program+"-"+series); exec.Command(found, "--help").Run() == nil {
			assert.NilError(t, os.Symlink(found, filepath.Join(folder, program)))
		}
	}
	return folder
}

// StartEtcd starts etcd of the given release series. The folder data may be empty. StartEtcd waits until etcd answers.
func StartEtcd(t testing.TB, series, data string) *Etcd {
	t.Helper()
	e := &Etcd{T: t, Endpoint: fmt.Sprintf("http://127.0.0.1:%d", FreePort(t)), Data: data}
	e.cmd = exec.Command(filepath.Join(EtcdTools(t, series), "etcd"), "--data-dir="+data, "--listen-client-urls="+e.Endpoint, "--advertise-client-urls="+e.Endpoint,
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", FreePort(t)), "--log-level=error", "--unsafe-no-fsync")
	e.done = start(t, e.cmd)
	t.Cleanup(e.Kill)
	c := e.Client()
	defer c.Close()
	for end := time.Now().Add(Patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := c.Get(ctx, "a")
		cancel()
		if err == nil {
			return e
		}
		if time.Now().After(end) {
			t.Fatalf("etcd on %s does not answer: %v", data, err)
		}
	}
}

// Client returns a client. The caller closes the client.
func (e *Etcd) Client() *clientv3.Client {
	e.T.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint}, Logger: zap.NewNop()})
	assert.NilError(e.T, err)
	return c
}

// Kill ends etcd immediately.
func (e *Etcd) Kill() {
	_ = e.cmd.Process.Kill() // the process may have ended
	<-e.done
}

// Keys returns all keys with their values.
func (e *Etcd) Keys() map[string]string {
	e.T.Helper()
	c := e.Client()
	defer c.Close()
	got, err := c.Get(e.T.Context(), "", clientv3.WithPrefix())
	assert.NilError(e.T, err)
	keys := map[string]string{}
	for _, kv := range got.Kvs {
		keys[string(kv.Key)] = string(kv.Value)
	}
	return keys
}
