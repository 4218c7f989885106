// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract/etcdmember"
	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/test/databasetest"
)

// The problem of a member that refuses the operator differs from the problem of a member that does not answer.
func TestAuthenticationOfEtcdIsNamed(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	for _, err := range []error{rpctypes.ErrUserEmpty, rpctypes.ErrGRPCUserEmpty} {
		assert.Assert(t, needsAccount(err))
		assert.Assert(t, strings.HasPrefix(s.describe(Access{}, err), "etcd's own authentication is on"))
	}
	assert.Assert(t, !needsAccount(errors.New("connection refused")))
}

// If the operator or a member refuses a certificate, the problem names the Secret. Then it is unknown whether a quorum
// answers. This does not apply to an expired certificate: with it, no client can use the member.
func TestRefusedCertificatesAreNamed(t *testing.T) {
	t.Parallel()
	s, access := New(Options{}), Access{Secret: "own-client"}
	const handshake = `rpc error: code = Unavailable desc = connection error: desc = "transport: authentication handshake failed: `
	for text, c := range map[string]struct {
		want      string
		untrusted bool
	}{
		handshake + `tls: failed to verify certificate: x509: certificate signed by unknown authority"`: {
			"Secret own-client: ca.crt does not verify etcd's certificate: x509: certificate signed by unknown authority", true,
		},
		handshake + `remote error: tls: bad certificate"`: {"Secret own-client: etcd refuses the certificate: bad certificate", true},
		handshake + `tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-11-26T14:00:00Z is after 2026-01-01T00:00:00Z"`: {
			"Secret own-client: ca.crt does not verify etcd's certificate: x509: certificate has expired or is not yet valid", false,
		},
		"connection reset by peer": {"connection reset by peer", false},
	} {
		assert.Equal(t, s.describe(access, errors.New(text)), c.want)
		assert.Equal(t, isUntrusted(errors.New(text)), c.untrusted, text)
	}
}

// An alarm of the whole cluster has no member in etcd's text. It gets member 0.
func TestAlarmsOfAStatus(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]membership.Alarm{
		(&etcdserverpb.AlarmMember{MemberID: 7, Alarm: etcdserverpb.AlarmType_CORRUPT}).String(): {{Member: 7, Kind: membership.AlarmCorrupt}},
		(&etcdserverpb.AlarmMember{Alarm: etcdserverpb.AlarmType_CORRUPT}).String():              {{Kind: membership.AlarmCorrupt}},
		"memberID:7  alarm:NOSPACE": {{Member: 7, Kind: membership.AlarmNoSpace}},
		"alarm:CORRUPT ":            {{Kind: membership.AlarmCorrupt}},
		"etcdserver: no leader":     nil,
	} {
		assert.DeepEqual(t, alarmsIn([]string{text}), want)
	}
}

// Kept is the size of former data on the volume, from the report of the agent.
func TestKeptDataIsRead(t *testing.T) {
	t.Parallel()
	const ip, peerURL = "127.61.0.7", "http://store-0:2380"
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(ip, strconv.Itoa(StatePort)))
	assert.NilError(t, err)
	agent := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.Check(t, json.NewEncoder(w).Encode(etcdmember.Report{Volume: etcdmember.VolumeEmpty, PeerURL: peerURL, Kept: 12}))
	})}
	go func() { _ = agent.Serve(listener) }()
	defer agent.Close()
	pods := []membership.Pod{{Name: "store-0", IP: ip, Running: true}}
	New(Options{}).Read(t.Context(), Access{}, pods, []string{peerURL})
	assert.Equal(t, pods[0].Kept, int64(12))
}

// The problem of a member behind a service mesh with strict mTLS names the mesh as the cause.
func TestMeshWithStrictTLSIsNamed(t *testing.T) {
	t.Parallel()
	databasetest.Mesh(t, ClientPort, func(t *testing.T, ip string) {
		t.Helper()
		pods := []membership.Pod{{Name: "store-0", IP: ip, Running: true}}
		New(Options{}).Read(t.Context(), Access{}, pods, nil)
		assert.Equal(t, pods[0].Problem, steps.ErrClosed.Error())
		assert.Assert(t, !pods[0].Silent)
	})
}
