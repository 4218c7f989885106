// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

const source = "ns/platform/mysql"

// put writes a timeline from a text for chain, such as "1:4-100>2". The server begins a file every hour.
func put(t *testing.T, s store.Store, timeline, words string, began time.Time) manifest.Head {
	t.Helper()
	h := manifest.Head{Format: 1, Timeline: timeline, Source: source, Time: began.Add(24 * time.Hour)}
	files := map[string]time.Time{}
	for _, g := range chain(t, words) {
		if files[g.File].IsZero() {
			files[g.File] = began.Add(time.Duration(len(files)) * time.Hour)
		}
		g.Format, g.Timeline, g.FileTime, g.Source = 1, timeline, files[g.File], source
		stem := manifest.Stem(g.File, g.From, g.To)
		g.Object = manifest.Object{Name: stem[len(g.File)+1:] + ".zst", Bytes: 1, SHA256: strings.Repeat("0", 64)}
		text, err := manifest.Encode(&g)
		assert.NilError(t, err)
		assert.NilError(t, s.Replace(t.Context(), g.Name(), text))
		assert.NilError(t, s.Replace(t.Context(), manifest.TimelineFolder(timeline)+g.File+"/"+g.Object.Name, []byte("x")))
		h.Position = g.End()
	}
	text, err := manifest.Encode(&h)
	assert.NilError(t, err)
	assert.NilError(t, s.Replace(t.Context(), manifest.TimelineFolder(timeline)+manifest.HeadName, text))
	return h
}

// For returns the timeline that has the backup's file. An older timeline may have a file of the same name. The archive
// may not have reached the backup yet. In both cases, it returns no other timeline.
func TestFor(t *testing.T) {
	old, fresh := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	const first, second = "20260101T000000Z-00000001", "20260301T000000Z-00000002"
	s, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	put(t, s, first, "1:4-5000>2 2:4-9000>3 3:4-100", old)
	put(t, s, second, "1:4-500>2 2:4-157", fresh)
	for name, c := range map[string]struct {
		file       string
		offset     uint64
		began      time.Time // zero if the manifest lacks this time
		serverTime time.Time
		want       string
	}{
		"on the new log": {"bin.000001", 400, fresh, fresh, second},
		"on the old log": {"bin.000001", 400, old, old.Add(time.Minute), first},
		"on the old log, made after the new one began":   {"bin.000002", 400, old.Add(time.Hour), fresh.Add(time.Hour), first},
		"on the new log, by a server whose clock is off": {"bin.000001", 400, fresh, old, second},
		"the archive is behind":                          {"bin.000002", 800, fresh.Add(time.Hour), fresh.Add(2 * time.Hour), ""},
		"the archive has nothing of the file yet":        {"bin.000003", 50, fresh.Add(2 * time.Hour), fresh.Add(3 * time.Hour), ""},
		"of a third log":                                 {"bin.000001", 400, fresh.Add(time.Second), fresh.Add(time.Hour), ""},
		"by an older agent":                              {"bin.000001", 400, time.Time{}, fresh.Add(10 * time.Minute), second},
		"by an older agent, on the old log":              {"bin.000003", 50, time.Time{}, old.Add(3 * time.Hour), first},
		"by an older agent, the archive is behind":       {"bin.000002", 800, time.Time{}, fresh.Add(70 * time.Minute), ""},
		"by an older agent, nothing of the file yet":     {"bin.000003", 50, time.Time{}, fresh.Add(3 * time.Hour), ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := &manifest.Backup{ID: "20260301T001000Z-00000003", Source: source, ServerTime: c.serverTime, LogBegan: c.began, Position: &contract.Position{File: c.file, Offset: c.offset}}
			timeline, err := For(t.Context(), s, b)
			if c.want == "" {
				assert.Equal(t, contract.ReasonOf(err), contract.ReasonNotFound)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, timeline.Head.Timeline, c.want)
		})
	}
}

// A head that is lost, damaged or of a newer format hides neither its own timeline nor another one.
func TestHeadsThatCannotBeRead(t *testing.T) {
	const first, second = "20260101T000000Z-00000001", "20260301T000000Z-00000002"
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, text := range map[string]string{"missing": "", "damaged": "{", "newer": `{"format":9}`} {
		s, err := store.NewFolder(t.TempDir())
		assert.NilError(t, err)
		put(t, s, first, "1:4-500", began)
		put(t, s, second, "1:4-500>2 2:4-100", began.Add(time.Hour))
		head := manifest.TimelineFolder(second) + manifest.HeadName
		if assert.NilError(t, s.Delete(t.Context(), head)); text != "" {
			assert.NilError(t, s.Replace(t.Context(), head, []byte(text)))
		}
		heads, err := Heads(t.Context(), s)
		assert.NilError(t, err)
		if len(heads) != 2 || heads[0].Timeline != second || heads[0].Source != source || heads[0].Lost == nil || heads[1].Lost != nil {
			t.Fatalf("%s: %+v", name, heads)
		}
		read, err := Read(t.Context(), s, heads[0], "")
		if err != nil || read.Broken != nil || len(read.Segments) != 2 {
			t.Errorf("%s: %+v %v", name, read, err)
		}
	}
}
