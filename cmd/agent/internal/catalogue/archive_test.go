// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue_test

import (
	"fmt"
	"io"
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

// log writes a timeline with the files from first to last, which begin one hour apart. reached is the time up to which the
// timeline is complete.
func log(t *testing.T, s store.Store, timeline string, first, last int, began, reached time.Time) {
	t.Helper()
	head := manifest.Head{Format: 1, Timeline: timeline, Source: "data", Time: reached}
	for n := first; n <= last; n++ {
		g := manifest.Segment{Format: 1, Timeline: timeline, Source: "data", File: file(n), From: 4, To: 100, FileTime: fileTime(began, n),
			Object: manifest.Object{Name: "x.zst", Bytes: 1, SHA256: strings.Repeat("0", 64), PlainSHA256: strings.Repeat("0", 64)}}
		save(t, s, g.Name(), g)
		assert.NilError(t, s.Replace(t.Context(), manifest.TimelineFolder(timeline)+g.File+"/x.zst", []byte("x")))
		head.Position = g.End()
	}
	save(t, s, manifest.TimelineFolder(timeline)+manifest.HeadName, head)
}

func file(n int) string                         { return fmt.Sprintf("bin.%06d", n) }
func fileTime(began time.Time, n int) time.Time { return began.Add(time.Duration(n) * time.Hour) }
func save(t *testing.T, s store.Store, name string, what any) {
	t.Helper()
	text, err := manifest.Encode(what)
	assert.NilError(t, err)
	assert.NilError(t, s.Replace(t.Context(), name, text))
}

// Prune selects files of the archive by the log to which a backup belongs, and not by file name: after a reset of the log, a server reuses
// file names. want lists the numbers of the oldest remaining files of the first log and of the second log, "-" for none.
func TestPruneOfTheArchive(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	old, fresh := now.Add(-90*24*time.Hour), now.Add(-20*time.Hour)
	const first, second = "20260101T000000Z-00000001", "20260301T000000Z-00000002"
	at := func(log time.Time, n int) manifest.Backup {
		return manifest.Backup{Position: &contract.Position{File: file(n), Offset: 50}, LogBegan: fileTime(log, n), ServerTime: fileTime(log, n).Add(time.Minute)}
	}
	older := at(old, 3) // made by an agent that wrote no LogBegan
	older.LogBegan = time.Time{}
	prepared := at(old, 4)
	prepared.PreparedFrom = file(2)
	for name, c := range map[string]struct {
		backups []manifest.Backup
		harm    func(s *store.Folder, ids []string)
		ended   time.Time // when the first log was archived for the last time
		want    string
	}{
		"each log is kept from its oldest backup on": {[]manifest.Backup{at(fresh, 5), at(fresh, 2), at(old, 4)}, nil, old, "4 2"},
		"prepared XA transactions need older files":  {[]manifest.Backup{at(fresh, 2), prepared}, nil, old, "2 2"},
		"a backup in progress needs the new log":     {[]manifest.Backup{at(old, 5)}, nil, old, "5 1"},
		"no kept backup needs the old log":           {[]manifest.Backup{at(fresh, 3)}, nil, old, "- 3"},
		"a backup in progress needs the old log":     {[]manifest.Backup{at(fresh, 3)}, nil, now.Add(-time.Hour), "1 3"},
		"a backup without LogBegan":                  {[]manifest.Backup{older}, nil, old, "3 1"},
		"no backup":                                  {nil, nil, old, "1 1"},
		"a backup of a newer format may need any file": {[]manifest.Backup{at(fresh, 5), at(fresh, 2)}, func(s *store.Folder, ids []string) {
			assert.NilError(t, s.Replace(t.Context(), manifest.Folder(ids[1])+manifest.Name, []byte(`{"format":9}`)))
		}, old, "1 1"},
		"a restore reads a backup whose manifest was removed": {[]manifest.Backup{at(fresh, 5), at(fresh, 2)}, func(s *store.Folder, ids []string) {
			_, err := catalogue.Announce(t.Context(), s, ids[1], now)
			assert.NilError(t, err)
			assert.NilError(t, s.Delete(t.Context(), manifest.Folder(ids[1])+manifest.Name))
		}, old, "1 1"},
		"a damaged backup needs no file": {[]manifest.Backup{at(fresh, 5), at(fresh, 2)}, func(s *store.Folder, ids []string) {
			assert.NilError(t, s.Replace(t.Context(), manifest.Folder(ids[1])+manifest.Name, []byte(`{`)))
		}, old, "- 5"},
		"the segment that distinguishes the logs is damaged": {[]manifest.Backup{at(fresh, 5), at(old, 2)}, func(s *store.Folder, _ []string) {
			assert.NilError(t, s.Replace(t.Context(), (&manifest.Segment{Timeline: first, File: file(2), From: 4, To: 100}).Name(), []byte(`{`)))
		}, old, "2 5"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, ids := fill(t, len(c.backups))
			for i, b := range c.backups {
				change(t, s, ids[i], func(m *manifest.Backup) {
					m.Source, m.Position, m.LogBegan, m.ServerTime, m.PreparedFrom = "data", b.Position, b.LogBegan, b.ServerTime, b.PreparedFrom
				})
			}
			log(t, s, first, 1, 6, old, c.ended)
			log(t, s, second, 1, 6, fresh, now)
			if c.harm != nil {
				c.harm(s, ids)
			}
			for range 10 {
				_, err := catalogue.Prune(t.Context(), s, catalogue.Rule{Keep: 9}, now)
				assert.NilError(t, err)
			}
			if got := oldest(t, s, first) + " " + oldest(t, s, second); got != c.want {
				t.Errorf("the oldest remaining files are %s, want %s", got, c.want)
			}
		})
	}
}

