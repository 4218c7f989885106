// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gotest.tools/v3/assert"
)

// Wipe kills the program and removes all that is on the pod's volume. A pod that is held stays so.
func (p *Pod) Wipe() {
	p.fleet.t.Helper()
	held := p.isHeld()
	p.Hold()
	found, err := filepath.Glob(filepath.Join(p.volume, "*"))
	assert.NilError(p.fleet.t, err)
	for _, path := range found {
		assert.NilError(p.fleet.t, os.RemoveAll(path))
	}
	if !held {
		p.Release()
	}
}

// FlipWAL kills the program and inverts bytes in the middle of its log.
func (p *Pod) FlipWAL() {
	p.fleet.t.Helper()
	p.Hold()
	assert.NilError(p.fleet.t, FlipWAL(p.volume))
	p.Release()
}

// FlipWAL inverts bytes in the middle of the log on a volume, on which no etcd runs.
func FlipWAL(volume string) error {
	logs, err := filepath.Glob(filepath.Join(volume, "etcd", "member", "wal", "*.wal"))
	if err == nil && len(logs) == 0 {
		err = errors.New("it has no log")
	}
	for _, path := range logs {
		var text []byte
		if text, err = os.ReadFile(path); err != nil {
			break
		}
		used := len(bytes.TrimRight(text, "\x00"))
		for i := used / 2; i < min(used, used/2+64); i++ {
			text[i] ^= 0xff
		}
		if err = os.WriteFile(path, text, 0o600); err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("flip bytes of the log in %s: %w", volume, err)
	}
	return nil
}

// Save copies what is on the pod's volume, while its program is kept from running, and returns a function that puts the copy
// back in place of what is there by then, as the storage does that goes back to a snapshot. The caller holds the pod.
func (p *Pod) Save() (putBack func()) {
	p.fleet.t.Helper()
	return p.saveAs(p.volume + ".saved")
}

func (p *Pod) saveAs(saved string) func() {
	replace := func(from, to string) {
		p.fleet.t.Helper()
		assert.Assert(p.fleet.t, p.isHeld())
		assert.NilError(p.fleet.t, os.RemoveAll(to))
		assert.NilError(p.fleet.t, os.CopyFS(to, os.DirFS(from)))
	}
	replace(p.volume, saved)
	return func() { p.fleet.t.Helper(); replace(saved, p.volume) }
}

// Replaced replaces the pod by a new one on the same volume, as after a node was lost, and keeps that from starting.
func (f *Fleet) Replaced(ordinal int) *Pod {
	f.t.Helper()
	pod := f.Pod(ordinal)
	pod.end(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	fresh := f.newPod(ordinal, fmt.Sprintf("%s-pod-%d", filepath.Base(f.dir), f.made), pod.volume)
	fresh.held = true
	f.pods[ordinal] = fresh
	return fresh
}

// Corrupt kills the program and replaces a text by another one of the same length in its database: its keys are other ones then, and
// nothing tells it so.
func (p *Pod) Corrupt(text, by string) {
	p.fleet.t.Helper()
	p.Hold()
	defer p.Release()
	file := filepath.Join(p.volume, "etcd", "member", "snap", "db")
	data, err := os.ReadFile(file)
	assert.NilError(p.fleet.t, err)
	assert.Assert(p.fleet.t, bytes.Contains(data, []byte(text)) && len(text) == len(by))
	assert.NilError(p.fleet.t, os.WriteFile(file, bytes.ReplaceAll(data, []byte(text), []byte(by)), 0o600))
}

// DeletePod deletes a pod as a person does.
func (f *Fleet) DeletePod(ordinal int) {
	f.t.Helper()
	pod := f.Pod(ordinal)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.terminate(pod)
}

// LoseVolume deletes the claim of an ordinal with its data, and the pod.
func (f *Fleet) LoseVolume(ordinal int) {
	f.t.Helper()
	f.mu.Lock()
	pod, c := f.pods[ordinal], f.claims[ordinal]
	f.mu.Unlock()
	if pod != nil {
		pod.end(true)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, ordinal)
	if c != nil {
		assert.NilError(f.t, os.RemoveAll(c.dir))
		delete(f.claims, ordinal)
	}
}
