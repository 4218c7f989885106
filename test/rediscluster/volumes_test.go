// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// volumes are faults of masters' volumes. A server does not start on files that are damaged, that are older than the server's data, or that
// another server wrote. The server's replica does not copy such files.
var volumes = []scenario{
	// The master's data is restored from the replica, which must not copy the empty server. Redis with append-only files does not read a
	// snapshot, and would overwrite it.
	{name: "a running master loses its append-only files, and a snapshot is left", happen: func(s *scene) {
		master := s.master(0)
		uid := s.pod(master).UID
		s.do(master, "SAVE")
		for _, file := range []string{"appendonlydir", "appendonly.aof"} { // Redis before version 7 has the second file
			s.Must(os.RemoveAll(filepath.Join(s.volume(master), file)))
		}
		s.Must(s.Kill(master, syscall.SIGKILL, "redis"))
		s.Eventually("the pod is replaced", func() bool { return s.pod(master) != nil && s.pod(master).UID != uid })
		s.agree(6)
		if keeps(s.volume(master), "dump.rdb.without-aof*") == 0 {
			s.Error("the master's snapshot is not kept")
		}
	}},
	{name: "a wrong length in the middle of a file looks like a cut-off end", happen: damaged(".incr.aof", func(text string) string {
		at := strings.Index(text[len(text)/2:], "\r\n$") + len(text)/2
		return text[:at] + "\r\n$99999999\r\n" + text[at+14:]
	})},
	{name: "the second half of a file is zeros", happen: damaged(".incr.aof", func(text string) string {
		return text[:len(text)/2] + strings.Repeat("\x00", len(text)-len(text)/2)
	})},
	{name: "the base file is empty", happen: damaged(".base.rdb", func(string) string { return "" })},
	{name: "the base file is damaged", happen: damaged(".base.rdb", func(text string) string { return text[:len(text)/2] + "xxxxxxxx" + text[len(text)/2+8:] })},
	{name: "the base file is cut off", happen: damaged(".base.rdb", func(text string) string { return text[:len(text)/2] })},
	{name: "the end of a file is cut off", happen: func(s *scene) {
		master := s.master(0)
		key := "of-" + s.here(0, 1)[0] // the hash tag puts this key in a slot of shard 0
		s.do(master, "SET", key, "the last write")
		s.inStep()
		back := s.holdAll(syscall.SIGKILL, master)
		s.edit(master, ".incr.aof", func(text string) string { return text[:len(text)-5] })
		before := s.said("are no complete command") + s.said("starts as a new node")
		back()
		s.Eventually("the log says that a command was cut off", func() bool { return s.said("are no complete command")+s.said("starts as a new node") > before })
	}},
	{name: "a volume is restored to its state of ten minutes ago, and the old data is kept", full: true, happen: func(s *scene) {
		const copies = "appendonlydir.of-the-past*/*.manifest"
		before := 0
		master := s.isOutdated(func(volume string) { before = keeps(volume, copies); s.reset(volume, 600) })
		if now := keeps(s.volume(master), copies); now != before+1 {
			s.Errorf("the old data is kept %d times, and was %d times", now, before)
		}
	}},
	{name: "a volume is restored to its state of a minute ago", happen: func(s *scene) { s.isOutdated(func(volume string) { s.reset(volume, 60) }) }},
	{name: "a volume is restored to its state of a minute ago, when its server had just started", full: true, happen: func(s *scene) {
		s.isOutdated(func(volume string) {
			began, file := time.Now().Add(-time.Minute), filepath.Join(volume, "alive")
			s.Must(os.Truncate(file, 0))
			s.Must(os.Chtimes(file, began, began))
			s.Must(os.RemoveAll(filepath.Join(volume, "mark")))
		})
	}},
	{name: "a volume is restored to its state of a day ago, and the replica restarts before it takes over", happen: func(s *scene) {
		master, replica := s.pair(0)
		id := fmt.Sprint(s.do(master, "CLUSTER", "MYID"))
		back := s.putBack(master, func(volume string) { s.reset(volume, 86400) }, func() func() { return s.holdAll(syscall.SIGKILL, master, replica) })
		back()
		s.judged("SlotsLost")
		s.says(outdated, id)
		s.Pass(10 * time.Second) // the operator waits for a user's consent
		if n := s.get().Status.Slots; n == redisv1.Slots {
			s.Errorf("%d slots are served", n)
		}
		s.accepts(id)
		s.ready(6)
		s.accepts("")
	}},
	// The master starts on its restored volume, and the test cuts the replica off from the master. Otherwise Redis would immediately copy the
	// restored data to the replica.
	{name: "a restored volume gets writes, and a user consents to their loss", alone: true, happen: func(s *scene) {
		master, replica := s.pair(0)
		gone := s.here(0, 1)
		key := "of-" + gone[0]
		s.do(master, "DEL", gone[0], gone[1], gone[2]) // these keys were written after the copy, so the replica has more keys
		back := s.putBack(master, func(string) {}, func() func() {
			s.Must(s.Kill(replica, syscall.SIGSTOP, "redis")) // a stopped replica is not elected
			return s.holdAll(syscall.SIGKILL, master)
		})
		back()
		s.Until("the master answers", func() error { _, err := s.try(master, "PING"); return err })
		s.do(master, "ACL", "SETUSER", "replica:"+s.Namespace+"/"+name+"-0", "off")
		s.Until("a client writes to it", func() error { _, err := s.try(master, "SET", key, "since"); return err })
		s.Must(s.Kill(replica, syscall.SIGCONT, "redis"))
	}, end: func(s *scene) {
		master, replica := s.pair(0)
		id := fmt.Sprint(s.do(master, "CLUSTER", "MYID"))
		s.says(master+" may have lost data", id)
		if err := s.isA(replica, "slave"); err != nil {
			s.Error(err)
		}
		s.accepts(id)
		s.elected(replica)
		s.agree(6)
		s.ready(6)
		s.accepts("")
	}},
	// The newer data differs from the older data only in values: the number of keys is the same. No time on the volume is changed, and the
	// copy is only 20 seconds old.
	{name: "all servers restart, and a volume is restored to its state of 20 seconds ago", happen: func(s *scene) {
		master, replica := s.pair(0)
		key := "of-" + s.here(0, 1)[0] // the hash tag puts this key in a slot of shard 0
		s.do(master, "SET", key, "old")
		id := fmt.Sprint(s.do(master, "CLUSTER", "MYID"))
		back := s.putBack(master, func(string) {}, func() func() {
			s.do(master, "SET", key, "new")
			s.noted(master, replica)
			return s.holdAll(syscall.SIGKILL, append(s.others(master), master)...)
		})
		back()
		s.judged("SlotsLost")
		s.says(outdated, id)
		s.accepts(id)
		s.ready(6)
		s.accepts("")
		if got := fmt.Sprint(s.do(s.master(0), "GET", key)); got != "new" {
			s.Errorf("the value of %s is %q", key, got)
		}
	}},
	// The master starts before all other nodes, so no node shows it the note of a later mark.
	{name: "all servers restart, a volume is restored to its state of 20 seconds ago, and the replica starts late", full: true, happen: func(s *scene) {
		master, replica := s.pair(0)
		id := fmt.Sprint(s.do(master, "CLUSTER", "MYID"))
		var late, rest func()
		before := s.said("no node shows that this volume is the present one")
		back := s.putBack(master, func(string) {}, func() func() {
			s.noted(master, replica)
			late, rest = s.holdAll(syscall.SIGKILL, replica), s.holdAll(syscall.SIGKILL, slices.DeleteFunc(s.others(replica), func(pod string) bool { return pod == master })...)
			return s.holdAll(syscall.SIGKILL, master)
		})
		back()
		s.Eventually("the master starts without a proof", func() bool { return s.said("no node shows that this volume is the present one") > before })
		rest()
		s.Until("it serves", func() error { _, err := s.try(master, "PING"); return err })
		late()
		s.says("storage has put the volume of "+master+" back", id)
		if err := s.isA(replica, "slave"); err != nil {
			s.Error(err)
		}
		s.accepts(id)
		s.elected(replica)
		s.agree(6)
		s.ready(6)
		s.accepts("")
	}},
	{name: "a volume is unchanged, and all servers were down for an hour", happen: func(s *scene) {
		master := s.master(0)
		before := s.said("DataOutdated") + s.said("one of the past")
		last, back := s.Hold(master, "redis", syscall.SIGKILL), s.holdAll(syscall.SIGKILL, s.others(master)...)
		s.age(s.volume(master), "alive", 3600)
		back() // at their start, the other nodes record the start time as the time of the last contact with the master
		s.Pass(2 * time.Second)
		last()
		s.agree(6)
		if s.said("DataOutdated")+s.said("one of the past") > before {
			s.Error("the unchanged volume counts as outdated")
		}
	}},
	{name: "all volumes and the password are copied", full: true, ledger: true, happen: func(s *scene) {
		var copies []string
		for shard := range 3 {
			copies = append(copies, fmt.Sprintf("copy-%d-0", shard), fmt.Sprintf("copy-%d-1", shard))
		}
		back := s.holdAll(syscall.SIGKILL, copies...)
		clone := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "copy"}}
		s.CreateWith(clone, &clone.Spec, "{replicas: 6, repository: redis, credentialsSecret: mine}")
		s.Eventually("the pods of the copy exist", func() bool { return len(s.serversOf("copy")) == 6 })
		for _, pod := range copies {
			s.Must(os.CopyFS(s.volume(pod), os.DirFS(s.volume(strings.Replace(pod, "copy", name, 1)))))
		}
		back()
		s.Until("no server of the copy starts, and the status has the reason", func() error {
			return harness.Mentions(harness.Lookup[*redisv1.RedisCluster](s.Journal, "copy").Status.Message, "ForeignVolume", "is a copy of that of "+s.Namespace+"/"+name)
		})
		s.Pass(away)
		for _, pod := range s.serversOf("copy") {
			if _, err := s.try(pod.Name, "PING"); err == nil {
				s.Errorf("pod %s of the copy runs", pod.Name)
			}
		}
		s.Must(suite.API.Delete(s.Ctx, clone))
	}},
}

