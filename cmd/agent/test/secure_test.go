// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// A server refuses connections without TLS, and the agent has no CA. A backup and an archive succeed.
func TestSecureTransport(t *testing.T) {
	t.Parallel()
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, identity, to := start(t, flavour, append(certificates(t), "--require-secure-transport=ON")...), key(t), folder(t)
			a := archive(s, to, identity, time.Second)
			defer func() { a.stop(); a.done.Wait() }()
			_, _, err := backup.Run(t.Context(), options(s, to, identity))
			assert.NilError(t, err)
			s.Exec("INSERT INTO shop.items VALUES (1, 1)")
			a.catchUp(t)
			got, out, err := attempt(t.Context(), t, flavour, to, "latest", &restore.Until{}, identity)
			assert.NilError(t, err)
			same(t, got, s, out)
			assert.Equal(t, len(got["shop.items"]), 1)
		})
	}
}

// certificates returns the options of a server with a certificate of an unknown CA.
func certificates(t testing.TB) []string {
	t.Helper()
	keys := t.TempDir()
	rig.NewAuthority(t).Write(t, keys, "elsewhere")
	return []string{"--ssl-ca=" + keys + "/ca.crt", "--ssl-cert=" + keys + "/tls.crt", "--ssl-key=" + keys + "/tls.key"}
}

// Without a CA, the agent uses TLS if the server offers TLS. If the server does not offer TLS, the agent causes no failed handshake.
func TestTLSWhereOffered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []string
		cipher  bool
		aborted string
	}{
		"no TLS":       {[]string{"--skip-ssl"}, false, "0"},
		"TLS":          {certificates(t), true, "0"},
		"old TLS only": {append(certificates(t), "--tls-version=TLSv1.1"), false, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, server.MariaDB, c.options...)
			conn, err := server.Connect(t.Context(), s.Options())
			assert.NilError(t, err)
			defer conn.Close()
			cipher, err := conn.Named("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
			assert.NilError(t, err)
			assert.Equal(t, cipher["Value"] != "", c.cipher)
			assert.Equal(t, conn.TLS() != nil, c.cipher)
			aborted, err := conn.Named("SHOW GLOBAL STATUS LIKE 'Aborted_connects'")
			assert.NilError(t, err)
			assert.Equal(t, aborted["Value"], c.aborted)
		})
	}
}
