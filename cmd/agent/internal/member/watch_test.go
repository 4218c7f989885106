// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/etcdmember"
)

// While the server runs, the agent reports the IDs of the volume's data and the end of the log. The reported end is never before the end
// of the log at the server's start.
func TestReportNextToTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mark       *Mark
		log        Position // the end of the log that Follow returns; zero if no entry was appended since the start
		end        Position
		isReported bool
	}{
		"nothing was appended": {&Mark{Pod: pod, Cluster: "c", Member: "m", Token: "t"}, Position{}, Position{Term: 2, Index: 50}, true},
		"entries since":        {&Mark{Pod: pod, Cluster: "c", Member: "m", Token: "t"}, Position{Term: 3, Index: 60}, Position{Term: 3, Index: 60}, true},
		"no identity yet":      {&Mark{Pod: pod}, Position{}, Position{}, false},
		"of another pod":       {&Mark{Pod: "data/other-1", Cluster: "c", Member: "m"}, Position{}, Position{}, false},
		"no mark":              {nil, Position{}, Position{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started := ""
			a := agentIn(t.TempDir(), "uid", "", &started)
			if c.mark != nil {
				assert.NilError(t, c.mark.Write(a.Volume))
			}
			assert.NilError(t, noteEnd(a.Notes, Position{Term: 2, Index: 50}))
			former := filepath.Join(a.Volume, a.Data+".set-aside-m-0")
			assert.NilError(t, os.Mkdir(former, 0o700))
			assert.NilError(t, os.WriteFile(filepath.Join(former, "db"), make([]byte, 3<<20), 0o600))
			n := &noter{follow: func() (agreed, last Position) { return Position{}, c.log }, end: readEnd(a.Notes)}
			assert.NilError(t, n.note(a.Notes, Identity{Cluster: "c", Member: "m"}))
			r := newReporter("", io.Discard)
			report, known := a.watchReport(n)
			assert.Equal(t, known, c.isReported)
			if r.publish(report, known); !known {
				return
			}
			answer := httptest.NewRecorder()
			r.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, contract.PathState, http.NoBody))
			var said etcdmember.Report
			assert.NilError(t, json.Unmarshal(answer.Body.Bytes(), &said))
			assert.DeepEqual(t, said, etcdmember.Report{Volume: etcdmember.VolumeData, Cluster: "c", Member: "m", Token: "t", Position: c.end, PeerURL: peerURL, Kept: 3})
		})
	}
	assert.Equal(t, readEnd(t.TempDir()), Position{}, "no note")
}
