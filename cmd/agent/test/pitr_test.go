// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"

	"filippo.io/age"
	"gotest.tools/v3/assert"
)

func start(t testing.TB, flavour string, more ...string) *rig.Server {
	t.Helper()
	s := rig.Start(t, flavour, more...)
	s.Tables()
	return s
}

// archiver runs an archive and restarts it whenever it ends, as a pod does.
type archiver struct {
	mu   sync.Mutex
	head manifest.Head
	errs []error
	stop context.CancelFunc
	done sync.WaitGroup
}

func archive(s *rig.Server, to store.Store, identity *age.X25519Identity, interval time.Duration) *archiver {
	ctx, cancel := context.WithCancel(context.Background())
	a := &archiver{stop: cancel}
	a.done.Go(func() {
		for ctx.Err() == nil {
			err := binlog.Archive(ctx, binlog.Options{Server: s.ArchiveOptions(), Store: to, Recipients: recipients(identity), Keys: texts(identity), Interval: interval, MaxBytes: 1 << 20,
				Archived: func(h manifest.Head) { a.mu.Lock(); a.head = h; a.mu.Unlock() }})
			a.mu.Lock()
			if err != nil {
				a.errs = append(a.errs, err)
			}
			a.mu.Unlock()
			time.Sleep(50 * time.Millisecond) // before the next start
		}
	})
	return a
}

// recipients returns the recipients of a key; nil for none.
func recipients(identity *age.X25519Identity) []age.Recipient {
	if identity == nil {
		return nil
	}
	return []age.Recipient{identity.Recipient()}
}

// texts returns the recipients as text.
func texts(identity *age.X25519Identity) []string {
	if identity == nil {
		return nil
	}
	return []string{identity.Recipient().String()}
}

func (a *archiver) reached() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head.Time
}

func (a *archiver) failures() []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]error(nil), a.errs...)
}

// Under load, the server is killed, its files rotate and the archive is stopped. A restore to a random point in time has every row whose
// commit was acknowledged before that time, and no row whose commit was sent after that time. The restored rows equal the rows at one
// position of the binary log, even if a session sets its variable `timestamp`.
func TestPointInTime(t *testing.T) {
	t.Parallel()
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, identity, to := start(t, flavour), key(t), folder(t)
			a := archive(s, to, identity, time.Second)
			defer func() { a.stop(); a.done.Wait() }()
			load := s.Write(2, 3, 5*time.Millisecond)
			defer load.Stop()
			rig.Until(t, "100 transactions", func() bool { return len(load.Acks()) >= 100 })
			if _, _, err := backup.Run(t.Context(), options(s, to, identity)); err != nil {
				t.Fatal(err)
			}
			s.Exec("SET timestamp = UNIX_TIMESTAMP() + 7200", "INSERT INTO shop.items VALUES (-2, 1)", "SET timestamp = 1000000000", "INSERT INTO shop.items VALUES (-3, 1)")
			a.catchUp(t)
			random := chance.New(t, 3)
			var moments []time.Time
			begin := time.Now()
			time.Sleep(1100 * time.Millisecond) // until the next second: MariaDB's binary log has whole seconds. A longer sleep is as good
			count := rig.Seeds(2, 50)
			for len(moments) < count {
				n := len(load.Acks())
				rig.Until(t, "more transactions", func() bool { return len(load.Acks()) >= n+50 })
				time.Sleep(time.Duration(800+random.Intn(1400)) * time.Millisecond) // the duration is random: a longer sleep is as good
				moments = append(moments, time.Now())
				switch len(moments) % 4 {
				case 1:
					s.Exec("FLUSH BINARY LOGS")
				case 3:
					s.Kill()
					s.Up()
				}
			}
			last := moments[len(moments)-1]
			rig.Until(t, "a transaction after the last point in time", func() bool {
				return slices.ContainsFunc(load.Acks(), func(a rig.Ack) bool { return a.Began.After(last) })
			})
			acks := load.Stop()
			end := time.Now()
			rig.Until(t, "the archive", func() bool { return a.reached().After(end) })
			t.Logf("%d transactions in %s, the archive failed %d times: %v", len(acks), end.Sub(begin).Round(time.Second), len(a.failures()), a.failures())
			got, out, err := attempt(t.Context(), t, flavour, to, "latest", &restore.Until{}, identity)
			assert.NilError(t, err)
			same(t, got, s, out)
			all := out.Transactions
			if out.Later.Transactions != 0 || out.Later.First != nil {
				t.Errorf("there are transactions after the end of the archive: %+v", out.Later)
			}
			for _, moment := range moments {
				point(t, s, to, identity, moment, acks, all)
			}
			if _, alone, err := attempt(t.Context(), t, flavour, to, "latest", nil, identity); err != nil || alone.Later == nil || alone.Later.Transactions != all {
				t.Errorf("after the backup there are %+v, want %d transactions: %v", alone.Later, all, err)
			}
			if lost := lostOf(got, acks, end.Add(time.Hour)); lost > 0 {
				t.Fatalf("the end of the archive lacks %d acknowledged transactions", lost)
			}
		})
	}
}

