// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	snapshot "d3os.com/d3os-operator/cmd/agent/internal/snapshot/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// small are the options of the servers that make and check backups.
var small = []string{"--innodb-buffer-pool-size=16M", "--innodb-redo-log-capacity=8M", "--performance-schema-max-table-instances=200"}

// trio starts a primary with two voters.
func trio(t *testing.T) (p, a, b *pod) {
	t.Helper()
	all := pods(t, 3)
	first(all[0])
	for _, m := range all[1:] {
		m.up()
		m.joins(1, all[0])
		m.order("/follow", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}, Source: all[0].source(), Acknowledge: true})
	}
	all[0].order("/serve", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}, Demands: 1})
	for _, m := range all[1:] {
		m.until("it is connected", func(a mysqlmember.Answer) bool { return a.State != nil && a.State.Connected && a.State.Problem == "" })
	}
	return all[0], all[1], all[2]
}

// backs returns a backup run for this number of members.
func (p *pod) backs(members int) *snapshot.Run {
	p.t.Helper()
	version, err := server.ProgramVersion(p.t.Context(), p.Program)
	assert.NilError(p.t, err)
	return &snapshot.Run{
		Cluster:  snapshot.Cluster{Host: func(i int) string { return p.Hosts[i] }, Members: members, Port: 3307, ServerPort: 3306, TLS: p.TLS, Password: "replication" + rig.Password},
		Programs: restore.Programs{Server: p.Program, Version: version}, Scratch: p.t.TempDir(), Arguments: small,
	}
}

// content returns everything that a client can read from a server: definitions, accounts, zones, and sums of rows.
func (p *pod) content() map[string]string {
	p.t.Helper()
	c, err := p.session()
	assert.NilError(p.t, err)
	defer c.Close()
	all, err := c.Definitions()
	assert.NilError(p.t, err)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return name == "names of tables" || strings.HasPrefix(name, "table d3os_member/")
	})
	accounts, err := c.Rows("SELECT user, host FROM mysql.user WHERE user NOT LIKE 'd3os%' AND user <> 'root'")
	assert.NilError(p.t, err)
	for _, a := range accounts {
		for _, statement := range []string{"SHOW CREATE USER ", "SHOW GRANTS FOR "} {
			rows, err := c.Rows(statement + server.Literal(a[0]) + "@" + server.Literal(a[1]))
			assert.NilError(p.t, err)
			all[statement+a[0]] = fmt.Sprint(rows)
		}
	}
	for _, table := range []string{"mysql.time_zone_name", "d.t", "d.f"} {
		sum, err := c.Rows("CHECKSUM TABLE " + table)
		assert.NilError(p.t, err)
		all["sum "+table] = fmt.Sprint(sum)
	}
	return all
}

