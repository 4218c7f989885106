// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// RedisServer is a real server of a Redis Cluster, on a port of this machine.
type RedisServer struct {
	*redis.Client
	T    testing.TB
	Data string
	Port int

	cmd  *exec.Cmd
	done <-chan struct{}
	log  *server.Tail
}

// StartRedis starts a server on a folder, which may be empty, with the operator's settings.
func StartRedis(t testing.TB, data string) *RedisServer {
	t.Helper()
	s := &RedisServer{T: t, Data: data}
	t.Cleanup(s.Kill)
	s.Up()
	return s
}

// settings returns the settings of the chart and those that start.sh adds. `make verify` uses a node timeout of two seconds, to shorten the
// tests. `make test` uses a longer timeout: otherwise a server that gets no processor time would be replaced.
func (s *RedisServer) settings() string {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(root(), "helm-charts/rediscluster/files/redis.conf"))
	assert.NilError(s.T, err)
	timeout := 2000
	if testing.Short() {
		timeout = 15000
	}
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(Password) + `"`
	return fmt.Sprintf("%s\nport %d\nbind 127.0.0.1\ndir %q\ncluster-announce-ip 127.0.0.1\nrequirepass %s\nmasterauth %[4]s\ncluster-node-timeout %[5]d\nlatency-monitor-threshold 0\n",
		text, s.Port, s.Data, quoted, timeout)
}

// Up starts the server's process and waits until the process has read its data. If the port is in use, Up selects another port. A restarted
// server may also get another port: the nodes exchange their addresses.
func (s *RedisServer) Up() {
	s.T.Helper()
	for range 20 {
		if s.Port == 0 {
			// The port of the cluster bus is higher by 10000. Both ports are below the kernel's ephemeral ports. If a port is in use, the
			// loop tries another one.
			s.Port = 12000 + rand.Intn(10000)
		}
		s.start()
		if s.answers() {
			return
		}
		s.Port = 0
	}
	s.T.Fatalf("no server starts: %s", s.log)
}

func (s *RedisServer) start() {
	s.T.Helper()
	s.log = &server.Tail{}
	s.cmd = exec.Command(filepath.Join(Tools(s.T, Redis), "redis-server"), "-")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = strings.NewReader(s.settings()), s.log, s.log
	s.done = start(s.T, s.cmd)
	if s.Client != nil {
		_ = s.Close()
	}
	s.Client = redis.NewClient(&redis.Options{Addr: s.Address(), Password: Password, Protocol: 2, DisableIdentity: true})
}

// answers waits until the server answers or has ended. A server of another test may have the same port and password.
func (s *RedisServer) answers() bool {
	s.T.Helper()
	for end := time.Now().Add(Patience); ; {
		conn, err := net.Dial("tcp", s.Address()) // after a refused connection, the client would wait before the next attempt
		if err == nil {
			_ = conn.Close()
			if s.Says(fmt.Sprintf("process_id:%d\r", s.cmd.Process.Pid), "INFO", "server") && s.Says("loading:0", "INFO", "persistence") {
				return true
			}
		}
		select {
		case <-s.done:
			if !strings.Contains(s.log.String(), "in use") && !strings.Contains(s.log.String(), "bind") {
				s.T.Fatalf("the server ended: %s", s.log)
			}
			return false
		case <-time.After(10 * time.Millisecond):
			if time.Now().After(end) {
				s.T.Fatalf("the server does not answer: %v: %s", err, s.log)
			}
		}
	}
}

// Kill ends the server's process immediately, as a power failure does.
func (s *RedisServer) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
}

// AwaitWritten waits until all acknowledged writes are in the server's file. While the disk is busy, the server keeps writes in memory for
// up to two seconds (appendfsync everysec). A kill loses these writes.
func (s *RedisServer) AwaitWritten() {
	s.T.Helper()
	Until(s.T, "all is in the server's file", func() bool { return s.Says("aof_buffer_length:0\r", "INFO", "persistence") })
}

// Freeze stops the server's process. The returned function continues the process.
func (s *RedisServer) Freeze() (thaw func()) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
}

// Address returns the server's HOST:PORT.
func (s *RedisServer) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// Must runs a command and returns the answer as text. If the command fails, Must makes the test fail.
func (s *RedisServer) Must(words ...any) string {
	s.T.Helper()
	answer, err := s.Do(context.Background(), words...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.T.Fatalf("%v of %s: %v", words, s.Address(), err)
	}
	return fmt.Sprint(answer)
}

// Says reports whether the answer to a command contains a text.
func (s *RedisServer) Says(text string, words ...any) bool {
	answer, err := s.Do(context.Background(), words...).Text()
	return err == nil && strings.Contains(answer, text)
}

// Calls returns the number of calls of a command, such as cluster|nodes.
func (s *RedisServer) Calls(command string) (calls int) {
	s.T.Helper()
	_, text, _ := strings.Cut(s.Must("INFO", "commandstats"), "cmdstat_"+command+":calls=")
	_, _ = fmt.Sscanf(text, "%d,", &calls) // 0 if the command was not called
	return calls
}

// ID returns the id of the server in its cluster.
func (s *RedisServer) ID() string { s.T.Helper(); return s.Must("CLUSTER", "MYID") }

// Slots returns the slots that the server owns according to its own view.
func (s *RedisServer) Slots() string {
	s.T.Helper()
	for line := range strings.Lines(s.Must("CLUSTER", "NODES")) {
		if words := strings.Fields(line); len(words) > 8 && strings.Contains(words[2], "myself") {
			return strings.Join(words[8:], ",")
		}
	}
	return ""
}

// OwnedSlots returns the slots that the server owns according to its own view, as a set.
func (s *RedisServer) OwnedSlots() map[int]bool {
	s.T.Helper()
	owned := map[int]bool{}
	for word := range strings.SplitSeq(s.Slots(), ",") {
		var first, last int
		if n, _ := fmt.Sscanf(word, "%d-%d", &first, &last); n == 1 {
			last = first
		} else if n == 0 {
			continue // the mark of a slot that is moving
		}
		for ; first <= last; first++ {
			owned[first] = true
		}
	}
	return owned
}

// RedisCluster is a set of servers that form a cluster.
type RedisCluster struct {
	T testing.TB
	// Masters and Replicas are the original master and the original replicas of each shard.
	Masters, Replicas []*RedisServer
}

// All returns all servers.
func (c *RedisCluster) All() []*RedisServer {
	return append(append([]*RedisServer{}, c.Masters...), c.Replicas...)
}

// StartRedisCluster starts a cluster. Each shard has a master and a replica.
func StartRedisCluster(t testing.TB, shards int) *RedisCluster {
	t.Helper()
	c := &RedisCluster{T: t}
	for i := range shards {
		m := StartRedis(t, t.TempDir())
		m.Must("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		m.Must("CLUSTER", "ADDSLOTSRANGE", i*16384/shards, (i+1)*16384/shards-1)
		c.Masters = append(c.Masters, m)
		c.Replicas = append(c.Replicas, StartRedis(t, t.TempDir()))
	}
	c.Meet()
	for i, r := range c.Replicas {
		Until(t, "a replica knows its master", func() bool { return r.Do(context.Background(), "CLUSTER", "REPLICATE", c.Masters[i].ID()).Err() == nil })
	}
	for i, r := range c.Replicas {
		Until(t, "a replica is in sync", func() bool { return r.Says("master_link_status:up", "INFO", "replication") })
		c.eachSees("all know the replicas", "slave "+c.Masters[i].ID())
	}
	return c
}

// Meet makes all servers meet, and waits until all of them know each other.
func (c *RedisCluster) Meet() {
	c.T.Helper()
	all := c.All()
	for _, s := range all {
		for _, o := range all {
			if s != o {
				s.Must("CLUSTER", "MEET", "127.0.0.1", o.Port)
			}
		}
	}
	c.AwaitWell()
}

// AwaitWell waits until each server reports the state ok and knows all servers.
func (c *RedisCluster) AwaitWell() {
	c.T.Helper()
	all := c.All()
	for _, s := range all {
		Until(c.T, "all servers know each other", func() bool {
			return s.Says("cluster_state:ok", "CLUSTER", "INFO") && s.Says(fmt.Sprintf("cluster_known_nodes:%d\r", len(all)), "CLUSTER", "INFO") && !s.Says("handshake", "CLUSTER", "NODES")
		})
	}
}

// eachSees waits until each server's view contains a text.
func (c *RedisCluster) eachSees(what, text string) {
	c.T.Helper()
	for _, s := range c.All() {
		Until(c.T, what, func() bool { return s.Says(text, "CLUSTER", "NODES") })
	}
}
