// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
)

// etcd does not start with a certificate for another key, or without a CA. In that case, the agent names the fault and does not start etcd:
// an exit of etcd would count as damaged data.
func TestCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(folder, other string) error
		err    string
	}{
		"right":                  {func(string, string) error { return nil }, ""},
		"the key of another":     {func(folder, other string) error { return copyFile(folder, "tls.key", other, "tls.key") }, "tls.crt and tls.key: tls: private key does not match public key"},
		"no key":                 {func(folder, _ string) error { return os.Remove(filepath.Join(folder, "tls.key")) }, "tls.key: no such file"},
		"no authority":           {func(folder, _ string) error { return os.Remove(filepath.Join(folder, "ca.crt")) }, "ca.crt: no such file"},
		"an empty authority":     {func(folder, _ string) error { return os.WriteFile(filepath.Join(folder, "ca.crt"), nil, 0o600) }, "ca.crt has no certificate"},
		"a key as authority":     {func(folder, _ string) error { return copyFile(folder, "ca.crt", folder, "tls.key") }, "ca.crt: x509: "},
		"several authorities":    {func(folder, other string) error { return appendFile(folder, "ca.crt", other, "ca.crt") }, ""},
		"an authority and a key": {func(folder, _ string) error { return appendFile(folder, "ca.crt", folder, "tls.key") }, "ca.crt: x509: "},
	} {
		for _, peer := range []bool{false, true} {
			folder, other := t.TempDir(), t.TempDir()
			rig.NewAuthority(t).Write(t, folder, "etcd-1")
			rig.NewAuthority(t).Write(t, other, "etcd-1")
			assert.NilError(t, c.change(folder, other))
			s := serverOf(t, func(s *Server) {
				if s.ServerTLS, s.PeerTLS = other, folder; !peer {
					s.ServerTLS, s.PeerTLS = folder, ""
				}
			})
			if err := s.CheckCertificates(); c.err == "" {
				assert.NilError(t, err, name)
			} else {
				assert.ErrorContains(t, err, c.err, name)
				assert.ErrorContains(t, err, folder, name)
			}
		}
	}
	assert.NilError(t, serverOf(t, func(*Server) {}).CheckCertificates(), "without TLS")
}

func copyFile(to, name, from, of string) error {
	text, err := os.ReadFile(filepath.Join(from, of))
	return errors.Join(err, os.WriteFile(filepath.Join(to, name), text, 0o600))
}

func appendFile(to, name, from, of string) error {
	first, err := os.ReadFile(filepath.Join(to, name))
	second, err2 := os.ReadFile(filepath.Join(from, of))
	return errors.Join(err, err2, os.WriteFile(filepath.Join(to, name), append(first, second...), 0o600))
}
