// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"net"
	"os"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"d3os.com/d3os-operator/internal/contract"
)

// logIn connects with a TLS configuration. If secure is nil, logIn uses TLS if the server offers TLS. It returns the configuration in use.
// Without a CA, a connection to a server with an outdated TLS version is not encrypted.
func (o Options) logIn(ctx context.Context, secure *tls.Config) (*client.Conn, *tls.Config, error) {
	if secure != nil {
		conn, err := o.dial(ctx, func(*greeted) *tls.Config { return secure })
		return conn, secure, err
	}
	conn, err := o.dial(ctx, func(c *greeted) *tls.Config {
		if !o.IsSocket() && c.offersTLS() {
			secure = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // without a CA there is nothing to verify
		}
		return secure
	})
	if err == nil || secure == nil || Code(err) != 0 || ctx.Err() != nil {
		return conn, secure, err
	}
	if conn, plain := o.dial(ctx, func(*greeted) *tls.Config { return nil }); plain == nil {
		return conn, nil, nil
	}
	return nil, nil, err
}

// dial opens a connection and logs in. choose selects the TLS configuration after the server's greeting.
func (o Options) dial(ctx context.Context, choose func(*greeted) *tls.Config) (*client.Conn, error) {
	network := "tcp"
	if o.IsSocket() {
		network = "unix"
	}
	var to *greeted
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return client.ConnectWithDialer(ctx, network, o.Address, o.User, o.Password, "", func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		to = &greeted{Conn: conn, buffer: bufio.NewReader(conn)}
		// A hanging server accepts connections and sends nothing.
		return to, conn.SetDeadline(time.Now().Add(20 * time.Second))
	}, func(c *client.Conn) error {
		if secure := choose(to); secure != nil {
			c.SetTLSConfig(secure)
		}
		return nil
	})
}

// greeted is a connection whose first packet can be read without consuming it.
type greeted struct {
	net.Conn

	buffer *bufio.Reader
}

func (c *greeted) Read(p []byte) (int, error) { return c.buffer.Read(p) }

// offersTLS reports whether the server's greeting has the flag for TLS. It does not consume the greeting. Before the
// flags, a greeting has a header of 4 bytes, the version of the protocol, the version of the server and a zero byte,
// the connection's ID (4 bytes), a part of the salt (8 bytes) and a zero byte.
func (c *greeted) offersTLS() bool {
	const header, flags = 4, 4 + 8 + 1
	head, err := c.buffer.Peek(header)
	if err != nil {
		return false
	}
	packet, _ := c.buffer.Peek(header + int(head[0]) + int(head[1])<<8)
	version, rest, _ := bytes.Cut(packet[header:], []byte{0})
	return len(version) > 0 && version[0] == mysql.ClassicProtocolVersion && len(rest) >= flags+2 && uint32(binary.LittleEndian.Uint16(rest[flags:]))&mysql.CLIENT_SSL != 0
}

// verified returns the configuration for a server whose certificate the CA has signed; nil without a CA.
func (o Options) verified() (*tls.Config, error) {
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