// A backup of a voter contains everything that a client can read from the primary. A new database begins with the backup.
func TestBackup(t *testing.T) {
	inFullForm(t)
	t.Parallel()
	p, a, b := trio(t)
	p.exec("CREATE TABLE d.f (id INT PRIMARY KEY, f FLOAT, g FLOAT(30,10), s TEXT, j JSON, b BLOB, KEY (f)) COMMENT 'ä'", "INSERT INTO d.f VALUES (1, 16777217.123, 0.1, 'ä', '{\"a\": 1.10}', x'00ff'), (2, 1e-40, 1/3, NULL, '{}', NULL)",
		"CREATE VIEW d.v AS SELECT f * 3 FROM d.f", "CREATE FUNCTION d.fn() RETURNS FLOAT DETERMINISTIC RETURN 0.1", "CREATE TRIGGER d.tr BEFORE INSERT ON d.f FOR EACH ROW SET NEW.s = 'x'",
		"CREATE EVENT d.runs ON SCHEDULE EVERY 1 DAY DO SET @a = 1", "CREATE EVENT d.stands ON SCHEDULE EVERY 1 DAY DISABLE DO SET @a = 1", "CREATE EVENT d.stops ON SCHEDULE EVERY 1 DAY DO SET @a = 1", "ALTER EVENT d.stops DISABLE",
		"CREATE USER someone IDENTIFIED BY 'secret' PASSWORD EXPIRE INTERVAL 7 DAY", "GRANT SELECT (f) ON d.f TO someone", "CREATE ROLE r", "GRANT r TO someone",
		"INSERT INTO mysql.time_zone_name VALUES ('Here/There', 1)", "INSERT INTO d.t VALUES (5)", "DELETE FROM d.t WHERE id = 5")
	identity, err := age.GenerateX25519Identity()
	assert.NilError(t, err)
	to, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	run := p.backs(3)
	wanted := p.content()
	executed := p.look().State.Executed
	made, _, err := run.Backup(t.Context(), draft.Options{Store: to, Recipients: []age.Recipient{identity.Recipient()}, Keys: []string{identity.Recipient().String()}, Source: "data/mysql"})
	assert.NilError(t, err)
	if voters := []string{a.look().Server, b.look().Server}; !slices.Contains(voters, made.Server.UUID) {
		t.Errorf("the backup was made of %s, which is not one of the voters %v", made.Server.UUID, voters)
	}
	assert.Equal(t, made.Position.GTID, executed)
	assert.Equal(t, made.Tables["`d`.`f`"], int64(2))
	assert.Equal(t, len(made.Warnings), 0, "%v", made.Warnings)
	left, err := os.ReadDir(run.Scratch)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)

	entry, err := catalogue.FindLatest(t.Context(), to, "")
	assert.NilError(t, err)
	source := restore.Source{Store: to, Backup: entry.Manifest, Identities: []age.Identity{identity}}
	out, err := snapshot.Verify(t.Context(), source, run.Programs, filepath.Join(run.Scratch, "verify"), small, nil)
	assert.NilError(t, err)
	assert.Equal(t, out.Rows, made.Rows())

	n := pods(t, 1)[0]
	n.Restores = true
	v := n.volume()
	_, err = snapshot.Restore(t.Context(), source, run.Programs, v, nil)
	assert.NilError(t, err)
	assert.Equal(t, holds(t, n.Root, "replication"+rig.Password), "")
	n.up()
	n.until("it waits for a ticket", func(a mysqlmember.Answer) bool { return a.Volume == "Empty" && a.Problem != "" })
	n.give("seed")
	s := n.reads()
	if s.Server == made.Server.UUID || s.State.Executed != executed {
		t.Errorf("the restored server is %s with GTIDs %s, the backup's server was %s with GTIDs %s", s.Server, s.State.Executed, made.Server.UUID, executed)
	}
	n.leads(1, 1, 0)
	is := n.content()
	for name, text := range wanted {
		if is[name] != text {
			t.Errorf("%s was %s, now it is %s", name, text, is[name])
		}
	}
	assert.Equal(t, len(is), len(wanted))
	assert.Equal(t, n.rows(), "1 2 3")
	n.exec("INSERT INTO d.t VALUES (4)")
	c, err := n.session()
	assert.NilError(t, err)
	defer c.Close()
	temporary, err := c.Value("SELECT COUNT(*) FROM mysql.user WHERE user = 'd3os_temporary' OR user LIKE 'd3os_member%' AND account_locked = 'N'")
	assert.NilError(t, err)
	assert.Equal(t, temporary, "0")
}

// holds returns the files below a folder that contain a text.
func holds(t *testing.T, folder, text string) (found string) {
	t.Helper()
	assert.NilError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			found += path + " "
		}
		return err
	}))
	return found
}

// changes returns two functions. run creates, changes and drops tables on a primary until end is called. end returns the failure of run.
func changes(p *pod) (run func(), end func() error) {
	stop, result := make(chan struct{}), make(chan error, 1)
	run = func() {
		c, err := p.session()
		if err != nil {
			result <- err
			return
		}
		defer c.Close()
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				result <- nil
				return
			default:
			}
			table := fmt.Sprintf("d.c%d", i%5)
			for _, statement := range []string{
				"DROP TABLE IF EXISTS " + table, "CREATE TABLE " + table + " (id INT PRIMARY KEY AUTO_INCREMENT, v INT)", "INSERT INTO " + table + " (v) VALUES (1), (2)",
				"ALTER TABLE " + table + " ADD COLUMN w INT DEFAULT 7, ALGORITHM = COPY", "ALTER TABLE " + table + " ADD KEY (w), ALGORITHM = INPLACE", "TRUNCATE TABLE " + table,
				"INSERT INTO " + table + " (v) VALUES (3)", "RENAME TABLE " + table + " TO d.moved", "RENAME TABLE d.moved TO " + table,
			} {
				if err == nil {
					err = c.Do(statement)
				}
			}
		}
		result <- err
	}
	return run, func() error {
		close(stop)
		return <-result
	}
}

