// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	snapshot "d3os.com/d3os-operator/cmd/agent/internal/snapshot/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// database has three members. The test replaces the primary as the operator does.
type database struct {
	*testing.T
	all             []*pod
	epoch, revision int64

	mu      sync.Mutex
	primary *pod
	begun   map[int]time.Time
	acked   map[int]time.Time
	next    int
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	p, a, b := trio(t)
	p.exec("CREATE TABLE d.w (id INT PRIMARY KEY)")
	return &database{T: t, all: []*pod{p, a, b}, epoch: 1, revision: 2, primary: p, begun: map[int]time.Time{}, acked: map[int]time.Time{}}
}

func (d *database) leader() *pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.primary
}

// write starts clients that write numbers until stop is called.
func (d *database) write(clients int) (stop func()) {
	ctx, cancel := context.WithCancel(d.Context())
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				d.client(ctx)
			}
		})
	}
	stop = func() {
		cancel()
		all.Wait()
	}
	d.Cleanup(stop)
	return stop
}

// client writes over one connection until a write fails.
func (d *database) client(ctx context.Context) {
	p := d.leader()
	c, err := server.Connect(ctx, server.Options{Address: filepath.Join(p.Run, "mysqld.sock"), User: mysql.AgentAccount, Password: "agent" + rig.Password})
	if err != nil {
		time.Sleep(20 * time.Millisecond) // pause before the next attempt
		return
	}
	defer c.Close()
	for ctx.Err() == nil {
		d.mu.Lock()
		d.next++
		n := d.next
		d.begun[n] = time.Now()
		d.mu.Unlock()
		if c.Limit(time.Now().Add(5*time.Second)) != nil || c.Do(fmt.Sprintf("INSERT INTO d.w VALUES (%d)", n)) != nil {
			return
		}
		d.mu.Lock()
		d.acked[n] = time.Now()
		d.mu.Unlock()
		time.Sleep(3 * time.Millisecond) // the servers share two processors
	}
}

// wrote waits until this many more numbers were acknowledged.
func (d *database) wrote(more int) {
	d.Helper()
	count := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.acked)
	}
	before := count()
	d.eventually("writes", func() bool { return count() >= before+more })
}

func (d *database) eventually(what string, is func() bool) {
	d.Helper()
	rig.Until(d, what, is)
}

// failover kills the primary and promotes the voter that has received all transactions.
func (d *database) failover() (old *pod) {
	d.Helper()
	old = d.leader()
	old.kill()
	d.epoch++
	var best *pod
	has := binlog.Set{}
	for _, m := range d.all {
		if m == old {
			continue
		}
		m.order("/promise", mysqlmember.Request{Order: mysqlmember.Order{Epoch: d.epoch, Revision: d.revision}})
		received, err := binlog.ParseSet(m.look().State.Received)
		assert.NilError(d, err)
		if best == nil || !has.Contains(received) {
			best, has = m, received
		}
	}
	best.until("it has applied all", func(a mysqlmember.Answer) bool {
		if a.State == nil {
			return false
		}
		executed, err := binlog.ParseSet(a.State.Executed)
		return err == nil && executed.Contains(has)
	})
	d.revision++
	best.leads(d.epoch, d.revision, 1)
	o := mysqlmember.Order{Epoch: d.epoch, Revision: d.revision}
	for _, m := range d.all {
		if m != old && m != best {
			m.order("/follow", mysqlmember.Request{Order: o, Source: best.source(), Acknowledge: true})
		}
	}
	best.order("/serve", mysqlmember.Request{Order: o, Demands: 1, CutOthers: []int{old.Ordinal}})
	d.mu.Lock()
	d.primary = best
	d.mu.Unlock()
	return old
}

// back makes an old primary copy the new primary's data and acknowledge again.
func (d *database) back(old *pod) {
	d.Helper()
	p := d.leader()
	old.up()
	old.reads()
	d.revision++
	old.joins(d.revision, p)
	d.revision++
	o := mysqlmember.Order{Epoch: d.epoch, Revision: d.revision}
	old.order("/follow", mysqlmember.Request{Order: o, Source: p.source(), Acknowledge: true})
	p.order("/serve", mysqlmember.Request{Order: o, Demands: 1})
	old.until("it follows", func(a mysqlmember.Answer) bool { return a.State != nil && a.State.Connected && a.State.Problem == "" })
}

// archive is a running archive with its reports.
type archive struct {
	snapshot.Archive
	mu   sync.Mutex
	head manifest.Head
	errs []error
	stop func()
}

// archives runs an archive and restarts it after failures.
func (d *database) archives(to store.Store, change func(*snapshot.Archive)) *archive {
	d.Helper()
	run := d.all[0].backs(3)
	a := &archive{Archive: snapshot.Archive{Cluster: run.Cluster, Store: to, Source: "data/mysql", Writer: "uid", Interval: time.Second, MaxBytes: 64 << 10, MaxFile: 256 << 10}}
	a.Archived = func(h manifest.Head) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.head = h
	}
	change(&a.Archive)
	ctx, cancel := context.WithCancel(d.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := a.Run(ctx); err != nil {
				a.mu.Lock()
				if n := len(a.errs); n == 0 || a.errs[n-1].Error() != err.Error() {
					a.errs = append(a.errs, err)
				}
				a.mu.Unlock()
				time.Sleep(100 * time.Millisecond) // pause before the next start
			}
		}
	}()
	a.stop = func() {
		cancel()
		<-done
	}
	d.Cleanup(func() {
		a.stop()
		if d.Failed() {
			d.Logf("failures of the archive: %v", a.errs)
		}
	})
	return a
}

