// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
)

// PeerPort is the port on which etcd serves other members.
const PeerPort = 2380

// Authority holds one of a cluster's two certificate authorities, for clients or for members, as in the cluster's
// Secrets.
type Authority struct {
	// Trusted contains the trusted certificates, as PEM. A member reads them when it starts. Signer is the certificate
	// of the certificate authority that signs.
	Trusted, Signer []byte
	// Pair is a client certificate that members of the cluster accept.
	Pair tls.Certificate
}

// Authorities holds the certificate authority of clients and the certificate authority of members.
type Authorities struct{ Clients, Members Authority }

// trust connects to both ports of a member. It compares the certificate authorities that the member accepts, and the
// signer of its certificate, with the Secrets. It returns nil if a handshake does not show them.
func (s *Servers) trust(ctx context.Context, access Access, ip string) *membership.Trust {
	if access.Authorities == nil {
		return nil
	}
	found := &membership.Trust{Latest: true, Signed: true}
	for port, authority := range map[int]*Authority{ClientPort: &access.Authorities.Clients, PeerPort: &access.Authorities.Members} {
		accepts, shown, err := s.handshake(ctx, net.JoinHostPort(ip, strconv.Itoa(port)), &authority.Pair)
		refuses := err != nil && len(accepts) > 0 && isRefused(err)
		switch {
		case refuses:
			return &membership.Trust{Refuses: true}
		case err != nil || shown == nil:
			return nil
		}
		signer := certificatesIn(authority.Signer)
		found.Latest = found.Latest && isSame(accepts, certificatesIn(authority.Trusted))
		found.Signed = found.Signed && len(signer) == 1 && shown.CheckSignatureFrom(signer[0]) == nil
	}
	return found
}

// isRefused reports whether a server refuses the authority of the client's certificate.
func isRefused(err error) bool {
	return strings.Contains(err.Error(), "remote error: tls: ") && !strings.Contains(err.Error(), "expired certificate")
}

// handshake connects, and returns the subjects of the authorities that a server accepts, and the server's certificate. It also requests
// etcd's version: with TLS 1.3, a server refuses the client's certificate only after the handshake.
func (s *Servers) handshake(ctx context.Context, address string, pair *tls.Certificate) (accepts [][]byte, shown *x509.Certificate, err error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: s.options.ReadTimeout}, Config: &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // #nosec G402 -- no data is sent; the caller compares the server's certificate
		GetClientCertificate: func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			accepts = request.AcceptableCAs
			return pair, nil
		},
	}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return accepts, nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	if secure, ok := connection.(*tls.Conn); ok {
		if shows := secure.ConnectionState().PeerCertificates; len(shows) > 0 {
			shown = shows[0]
		}
	}
	err = connection.SetDeadline(time.Now().Add(s.options.ReadTimeout))
	if err == nil {
		_, err = io.WriteString(connection, "GET /version HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n")
	}
	if err == nil {
		_, err = connection.Read(make([]byte, 1))
	}
	if err = errors.Join(err, connection.Close()); err != nil {
		return accepts, nil, fmt.Errorf("read the version of %s: %w", address, err)
	}
	return accepts, shown, nil
}

// refusesWithin is the time within which a server refuses a certificate after the handshake.
const refusesWithin = time.Second

// untrusted makes the same TLS handshake as the client of etcd, and returns its error, or nil. The client of etcd hides
// that error. With TLS 1.3, a server refuses a certificate only after the handshake, so untrusted also waits for an
// answer.
func (s *Servers) untrusted(ctx context.Context, access Access, ip string) error {
	if access.TLS == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusesWithin) // the time of ctx is used up
	defer cancel()
	dialer := tls.Dialer{Config: access.TLS}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(ClientPort)))
	if err == nil {
		defer connection.Close()
		if err = connection.SetReadDeadline(time.Now().Add(refusesWithin)); err == nil {
			_, err = connection.Read(make([]byte, 1))
		}
	}
	if err != nil && tlsError.MatchString(err.Error()) {
		return fmt.Errorf("connect to %s: %w", ip, err)
	}
	return nil
}

// isSame reports whether the subjects are those of the certificates, in any order.
func isSame(subjects [][]byte, of []*x509.Certificate) bool {
	if len(subjects) != len(of) {
		return false
	}
	return !slices.ContainsFunc(of, func(cert *x509.Certificate) bool {
		return !slices.ContainsFunc(subjects, func(subject []byte) bool { return bytes.Equal(subject, cert.RawSubject) })
	})
}

// certificatesIn returns the certificates in PEM that can be parsed.
func certificatesIn(text []byte) (found []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, cert)
		}
	}
	return found
}

// rotate begins the next phase in the replacement of the certificate authorities.
func (t *executor) rotate(ctx context.Context) error {
	if err := t.proveTrust(ctx); err != nil {
		return err
	}
	return t.effect(ctx, func(ctx context.Context) error { return t.Kubernetes.Rotate(ctx, t.Step.Authorities) })
}

// proveTrust proves that each member of the quorum's list answers, accepts the authorities in its Secrets, and shows a certificate of the
// signing authority.
func (t *executor) proveTrust(ctx context.Context) error {
	if len(t.Step.Healthy) == 0 || len(t.Step.Healthy) != len(t.Step.Expect) {
		return steps.Refuse("the step names %d of %d members", len(t.Step.Healthy), len(t.Step.Expect))
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
			return steps.Refuse("%s does not use the certificates and authorities of its Secrets", place.Pod)
		}
	}
	return nil
}
