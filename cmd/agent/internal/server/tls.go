// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"

	"d3os.com/d3os-operator/internal/contract"
)

// TLS returns the configuration of a connection; nil for one without TLS.
func (o Options) TLS() (*tls.Config, error) {
	if o.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, contract.Errorf(contract.ReasonUsage, "read the certificates for server %s: %w", o.Address, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, contract.Errorf(contract.ReasonUsage, "read the certificates for server %s: %s has no certificate in PEM", o.Address, o.CA)
	}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		host = o.Address
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: host}, nil
}
