// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
	"gotest.tools/v3/assert"

	helmcharts "d3os.com/d3os-operator/helm-charts"
)

// settings are those that the operator adds to the chart's own.
const settings = `
cluster-node-timeout %d
shutdown-timeout 10
enable-debug-command local
`

// inside are the places that the chart's scripts name.
var inside = regexp.MustCompile(`(^|[ ='"<>{(])(/data|/shared|/scripts|/credentials|/settings|/config|/run/redis|/dev/termination-log)\b`)

// container returns the folder of a container's files, but for its volume, and writes the scripts and the configuration of the
// chart to it: what lasts as long as the pod.
func (p *Pod) container() string {
	p.fleet.t.Helper()
	root := filepath.Join(p.fleet.dir, "pods", p.uid)
	at := func(text string) string {
		text = inside.ReplaceAllString(text, "${1}"+root+"$2")
		return strings.ReplaceAll(text, root+"/data", p.dir)
	}
	put := func(name, text string) {
		assert.NilError(p.fleet.t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		assert.NilError(p.fleet.t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o755))
	}
	files, err := fs.Glob(helmcharts.FS, "rediscluster/files/*")
	assert.NilError(p.fleet.t, err)
	for _, name := range files {
		text, err := helmcharts.FS.ReadFile(name)
		assert.NilError(p.fleet.t, err)
		if filepath.Ext(name) == ".sh" {
			put(filepath.Join("scripts", filepath.Base(name)), at(string(text)))
		} else {
			put("config/redis.conf", string(text)+fmt.Sprintf(settings, p.fleet.options.NodeTimeout.Milliseconds()))
		}
	}
	put("config/settings.conf", "")
	put("credentials/password", p.fleet.password)
	if _, err := os.Stat(filepath.Join(root, "dev/termination-log")); err != nil {
		put("dev/termination-log", "")
	}
	assert.NilError(p.fleet.t, os.MkdirAll(filepath.Join(root, "run/redis"), 0o755))
	assert.NilError(p.fleet.t, os.MkdirAll(filepath.Join(root, "dev"), 0o755))
	return root
}

// start starts a server by the chart's scripts, and does not wait until it answers.
func (p *Pod) start() {
	p.fleet.t.Helper()
	program, err := Program("redis-server")
	assert.NilError(p.fleet.t, err)
	assert.NilError(p.fleet.t, os.MkdirAll(p.dir, 0o755))
	p.mu.Lock()
	defer p.mu.Unlock()
	root := p.container()
	if p.log == nil {
		p.log, err = os.OpenFile(filepath.Join(p.fleet.dir, p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		assert.NilError(p.fleet.t, err)
	}
	p.env = []string{
		"PATH=" + filepath.Dir(program) + ":/usr/bin:/bin", "POD_IP=" + p.ip, "POD_NAME=" + p.Name, "POD_NAMESPACE=" + p.fleet.options.Namespace, "SERVICE=rec-headless",
	}
	p.process, err = p.fleet.guard.Start([]string{"/bin/sh", filepath.Join(root, "scripts/start.sh")}, p.env, p.dir, p.log)
	assert.NilError(p.fleet.t, err)
	if p.client != nil {
		_ = p.client.Close() // of the server before
	}
	p.client = redis.NewClient(ClientOptions(p.ip, p.fleet.password))
}

// started does what the startup probe does when the server answers.
func (p *Pod) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := filepath.Join(p.fleet.dir, "pods", p.uid, "run/redis")
	assert.NilError(p.fleet.t, os.WriteFile(filepath.Join(run, "served"), nil, 0o644))
	_ = os.Remove(filepath.Join(run, "starting")) // it may be the second time
}

// words returns the termination message of a container that has ended.
func (p *Pod) words() string {
	text, _ := os.ReadFile(filepath.Join(p.fleet.dir, "pods", p.uid, "dev/termination-log")) // none without a file
	return string(text)
}
