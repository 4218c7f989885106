// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Authority is a CA that creates certificates.
type Authority struct {
	key       *ecdsa.PrivateKey
	cert      *x509.Certificate
	isExpired bool // the certificates that it creates have expired
}

// Expired returns an authority with the same key. The certificates that it issues have already expired.
func (a *Authority) Expired() *Authority { return &Authority{a.key, a.cert, true} }

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(t, err)
	a := &Authority{key: key, cert: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	assert.NilError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	assert.NilError(t, err)
	return a
}

func (a *Authority) issue(t testing.TB, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	if a.isExpired {
		template.NotAfter = time.Now().Add(-time.Minute)
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	assert.NilError(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	assert.NilError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

// Client returns an HTTP client with a certificate for a name; "" for none. The client accepts certificates for serverName that
// the authority server has issued.
func (a *Authority) Client(t testing.TB, server *Authority, serverName, name string) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(server.cert)
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: serverName}
	if name != "" {
		pair, err := tls.X509KeyPair(a.issue(t, name))
		assert.NilError(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// Write writes a new certificate, its key and the CA to a folder.
func (a *Authority) Write(t testing.TB, folder, name string) {
	t.Helper()
	cert, key := a.issue(t, name)
	assert.NilError(t, errors.Join(os.WriteFile(filepath.Join(folder, "tls.crt"), cert, 0o600), os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600),
		os.WriteFile(filepath.Join(folder, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600)))
}
