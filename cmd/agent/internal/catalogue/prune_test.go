// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// fill makes n backups in a folder, one for each of the last n days. It returns the store, the folder and the IDs, newest first.
func fill(t *testing.T, n int) (s *store.Folder, root string, ids []string) {
	t.Helper()
	root = t.TempDir()
	s, err := store.NewFolder(root)
	assert.NilError(t, err)
	for i := range n {
		began := time.Now().UTC().Add(-time.Duration(i) * 24 * time.Hour)
		id := manifest.ID(began, [4]byte{byte(i)})
		sum := strings.Repeat("0", 64)
		b := manifest.Backup{Format: 1, ID: id, Started: began, Completed: began, Objects: []manifest.Object{{Name: "dump.sql.zst", Bytes: 1, SHA256: sum, PlainSHA256: sum}}}
		text, err := manifest.Encode(&b)
		assert.NilError(t, err)
		assert.NilError(t, s.Replace(t.Context(), manifest.Folder(id)+"dump.sql.zst", []byte("x")))
		assert.NilError(t, s.Replace(t.Context(), manifest.Folder(id)+manifest.Name, text))
		ids = append(ids, id)
	}
	return s, root, ids
}

func verdict(t *testing.T, s store.Store, id, text string) {
	t.Helper()
	assert.NilError(t, s.Replace(t.Context(), manifest.Folder(id)+manifest.Verified, []byte(text)))
}

// change rewrites the manifest of a backup.
func change(t *testing.T, s store.Store, id string, how func(*manifest.Backup)) {
	t.Helper()
	name := manifest.Folder(id) + manifest.Name
	text, err := store.ReadAll(t.Context(), s, name)
	assert.NilError(t, err)
	m, err := manifest.DecodeBackup(name, text)
	assert.NilError(t, err)
	how(m)
	save(t, s, name, m)
}

// flaky is a store that fails for some names and hides some names in listings.
type flaky struct {
	store.Store
	hidden func(name string) bool // in listings
	fails  func(did, name string) error
}

func (f *flaky) List(ctx context.Context, prefix string) ([]store.Info, error) {
	infos, err := f.Store.List(ctx, prefix)
	return slices.DeleteFunc(infos, func(i store.Info) bool { return f.hidden != nil && f.hidden(i.Name) }), err
}

func (f *flaky) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	if f.fails != nil {
		if err := f.fails("get", name); err != nil {
			return nil, err
		}
	}
	return f.Store.Get(ctx, name, offset)
}

func (f *flaky) Delete(ctx context.Context, name string) error {
	if f.fails != nil {
		if err := f.fails("delete", name); err != nil {
			return err
		}
	}
	return f.Store.Delete(ctx, name)
}

