// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/redis/rig"
)

// pasts are volumes that storage puts back to an earlier state while no server runs on them.
var pasts = []fault{
	{name: "a master's volume is put back in a short absence", within: time.Minute, happen: func(s *scenario) {
		master := s.master(0)
		s.putBack(master, 600)
		master.Begin()
		s.named(master, "DataOutdated: this volume was last in use at", "this volume is one of the past, and other nodes serve all slots")
		kept, err := filepath.Glob(filepath.Join(master.Dir(), "appendonlydir.of-the-past", "*.manifest"))
		if err != nil || len(kept) != 1 {
			s.Errorf("the data of the past is not kept: %v (%v)", kept, err)
		}
	}},
	{name: "a master's volume is put back, and its replica restarts before it has taken over: a person decides", happen: func(s *scenario) {
		master, replica := s.master(0), s.replica(0)
		id := s.id(master)
		s.putBack(master, 86400)
		master.Begin()
		replica.Kill()
		replica.Start()
		d := s.becomes(topology.SlotsLost)
		if !strings.Contains(d.Model.Reason, "DataOutdated: this volume was last in use at") || !strings.Contains(d.Model.Reason, id) {
			s.Errorf("the reason does not say what is known: %s", d.Model.Reason)
		}
		s.drive(10 * time.Second)
		s.d.Wanted.Consent = []string{id}
	}},
	// The volume says nothing of its time, and the replica is kept from its master: Redis would have it copy at once.
	{name: "a master's volume is put back and written to, and a person gives up what it has", within: time.Minute, happen: func(s *scenario) {
		master, replica := s.master(0), s.replica(0)
		id, key := s.id(master), s.keyOf(master)
		s.putBack(master, 0)
		replica.Pause()
		master.Begin()
		rig.Until(s, "the master answers", func() error { return master.Client().Ping(s.Context()).Err() })
		s.send(master, "ACL", "SETUSER", "replica:data/rec-0", "off")
		rig.Until(s, "a client writes to it", func() error { return master.Client().Set(s.Context(), key, "since", 0).Err() })
		replica.Resume()
		s.d.Until(90*time.Second, "the doubt is named", func(d topology.Decision) error {
			return harness.Mentions(d.Model.Reason, "nothing shows that "+master.Name+" has not lost them", id)
		})
		if role, err := replica.Role(s.Context()); err != nil || role != "slave" {
			s.Errorf("the replica is a %s (%v)", role, err)
		}
		s.d.Wanted.Consent = []string{id}
		s.d.Settle(time.Minute, "it heals")
		s.d.Wanted.Consent = nil
	}},
	{name: "a master's volume is what it was, and all were long away", within: time.Minute, happen: func(s *scenario) {
		master := s.master(0)
		master.Probe()
		s.written()
		for _, pod := range s.f.Pods() {
			pod.Kill()
		}
		s.age(master, 3600)
		for _, pod := range s.f.Pods() {
			if pod != master {
				pod.Begin() // and takes its start for the time when it heard of the master
			}
		}
		time.Sleep(2 * time.Second)
		master.Begin()
		s.d.Settle(time.Minute, "it heals")
		if master.Wrote("DataOutdated") || master.Wrote("one of the past") {
			s.Errorf("its volume counts as one of the past: %s", master.Log())
		}
	}},
}

// putBack has a master's volume be that of some seconds before, without what was written since. With 0 the volume does not show it.
func (s *scenario) putBack(master *rig.Pod, seconds int) {
	s.Helper()
	time.Sleep(5 * time.Second) // others hear of it after they have started
	master.Probe()
	past := filepath.Join(s.TempDir(), "past")
	assert.NilError(s, os.CopyFS(past, os.DirFS(master.Dir())))
	assert.NilError(s, s.f.Fill(s.Context(), 4000, 20))
	s.before = digest(s.T, s.f)
	s.written()
	master.Kill()
	master.Wipe()
	assert.NilError(s, os.CopyFS(master.Dir(), os.DirFS(past)))
	if seconds > 0 {
		s.age(master, seconds)
	}
}

// age has a pod's volume be last in use some seconds before now.
func (s *scenario) age(pod *rig.Pod, seconds int) {
	s.Helper()
	file := filepath.Join(pod.Dir(), "alive")
	if text, err := os.ReadFile(file); err != nil || len(text) < 10 {
		s.Fatalf("the probe noted no time: %q (%v)", text, err)
	}
	assert.NilError(s, os.WriteFile(file, []byte(fmt.Sprintln(time.Now().Unix()-int64(seconds))), 0o600))
}

// named drives until all is well, and checks that the pod said why it did not start, or that its replica had taken over before it did.
func (s *scenario) named(pod *rig.Pod, text, late string) {
	s.Helper()
	named := false
	s.d.Until(time.Minute, "the replica takes over", func(d topology.Decision) error {
		named = named || strings.Contains(d.Model.Reason, text)
		if d.Model.Served < topology.Slots {
			return fmt.Errorf("%d slots: %s", d.Model.Served, d.Model.Reason)
		}
		return nil
	})
	s.d.Settle(2*time.Minute, "it heals")
	if !named && !pod.Wrote(text) && !pod.Wrote(late) {
		s.Errorf("nothing said %q: %s", text, pod.Log())
	}
}