// reached returns the time up to which the archive is complete.
func (a *archive) reached() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head.Time
}

func (a *archive) failures() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprint(a.errs)
}

// reaches waits until the archive is complete up to a time.
func (d *database) reaches(a *archive, at time.Time) {
	d.Helper()
	for end := time.Now().Add(rig.Patience); a.reached().Before(at); time.Sleep(20 * time.Millisecond) { // polling interval; only a hang exceeds the time limit
		if time.Now().After(end) {
			d.Fatalf("the archive has reached %s, not %s: %s", a.reached(), at, a.failures())
		}
	}
}

// backup makes a backup.
func (d *database) backup(to store.Store) *manifest.Backup {
	d.Helper()
	made, _, err := d.all[0].backs(3).Backup(d.Context(), draft.Options{Store: to, Source: "data/mysql"})
	assert.NilError(d, err)
	return made
}

// rowsAt restores a backup and the archive to a new database, and returns the numbers in it.
func (d *database) rowsAt(to store.Store, b *manifest.Backup, until *restore.Until, first ...func(*pod)) map[int]bool {
	d.Helper()
	n := pods(d.T, 1)[0]
	n.Restores = true
	for _, do := range first {
		do(n)
	}
	_, err := snapshot.Restore(d.Context(), restore.Source{Store: to, Backup: b}, d.all[0].backs(3).Programs, n.volume(), until)
	assert.NilError(d, err)
	return d.born(n)
}

// restoring describes a restore in another process.
type restoring struct {
	settings
	Folder, ID string
	Until      time.Time
}

// restoresOnce runs the restore that a text describes.
func restoresOnce(text string) error {
	r := restoring{}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	ctx := context.Background()
	to, err := store.NewFolder(r.Folder)
	if err != nil {
		return err
	}
	entry, err := catalogue.Find(ctx, to, r.ID)
	if err != nil {
		return err
	}
	version, err := server.ProgramVersion(ctx, r.Program)
	if err != nil {
		return err
	}
	_, err = snapshot.Restore(ctx, restore.Source{Store: to, Backup: entry.Manifest}, restore.Programs{Server: r.Program, Version: version}, r.volume(), &restore.Until{Time: r.Until})
	return err
}

// brokenOff starts a restore to a volume for each file of a list, and kills the restore as soon as the file exists. After each kill, the
// volume has no data and accepts another restore.
func (d *database) brokenOff(n *pod, folder string, b *manifest.Backup, at time.Time) {
	d.Helper()
	for _, file := range []string{"ibdata1", "d3os-relay.000001", "d3os-relay.index"} {
		text, err := json.Marshal(restoring{settings: n.settings, Folder: folder, ID: b.ID, Until: at})
		assert.NilError(d, err)
		_ = os.RemoveAll(n.volume().Restoring()) // an earlier restore may have left the file
		cmd := exec.CommandContext(d.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "SUPERVISOR_TEST_RESTORE="+string(text))
		words := &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = words, words
		assert.NilError(d, cmd.Start())
		for end := time.Now().Add(rig.Patience); ; time.Sleep(time.Millisecond) { // polling interval; only a hang exceeds the time limit
			if _, err := os.Stat(filepath.Join(n.volume().Restoring(), file)); err == nil {
				break
			}
			if time.Now().After(end) {
				d.Fatalf("the restore makes no %s: %s", file, words)
			}
		}
		assert.NilError(d, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		may, err := n.volume().MayRestore()
		assert.NilError(d, err)
		assert.Assert(d, may, "killed at %s: the volume has data: %s", file, words)
	}
}

// born starts a new database with the restored data on a volume, and returns its numbers.
func (d *database) born(n *pod) map[int]bool {
	d.Helper()
	n.up()
	n.until("it waits for a ticket", func(a mysqlmember.Answer) bool { return a.Volume == "Empty" && a.Problem != "" })
	n.give("seed")
	n.reads()
	defer n.kill()
	return d.numbers(n)
}

func (d *database) numbers(p *pod) map[int]bool {
	d.Helper()
	c, err := p.session()
	assert.NilError(d, err)
	defer c.Close()
	rows, err := c.Rows("SELECT id FROM d.w")
	assert.NilError(d, err)
	found := map[int]bool{}
	for _, row := range rows {
		n := 0
		_, err := fmt.Sscan(row[0], &n)
		assert.NilError(d, err)
		found[n] = true
	}
	return found
}

// judge checks the rows of a restore to a point in time. It returns missing rows that were acknowledged before that time, restored rows
// that were begun after that time, and restored rows that the database has lost.
func (d *database) judge(at time.Time, rows, final map[int]bool) (wrong []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, acked := range d.acked {
		if acked.Before(at) && !rows[n] {
			wrong = append(wrong, fmt.Sprintf("%d was acknowledged before, but is missing", n))
		}
	}
	for n := range rows {
		if !d.begun[n].Before(at) {
			wrong = append(wrong, fmt.Sprintf("%d was begun later, but exists", n))
		}
		if !final[n] {
			wrong = append(wrong, fmt.Sprintf("%d exists, but the database lost it", n))
		}
	}
	return wrong
}

func firstOf(wrong []string) string { return strings.Join(wrong[:min(len(wrong), 5)], "; ") }