func left(t *testing.T, s store.Store) []string {
	t.Helper()
	entries, err := catalogue.Backups(t.Context(), s)
	assert.NilError(t, err)
	var ids []string
	for _, e := range entries {
		if e.Err == nil {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// Prune runs ten times in a faulty store. It removes only backups that it would also remove without faults.
func TestPruneNeverRemovesAGoodBackup(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, f *flaky, root string, ids []string)
		now  time.Time
		left int // number of backups that remain of five, with Keep 2
	}{
		"nothing is broken": {func(*testing.T, *flaky, string, []string) {}, time.Now(), 2},
		"a list lacks the objects of all backups": {func(_ *testing.T, f *flaky, _ string, _ []string) {
			f.hidden = func(name string) bool { return strings.HasSuffix(name, ".zst") }
		}, time.Now(), 2},
		"a list lacks the manifests": {func(_ *testing.T, f *flaky, _ string, _ []string) {
			f.hidden = func(name string) bool { return strings.HasSuffix(name, manifest.Name) }
		}, time.Now(), 5},
		"a check failed by an older agent": {func(t *testing.T, f *flaky, _ string, ids []string) {
			verdict(t, f.Store, ids[0], `{"format":1,"ok":false,"message":"load dump.sql.zst: the table is full"}`)
		}, time.Now(), 2},
		"a verdict of a newer format": {func(t *testing.T, f *flaky, _ string, ids []string) {
			verdict(t, f.Store, ids[1], `{"format":9}`)
		}, time.Now(), 2},
		"a truncated verdict": {func(t *testing.T, f *flaky, _ string, ids []string) {
			verdict(t, f.Store, ids[3], `{"form`)
		}, time.Now(), 4},
		"the newest verified backup is an old one": {func(t *testing.T, f *flaky, _ string, ids []string) {
			verdict(t, f.Store, ids[3], `{"format":1,"ok":true}`)
		}, time.Now(), 4},
		"one manifest cannot be read": {func(_ *testing.T, f *flaky, _ string, ids []string) {
			f.fails = func(did, name string) error {
				if did == "get" && strings.HasPrefix(name, manifest.Folder(ids[0])) {
					return contract.Errorf(contract.ReasonStoreUnreachable, "no answer")
				}
				return nil
			}
		}, time.Now(), 3},
		"a backup has lost its object": {func(t *testing.T, _ *flaky, root string, ids []string) {
			assert.NilError(t, os.Remove(filepath.Join(root, manifest.Folder(ids[2]), "dump.sql.zst")))
		}, time.Now(), 2},
		"the clock is a year ahead": {func(*testing.T, *flaky, string, []string) {}, time.Now().AddDate(1, 0, 0), 2},
		"the clock is a year back":  {func(*testing.T, *flaky, string, []string) {}, time.Now().AddDate(-1, 0, 0), 5},
	} {
		t.Run(name, func(t *testing.T) {
			s, root, ids := fill(t, 5)
			f := &flaky{Store: s}
			c.harm(t, f, root, ids)
			for range 10 {
				_, err := catalogue.Prune(t.Context(), f, catalogue.Rule{Keep: 2, KeepFor: 36 * time.Hour}, c.now)
				assert.NilError(t, err)
				_, err = catalogue.Sweep(t.Context(), f, c.now)
				assert.NilError(t, err)
			}
			if got := left(t, s); len(got) != c.left {
				t.Errorf("%d good backups are left, want %d: %v of %v", len(got), c.left, got, ids)
			}
		})
	}
}

// The store fails once during a Prune, or another agent writes to it. Prune reads the state again right before each
// delete, and so removes no backup that must be kept.
func TestPruneProvesBeforeItDeletes(t *testing.T) {
	type scene struct {
		s   *store.Folder
		f   *flaky
		ids []string
	}
	for name, c := range map[string]struct {
		harm func(t *testing.T, v scene)
		left []int
	}{
		"one read of the verified backup's manifest fails": {func(t *testing.T, v scene) {
			verdict(t, v.s, v.ids[3], `{"format":1,"ok":true}`)
			failed := false
			v.f.fails = func(did, name string) error {
				if did == "get" && !failed && name == manifest.Folder(v.ids[3])+manifest.Name {
					failed = true
					return contract.Errorf(contract.ReasonStoreUnreachable, "no answer")
				}
				return nil
			}
		}, []int{0, 1, 2, 3}},
		"a check proves the newest verified backup damaged": {func(t *testing.T, v scene) {
			verdict(t, v.s, v.ids[0], `{"format":1,"ok":true}`)
			verdict(t, v.s, v.ids[1], `{"format":1,"ok":true}`)
			v.f.fails = func(did, _ string) error {
				if did == "get" {
					return nil
				}
				verdict(t, v.s, v.ids[0], `{"format":1,"ok":false,"damaged":true}`)
				return nil
			}
		}, []int{0, 2, 3, 4}},
		"a check proves the newest verified backup of a former writer damaged": {func(t *testing.T, v scene) {
			for _, id := range v.ids[2:] {
				change(t, v.s, id, func(m *manifest.Backup) { m.Writer = "former" })
			}
			verdict(t, v.s, v.ids[0], `{"format":1,"ok":true}`)
			verdict(t, v.s, v.ids[2], `{"format":1,"ok":true}`)
			v.f.fails = func(did, _ string) error {
				if did == "delete" {
					verdict(t, v.s, v.ids[2], `{"format":1,"ok":false,"damaged":true}`)
				}
				return nil
			}
		}, []int{0, 2, 3, 4}},
		"an older backup of a former writer is verified, too": {func(t *testing.T, v scene) {
			for _, id := range v.ids[1:] {
				change(t, v.s, id, func(m *manifest.Backup) { m.Writer = "former" })
			}
			verdict(t, v.s, v.ids[1], `{"format":1,"ok":true}`)
			v.f.fails = func(did, name string) error {
				if did == "delete" && name == manifest.Folder(v.ids[2])+manifest.Name {
					verdict(t, v.s, v.ids[3], `{"format":1,"ok":true}`)
				}
				return nil
			}
		}, []int{0, 1, 3}},
		"an old backup is the first verified one": {func(t *testing.T, v scene) {
			v.f.fails = func(did, name string) error {
				if did == "delete" && name == manifest.Folder(v.ids[1])+manifest.Name {
					verdict(t, v.s, v.ids[4], `{"format":1,"ok":true}`)
				}
				return nil
			}
		}, []int{0, 2, 3, 4}},
		"a restore announces itself": {func(t *testing.T, v scene) {
			v.f.fails = func(did, name string) error {
				if did == "delete" && name == manifest.Folder(v.ids[2])+manifest.Name {
					_, err := catalogue.Announce(t.Context(), v.s, v.ids[2], time.Now())
					assert.NilError(t, err)
				}
				return nil
			}
		}, []int{0, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, ids := fill(t, 5)
			f := &flaky{Store: s}
			c.harm(t, scene{s, f, ids})
			_, _ = catalogue.Prune(t.Context(), f, catalogue.Rule{Keep: 1}, time.Now()) // the remaining objects show the effect
			var want []string
			for _, i := range c.left {
				want = append(want, ids[i])
			}
			assert.DeepEqual(t, left(t, s), want)
		})
	}
}

// A restore uses the newest backup that no check has proven damaged. A check uses the newest backup.
func TestRestoresSkipWhatIsDamaged(t *testing.T) {
	s, _, ids := fill(t, 3)
	verdict(t, s, ids[0], `{"format":1,"ok":false,"damaged":true}`)
	latest, err := catalogue.FindLatest(t.Context(), s, "")
	assert.NilError(t, err)
	before, err := catalogue.FindBefore(t.Context(), s, "", time.Now())
	assert.NilError(t, err)
	check, err := catalogue.Find(t.Context(), s, "latest")
	assert.NilError(t, err)
	assert.DeepEqual(t, []string{latest.ID, before.ID, check.ID}, []string{ids[1], ids[1], ids[0]})
}

// The latest backup for a restore has the restore's writer. A backup of another writer is used only if the restore's writer
// has none, and there is exactly one other writer. A note then names that writer.
func TestLatestBackupIsOfOneWriter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		writers string  // writer of each backup, newest first; "-": an older agent recorded no writer
		rows    []int64 // rows of each backup
		of      string
		want    int // index of the backup; -1: refused
		note    string
	}{
		"one writer":                          {"aa", []int64{1, 1}, "a", 0, ""},
		"one writer, and no writer is given":  {"aa", []int64{1, 1}, "", 0, ""},
		"no backup has a writer":              {"--", []int64{1, 1}, "a", 0, ""},
		"an older backup has no writer":       {"a-", []int64{1, 9}, "a", 0, ""},
		"another writer has more rows":        {"bab", []int64{9, 1, 9}, "a", 1, "of another resource (b); the newest of these has 9 rows"},
		"another writer has fewer rows":       {"bba", []int64{0, 0, 1}, "a", 2, ""},
		"only another writer has backups":     {"bb", []int64{1, 1}, "a", 0, "the backup is of another resource (b)"},
		"two other writers have backups":      {"bc", []int64{1, 1}, "a", -1, ""},
		"two writers, and no writer is given": {"b-c", []int64{1, 1, 1}, "", -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, ids := fill(t, len(c.writers))
			for i, writer := range c.writers {
				change(t, s, ids[i], func(m *manifest.Backup) {
					m.Writer, m.Tables = strings.Trim(string(writer), "-"), map[string]int64{"`a`.`t`": c.rows[i]}
				})
			}
			for _, find := range []func() (*catalogue.Entry, error){
				func() (*catalogue.Entry, error) { return catalogue.FindLatest(t.Context(), s, c.of) },
				func() (*catalogue.Entry, error) { return catalogue.FindBefore(t.Context(), s, c.of, time.Now()) },
			} {
				found, err := find()
				if c.want < 0 {
					assert.Equal(t, contract.ReasonOf(err), contract.ReasonRefused)
					assert.ErrorContains(t, err, ids[0])
					continue
				}
				assert.NilError(t, err)
				assert.Equal(t, found.ID, ids[c.want])
				assert.Assert(t, strings.Contains(found.Note, c.note) && (found.Note == "") == (c.note == ""), "%q", found.Note)
			}
		})
	}
}

