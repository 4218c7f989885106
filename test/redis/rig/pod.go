// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/harness/process"
)

// Pod is a redis-server with a folder, which outlives it as a claim does.
type Pod struct {
	fleet          *Fleet
	Name           string
	Shard, Ordinal int
	dir            string

	mu        sync.Mutex
	uid, ip   string
	revision  int
	env       []string
	restarted time.Time // by itself
	process   *process.Process
	log       *os.File
	client    *redis.Client
}

// IP returns the pod's present address.
func (p *Pod) IP() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ip
}

// Running reports whether its redis-server runs.
func (p *Pod) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.Runs()
}

// place is the pod as a step names it, with the id that it has now.
func (p *Pod) Place(ctx context.Context) (topology.Place, error) {
	id, err := p.Client().ClusterMyID(ctx).Result()
	p.mu.Lock()
	defer p.mu.Unlock()
	return topology.Place{Pod: p.Name, UID: p.uid, IP: p.ip, ID: id}, err
}

func (p *Pod) observed() topology.Node {
	running := p.Running()
	p.fleet.mu.Lock()
	revision := p.fleet.revision
	p.fleet.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	node := topology.Node{
		Pod: p.Name, UID: p.uid, Host: fmt.Sprintf("host-%d", p.Ordinal), Shard: p.Shard, Ordinal: p.Ordinal,
		IP: p.ip, Running: running, Ready: running, Outdated: p.revision != revision,
	}
	if !running && p.process != nil {
		node.LostData = p.process.Code == 65
		if p.process.Code == 66 || p.process.Code == 67 {
			node.NotStarted = p.words()
		}
	}
	return node
}

// Start starts the pod's redis-server again, in the same pod: what a kubelet does with a container that has ended.
func (p *Pod) Start() {
	p.fleet.t.Helper()
	p.start()
	p.answers()
}

// replace makes the pod anew: another UID and address, the same folder.
func (p *Pod) replace() {
	p.fleet.mu.Lock()
	p.fleet.made++
	made, revision := p.fleet.made, p.fleet.revision
	p.fleet.mu.Unlock()
	p.mu.Lock()
	p.uid, p.ip, p.revision = fmt.Sprintf("uid-%d", made), p.fleet.network.Next(), revision
	p.mu.Unlock()
	p.start()
}

// Replace kills the pod and makes it anew: another UID and address, the same folder.
func (p *Pod) Replace() {
	p.fleet.t.Helper()
	p.down()
	p.replace()
	p.answers()
}

// Move kills the pod and makes it anew at an address: one that another cluster had.
func (p *Pod) Move(ip string) {
	p.fleet.t.Helper()
	p.down()
	p.fleet.mu.Lock()
	p.fleet.made++
	made := p.fleet.made
	p.fleet.mu.Unlock()
	p.mu.Lock()
	p.ip, p.uid = ip, fmt.Sprintf("uid-%d", made)
	p.mu.Unlock()
	p.start()
	p.answers()
}

// ReplaceAll kills all pods at once and makes them anew, each with another address.
func (f *Fleet) ReplaceAll() {
	f.t.Helper()
	for _, pod := range f.Pods() {
		pod.down()
	}
	for _, pod := range f.Pods() {
		pod.replace()
	}
	for _, pod := range f.Pods() {
		pod.answers()
	}
}

// Role returns "master" or "slave".
func (p *Pod) Role(ctx context.Context) (string, error) {
	said, err := p.Client().Do(ctx, "ROLE").Slice()
	if err != nil {
		return "", err
	}
	return fmt.Sprint(said[0]), nil
}

// answers waits until the server answers.
func (p *Pod) answers() {
	p.fleet.t.Helper()
	Until(p.fleet.t, p.Name+" answers", func() error {
		if !p.Running() {
			return errors.New("it has ended: " + p.Log())
		}
		return p.Client().Ping(p.fleet.t.Context()).Err()
	})
	p.started()
}