// A database is deleted and created again with the same prefix ten times. Each database has an archive and three verified backups, and
// prunes with keep 1. The backups and the archive of each former database are kept, until a person names that database.
func TestPruneKeepsFormerDatabases(t *testing.T) {
	s, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	now := time.Now().UTC().Truncate(time.Second)
	var timelines, all []string
	uid := func(n int) string { return fmt.Sprint("uid-", n) }
	prune := func(keep, of int, former ...string) {
		t.Helper()
		_, err := catalogue.Prune(t.Context(), s, catalogue.Rule{Keep: keep, AtLeast: keep, Writer: uid(of), Former: former}, now)
		assert.NilError(t, err)
	}
	for n := range 10 {
		began := now.Add(time.Duration(n-20) * 48 * time.Hour)
		prune(1, n)
		for i := range 3 {
			d, err := draft.Begin(t.Context(), draft.Options{Store: s, Source: "data", Writer: uid(n)})
			assert.NilError(t, err)
			object, err := d.Put(t.Context(), "dump.sql", func(w io.Writer) error { _, err := w.Write([]byte("x")); return err })
			assert.NilError(t, err)
			m := &d.Manifest
			m.Objects, m.Position, m.LogBegan = []manifest.Object{object}, &contract.Position{File: file(2 + i), Offset: 50}, fileTime(began, 2+i)
			assert.NilError(t, d.Commit(t.Context()))
			verdict(t, s, m.ID, `{"format":1,"ok":true}`)
			all = append(all, m.ID)
		}
		timelines = append(timelines, manifest.ID(began, [4]byte{byte(n)}))
		log(t, s, timelines[n], 1, 4, began, began.Add(6*time.Hour))
		prune(3, n)
	}
	archived := func() (found []string) {
		for _, timeline := range timelines {
			found = append(found, oldest(t, s, timeline))
		}
		return found
	}
	expect := func(kept []string) {
		t.Helper()
		kept = slices.Clone(kept)
		slices.Reverse(kept)
		assert.DeepEqual(t, left(t, s), kept)
	}
	expect(all)
	assert.DeepEqual(t, archived(), slices.Repeat([]string{"2"}, 10))
	prune(1, 9)
	expect(append(slices.Clone(all[:27]), all[29]))
	assert.DeepEqual(t, archived(), append(slices.Repeat([]string{"2"}, 9), "4"))
	prune(1, 9, uid(0), uid(1))
	expect(slices.Concat(all[2:3], all[5:27], all[29:]))
	assert.DeepEqual(t, archived(), slices.Concat([]string{"4", "4"}, slices.Repeat([]string{"2"}, 7), []string{"4"}))
}

// oldest returns the number of the oldest file of a timeline; "-" for none.
func oldest(t *testing.T, s store.Store, timeline string) string {
	t.Helper()
	for n := 1; n < 10; n++ {
		infos, err := s.List(t.Context(), manifest.TimelineFolder(timeline)+file(n)+"/")
		assert.NilError(t, err)
		if len(infos) > 0 {
			return fmt.Sprint(n)
		}
	}
	return "-"
}
