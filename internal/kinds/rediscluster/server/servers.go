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

	"d3os.com/d3os-operator/internal/kinds/rediscluster/guard"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
)

// Options of Servers. The zero value is for production.
type Options struct {
	// ReadTimeout bounds the time in which a node answers everything that it is asked in one pass. Default: 2s.
	ReadTimeout time.Duration
	// Slice bounds the time for which one step moves slots. Default: 5s.
	Slice time.Duration
	// Connections bounds how many pods are remembered. The one that was used least recently goes. Default: 2048.
	Connections int
	// Tap sees what steps send. Default: none.
	Tap Tap
}

// Access is how the nodes of one cluster are reached.
type Access struct {
	Username string // empty: the default user
	Password string
	TLS      *tls.Config // nil: plain
}

// Port is where Redis listens in each pod. Its cluster bus listens at Port+10000.
const Port = 6379

// Commands that move keys wait for both nodes, for as long as this at most.
const commandTimeout = 10 * time.Second

// Servers are the connections to all nodes of all clusters. It is safe for concurrent use.
type Servers struct {
	options Options

	mu    sync.Mutex
	peers map[peerKey]*peer
	used  uint64 // counts up with each use
}

// peerKey is a pod at an address: after a new address, the connection is a new one.
type peerKey struct{ cluster, uid, ip string }

// peer is the connection to one pod.
type peer struct {
	client *redis.Client
	access Access
	used   uint64
	failed int // reads in a row that were not answered in time
	sent   map[topology.Action]time.Time
	// settled are settings that the server took, and reports in words of its own.
	settled map[string]settled
	// failures are of steps on this pod.
	failures map[failureKey]failure
}

// settled is what a server was given as a setting, and what it says that it has.
type settled struct{ given, has string }

// New returns Servers without a connection.
func New(options Options) *Servers {
	silence()
	if options.ReadTimeout == 0 {
		options.ReadTimeout = 2 * time.Second
	}
	if options.Slice == 0 {
		options.Slice = 5 * time.Second
	}
	if options.Connections == 0 {
		options.Connections = 2048
	}
	return &Servers{options: options, peers: map[peerKey]*peer{}}
}

// peer returns the connection to a pod, and makes one if there is none. Nothing is sent.
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
	made := &peer{access: access, used: s.used, sent: map[topology.Action]time.Time{}, failures: map[failureKey]failure{}, settled: map[string]settled{}, client: redis.NewClient(&redis.Options{
		Addr:     net.JoinHostPort(ip, strconv.Itoa(Port)),
		Dialer:   dialer(access.TLS, s.options.ReadTimeout),
		Username: access.Username, Password: access.Password,
		// Redis 6.2 to 7.0 know no more than this, and nothing here needs more.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// A command that was perhaps carried out is not sent again: the next pass looks what came of it.
		MaxRetries: -1, DialerRetries: 1,
		PoolSize: 2, PipelinePoolSize: -1, ConnMaxIdleTime: 5 * time.Minute,
		ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,
		DialTimeout: s.options.ReadTimeout, ReadTimeout: commandTimeout, WriteTimeout: s.options.ReadTimeout,
		PoolTimeout: s.options.ReadTimeout, ContextTimeoutEnabled: true,
	})}
	s.peers[key] = made
	return made
}

// dialer connects to a pod, and lets it answer no more than makes sense.
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
		return guard.Conn(c), nil
	}
}

// drop closes and forgets a connection. The caller holds the lock.
func (s *Servers) drop(key peerKey) {
	if known := s.peers[key]; known != nil {
		// Its error would be about a connection that nobody needs any more.
		_ = known.client.Close()
		delete(s.peers, key)
	}
}

// keep drops the connections of a cluster to pods that are not among these.
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

// Forget drops all connections of a cluster.
func (s *Servers) Forget(cluster string) { s.keep(cluster, nil) }

// Close drops all connections.
func (s *Servers) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.peers {
		s.drop(key)
	}
}

// silent is a logger for the client library, whose lines say no more than the errors that it returns.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })
