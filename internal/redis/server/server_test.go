// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/test/databasetest"
	"d3os.com/d3os-operator/test/harness/process"
)

const someInfo = `# Server
redis_version:7.0.15
# Memory
used_memory:1048576
maxmemory:0
number_of_libraries:2
# Persistence
rdb_bgsave_in_progress:0
aof_rewrite_in_progress:1
# Replication
role:slave
master_host:10.0.0.7
master_port:6379
master_link_status:up
master_sync_in_progress:0
slave_repl_offset:4711
connected_slaves:0
master_repl_offset:4700
# Keyspace
db0:keys=42,expires=1,avg_ttl=0
`

func TestInfo(t *testing.T) {
	t.Parallel()
	said, err := parseInfo(strings.ReplaceAll(someInfo, "\n", "\r\n"))
	assert.NilError(t, err)
	var node topology.Node
	said.fill(&node)
	assert.DeepEqual(t, node, topology.Node{
		Version: "7.0.15", Keys: 42, UsedMemory: 1 << 20, Saving: true,
		Replication: topology.Replication{MasterHost: "10.0.0.7", MasterPort: 6379, LinkUp: true, Offset: 4711},
	})
	assert.Equal(t, said.number("number_of_libraries"), int64(2))

	for what, change := range map[string][2]string{
		"lacks role":       {"role:slave\n", ""},
		"unknown role":     {"role:slave", "role:sentinel"},
		"lacks maxmemory":  {"maxmemory:0\n", ""},
		"lacks redis_vers": {"redis_version:7.0.15\n", ""},
	} {
		_, err := parseInfo(strings.Replace(someInfo, change[0], change[1], 1))
		assert.ErrorContains(t, err, what)
	}
}

// The text of a command in errors and logs contains neither the password nor keys.
func TestCommandsAreToldWithoutSecrets(t *testing.T) {
	t.Parallel()
	for _, access := range []Access{{Password: "hush"}, {Username: "operator", Password: "hush"}, {}} {
		m := &mover{executor: &executor{Request: Request{Access: access}}, target: &link{place: topology.Place{IP: "10.0.0.7"}}}
		c := m.migration([]any{"a user's key"})
		assert.Equal(t, fmt.Sprint(c), "MIGRATE 10.0.0.7 6379  0 5000")
		text := fmt.Sprint([]any(c))
		assert.Equal(t, strings.Contains(text, "hush"), access.Password != "", text)
		assert.Assert(t, strings.HasSuffix(text, "KEYS a user's key]"), text)
	}
}

// Connections are kept while their pods exist, up to a limit.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	s := New(Options{Connections: 3})
	defer s.Close()
	first := s.peer("a", Access{}, "1", "127.0.0.1")
	assert.Equal(t, s.peer("a", Access{}, "1", "127.0.0.1"), first)
	assert.Assert(t, s.peer("a", Access{}, "1", "127.0.0.2") != first, "another address")
	assert.Assert(t, s.peer("a", Access{Password: "new"}, "1", "127.0.0.1") != first, "another password")
	assert.Equal(t, len(s.peers), 2)
	s.peer("b", Access{}, "2", "127.0.0.1")
	s.peer("b", Access{}, "3", "127.0.0.1")
	s.peer("b", Access{}, "4", "127.0.0.1")
	assert.Equal(t, len(s.peers), 3)
	assert.Assert(t, s.peers[peerKey{"b", "4", "127.0.0.1"}] != nil)
	s.keep("b", []topology.Node{{UID: "3", IP: "127.0.0.1"}})
	assert.Equal(t, len(s.peers), 1)
	s.Forget("b")
	assert.Equal(t, len(s.peers), 0)
}

// A step is not repeated before its interval has passed.
func TestInterval(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	defer s.Close()
	step := topology.Step{Action: topology.ActionFailover, Interval: time.Hour, Node: topology.Place{UID: "1", IP: "127.0.0.1"}}
	assert.Assert(t, s.due("a", Access{}, step))
	assert.Assert(t, !s.due("a", Access{}, step))
	other := step
	other.Node.UID = "2"
	assert.Assert(t, s.due("a", Access{}, other))
	step.Interval = time.Nanosecond
	assert.Assert(t, s.due("a", Access{}, step))
}

// Every action can be taken, or is refused because of a missing field. An unknown action is an error.
func TestEveryAction(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	defer s.Close()
	for _, action := range []topology.Action{
		topology.ActionSetEpoch, topology.ActionBumpEpoch, topology.ActionMeet, topology.ActionAddSlots, topology.ActionReplicate, topology.ActionAdmit, topology.ActionReset, topology.ActionFailover,
		topology.ActionMoveSlots, topology.ActionMarkSlot, topology.ActionFlush, topology.ActionFunctions, topology.ActionConfigure,
	} {
		err := s.Take(t.Context(), Request{Step: topology.Step{Action: action, Slots: topology.SlotSet{{From: 1, To: 1}}, Settings: map[string]string{"a": "b"}}})
		assert.Assert(t, errors.Is(err, steps.ErrRefused), "%s: %v", action, err)
	}
	assert.NilError(t, s.Take(t.Context(), Request{Step: topology.Step{Action: topology.ActionWait}}))
	assert.ErrorContains(t, s.Take(t.Context(), Request{Step: topology.Step{Action: "Dance"}}), `no action "Dance"`)
	assert.ErrorContains(t, s.Take(t.Context(), Request{Step: topology.Step{Action: topology.ActionRecord}}), "no record")
}

