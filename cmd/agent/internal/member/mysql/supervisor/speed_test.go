// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	snapshot "d3os.com/d3os-operator/cmd/agent/internal/snapshot/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// A physical backup of 1 GiB is at least as fast as `mysqldump | zstd`, and its restore at least as fast as `zstd -d | mysql`. Both
// ways run alternately on one machine, with the same version of the programs. The test compares the best run of each way, because other
// work may slow the machine.
func TestSpeed(t *testing.T) {
	inFullForm(t)
	const rows, turns = (1 << 30) / 450, 2
	p := pods(t, 1)[0]
	first(p)
	p.exec("USE d", "SET SESSION sql_log_bin = 0", "SET SESSION cte_max_recursion_depth = 5000",
		"CREATE TABLE d.big (id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100), body VARCHAR(1000), at DATETIME, amount DECIMAL(10,2))",
		"INSERT INTO d.big (name, body, at, amount) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 2000) "+
			"SELECT CONCAT('customer ', n), REPEAT(CONCAT(LEFT(SHA2(n, 256), 32), ' it''s text ', n), 1 + n % 15), NOW(), n / 7 FROM s")
	for has := 2000; has < rows; has *= 2 {
		p.exec("SET SESSION sql_log_bin = 0", fmt.Sprintf("INSERT INTO d.big (name, body, at, amount) SELECT name, CONCAT(LEFT(SHA2(id * 7919, 256), 16), SUBSTRING(body, 17)), at, amount + 1 FROM d.big LIMIT %d", rows-has))
	}
	identity, err := age.GenerateX25519Identity()
	assert.NilError(t, err)
	to, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	dump, run := filepath.Join(t.TempDir(), "dump.zst"), p.backs(1)
	var byHand, byAgent []time.Duration
	for range turns {
		hand := exec.CommandContext(t.Context(), "bash", "-c", "set -o pipefail; "+filepath.Join(filepath.Dir(p.Program), "mysqldump")+" --no-defaults --max-allowed-packet=1G --socket="+
			filepath.Join(p.Run, "mysqld.sock")+" --user="+mysql.AgentAccount+" --single-transaction --source-data=2 --routines --triggers --events --hex-blob --order-by-primary --databases d | zstd -q -f -o "+dump)
		hand.Env = append(os.Environ(), "MYSQL_PWD=agent"+rig.Password)
		byHand = append(byHand, rig.Timed(t, hand))
		began := time.Now()
		_, _, err := run.Backup(t.Context(), draft.Options{Store: to, Recipients: []age.Recipient{identity.Recipient()}, Keys: []string{identity.Recipient().String()}, Source: "data/mysql"})
		assert.NilError(t, err)
		byAgent = append(byAgent, time.Since(began))
	}
	rig.Ratio(t, "backup", 1, byHand, byAgent)
	entry, err := catalogue.FindLatest(t.Context(), to, "")
	assert.NilError(t, err)
	byHand, byAgent = nil, nil
	for range turns {
		byHand = append(byHand, rig.LoadDump(t, server.MySQL, dump))
		n, began := pods(t, 1)[0], time.Now()
		_, err := snapshot.Restore(t.Context(), restore.Source{Store: to, Backup: entry.Manifest, Identities: []age.Identity{identity}}, run.Programs, n.volume(), nil)
		assert.NilError(t, err)
		byAgent = append(byAgent, time.Since(began))
		assert.NilError(t, os.RemoveAll(n.Root))
	}
	rig.Ratio(t, "restore", 1, byHand, byAgent)
}