// outdated begins the last output of a server that does not start on an outdated volume.
const outdated = "DataOutdated: this volume was last in use at"

// others returns the names of all pods except one.
func (s *scene) others(pod string) (all []string) {
	for _, other := range s.pods() {
		if other.Name != pod {
			all = append(all, other.Name)
		}
	}
	return all
}

// volume returns the folder of a pod's volume.
func (s *scene) volume(pod string) string {
	s.Helper()
	folder, err := s.VolumeFolder(s.Ctx, "data-"+pod)
	s.Must(err)
	return folder
}

// said returns the number of times that a text occurs in the output of servers and of their start scripts.
func (s *scene) said(text string) (n int) {
	s.Helper()
	logs, err := s.Logs("redis")
	s.Must(err)
	for _, log := range logs {
		n += strings.Count(log.Text, text)
	}
	return n
}

// edit changes a file of a pod's data, and returns its name.
func (s *scene) edit(pod, suffix string, how func(string) string) string {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.volume(pod), "appendonlydir", "*"+suffix))
	if err != nil || len(files) == 0 {
		s.Fatalf("%s has no %s (%v)", pod, suffix, err)
	}
	text, err := os.ReadFile(files[0])
	s.Must(err)
	s.Must(os.WriteFile(files[0], []byte(how(string(text))), 0o600))
	return filepath.Base(files[0])
}