// Probe runs the liveness probe.
func (p *Pod) Probe() {
	p.fleet.t.Helper()
	p.mu.Lock()
	probe := exec.Command("/bin/sh", filepath.Join(p.fleet.dir, "pods", p.uid, "scripts/alive.sh"))
	probe.Env, probe.Dir = p.env, p.dir
	p.mu.Unlock()
	said, err := probe.CombinedOutput()
	assert.NilError(p.fleet.t, err, string(said))
}

// Begin is Start without waiting: the server may not come up.
func (p *Pod) Begin() {
	p.fleet.t.Helper()
	p.start()
}

// again does what a kubelet does with a container that has ended by itself: it starts it again after a while.
func (p *Pod) again() {
	p.mu.Lock()
	run := p.process
	ended := run != nil && !run.Runs() && (run.Code == 1 || run.Code == 66 || run.Code == 67)
	if !ended || time.Since(p.restarted) < time.Second {
		p.mu.Unlock()
		return
	}
	p.restarted = time.Now()
	p.mu.Unlock()
	p.start()
}

// Stop ends the server as the deletion of its pod does. It stays down.
func (p *Pod) Stop() { p.stop() }

// Refuses returns why the container does not start on its volume, in its own words.
func (p *Pod) Refuses() string { return p.observed().NotStarted }

// Leave kills the pod and takes its address away, which another one may get then.
func (p *Pod) Leave() string {
	p.down()
	p.mu.Lock()
	defer p.mu.Unlock()
	ip := p.ip
	p.ip = ""
	return ip
}

// Dir is the folder of the pod's data.
func (p *Pod) Dir() string { return p.dir }

// Client returns a connection to the server for the test's own use.
func (p *Pod) Client() *redis.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

// Kill kills the server. It stays down until Start.
func (p *Pod) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		p.process.Kill()
	}
}

// Pause stops the server as a whole, until Resume.
func (p *Pod) Pause() { p.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (p *Pod) Resume() { p.signal(syscall.SIGCONT) }

func (p *Pod) signal(s syscall.Signal) {
	p.fleet.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.NilError(p.fleet.t, p.process.Signal(s))
}

// stop ends the server as a kubelet does, when its pod is deleted: preStop is the driver's business.
func (p *Pod) stop() {
	p.mu.Lock()
	run := p.process
	p.mu.Unlock()
	if run == nil {
		return
	}
	_ = run.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-run.Done:
	case <-time.After(60 * time.Second):
		run.Kill()
	}
	p.down()
}

// down kills the server and closes what the test has of it.
func (p *Pod) down() {
	p.Kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		_ = p.client.Close()
	}
}

// Wipe removes files of the pod's folder by pattern; all of them if there is no pattern.
func (p *Pod) Wipe(patterns ...string) {
	p.fleet.t.Helper()
	if len(patterns) == 0 {
		patterns = []string{"*"}
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(p.dir, pattern))
		assert.NilError(p.fleet.t, err)
		for _, path := range found {
			assert.NilError(p.fleet.t, os.RemoveAll(path))
		}
	}
}

// Log returns the last lines that the server wrote.
func (p *Pod) Log() string {
	return process.LastLines(filepath.Join(p.fleet.dir, p.Name+".log"))
}

// Info returns a field of INFO, empty where there is none.
func (p *Pod) Info(ctx context.Context, field string) string {
	text, _ := p.Client().Info(ctx, "everything").Result() // it has no field then
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}

// Wrote reports whether the pod's log has a text.
func (p *Pod) Wrote(text string) bool {
	log, err := os.ReadFile(filepath.Join(p.fleet.dir, p.Name+".log"))
	return err == nil && strings.Contains(string(log), text)
}

// ClientOptions are those of a plain client of one server.
func ClientOptions(ip, password string) *redis.Options {
	return &redis.Options{
		Addr: ip + ":6379", Password: password, Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: noMaintenance(),
		MaxRetries: -1, DialerRetries: 1, PoolSize: 4, PipelinePoolSize: -1,
		DialTimeout: 2 * time.Second, ReadTimeout: 10 * time.Second, ContextTimeoutEnabled: true,
	}
}