// The operator refuses Valkey, and the error names it. INFO shows which client requests a server refuses.
func TestInfoNamesWhatIsRefused(t *testing.T) {
	t.Parallel()
	const well = "redis_version:7.0.15\r\nrole:master\r\nused_memory:200\r\nmaxmemory:%s\r\nmaxmemory_policy:%s\r\n%s"
	for name, c := range map[string]struct{ max, policy, more, want string }{
		"well":                 {"300", "noeviction", "", ""},
		"no limit":             {"0", "noeviction", "", ""},
		"memory is full":       {"100", "noeviction", "", "its memory is full"},
		"buffers do not count": {"100", "noeviction", "mem_not_counted_for_evict:150\r\n", ""},
		"a cache is full":      {"100", "allkeys-lru", "", ""},
		"the disk is full":     {"0", "noeviction", "aof_last_write_status:err\r\n", "its volume may be full"},
		"maxclients":           {"0", "noeviction", "maxclients:40\r\nconnected_clients:30\r\ncluster_connections:10\r\n", "it has 40 of at most 40 (maxclients)"},
	} {
		said, err := parseInfo(fmt.Sprintf(well, c.max, c.policy, c.more))
		assert.NilError(t, err, name)
		assert.Assert(t, strings.Contains(said.refuses(), c.want) && (c.want == "") == (said.refuses() == ""), "%s: %q", name, said.refuses())
	}
	_, err := parseInfo(fmt.Sprintf(well, "0", "noeviction", "server_name:valkey\r\nvalkey_version:8.1.1\r\n"))
	assert.ErrorContains(t, err, "it is Valkey 8.1.1, which is not supported")
}

// answers runs a server that gives each command the same answer, or none. before runs before each answer.
func answers(t *testing.T, ip, answer string, before func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("%s:%d", ip, Port))
	assert.NilError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = connection.Close() })
			go func() {
				buffer := make([]byte, 1<<16)
				for {
					n, err := connection.Read(buffer)
					if err != nil {
						return
					}
					before()
					// Each command is a list of strings.
					_, _ = connection.Write([]byte(strings.Repeat(answer, strings.Count(string(buffer[:n]), "*"))))
				}
			}()
		}
	}()
}

// addresses returns a function that returns loopback addresses of this test.
func addresses(t *testing.T) func() string {
	t.Helper()
	network, err := process.ClaimNetwork()
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, network.Release()) })
	return network.Next
}

const loading = "-LOADING Redis is loading the dataset in memory\r\n"

// Read reports the problem of each node. It reads nodes in parallel: here, the first node answers after the last.
func TestNodesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	next, asked := addresses(t), make(chan struct{})
	var nodes []topology.Node
	for i := range 4 {
		nodes = append(nodes, topology.Node{Pod: fmt.Sprint("cache-0-", i), UID: fmt.Sprint(i), IP: next(), Running: true})
	}
	nothing := func() {}
	answers(t, nodes[0].IP, loading, func() { <-asked })
	answers(t, nodes[2].IP, loading, nothing)
	answers(t, nodes[3].IP, "-WRONGPASS invalid username-password pair or user is disabled.\r\n", sync.OnceFunc(func() { close(asked) }))
	s := New(Options{ReadTimeout: 5 * time.Minute}) // only a hang exceeds the time limit
	defer s.Close()
	s.Read(t.Context(), "data/cache", Access{Password: "hush"}, nodes, nil)
	for i, want := range []string{"it is loading its data", "connection refused", "it is loading its data", "does not accept the password"} {
		assert.Assert(t, !nodes[i].Reached && strings.Contains(nodes[i].Problem, want), "node %d: %q, not %q", i, nodes[i].Problem, want)
		assert.Equal(t, nodes[i].Loading, i%2 == 0)
	}
}

// After a node did not answer in time, the next queries have a shorter time limit.
func TestNodeThatHangs(t *testing.T) {
	t.Parallel()
	ip := addresses(t)()
	answers(t, ip, "", func() {})
	s := New(Options{ReadTimeout: 200 * time.Millisecond})
	defer s.Close()
	for _, within := range []string{"200ms", "50ms", "50ms"} {
		nodes := []topology.Node{{Pod: "cache-0-0", UID: "0", IP: ip, Running: true}}
		s.Read(t.Context(), "data/cache", Access{Password: "hush"}, nodes, nil)
		assert.Assert(t, !nodes[0].Reached)
		assert.Equal(t, nodes[0].Problem, "no answer within "+within)
	}
}

// The problem of a node behind a service mesh with strict mTLS names the mesh as the cause.
func TestMeshWithStrictTLSIsNamed(t *testing.T) {
	t.Parallel()
	databasetest.Mesh(t, Port, func(t *testing.T, ip string) {
		t.Helper()
		nodes := []topology.Node{{Pod: "cache-0-0", UID: "1", IP: ip, Running: true}}
		s := New(Options{ReadTimeout: 5 * time.Minute})
		defer s.Close()
		s.Read(t.Context(), "data/cache", Access{Password: "hush"}, nodes, nil)
		assert.Equal(t, nodes[0].Problem, steps.ErrClosed.Error())
	})
}
