// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// etcdAgent prepares a run of the program in the pod of an etcd cluster's first member.
func etcdAgent(t testing.TB, series string, env []string, arguments ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd, out := agent(t, server.MariaDB, append(env, "POD_NAME=store-0", "POD_NAMESPACE=data", "POD_UID=uid", "POD_IP=10.0.0.1"), arguments...)
	cmd.Env = append(cmd.Env, "PATH="+rig.EtcdTools(t, series)+":/usr/bin:/bin")
	return cmd, out
}

func etcdRestore(t testing.TB, volume string, more ...string) []string {
	t.Helper()
	return append([]string{"restore", "etcd", "--volume=" + volume, "--notes=" + t.TempDir(), "--domain=store-headless.data.svc", "--pod=store-0"}, more...)
}

// ends runs a program that must end with a reason; "" for success.
func ends(t testing.TB, reason contract.Reason, cmd *exec.Cmd, out *bytes.Buffer) contract.Result {
	t.Helper()
	began := time.Now()
	_ = cmd.Run() // the result has the outcome
	rig.Promptly(t, began, time.Minute, fmt.Sprint(cmd.Args[1:]))
	r := result(t, out)
	if r.Reason != reason || r.OK != (reason == "") {
		t.Fatalf("%v: %s: %s", cmd.Args[1:], r.Reason, r.Message)
	}
	return r
}

// startEtcd starts an etcd, writes keys, and returns the keys.
func startEtcd(t *testing.T, random *rand.Rand) (*rig.Etcd, map[string]string) {
	t.Helper()
	source := rig.StartEtcd(t, "3.6", filepath.Join(t.TempDir(), "data"))
	c := source.Client()
	defer c.Close()
	for i := range 50 {
		if _, err := c.Put(t.Context(), fmt.Sprint("key-", i), strings.Repeat("x", 1+random.Intn(40_000))); err != nil {
			t.Fatal(err)
		}
	}
	return source, source.Keys()
}

// A backup of etcd is restored: the new cluster has exactly the keys at the time of the backup.
func TestEtcd(t *testing.T) {
	t.Parallel()
	source, want := startEtcd(t, chance.New(t, 0))
	bucket, identity, volume := rig.NewBucket(t), key(t), t.TempDir()
	cmd, out := etcdAgent(t, "3.6", nil, append([]string{"backup", "etcd", "--endpoint=" + source.Endpoint, "--recipient=" + identity.Recipient().String()}, bucketFlags(bucket)...)...)
	made := ends(t, "", cmd, out)
	if made.Server == "" || made.Revision == 0 || made.StoredBytes == 0 {
		t.Errorf("the result: %+v", made)
	}
	source.Kill()
	cmd, out = etcdAgent(t, "3.6", []string{"AGENT_IDENTITIES=" + identity.String()}, etcdRestore(t, volume, bucketFlags(bucket)...)...)
	ends(t, "", cmd, out)
	got := rig.StartEtcd(t, "3.6", filepath.Join(volume, "restored")).Keys()
	assert.Assert(t, maps.Equal(got, want), "%d keys are restored, and there were %d", len(got), len(want))
}

// Processes are killed during a backup. If a manifest exists, the restored etcd has exactly the keys at the time of the backup. If none
// exists, no backup is listed.
func TestEtcdSeeds(t *testing.T) {
	rig.Long(t)
	t.Parallel()
	restored := 0
	seeds := rig.Seeds(3, 200)
	for seed := range seeds {
		if etcdSeed(t, seed) {
			restored++
		}
	}
	t.Logf("%d seeds: %d backups were made, and restored exactly; of the others nothing was listed", seeds, restored)
	// With few seeds, all backups may succeed.
	if restored == 0 || restored == seeds && seeds > 20 {
		t.Error("all backups succeeded, or none")
	}
}

