// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// ClusterClient is what an application has: it learns where slots are and follows redirections.
func (f *Fleet) ClusterClient() *redis.ClusterClient { return NewClusterClient(f.password, f.slots) }

// NewClusterClient returns an application's client. Where slots are it learns from whoever is there now, as by the name
// of a Service: from slots, which asks some node.
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
		Dialer: dial, Password: password, Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: noMaintenance(),
		MaxRedirects: 8, DialTimeout: time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: time.Second, ContextTimeoutEnabled: true, PoolSize: 4,
	})
}

// loopback hides from the client library that an address is a loopback address, which it would replace.
const loopback = "at-"

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, strings.TrimPrefix(address, loopback))
}

// slots asks the first pod that answers who owns what.
func (f *Fleet) slots(ctx context.Context) ([]redis.ClusterSlot, error) {
	var errs []error
	for _, pod := range f.Pods() {
		slots, err := pod.Client().ClusterSlots(ctx).Result() //nolint:staticcheck // it is what the client wants
		if err == nil && len(slots) > 0 {
			return slots, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no pod answers: %w", errors.Join(errs...))
}
