// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// The ports in each pod: where etcd answers clients, and where the agent says what it waits for while etcd does not run.
const (
	ClientPort = 2379
	StatePort  = 2381
)

// Options of Servers. The zero value is for production.
type Options struct {
	// ReadTimeout bounds the time in which a pod answers everything that it is asked in one pass. Default: 2s.
	ReadTimeout time.Duration
	// EffectTimeout bounds the time that one change may take. Default: 5s.
	EffectTimeout time.Duration
	// DefragTimeout bounds the time that rewriting a database file may take. Default: 1m.
	DefragTimeout time.Duration
	// Overlap is how long clients have to read their Secret again after each phase of a replacement of the certificate authorities.
	// Default: 10m.
	Overlap time.Duration
	// Tap sees the effects of steps. Default: none.
	Tap Tap
}

// Access is how the members of one cluster are reached.
type Access struct {
	TLS *tls.Config // with the client's certificate; nil: plain
	// Authorities are those that the operator made, and the Secrets of pods have. Nil: nothing is known of them.
	Authorities *Authorities
}

// Servers ask members and change them. It is safe for concurrent use, and remembers nothing.
type Servers struct {
	options Options
	http    *http.Client
}

// New returns Servers.
func New(options Options) *Servers {
	if options.ReadTimeout == 0 {
		options.ReadTimeout = 2 * time.Second
	}
	if options.EffectTimeout == 0 {
		options.EffectTimeout = 5 * time.Second
	}
	if options.Overlap == 0 {
		options.Overlap = 10 * time.Minute
	}
	if options.DefragTimeout == 0 {
		options.DefragTimeout = time.Minute
	}
	dialer := &net.Dialer{Timeout: options.ReadTimeout}
	return &Servers{options: options, http: &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Overlap is how long clients have to read their Secret again.
func (s *Servers) Overlap() time.Duration { return s.options.Overlap }

// named says which name the certificate must have: the client would take the address for it.
func named(access Access) []grpc.DialOption {
	if access.TLS == nil || access.TLS.ServerName == "" {
		return nil
	}
	return []grpc.DialOption{grpc.WithAuthority(access.TLS.ServerName)}
}

// dial returns a client of the etcd in one pod. Nothing is sent yet. Who dials closes it. When nobody listens there, its
// requests with the context that it returns fail at once: by itself, gRPC would try again until the time is over.
func (s *Servers) dial(ctx context.Context, access Access, ip string) (*clientv3.Client, context.Context, error) {
	ctx, fail := context.WithCancelCause(ctx)
	dialer := &net.Dialer{Timeout: s.options.ReadTimeout}
	connect := func(ctx context.Context, _ string) (net.Conn, error) {
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(ClientPort)))
		if err != nil {
			fail(err)
			return nil, err
		}
		return connection, nil
	}
	scheme := "http"
	if access.TLS != nil {
		scheme = "https"
	}
	c, err := clientv3.New(clientv3.Config{
		Context:   ctx,
		Endpoints: []string{scheme + "://" + net.JoinHostPort(ip, strconv.Itoa(ClientPort))},
		TLS:       access.TLS,
		Logger:    zap.NewNop(), // its lines say no more than the errors that it returns
		// One attempt: the next pass tries again.
		MaxUnaryRetries:    1,
		MaxCallRecvMsgSize: 4 << 20,
		DialOptions:        append(named(access), grpc.WithNoProxy(), grpc.WithContextDialer(connect)),
	})
	if err != nil {
		fail(err)
		return nil, ctx, fmt.Errorf("make a client of etcd at %s: %w", ip, err)
	}
	return c, ctx, nil
}