// etcdSeed makes a backup and restores it under faults of one seed. It reports whether a backup exists.
func etcdSeed(t *testing.T, seed int) bool {
	t.Helper()
	random, identity := chance.New(t, int64(seed)), key(t)
	source, want := startEtcd(t, random)
	defer source.Kill()
	bucket := rig.NewBucket(t)
	bucket.Break(rig.Sometimes(random, 0.05, rig.Cut, rig.LostAnswer, rig.Busy))
	cmd, _ := etcdAgent(t, "3.6", nil, append([]string{"backup", "etcd", "--endpoint=" + source.Endpoint, "--recipient=" + identity.Recipient().String()}, bucketFlags(bucket)...)...)
	assert.NilError(t, cmd.Start())
	time.AfterFunc(time.Duration(random.Intn(300))*time.Millisecond, func() {
		switch seed % 3 {
		case 1:
			_ = cmd.Process.Kill() // the process may have ended
		case 2:
			source.Kill()
		}
	})
	began := time.Now()
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }) // the duration is checked below
	made := cmd.Wait() == nil
	late.Stop()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("seed %d: the agent ended after %s", seed, took)
	}
	bucket.Break(nil)
	list, out := etcdAgent(t, "3.6", nil, append([]string{"list"}, bucketFlags(bucket)...)...)
	listed := ends(t, "", list, out).Backups
	if made && len(listed) != 1 || len(listed) > 1 {
		t.Fatalf("seed %d: the backup succeeded: %t, but listed are: %v", seed, made, listed)
	}
	if len(listed) == 0 {
		return false
	}
	// The restore is also killed, and then repeated.
	volume := t.TempDir()
	flags := etcdRestore(t, volume, bucketFlags(bucket)...)
	killed, _ := etcdAgent(t, "3.6", []string{"AGENT_IDENTITIES=" + identity.String()}, flags...)
	assert.NilError(t, killed.Start())
	time.AfterFunc(time.Duration(random.Intn(400))*time.Millisecond, func() { _ = killed.Process.Kill() })
	_ = killed.Wait() // killed, or ended
	again, out := etcdAgent(t, "3.6", []string{"AGENT_IDENTITIES=" + identity.String()}, flags...)
	ends(t, "", again, out)
	next := rig.StartEtcd(t, "3.6", filepath.Join(volume, "restored"))
	defer next.Kill()
	if got := next.Keys(); !maps.Equal(got, want) {
		t.Fatalf("seed %d: %d keys are restored, want %d", seed, len(got), len(want))
	}
	return true
}

// An impossible request fails with its reason within a minute, and changes nothing.
func TestEtcdRefuses(t *testing.T) {
	t.Parallel()
	identity, other := key(t), key(t)
	source := rig.StartEtcd(t, "3.6", filepath.Join(t.TempDir(), "data"))
	to := "--folder=" + t.TempDir()
	backup := []string{"backup", "etcd", "--report=", to}
	cmd, out := etcdAgent(t, "3.6", nil, append(backup, "--endpoint="+source.Endpoint, "--recipient="+identity.Recipient().String())...)
	ends(t, "", cmd, out)
	as := func(i *age.X25519Identity) []string { return []string{"AGENT_IDENTITIES=" + i.String()} }
	used, formed := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(used, "etcd", "member", "snap", "db"), filepath.Join(formed, "formed")} {
		assert.NilError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("true"), 0o600)))
	}
	for name, c := range map[string]struct {
		reason contract.Reason
		series string
		env    []string
		volume string
		flags  []string
	}{
		"the wrong key":             {contract.ReasonWrongKey, "3.6", as(other), t.TempDir(), nil},
		"no key":                    {contract.ReasonWrongKey, "3.6", nil, t.TempDir(), nil},
		"an older etcd":             {contract.ReasonRefused, "3.5", as(identity), t.TempDir(), nil},
		"no such backup":            {contract.ReasonNotFound, "3.6", as(identity), t.TempDir(), []string{"--backup=20260102T150405Z-0a1b2c3d"}},
		"no store":                  {contract.ReasonStoreMissing, "3.6", as(identity), t.TempDir(), []string{"--folder=/nowhere"}},
		"a volume with data":        {"", "3.6", nil, used, []string{"--birth"}},
		"the cluster was formed":    {"", "3.6", nil, t.TempDir(), []string{"--birth", "--record=" + formed}},
		"the pod of another member": {"", "3.6", nil, t.TempDir(), []string{"--pod=store-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, out := etcdAgent(t, c.series, c.env, etcdRestore(t, c.volume, append([]string{"--report=", to}, c.flags...)...)...)
			ends(t, c.reason, cmd, out)
			for _, left := range []string{"restored", "restoring"} {
				if _, err := os.Stat(filepath.Join(c.volume, left)); err == nil {
					t.Errorf("%s was left on the volume", left)
				}
			}
		})
	}
	t.Run("no member answers", func(t *testing.T) {
		rig.Long(t)
		t.Parallel()
		cmd, out := etcdAgent(t, "3.6", nil, append(backup, "--endpoint=http://127.0.0.1:1")...)
		ends(t, contract.ReasonServerUnreachable, cmd, out)
	})
}