// keeps returns the number of files on a volume that match the pattern of kept copies.
func keeps(volume, pattern string) int {
	found, _ := filepath.Glob(filepath.Join(volume, pattern))
	return len(found)
}

// damaged returns a fault that damages a file of a killed master. The master's replica must take over, the log must name the file, and the
// volume must keep the file.
func damaged(suffix string, how func(text string) string) func(s *scene) {
	return func(s *scene) {
		master, heir := s.pair(0)
		s.do(master, "BGREWRITEAOF")
		s.inStep()
		for range 5 { // so that the middle of the file is far from its end
			s.write()
		}
		s.inStep()
		kept := keeps(s.volume(master), "appendonlydir.damaged*/*"+suffix)
		back := s.holdAll(syscall.SIGKILL, master)
		text := s.edit(master, suffix, how) + " is damaged"
		before := s.said(text)
		back()
		s.elected(heir)
		s.agree(6)
		if named, now := s.said(text)-before, keeps(s.volume(master), "appendonlydir.damaged*/*"+suffix); named == 0 || now != kept+1 {
			s.Errorf("%q is logged %d times, and the file is kept %d times, and was %d times", text, named, now, kept)
		}
	}
}

// putBack copies a master's volume, writes the keys again, and ends the master with end. Then it restores the copy, and older changes the
// restored files. putBack returns the function that lets the master start again.
func (s *scene) putBack(master string, older func(volume string), end func() (back func())) (back func()) {
	s.Helper()
	s.Pass(5 * time.Second) // after their start, the other nodes need some seconds to record a contact with the master
	volume, past := s.volume(master), filepath.Join(s.TempDir(), "past")
	s.Eventually("a probe of "+master+" has noted the time on its volume", func() bool {
		text, err := os.ReadFile(filepath.Join(volume, "alive"))
		return err == nil && len(text) >= 10
	})
	s.Must(os.CopyFS(past, os.DirFS(volume)))
	s.write()
	s.inStep()
	back = end()
	s.Must(s.WipeVolume(s.Ctx, "data-"+master))
	s.Must(os.CopyFS(volume, os.DirFS(past)))
	older(volume)
	return back
}

