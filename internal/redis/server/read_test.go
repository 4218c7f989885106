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

// A server reports the notes of start.sh about its volume. The size of kept files is always read, the times only while
// a decision needs them. The notes of an older start.sh have no size.
func TestMarksOfTheVolume(t *testing.T) {
	t.Parallel()
	used, linked := time.Unix(1700000000, 0), time.Unix(1700000100, 0)
	for text, c := range map[string]struct{ node, want topology.Node }{
		"used=/linked=":                             {topology.Node{Closed: true}, topology.Node{Closed: true}},
		"used=1700000000/linked=1700000100":         {topology.Node{Closed: true}, topology.Node{Closed: true, Used: used, Linked: linked}},
		"used=1700000000/kept=12/linked=1700000100": {topology.Node{Closed: true}, topology.Node{Closed: true, Used: used, Linked: linked, Kept: 12}},
		"used=1700000000/kept=12/linked=":           {topology.Node{}, topology.Node{Kept: 12}},
		"kept=x/redis":                              {topology.Node{}, topology.Node{}},
	} {
		node := c.node
		readMarks(text, &node)
		assert.DeepEqual(t, node, c.want)
	}
}
