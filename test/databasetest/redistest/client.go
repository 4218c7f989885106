// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redistest holds helpers for tests with real redis-server processes.
package redistest

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"d3os.com/d3os-operator/test/harness/process"
)

// Program returns the path of redis-server, redis-cli or redis-check-aof.
func Program(name string) (string, error) { return process.Program("REDIS", "redis", name) }

// HasEffect reports whether a command changes anything.
func HasEffect(command string) bool {
	for _, read := range []string{"CLUSTER MYID", "CLUSTER NODES", "CLUSTER COUNTKEYSINSLOT", "CLUSTER GETKEYSINSLOT", "DBSIZE", "INFO", "FUNCTION DUMP", "CONFIG GET"} {
		if strings.HasPrefix(command, read) {
			return false
		}
	}
	return true
}

// IsMove reports whether a command is part of a move of a slot.
func IsMove(command string) bool {
	return strings.HasPrefix(command, "CLUSTER SETSLOT") || strings.HasPrefix(command, "MIGRATE")
}

// NewClusterClient returns an application's client. The client gets the owners of slots from the function slots, which queries any present
// node, like a client that uses a Service.
func NewClusterClient(password string, slots func(context.Context) ([]redis.ClusterSlot, error)) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
			found, err := slots(ctx)
			for _, slot := range found {
				for i, node := range slot.Nodes {
					slot.Nodes[i].Addr = loopback + node.Addr
				}
			}
			return found, err
		},
		Dialer: dial, Password: password, Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		MaxRedirects: 8, DialTimeout: time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: time.Second, ContextTimeoutEnabled: true, PoolSize: 4,
	})
}

// loopback is a prefix of addresses for the client library, which would replace loopback addresses. dial removes the prefix.
const loopback = "at-"

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, strings.TrimPrefix(address, loopback))
}
