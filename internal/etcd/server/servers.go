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

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
)

// Ports of each pod: etcd's port for clients, the port of the agent's report while etcd does not run, and the port of the report while etcd
// runs.
const (
	ClientPort = 2379
	StatePort  = 2381
	WatchPort  = 2382
)

// Options configure Servers. The zero value is for production.
type Options struct {
	// ReadTimeout limits the duration of all queries of a pod in one pass. Default: 2s.
	ReadTimeout time.Duration
	// EffectTimeout limits the duration of one change. Default: 5s.
	EffectTimeout time.Duration
	// DefragTimeout limits the duration of rewriting a database file. Default: 1m.
	DefragTimeout time.Duration
	// Overlap is the minimum duration of the phases Trust and Sign in the replacement of the certificate authorities. In this time, clients
	// must read their Secret again. Default: 10m.
	Overlap time.Duration
	// Tap intercepts the effects of steps. Default: none.
	Tap Tap
}

// Access holds the credentials for the members of one cluster.
type Access struct {
	TLS *tls.Config // contains the client's certificate; nil without TLS
	// Authorities are the operator's certificate authorities in the Secrets of pods. nil: unknown.
	Authorities *Authorities
	// Secret is the name of the Secret with the client's certificate.
	Secret string
}

// Servers queries and changes members. Its only state is the steps that have failed recently. It is safe for concurrent use.
type Servers struct {
	options  Options
	http     *http.Client
	failures *failures
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
	return &Servers{options: options, failures: newFailures(time.Now), http: &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Overlap returns the time in which clients must read their Secret again.
func (s *Servers) Overlap() time.Duration { return s.options.Overlap }

// Failures returns the steps of a cluster that have failed recently and are not due yet.
func (s *Servers) Failures(cluster string) []membership.Failure { return s.failures.of(cluster) }

// Forget drops the failed steps of a cluster.
func (s *Servers) Forget(cluster string) { s.failures.forget(cluster) }

// named sets the name that the server's certificate must contain. Without that name, the client would require the pod's
// address in the certificate.
func named(access Access) []grpc.DialOption {
	if access.TLS == nil || access.TLS.ServerName == "" {
		return nil
	}
	return []grpc.DialOption{grpc.WithAuthority(access.TLS.ServerName)}
}

// dial returns a client of the etcd in one pod. It sends nothing. The caller closes the client. Requests must use the returned context, so
// that they fail immediately if nothing listens. With another context, gRPC would retry until the deadline.
func (s *Servers) dial(ctx context.Context, access Access, ip string) (*clientv3.Client, context.Context, error) {
	ctx, fail := context.WithCancelCause(ctx)
	dialer := &net.Dialer{Timeout: s.options.ReadTimeout}
	connect := func(ctx context.Context, _ string) (net.Conn, error) {
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(ClientPort)))
		if err != nil {
			fail(err)
			return nil, err
		}
		return steps.Conn(connection, fail), nil
	}
	scheme := "http"
	if access.TLS != nil {
		scheme = "https"
	}
	c, err := clientv3.New(clientv3.Config{
		Context:   ctx,
		Endpoints: []string{scheme + "://" + net.JoinHostPort(ip, strconv.Itoa(ClientPort))},
		TLS:       access.TLS,
		Logger:    zap.NewNop(), // log lines would only repeat the returned errors
		// One attempt: the next pass retries.
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