// A prune that is killed at any delete leaves each kept backup complete. The next prune has the same result as a prune that was never
// killed.
func TestPruneKilledAtEachDelete(t *testing.T) {
	killed := errors.New("killed")
	for n := range 20 {
		s, _, ids := fill(t, 5)
		deletes := 0
		f := &flaky{Store: s, fails: func(did, _ string) error {
			if did == "delete" {
				if deletes++; deletes > n {
					return killed
				}
			}
			return nil
		}}
		_, err := catalogue.Prune(t.Context(), f, catalogue.Rule{Keep: 2}, time.Now())
		if got := left(t, s); len(got) < 2 || !slices.Equal(got[:2], ids[:2]) {
			t.Fatalf("killed at delete %d: the remaining backups are %v", n+1, got)
		}
		if err == nil {
			return
		}
		_, err = catalogue.Prune(t.Context(), s, catalogue.Rule{Keep: 2}, time.Now())
		assert.NilError(t, err)
		assert.DeepEqual(t, left(t, s), ids[:2])
	}
	t.Error("prune deleted more than 20 objects")
}

// A prune keeps a backup while a restore reads it. If the restore was killed, the prune keeps the backup for a day.
func TestPruneLeavesWhatIsRead(t *testing.T) {
	s, root, ids := fill(t, 5)
	prune := func(now time.Time) []string {
		_, err := catalogue.Prune(t.Context(), s, catalogue.Rule{Keep: 1}, now)
		assert.NilError(t, err)
		return left(t, s)
	}
	done, err := catalogue.Announce(t.Context(), s, ids[3], time.Now())
	assert.NilError(t, err)
	_, err = catalogue.Announce(t.Context(), s, ids[4], time.Now().Add(-30*time.Hour)) // announced by a killed restore
	assert.NilError(t, err)
	assert.DeepEqual(t, prune(time.Now().AddDate(1, 0, 0)), []string{ids[0], ids[3], ids[4]}) // a clock that is ahead does not end the reader
	announced, err := filepath.Glob(filepath.Join(root, "readers", ids[4], "*"))
	assert.NilError(t, err)
	assert.NilError(t, os.Chtimes(announced[0], time.Time{}, time.Now().Add(-30*time.Hour)))
	assert.DeepEqual(t, prune(time.Now()), []string{ids[0], ids[3]})
	done()
	assert.DeepEqual(t, prune(time.Now()), ids[:1])
	if _, err := catalogue.Announce(t.Context(), s, ids[2], time.Now()); contract.ReasonOf(err) != contract.ReasonNotFound {
		t.Errorf("reading a removed backup: %v", err)
	}
	infos, err := s.List(t.Context(), "readers/")
	assert.NilError(t, err)
	assert.Equal(t, len(infos), 0)
}

