// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// Options configure Servers. The zero value is for production.
type Options struct {
	// ReadTimeout limits the time of all queries of a node in one pass. Default: 2s.
	ReadTimeout time.Duration
	// Connections limits the number of open connections. At the limit, a new connection closes the least recently used one. Default: 2048.
	Connections int
	// Tap intercepts the commands of steps. Default: none.
	Tap Tap
}

// Access holds the credentials for the nodes of one cluster.
type Access struct {
	Username string // empty: the default user
	Password string
	TLS      *tls.Config // nil: no TLS
}

// Port is the port of Redis in each pod. Its cluster bus uses Port+10000.
const Port = 6379

// commandTimeout limits commands that move keys: they wait for both nodes.
const commandTimeout = 10 * time.Second

// Servers holds the connections to all nodes of all clusters. It is safe for concurrent use.
type Servers struct {
	options Options

	mu    sync.Mutex
	peers map[peerKey]*peer
	used  uint64 // incremented with each use
}

// peerKey identifies a pod at an address: a new address needs a new connection.
type peerKey struct{ cluster, uid, ip string }

// peer is the connection to one pod.
type peer struct {
	client *redis.Client
	access Access
	used   uint64
	failed int // consecutive reads without a reply in time
	sent   map[topology.Action]time.Time
	// settled holds settings that the server accepted but reports with another value.
	settled map[string]settled
	// failures are the failures of steps on this pod.
	failures steps.Failures[failureKey]
}

// settled holds the value that was set, and the value that the server reports.
type settled struct{ given, has string }

// New returns Servers without a connection.
func New(options Options) *Servers {
	silence()
	if options.ReadTimeout == 0 {
		options.ReadTimeout = 2 * time.Second
	}
	if options.Connections == 0 {
		options.Connections = 2048
	}
	return &Servers{options: options, peers: map[peerKey]*peer{}}
}

// peer returns the connection to a pod, and creates one if there is none. It sends nothing.
func (s *Servers) peer(cluster string, access Access, uid, ip string) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++
	key := peerKey{cluster, uid, ip}
	if known := s.peers[key]; known != nil {
		if known.access == access {
			known.used = s.used
			return known
		}
		s.drop(key)
	}
	if len(s.peers) >= s.options.Connections {
		var oldest peerKey
		least := s.used
		for key, p := range s.peers {
			if p.used < least {
				oldest, least = key, p.used
			}
		}
		s.drop(oldest)
	}
	made := &peer{access: access, used: s.used, sent: map[topology.Action]time.Time{}, settled: map[string]settled{}, client: redis.NewClient(&redis.Options{
		Addr:     net.JoinHostPort(ip, strconv.Itoa(Port)),
		Dialer:   dialer(access.TLS, s.options.ReadTimeout),
		Username: access.Username, Password: access.Password,
		// Redis 6.2 to 7.0 support no more than this, and this package needs no more.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// A command that may have been executed is not sent again: the next pass observes its effect.
		MaxRetries: -1, DialerRetries: 1,
		PoolSize: 2, PipelinePoolSize: -1, ConnMaxIdleTime: 5 * time.Minute,
		ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,
		DialTimeout: s.options.ReadTimeout, ReadTimeout: commandTimeout, WriteTimeout: s.options.ReadTimeout,
		PoolTimeout: s.options.ReadTimeout, ContextTimeoutEnabled: true,
	})}
	s.peers[key] = made
	return made
}

// dialer connects to a pod, with limits on the size of its answers.
func dialer(config *tls.Config, within time.Duration) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: within}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dial := plain.DialContext
		if config != nil {
			dial = (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
		}
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return Conn(steps.Conn(c, func(error) {})), nil
	}
}

// drop closes and forgets a connection. The caller holds the lock.
func (s *Servers) drop(key peerKey) {
	if known := s.peers[key]; known != nil {
		// An error would concern a connection that is no longer used.
		_ = known.client.Close()
		delete(s.peers, key)
	}
}

// keep closes the connections of a cluster to all pods except nodes.
func (s *Servers) keep(cluster string, nodes []topology.Node) {
	wanted := map[peerKey]bool{}
	for _, n := range nodes {
		wanted[peerKey{cluster, n.UID, n.IP}] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.peers {
		if key.cluster == cluster && !wanted[key] {
			s.drop(key)
		}
	}
}

// Forget closes all connections of a cluster.
func (s *Servers) Forget(cluster string) { s.keep(cluster, nil) }

// Close closes all connections.
func (s *Servers) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.peers {
		s.drop(key)
	}
}

// silent discards the client library's log lines, which only repeat the errors that it returns.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })
