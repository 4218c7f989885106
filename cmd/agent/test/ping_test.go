// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// A check of a server causes no incomplete handshake. A server blocks an address after max_connect_errors incomplete handshakes. It does
// not count them for the loopback address, so the test reads the number of failed connections.
func TestPing(t *testing.T) {
	t.Parallel()
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s := start(t, flavour)
			failed := func() string { return s.Ask("SHOW GLOBAL STATUS LIKE 'Aborted_connects'") }
			before := failed()
			for range 20 {
				assert.NilError(t, server.Ping(t.Context(), s.Options()))
			}
			assert.Equal(t, failed(), before)

			without := server.Options{Address: s.Options().Address}
			assert.NilError(t, server.Ping(t.Context(), without), "a refused account is an answer")
			wrong := s.Options()
			wrong.Password = "wrong"
			assert.ErrorContains(t, server.Ping(t.Context(), wrong), "Access denied")
			s.Kill()
			assert.ErrorContains(t, server.Ping(t.Context(), without), "connection refused")
			s.Up()
			assert.NilError(t, server.Ping(t.Context(), s.Options()), "the server has no password in its cache")
		})
	}
}

// After 10,000 checks from one address, the server accepts this address. As a control, the test then makes two incomplete handshakes from
// the same address, and the server blocks the address.
func TestChecksBlockNoAddress(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s := start(t, flavour, "--bind-address=0.0.0.0", "--max-connect-errors=1", "--skip-name-resolve=OFF")
			with := s.Options()
			with.Address = net.JoinHostPort(ownAddress(t), strconv.Itoa(s.Port))
			without := server.Options{Address: with.Address}
			for range 5000 {
				assert.NilError(t, server.Ping(t.Context(), with))
				assert.NilError(t, server.Ping(t.Context(), without))
			}
			for range 2 {
				conn, err := net.Dial("tcp", with.Address)
				assert.NilError(t, err)
				_, err = conn.Read(make([]byte, 1)) // the server has sent its greeting
				assert.NilError(t, err)
				assert.NilError(t, conn.Close())
			}
			rig.Until(t, "the server blocks the address", func() bool {
				err := server.Ping(t.Context(), with)
				return err != nil && strings.Contains(err.Error(), "is blocked")
			})
		})
	}
}

// ownAddress returns an address of this machine that is not a loopback address.
func ownAddress(t *testing.T) string {
	addresses, err := net.InterfaceAddrs()
	assert.NilError(t, err)
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Addr().Is4() && prefix.Addr().IsGlobalUnicast() {
			return prefix.Addr().String()
		}
	}
	t.Fatalf("this machine has only loopback addresses: %v", addresses)
	return ""
}

// A server that blocks this address sends an error instead of its greeting.
func TestPingOfABlockedAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			const message = "Host 'probe' is blocked because of many connection errors"
			_, _ = conn.Write(append([]byte{byte(3 + len(message)), 0, 0, 0, 0xff, 0x69, 0x04}, message...)) // error 1129
			_ = conn.Close()
		}
	}()
	for _, user := range []string{"", rig.Account} {
		err := server.Ping(t.Context(), server.Options{Address: listener.Addr().String(), User: user})
		assert.Assert(t, is.ErrorContains(err, "is blocked"))
	}
}