// A prune is killed right after it removed a manifest, while a restore announces itself. Neither the sweep of the next backup nor the next
// prune removes objects that the restore reads.
func TestWhatIsReadOutlivesAPruneThatIsKilled(t *testing.T) {
	s, _, ids := fill(t, 2)
	done, err := catalogue.Announce(t.Context(), s, ids[1], time.Now())
	assert.NilError(t, err)
	assert.NilError(t, s.Delete(t.Context(), manifest.Folder(ids[1])+manifest.Name))
	sweep := func() (names []string) {
		for _, at := range []time.Time{time.Now(), time.Now().AddDate(1, 0, 0)} {
			removed, err := catalogue.Sweep(t.Context(), s, at)
			assert.NilError(t, err)
			old, err := catalogue.SweepOld(t.Context(), s, at)
			assert.NilError(t, err)
			names = append(append(names, removed...), old...)
		}
		return names
	}
	assert.DeepEqual(t, sweep(), []string(nil))
	done()
	assert.DeepEqual(t, sweep(), []string{manifest.Folder(ids[1]) + "dump.sql.zst"})
}

// A backup with far fewer rows than the newest verified backup gets a warning. The verified backup may be of another
// database.
func TestAShrunkenDatabaseIsNamed(t *testing.T) {
	s, _, ids := fill(t, 3)
	rows := func(id string, n int64) {
		change(t, s, id, func(m *manifest.Backup) { m.Writer, m.Tables = "former", map[string]int64{"`a`.`t`": n} })
	}
	rows(ids[0], 5)
	rows(ids[1], 1000)
	rows(ids[2], 7)
	const good = `{"format":1,"ok":true}`
	verdict(t, s, ids[1], good)
	verdict(t, s, ids[2], good)
	d, err := draft.Begin(t.Context(), draft.Options{Store: s, Writer: "new"})
	assert.NilError(t, err)
	assert.NilError(t, d.Commit(t.Context()))
	assert.DeepEqual(t, d.Manifest.Warnings, []string{"the database has 0 rows now, and had 1000 in the newest verified backup: if it has lost data, restore backup " + ids[1]})
	for n, warns := range map[int64]bool{99: true, 100: false, 5000: false} {
		assert.Equal(t, catalogue.Shrunk(t.Context(), s, n) != "", warns, "%d rows", n)
	}
	verdict(t, s, ids[0], good)
	assert.Equal(t, catalogue.Shrunk(t.Context(), s, 1), "")
}

// A backup that is made after the clock was set back, or within the same second, counts as the newest one.
func TestNewBackupsAreTheNewest(t *testing.T) {
	s, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	future := manifest.ID(time.Now().AddDate(1, 0, 0), [4]byte{1})
	assert.NilError(t, s.Replace(t.Context(), manifest.Folder(future)+manifest.Name, []byte("{}")))
	seen := map[string]bool{future: true}
	for range 3 {
		d, err := draft.Begin(t.Context(), draft.Options{Store: s})
		assert.NilError(t, err)
		if id := d.Manifest.ID; id <= slices.Max(slices.Collect(maps.Keys(seen))) || !manifest.IsID(id) {
			t.Errorf("%s is made after %v", id, seen)
		}
		seen[d.Manifest.ID] = true
		assert.NilError(t, d.Commit(t.Context()))
	}
}
