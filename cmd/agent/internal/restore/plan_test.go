// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"encoding/binary"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// stretch describes a segment, with all times in seconds after noon. from and to bound the commits. at lists the times
// in the events of the segment's transactions. If to is 0, an older agent wrote the segment at the time archived.
type stretch struct {
	from, to, archived int
	at                 []int
}

// event returns an event that ends at an offset.
func event(kind byte, second int, offset uint64, body []byte) []byte {
	raw := make([]byte, 19, 19+len(body))
	raw = append(raw, body...)
	if second >= 0 {
		binary.LittleEndian.PutUint32(raw, uint32(noon.Unix()+int64(second)))
	}
	raw[4] = kind
	binary.LittleEndian.PutUint32(raw[9:], uint32(len(raw)))
	binary.LittleEndian.PutUint32(raw[13:], uint32(offset)+uint32(len(raw)))
	return raw
}

// logOf writes a file of a binary log to a store. It returns the timeline of the file, and the end of each transaction.
func logOf(t *testing.T, stretches []stretch, head int) (store.Store, *binlog.Timeline, []uint64) {
	t.Helper()
	s, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	timeline := &binlog.Timeline{Head: manifest.Head{Timeline: "20261125T120000Z-00000001", Time: noon.Add(time.Duration(head) * time.Second)}}
	second := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	offset := uint64(binlog.FirstOffset)
	var ends []uint64
	for i, one := range stretches {
		segment := manifest.Segment{Format: manifest.Format, Timeline: timeline.Head.Timeline, File: "bin.000001", From: offset, Transactions: int64(len(one.at))}
		var content []byte
		if i == 0 {
			content = event(15, 0, offset, make([]byte, 60))
			offset += uint64(len(content))
		}
		for _, at := range one.at {
			raw := event(2, at, offset, append(make([]byte, 14), "CREATE TABLE a.t (id INT)"...))
			content, offset = append(content, raw...), offset+uint64(len(raw))
			segment.LastTime, ends = second(at), append(ends, offset)
		}
		segment.To = offset
		assert.NilError(t, binlog.Put(t.Context(), s, nil, &segment, content))
		if segment.Archived = second(one.archived); one.to > 0 {
			segment.NotBefore, segment.NotAfter = second(one.from), second(one.to)
		}
		timeline.Segments = append(timeline.Segments, segment)
	}
	return s, timeline, ends
}

// A replay to a time ends at the position at which the server's clock had that time. Sessions may have set other times
// for their events. If the archive does not prove the position, the time is refused.
func TestMomentsInTheLog(t *testing.T) {
	t.Parallel()
	minutes := []stretch{{from: 1, to: 60, at: []int{10, 50}}, {from: 60, to: 120, at: []int{70, 110}}, {from: 120, to: 180, at: []int{130, 170}}}
	ahead := []stretch{{from: 1, to: 60, at: []int{10, 7200}}, {from: 60, to: 120, at: []int{70, 110}}, {from: 120, to: 180, at: []int{130}}}
	behind := []stretch{{from: 1, to: 60, at: []int{10}}, {from: 60, to: 120, at: []int{70, -9000, 110}}, {from: 120, to: 180, at: []int{130}}}
	only := []stretch{{from: 1, to: 60, at: []int{10}}, {from: 60, to: 120, at: []int{7200}}, {from: 120, to: 180, at: []int{130}}}
	away := []stretch{{from: 1, to: 60, at: []int{10}}, {from: 60, to: 9000, at: []int{70, 7200, 80}}, {from: 9000, to: 9060, at: []int{9010}}}
	for name, c := range map[string]struct {
		stretches []stretch
		until     int
		want      int // number of transactions before the time
		reason    contract.Reason
	}{
		"within a segment":                          {minutes, 60 + 40, 3, ""},
		"between segments":                          {minutes, 120, 4, ""},
		"a timestamp ahead":                         {ahead, 119, 4, ""},
		"a timestamp ahead, in a later segment":     {ahead, 125, 4, ""},
		"a timestamp ahead, and the time is near":   {ahead, 55, 0, contract.ReasonRefused},
		"a timestamp ahead, and the time before":    {ahead, 10, 0, ""},
		"a timestamp behind, and a time before":     {behind, 40, 1, ""},
		"a timestamp behind, and a time after":      {behind, 115, 4, ""},
		"a timestamp behind, and the time is near":  {behind, 100, 0, contract.ReasonRefused},
		"alone in its segment":                      {only, 100, 0, contract.ReasonRefused},
		"alone in its segment, and a time before":   {only, 60, 1, ""},
		"alone in its segment, and a time after":    {only, 121, 2, ""},
		"the archive was interrupted":               {away, 3600, 0, contract.ReasonRefused},
		"the archive was interrupted, a time after": {away, 9005, 4, ""},
		"a commit that waited":                      {[]stretch{{from: 1, to: 60, at: []int{10}}, {from: 60, to: 120, at: []int{52, 90}}}, 80, 2, ""},
		"the end of the archive":                    {minutes, 200, 6, ""},
		"after the end of the archive":              {minutes, 201, 0, contract.ReasonNotFound},
		"a timestamp does not move the end":         {only[:2], 7000, 0, contract.ReasonNotFound},
		"an older backup is needed":                 {[]stretch{{from: 1, to: 60, at: []int{-1, 50}}}, -2, 0, contract.ReasonNotFound},
		"a clock set back":                          {[]stretch{{from: 1, to: 4200, at: []int{10, 4200}}, {from: 4200, to: 920, at: []int{910}}, {from: 920, to: 5400, at: []int{1200, 5400}}}, 1800, 0, contract.ReasonRefused},
		"a clock set back, and a time before":       {[]stretch{{from: 1, to: 4200, at: []int{10, 4200}}, {from: 4200, to: 920, at: []int{910}}, {from: 920, to: 5400, at: []int{5400}}}, 300, 1, ""},
		"an older agent":                            {[]stretch{{archived: 60, at: []int{10, 50}}, {archived: 120, at: []int{70}}, {archived: 1800, at: []int{1750}}}, 900, 3, ""},
		"an older agent, a timestamp ahead":         {[]stretch{{archived: 60, at: []int{10, 7200}}, {archived: 120, at: []int{70}}, {archived: 1800, at: []int{1750}}}, 900, 3, ""},
		"an older agent, a clock set back":          {[]stretch{{archived: 4200, at: []int{10, 4200}}, {archived: 900, at: []int{900}}, {archived: 5400, at: []int{5400}}}, 1800, 0, contract.ReasonRefused},
		"an older agent, long transactions":         {[]stretch{{archived: 60, at: []int{10}}, {archived: 900, at: []int{900, 600, 1000}}, {archived: 1200, at: []int{700, 1200}}}, 900, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, timeline, ends := logOf(t, c.stretches, 200)
			ends = append([]uint64{4 + 79}, ends...)
			p := &Plan{source: Source{Store: s, Backup: &manifest.Backup{ID: "20261125T120000Z-00000002", Position: &contract.Position{File: "bin.000001", Offset: ends[0]}}},
				until: Until{Time: noon.Add(time.Duration(c.until) * time.Second)}, timeline: timeline}
			err := p.reaches()
			if err == nil {
				err = p.locate(t.Context())
			}
			if c.reason != "" {
				assert.Assert(t, err != nil && contract.ReasonOf(err) == c.reason, "%v, %v", err, p.until.Position)
				return
			}
			assert.NilError(t, err)
			if at := p.until.Position; at == nil || at.Offset != ends[c.want] {
				t.Errorf("%v, not after %d transactions: %v", at, c.want, ends)
			}
		})
	}
}