// noted waits until a replica has noted a mark of its master's volume that is later than the present mark.
func (s *scene) noted(master, replica string) {
	s.Helper()
	read := func(pod, file string) string {
		text, err := os.ReadFile(filepath.Join(s.volume(pod), file))
		if !os.IsNotExist(err) {
			s.Must(err)
		}
		return strings.TrimSpace(string(text))
	}
	id, before := fmt.Sprint(s.do(master, "CLUSTER", "MYID")), read(master, "mark")
	s.Eventually("the replica notes the next mark of "+master, func() bool {
		seen, of := strings.CutPrefix(read(replica, "seen"), id+"=")
		return of && seen > before
	})
}

// age sets a time that a probe noted on a volume to some seconds before now.
func (s *scene) age(volume, note string, seconds int64) {
	s.Helper()
	file := filepath.Join(volume, note)
	_, err := os.Stat(file)
	s.Must(err)
	s.Must(os.WriteFile(file, fmt.Appendln(nil, time.Now().Unix()-seconds), 0o600))
}

// reset sets the times of the last use and of the last mark of a volume to some seconds before now.
func (s *scene) reset(volume string, seconds int64) {
	s.Helper()
	s.age(volume, "alive", seconds)
	if _, err := os.Stat(filepath.Join(volume, "mark")); err == nil {
		s.age(volume, "mark", seconds)
	}
}

// isOutdated restores the volume of a master to an earlier state. The master must not start on this volume before its replica has taken
// over. isOutdated returns the master's pod.
func (s *scene) isOutdated(older func(volume string)) (master string) {
	s.Helper()
	master, heir := s.pair(0)
	back := s.putBack(master, older, func() func() {
		s.do(heir, "CONFIG", "SET", "cluster-replica-no-failover", "yes") // the server reports an outdated volume only until the replica takes over
		return s.holdAll(syscall.SIGKILL, master)
	})
	named := s.said(outdated)
	back()
	s.Eventually("the log names the outdated volume", func() bool { return s.said(outdated) > named })
	s.do(heir, "CONFIG", "SET", "cluster-replica-no-failover", "no")
	s.elected(heir)
	s.agree(6)
	return master
}
