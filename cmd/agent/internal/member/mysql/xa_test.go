// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"os"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// A read-only server refuses COMMIT, but accepts XA PREPARE and XA COMMIT. An XA transaction that is committed while the server stops is
// acknowledged only if a voter has it.
func TestXACommitDuringAStop(t *testing.T) {
	for name, c := range map[string]struct {
		before, during []string
		with           syscall.Signal
	}{
		"prepared before": {[]string{"XA START 'x'", "INSERT INTO d.t VALUES (7)", "XA END 'x'", "XA PREPARE 'x'"}, []string{"XA COMMIT 'x'"}, syscall.SIGKILL},
		"open before":     {[]string{"XA START 'x'", "INSERT INTO d.t VALUES (7)"}, []string{"XA END 'x'", "XA COMMIT 'x' ONE PHASE"}, syscall.SIGKILL},
		"no XA":           {[]string{"BEGIN", "INSERT INTO d.t VALUES (7)"}, []string{"COMMIT"}, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "prepared before" {
				rig.Long(t)
			}
			t.Parallel()
			p, a, b := cluster(t)
			client, err := server.Connect(t.Context(), p.Root)
			assert.NilError(t, err)
			for _, statement := range c.before {
				assert.NilError(t, client.Do(statement))
			}
			result := make(chan error, 1)
			stop := func(s os.Signal) error {
				assert.Equal(t, s, c.with)
				for _, voter := range []*node{a, b} {
					voter.s.Exec("STOP REPLICA IO_THREAD")
				}
				go func() {
					var err error
					for _, statement := range c.during {
						if err == nil {
							err = client.Do(statement)
						}
					}
					result <- err
				}()
				until(t, "the commit waits or is refused", func() bool {
					return len(result) > 0 || p.s.Ask("SHOW STATUS LIKE 'Rpl_semi_sync_source_wait_sessions'") == "Rpl_semi_sync_source_wait_sessions|1"
				})
				p.s.Signal(s)
				return nil
			}
			assert.NilError(t, p.Demote(t.Context(), mysqlmember.Order{Epoch: 2, Revision: 2}, stop))
			select {
			case err := <-result:
				assert.Assert(t, err != nil, "the commit was acknowledged, and the voters have %q and %q", a.rows(), b.rows())
			case <-time.After(rig.Patience):
				t.Error("the commit was not answered")
			}
		})
	}
}
