// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/internal/contract"
)

// sender is a member that sends the pieces of a snapshot. Then it ends the stream, or hangs without sending anything.
type sender struct {
	etcdserverpb.UnimplementedMaintenanceServer
	pieces [][]byte
	hangs  bool
}

func (m sender) Snapshot(_ *etcdserverpb.SnapshotRequest, to grpc.ServerStreamingServer[etcdserverpb.SnapshotResponse]) error {
	for _, piece := range m.pieces {
		if err := to.Send(&etcdserverpb.SnapshotResponse{Blob: piece}); err != nil {
			return err
		}
	}
	if m.hangs {
		<-to.Context().Done()
	}
	return nil
}

// slow is a store that needs more time for each piece than a member may be silent.
type slow struct {
	io.Writer
	each time.Duration
}

func (s slow) Write(p []byte) (int, error) {
	<-time.After(s.each)
	return s.Writer.Write(p)
}

// A backup fails with a reason if the member ends or hangs while it sends its snapshot. It does not fail because the
// store is slow. The case of the slow store runs only in `make verify`: on a busy machine, the member may also be slow.
func TestSilence(t *testing.T) {
	t.Parallel()
	const short, long = time.Second, 5 * time.Minute
	page := bytes.Repeat([]byte("x"), 512)
	sum := sha256.Sum256(page)
	for name, c := range map[string]struct {
		member *sender // nil: no member answers
		limit  time.Duration
		store  time.Duration
		reason contract.Reason
	}{
		"whole":                  {&sender{pieces: [][]byte{page, sum[:]}}, long, 0, ""},
		"a slow store":           {&sender{pieces: [][]byte{page, sum[:]}}, short, 2 * short, ""}, // the member must send within a second
		"no member answers":      {nil, short, 0, contract.ReasonServerUnreachable},
		"no piece":               {&sender{hangs: true}, short, 0, contract.ReasonServerUnreachable},
		"no further piece":       {&sender{pieces: [][]byte{page}, hangs: true}, short, 0, contract.ReasonServerUnreachable},
		"not the whole snapshot": {&sender{pieces: [][]byte{page}}, long, 0, contract.ReasonDumpFailed},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a slow store" {
				rig.Long(t)
			}
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			assert.NilError(t, err)
			defer listener.Close()
			if c.member != nil {
				server := grpc.NewServer()
				etcdserverpb.RegisterMaintenanceServer(server, c.member)
				go server.Serve(listener) //nolint:errcheck // it ends with the test
				defer server.Stop()
			}
			cluster := Cluster{Endpoint: "http://" + listener.Addr().String()}
			client, err := cluster.connect(t.Context())
			assert.NilError(t, err)
			defer client.Close()
			var got bytes.Buffer
			err = cluster.stream(t.Context(), client, slow{&got, c.store}, c.limit)
			if c.reason == "" {
				if err != nil || !bytes.Equal(got.Bytes(), append(page, sum[:]...)) {
					t.Errorf("%d bytes: %v", got.Len(), err)
				}
				return
			}
			if err == nil || contract.ReasonOf(err) != c.reason {
				t.Errorf("%v", err)
			}
			t.Log(err)
		})
	}
}
