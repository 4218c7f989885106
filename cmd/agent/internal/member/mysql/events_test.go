// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// A row of another server is newer than the status on this server. A row of this server is older than the status on
// this server.
func TestStatusOfEvents(t *testing.T) {
	t.Parallel()
	const on, off, replica = server.EventEnabled, server.EventDisabled, server.EventOnReplica
	for _, test := range []struct {
		what, now, originator string
		row                   recorded
		want                  string
	}{
		{"came by replication, and was not recorded", replica, "1", recorded{}, on},
		{"was disabled on replicas here, and was not recorded", replica, "2", recorded{}, ""},
		{"was created here, and was not recorded", on, "2", recorded{}, ""},
		{"was disabled here, and was not recorded", off, "2", recorded{}, ""},
		{"came by replication, and was enabled", replica, "1", recorded{on, "other"}, on},
		{"came by replication, and was disabled", replica, "1", recorded{off, "other"}, off},
		{"was disabled on replicas on the other server", replica, "1", recorded{replica, "other"}, ""},
		{"ran once on the other server after a copy", on, "1", recorded{off, "other"}, off},
		{"was disabled on replicas after a copy", on, "1", recorded{replica, "other"}, replica},
		{"is as recorded", on, "1", recorded{on, "other"}, ""},
		{"was disabled here after the record", off, "2", recorded{on, "own"}, ""},
		{"was disabled on replicas here after the record", replica, "2", recorded{on, "own"}, ""},
		{"came from a primary that recorded nothing", replica, "1", recorded{off, "own"}, off},
	} {
		e := server.Event{Schema: "a", Name: "E", Status: test.now, Originator: test.originator}
		table := map[[2]string]recorded{{"a", "other"}: {off, "other"}}
		if test.row.status != "" {
			table[e.Key()] = test.row
		}
		assert.Equal(t, statusOf(e, table, "own", "2"), test.want, test.what)
	}
}
