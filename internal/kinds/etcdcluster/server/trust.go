// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strconv"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/stateful/proof"
)

// PeerPort is where etcd answers other members.
const PeerPort = 2380

// Authority is what the Secrets of a cluster have of one of its two authorities.
type Authority struct {
	// Trusted are the certificates, as PEM, that a member reads when it starts. Signer is the one that signs.
	Trusted, Signer []byte
	// Pair is a certificate with which a member of the cluster lets one connect.
	Pair tls.Certificate
}

// Authorities are those for clients and for members.
type Authorities struct{ Clients, Members Authority }

// trust asks a member on both of its ports which authorities it accepts, and who signed what it shows. It is nil where the member
// does not say.
func (s *Servers) trust(ctx context.Context, access Access, ip string) *membership.Trust {
	if access.Authorities == nil {
		return nil
	}
	found := &membership.Trust{Latest: true, Signed: true}
	for port, authority := range map[int]*Authority{ClientPort: &access.Authorities.Clients, PeerPort: &access.Authorities.Members} {
		accepts, shown, err := s.handshake(ctx, net.JoinHostPort(ip, strconv.Itoa(port)), &authority.Pair)
		if err != nil || shown == nil {
			return nil
		}
		signer := certificatesIn(authority.Signer)
		found.Latest = found.Latest && isSame(accepts, certificatesIn(authority.Trusted))
		found.Signed = found.Signed && len(signer) == 1 && shown.CheckSignatureFrom(signer[0]) == nil
	}
	return found
}

// handshake connects, and returns the subjects of the authorities that a server accepts, and the certificate that it shows.
func (s *Servers) handshake(ctx context.Context, address string, pair *tls.Certificate) (accepts [][]byte, shown *x509.Certificate, err error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: s.options.ReadTimeout}, Config: &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // #nosec G402 -- nothing is sent: what the server shows is looked at
		GetClientCertificate: func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			accepts = request.AcceptableCAs
			return pair, nil
		},
	}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	if secure, ok := connection.(*tls.Conn); ok {
		if shows := secure.ConnectionState().PeerCertificates; len(shows) > 0 {
			shown = shows[0]
		}
	}
	if err := connection.Close(); err != nil {
		return nil, nil, fmt.Errorf("close the connection to %s: %w", address, err)
	}
	return accepts, shown, nil
}

// isSame reports whether subjects are those of the certificates, in any order.
func isSame(subjects [][]byte, of []*x509.Certificate) bool {
	if len(subjects) != len(of) {
		return false
	}
	return !slices.ContainsFunc(of, func(cert *x509.Certificate) bool {
		return !slices.ContainsFunc(subjects, func(subject []byte) bool { return bytes.Equal(subject, cert.RawSubject) })
	})
}

// certificatesIn returns the certificates in PEM that can be read.
func certificatesIn(text []byte) (found []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, cert)
		}
	}
	return found
}

// rotate brings the replacement of the certificate authorities to its next phase: each member of the list of a quorum answers, accepts
// what its Secrets have now and, before an authority is dropped, shows a certificate of the other one.
func (t *taker) rotate(ctx context.Context) error {
	if len(t.Step.Healthy) == 0 || len(t.Step.Healthy) != len(t.Step.Expect) {
		return proof.Refuse("%d of %d members are asked", len(t.Step.Healthy), len(t.Step.Expect))
	}
	if err := t.proveList(ctx); err != nil {
		return err
	}
	if err := t.healthy(ctx); err != nil {
		return err
	}
	for _, place := range t.Step.Healthy {
		within, cancel := context.WithTimeout(ctx, t.servers.options.ReadTimeout)
		trust := t.servers.trust(within, t.Access, place.IP)
		cancel()
		if trust == nil || !trust.Latest || !trust.Signed {
			return proof.Refuse("%s does not use the certificates and authorities of its Secrets", place.Pod)
		}
	}
	return t.effect(ctx, func(ctx context.Context) error { return t.Kubernetes.Rotate(ctx, t.Step.Authorities) })
}
