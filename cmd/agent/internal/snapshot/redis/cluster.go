// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redis makes a backup of a Redis Cluster. It restores a backup as the data of the masters of a new cluster.
package redis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"d3os.com/d3os-operator/internal/contract"
)

// Flavour is the name of the server in manifests.
const Flavour = "redis"

// Cluster holds the options for connections to the servers.
type Cluster struct {
	// Server is the HOST:PORT of one server of the cluster.
	Server string
	// Password is the password of all servers; empty for none.
	Password string
}

// answerTime is the maximum time in which a server must answer a request.
const answerTime = 5 * time.Second

// servers holds connections to the servers of a cluster.
type servers struct {
	Cluster
	mu      sync.Mutex
	clients map[string]*redis.Client // by address
	known   []string                 // the servers that answered when look last succeeded

	patience time.Duration // maximum wait until no slot is moving
}

// silence turns the client's log off, because the result reports all failures.
var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func (c Cluster) servers() *servers {
	silence()
	return &servers{Cluster: c, clients: map[string]*redis.Client{}, patience: restTime}
}

func (s *servers) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, client := range s.clients {
		_ = client.Close() // no request is pending
	}
}

// hangUp closes the connections to an address.
func (s *servers) hangUp(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client := s.clients[address]; client != nil {
		_ = client.Close() // no request is pending
		delete(s.clients, address)
	}
}

func (s *servers) client(address string) *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[address] == nil {
		s.clients[address] = redis.NewClient(&redis.Options{
			Addr: address, Password: s.Password,
			// Redis 6.2 and 7.0 support only this version of the protocol.
			Protocol: 2, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			MaxRetries:               -1, DialerRetries: 1, PoolSize: 2, ContextTimeoutEnabled: true,
			DialTimeout: answerTime, ReadTimeout: answerTime, WriteTimeout: answerTime, PoolTimeout: answerTime,
		})
	}
	return s.clients[address]
}

// answer is the answer of one server: its view of the cluster, and its information.
type answer struct {
	view
	info info
	keys int64
}

// ask reads the view and the information of a server.
func (s *servers) ask(ctx context.Context, address string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	pipe := s.client(address).Pipeline()
	nodes, all, keys := pipe.ClusterNodes(ctx), pipe.Info(ctx), pipe.DBSize(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return answer{}, failed("query", address, err)
	}
	host, _, _ := net.SplitHostPort(address)
	v, err := parseView(nodes.Val(), host)
	if err != nil {
		return answer{}, contract.Errorf(contract.ReasonServerUnreachable, "read CLUSTER NODES of redis at %s: %w", address, err)
	}
	return answer{view: v, info: parseInfo(all.Val()), keys: keys.Val()}, nil
}

// info is the parsed answer to INFO.
type info map[string]string

func parseInfo(text string) info {
	i := info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			i[name] = value
		}
	}
	return i
}

// offset returns a position in the replication stream; -1 if it is unknown.
func (i info) offset(name string) int64 {
	n, err := strconv.ParseInt(i[name], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// isLinked reports whether a replica receives the writes of its master.
func (i info) isLinked() bool {
	return i["role"] == "slave" && i["master_link_status"] == "up" && i["master_sync_in_progress"] == "0" && i["loading"] == "0"
}

// isDenied reports whether an error of Redis refuses an account or its password.
func isDenied(words string) bool {
	for _, code := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "invalid password"} {
		if strings.Contains(words, code) {
			return true
		}
	}
	return false
}

// failed wraps an error with the attempted action and the server, and sets its reason.
func failed(what, address string, err error) error {
	var said redis.Error
	reason := contract.ReasonServerUnreachable
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &said) && isDenied(said.Error()):
		reason = contract.ReasonAccessDenied
	case errors.As(err, &said) && strings.Contains(said.Error(), "cluster support disabled"):
		reason = contract.ReasonRefused
	}
	return contract.Errorf(reason, "%s redis at %s: %w", what, address, err)
}
