// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/database"
)

// queryOf queries a server that presents a new certificate, and returns the error.
func queryOf(t *testing.T, made time.Time, signs, trusted database.Pair, hosts ...string) error {
	t.Helper()
	leaf, err := signs.Issue(database.Leaf{Name: "member", Hosts: hosts, Client: true}, made)
	assert.NilError(t, err)
	certificate, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	assert.NilError(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted.Cert)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "db-0"}}}
	response, err := client.Get(server.URL)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

// If a certificate is wrong, the status names it first, in a text that does not change between queries.
func TestWrongCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca, err := database.NewAuthority("members of data/db", now.Add(-2*database.LeafLife))
	assert.NilError(t, err)
	other, err := database.NewAuthority("members of data/db", now)
	assert.NilError(t, err)
	assert.NilError(t, queryOf(t, now, ca, ca, "db-0"))
	expired := now.Add(-database.LeafLife - time.Hour)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"expired": {queryOf(t, expired, ca, ca, "db-0"), fmt.Sprintf("the certificate of its agent is valid from %s to %s: compare Secret db-member-tls",
			expired.Add(-5*time.Minute).UTC().Format(time.RFC3339), expired.Add(database.LeafLife).UTC().Format(time.RFC3339))},
		"another authority": {queryOf(t, now, other, ca, "db-0"), "the certificate of its agent is signed by another certificate authority: compare Secret db-member-tls"},
		"another name":      {queryOf(t, now, ca, ca, "db-1"), "the certificate of its agent is for another name: compare Secret db-member-tls"},
		"an alert": {fmt.Errorf("look: %w", &net.OpError{Op: "remote error", Err: tls.AlertError(45)}),
			"its agent refuses the operator's certificate (tls: expired certificate): compare Secret db-member-tls"},
	} {
		s := newScene(3)
		s.failed = map[int]error{0: c.err, 1: c.err, 2: c.err}
		for range 4 {
			s.pass(5 * time.Second)
		}
		status := s.mc.Status.DeepCopy()
		assert.Assert(t, strings.HasPrefix(status.Message, "pod db-0: "+c.want), "%s: %s", name, status.Message)
		_, again := s.pass(time.Hour)
		assert.Equal(t, again.Message, status.Message, name)
	}
	assert.Equal(t, certificateProblem(errors.New("no route to host"), "db"), "")
}
