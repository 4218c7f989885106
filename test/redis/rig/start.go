// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"gotest.tools/v3/assert"
)

// The settings are those that the operator's chart gives.
const configuration = `
port 6379
bind %[1]s
requirepass %[2]s
masterauth %[2]s
dir %[3]s
cluster-enabled yes
cluster-config-file nodes.conf
cluster-node-timeout %[4]d
cluster-announce-ip %[1]s
cluster-allow-replica-migration no
cluster-replica-validity-factor 10
cluster-require-full-coverage no
appendonly yes
appendfsync everysec
save ""
repl-diskless-sync-delay 0
shutdown-timeout 10
protected-mode no
daemonize no
enable-debug-command local
`

// start starts a server and does not wait until it answers.
func (p *Pod) start() {
	p.fleet.t.Helper()
	program, err := Program("redis-server")
	assert.NilError(p.fleet.t, err)
	assert.NilError(p.fleet.t, os.MkdirAll(p.dir, 0o755))
	assert.NilError(p.fleet.t, p.startWrapper())
	p.mu.Lock()
	defer p.mu.Unlock()
	conf := filepath.Join(p.dir, "redis.conf")
	text := fmt.Sprintf(configuration, p.ip, p.fleet.password, p.dir, p.fleet.options.NodeTimeout.Milliseconds())
	assert.NilError(p.fleet.t, os.WriteFile(conf, []byte(text), 0o644))
	if p.log == nil {
		p.log, err = os.OpenFile(filepath.Join(p.fleet.dir, p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		assert.NilError(p.fleet.t, err)
	}
	p.process, err = p.fleet.guard.Start([]string{program, conf}, []string{"PATH=/usr/bin:/bin"}, p.dir, p.log)
	assert.NilError(p.fleet.t, err)
	if p.client != nil {
		_ = p.client.Close() // of the server before
	}
	p.client = redis.NewClient(ClientOptions(p.ip, p.fleet.password))
}

// startWrapper does what the chart's start wrapper has to do, before the server starts. Where a node's data is not
// there any more, it starts as a new node; an empty master with its old id would wipe its replicas.
//
// That is not enough where the address stays: a replica follows an address, not an id, and would copy the empty new
// node. And nodes that meet another id at an address forget the address of the old one, which they never call failed
// then. So a node that has lost its data in the same pod starts when its replica has had the time to be elected.
func (p *Pod) startWrapper() error {
	nodes := filepath.Join(p.dir, "nodes.conf")
	p.mu.Lock()
	again := p.begun == p.uid // the mark is in the pod: an emptyDir
	p.begun = p.uid
	p.mu.Unlock()
	_, noNodes := os.Stat(nodes)
	_, noData := os.Stat(filepath.Join(p.dir, "appendonlydir"))
	if noData == nil {
		return nil
	}
	if again {
		<-time.After(2*p.fleet.options.NodeTimeout + 2*time.Second)
	}
	if noNodes == nil {
		return os.Rename(nodes, fmt.Sprintf("%s.lost-%d", nodes, time.Now().UnixNano()))
	}
	return nil
}