func point(t *testing.T, s *rig.Server, to store.Store, identity age.Identity, moment time.Time, acks []rig.Ack, all int64) {
	t.Helper()
	got, out, err := attempt(t.Context(), t, s.Flavour, to, "latest", &restore.Until{Time: moment}, identity)
	if err != nil {
		t.Fatalf("restore to %s: %v", moment, err)
	}
	same(t, got, s, out)
	if s.Flavour == server.MariaDB {
		moment = moment.Truncate(time.Second) // MariaDB's binary log has whole seconds
	}
	if lost := lostOf(got, acks, moment); lost > 0 {
		t.Fatalf("restored to %s: %d transactions that were acknowledged before are missing", moment, lost)
	}
	for _, ack := range acks {
		if _, ok := got["shop.orders"][itoa(ack.Key)]; ok && !ack.Began.Before(moment) {
			t.Fatalf("restored to %s: row %d exists, but its commit was sent at %s", moment, ack.Key, ack.Began)
		}
	}
	if later := out.Later; out.Transactions+later.Transactions != all || later.First == nil || !later.First.After(out.RestoredTo.Add(-time.Second)) || later.Reached.Before(moment) {
		t.Fatalf("restored to %s: %d transactions were replayed, %+v remain, of %d", moment, out.Transactions, later, all)
	}
	t.Logf("%s: %d transactions replayed, up to %s", moment.Format(time.RFC3339Nano), out.Transactions, out.RestoredTo.Format(time.RFC3339Nano))
}

func lostOf(got rig.Rows, acks []rig.Ack, moment time.Time) int {
	lost := 0
	for _, ack := range acks {
		if _, ok := got["shop.orders"][itoa(ack.Key)]; !ok && ack.Done.Before(moment) {
			lost++
		}
	}
	return lost
}

// A replay writes the archive to the volume in batches. A batch is hardly larger than one file of the binary log. The restored rows are the
// same.
func TestReplayInBoundedSpace(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			const files, size = 6, 4 << 20
			o := observed(t, rig.Start(t, flavour))
			o.Exec("CREATE DATABASE shop", "CREATE TABLE shop.rows (id INT PRIMARY KEY AUTO_INCREMENT, body LONGBLOB)", "CREATE TABLE shop.mem (id INT PRIMARY KEY, n INT) ENGINE=MEMORY")
			o.backup()
			for i := range files {
				o.Exec(fmt.Sprintf("INSERT INTO shop.rows (body) VALUES (REPEAT('x', %d))", size), fmt.Sprintf("INSERT INTO shop.mem VALUES (%d, 0)", i), "UPDATE shop.mem SET n = n + 1", // each row must exist
					fmt.Sprintf("CREATE EVENT shop.e%d ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01' DO SELECT 1", i),
					fmt.Sprintf("XA START 'x%d'", i), fmt.Sprintf("INSERT INTO shop.rows (id) VALUES (%d)", -1-i), fmt.Sprintf("XA END 'x%d'", i), fmt.Sprintf("XA PREPARE 'x%d'", i))
				o.Exec("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
				o.Exec(fmt.Sprintf("XA COMMIT 'x%d'", i))
			}
			o.settled()
			most, watched := relays(o.T)
			r, out := o.restored(&restore.Until{})
			close(watched)
			if n := <-most; n < size || n > 2*size {
				t.Errorf("the relay logs had %d bytes at once, for %d transactions in files of %d bytes", n, out.Transactions, size)
			}
			for _, q := range []string{"SELECT id, LENGTH(body) FROM shop.rows", "SELECT EVENT_NAME, STATUS FROM information_schema.EVENTS ORDER BY 1"} {
				assert.Equal(t, r.Ask(q), o.Ask(q), q)
			}
			assert.Assert(t, out.Transactions >= 5*files, "%d", out.Transactions)
		})
	}
}

// relays measures the relay logs of this process's restores until watched is closed. It returns their maximum size in bytes.
func relays(t testing.TB) (most chan int64, watched chan struct{}) {
	most, watched = make(chan int64, 1), make(chan struct{})
	pattern := filepath.Join(filepath.Dir(t.TempDir()), "*", "mysql", "d3os-relay.0*")
	go func() {
		seen := int64(0)
		for {
			sum := int64(0)
			found, _ := filepath.Glob(pattern) // cannot fail: the pattern is valid
			for _, file := range found {
				if info, err := os.Stat(file); err == nil {
					sum += info.Size()
				}
			}
			seen = max(seen, sum)
			select {
			case <-watched:
				most <- seen
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return most, watched
}
