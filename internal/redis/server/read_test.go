// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/redis/topology"
)

// A replica that serves no stale data answers MASTERDOWN to most commands while its master does not answer. The operator
// reads such a replica nevertheless, because the replica may have to replace its master.
func TestReplicaWithoutItsMaster(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	master := r.nodes[0]
	replica := r.start("cache-0-1", "--replica-serve-stale-data", "no")
	r.do(replica, "CLUSTER", "MEET", master.IP, Port)
	r.until("it replicates", func() error { return replica.client.ClusterReplicate(t.Context(), master.ID).Err() })
	r.do(master, "FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
	info := func(want string) func() error {
		return func() error {
			text, err := replica.client.Info(t.Context()).Result()
			if err == nil && !strings.Contains(text, want) {
				err = errors.New(text)
			}
			return err
		}
	}
	r.until("it has the function", info("number_of_libraries:1"))
	nodes := r.read()
	assert.Assert(t, nodes[0].Functions != "" && nodes[1].Reached, "%+v", nodes)
	master.process.Kill()
	r.until("it has no link", info("master_link_status:down"))
	assert.ErrorContains(t, replica.client.FunctionDump(t.Context()).Err(), "MASTERDOWN")
	nodes = r.read()
	assert.Assert(t, nodes[1].Reached, nodes[1].Problem)
	assert.Assert(t, !nodes[1].Replication.LinkUp && !nodes[1].Replication.Master)
	assert.NilError(t, r.take(topology.Step{Action: topology.ActionReset, Mode: topology.ModeConsent, Node: replica.Place}))
}

// A server reports the notes of start.sh about its volume. The size of kept files is always read, the mark only from a
// master that accepts no replica. The notes of an older start.sh have no size.
func TestMarksOfTheVolume(t *testing.T) {
	t.Parallel()
	used := time.Unix(1700000000, 0)
	for text, c := range map[string]struct{ node, want topology.Node }{
		"used=":                            {topology.Node{Closed: true}, topology.Node{Closed: true}},
		"used=1700000000":                  {topology.Node{Closed: true}, topology.Node{Closed: true, Used: used}},
		"used=1700000000/kept=12":          {topology.Node{Closed: true}, topology.Node{Closed: true, Used: used, Kept: 12}},
		"used=1700000000/kept=1/linked=17": {topology.Node{}, topology.Node{Kept: 1}},
		"kept=x/redis":                     {topology.Node{}, topology.Node{}},
	} {
		node := c.node
		readMarks(text, &node)
		assert.DeepEqual(t, node, c.want)
	}
}

// Marks are in the key patterns of a user: a list in Redis 6.2, one text in newer versions.
func TestParseMarks(t *testing.T) {
	t.Parallel()
	id, other := strings.Repeat("a", 40), strings.Repeat("b", 40)
	noted, made := map[string]time.Time{id: time.Unix(1700000000, 0)}, map[string]time.Time{other: time.Unix(1700000009, 0)}
	none := map[string]time.Time{}
	for _, c := range []struct {
		keys      any
		seen, own map[string]time.Time
	}{
		{"~own:" + other + "=1700000009 ~seen:" + id + "=1700000000", noted, made},
		{[]any{"own:" + other + "=1700000009", "seen:" + id + "=1700000000"}, noted, made},
		{"~own:" + other + "=1700000009", none, made},
		{"~seen:" + id + "=", none, none},
		{"", none, none},
	} {
		user := []any{"flags", []any{"off"}, "keys", c.keys, "channels", ""}
		assert.DeepEqual(t, parseMarks(user, "seen"), c.seen)
		assert.DeepEqual(t, parseMarks(user, "own"), c.own)
	}
}

// If a master admits no replica and has made marks since its start, notes of other nodes are compared with its latest
// mark. Otherwise a note of this mark would wrongly prove that the volume is old.
func TestMarksSinceTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	master := r.start("cache-1-0", "--syslog-ident", "used=1700000000", "--masteruser", "replica:x")
	r.do(master, "ACL", "SETUSER", "replica:x", "off")
	r.do(r.nodes[0], "ACL", "SETUSER", "d3os-marks", "reset", "~seen:"+master.ID+"=1700000010")
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	nodes := r.read()
	assert.DeepEqual(t, nodes[0].Seen, map[string]time.Time{master.ID: at(1700000010)})
	assert.Equal(t, nodes[1].Used, at(1700000000))
	r.do(master, "ACL", "SETUSER", "d3os-marks", "reset", "~own:"+master.ID+"=1700000020")
	assert.Equal(t, r.read()[1].Used, at(1700000020))
}