// A backup fails if the password is wrong, or if the member has a transaction that the primary lacks. A failed backup leaves no objects. If
// the copied member ends during the copy, the backup copies another member. A restore fails if an object is damaged, if the backup has no
// files of a member, or if the volume is too small.
func TestBackupsThatAreNone(t *testing.T) {
	inFullForm(t)
	t.Parallel()
	p, a, b := trio(t)
	to, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	backup := func(change func(*snapshot.Run)) (*manifest.Backup, error) {
		run := p.backs(3)
		change(run)
		made, _, err := run.Backup(t.Context(), draft.Options{Store: to})
		return made, err
	}
	stored := func() int {
		infos, err := to.List(t.Context(), "")
		assert.NilError(t, err)
		return len(infos)
	}
	if _, err = backup(func(r *snapshot.Run) { r.Password = "n0tIt" }); contract.ReasonOf(err) != contract.ReasonAccessDenied || strings.Contains(fmt.Sprint(err), "n0tIt") {
		t.Errorf("a backup with a wrong password: %v", err)
	}
	// The donor is killed during its copy. The backup then copies the other voter, while tables are created, changed and dropped.
	var donors []int
	changing, end := changes(p)
	made, err := backup(func(r *snapshot.Run) {
		r.Interfere = func(step string, donor int) {
			if donors = append(donors, donor); step == "copying" && len(donors) == 1 {
				map[int]*pod{1: a, 2: b}[donor].kill()
				go changing()
			}
		}
	})
	assert.NilError(t, end())
	assert.NilError(t, err)
	if len(donors) < 2 || donors[0] == donors[1] {
		t.Errorf("the donors were %v", donors)
	}
	assert.Equal(t, made.Tables["`d`.`t`"], int64(3))

	// A damaged object is detected before any data is used. Of the errors below, only those about the damaged object count as damage of the
	// backup.
	source := restore.Source{Store: to, Backup: made}
	run := p.backs(3)
	_, err = snapshot.Verify(t.Context(), source, run.Programs, filepath.Join(run.Scratch, "whole"), small, nil)
	assert.NilError(t, err)
	name := manifest.Folder(made.ID) + made.Objects[0].Name
	text, err := store.ReadAll(t.Context(), to, name)
	assert.NilError(t, err)
	text[len(text)/2] ^= 1
	assert.NilError(t, to.Replace(t.Context(), name, text))
	if _, err := snapshot.Verify(t.Context(), source, run.Programs, filepath.Join(run.Scratch, "verify"), small, nil); !restore.Convicts(err) {
		t.Errorf("verifying a damaged object: %v", err)
	}
	if _, err := restore.Validate(t.Context(), source, run.Programs, nil); contract.ReasonOf(err) != contract.ReasonRefused || !strings.Contains(err.Error(), "MySQLCluster") {
		t.Errorf("a DataService that restores the backup of a MySQLCluster: %v", err)
	}
	n := pods(t, 1)[0]
	n.Restores = true
	large, dump := *made, *made
	large.Objects = []manifest.Object{{Name: made.Objects[0].Name, PlainBytes: 1 << 60}}
	dump.Base = ""
	for why, b := range map[string]*manifest.Backup{"MiB of room": &large, "has no files of a member": &dump} {
		if _, err := snapshot.Restore(t.Context(), restore.Source{Store: to, Backup: b}, run.Programs, n.volume(), nil); contract.ReasonOf(err) != contract.ReasonRefused || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if _, err := snapshot.Restore(t.Context(), source, run.Programs, n.volume(), nil); contract.ReasonOf(err) != contract.ReasonDamaged {
		t.Errorf("restoring a damaged object: %v", err)
	}
	if may, err := n.volume().MayRestore(); !may || err != nil {
		t.Errorf("after the failed restore, MayRestore returns %t %v", may, err)
	}
	n.up()
	n.until("it waits for a ticket", func(a mysqlmember.Answer) bool { return a.Volume == volume.Empty && a.Problem != "" })
	n.give("seed")
	n.until("it makes no empty database", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "has no restored data") })
	assert.Equal(t, n.look().Volume, volume.Empty)

	// The other voter has a transaction that the primary lacks.
	before := stored()
	map[int]*pod{1: b, 2: a}[donors[0]].exec("SET GLOBAL super_read_only = OFF", "SET GTID_NEXT = '11111111-1111-1111-1111-111111111111:1'", "INSERT INTO d.t VALUES (99)", "SET GTID_NEXT = 'AUTOMATIC'",
		"SET GLOBAL super_read_only = ON")
	if _, err = backup(func(r *snapshot.Run) { r.Patience = 2 * time.Second }); contract.ReasonOf(err) != contract.ReasonBusy || !strings.Contains(fmt.Sprint(err), "is not used as a backup") {
		t.Errorf("an errant member: %v", err)
	}
	assert.Equal(t, stored(), before)
}
