// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
)

// Open returns a client with the addresses of all servers of the cluster.
func (c *RedisCluster) Open() *redis.ClusterClient {
	c.T.Helper()
	o := &redis.ClusterOptions{Password: Password, Protocol: 2, DisableIdentity: true, MaxRedirects: 16}
	for _, s := range c.All() {
		o.Addrs = append(o.Addrs, s.Address())
	}
	client := redis.NewClusterClient(o)
	c.T.Cleanup(func() { _ = client.Close() })
	return client
}

// Fill writes keys of each type, with and without a time to live. One value is large.
func (c *RedisCluster) Fill() {
	c.T.Helper()
	ctx, pipe := context.Background(), c.Open().Pipeline()
	random := chance.New(c.T, 1)
	large := make([]byte, 5<<20)
	_, _ = random.Read(large)
	pipe.Set(ctx, "large", large, 0)
	pipe.Set(ctx, "odd \x00\r\n\xff{name", "\x00\r\n", 0)
	for i := range 300 {
		name := func(kind string) string { return fmt.Sprintf("%s:%d", kind, i) }
		pipe.Set(ctx, name("string"), strings.Repeat(name("v"), i%50), 0)
		pipe.Set(ctx, name("number"), i*i, 0)
		pipe.Set(ctx, name("mortal"), i, time.Hour+time.Duration(random.Intn(1e9)))
		pipe.Set(ctx, fmt.Sprintf("{tag:%d}:%d", i%7, i), i, 0)
		// Small values have another encoding than large ones.
		for j := range 1 + i%3*100 {
			pipe.HSet(ctx, name("hash"), fmt.Sprint("f", j), random.Int63())
			pipe.SAdd(ctx, name("set"), fmt.Sprint(random.Int63()))
			pipe.SAdd(ctx, name("numbers"), j)
		}
		for j := range 1 + i%5 {
			pipe.RPush(ctx, name("list"), strings.Repeat(fmt.Sprint(j), 100*i%1000))
			pipe.ZAdd(ctx, name("sorted"), redis.Z{Score: random.NormFloat64(), Member: fmt.Sprint(j)})
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: name("stream"), ID: fmt.Sprintf("%d-%d", i+1, j+1), Values: []string{"field", fmt.Sprint(j)}})
		}
		pipe.XGroupCreate(ctx, name("stream"), "readers", "0")
		pipe.Expire(ctx, name("hash"), time.Hour)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		c.T.Fatal(err)
	}
}

// Keys returns the type, the value and the expiry time of each key.
func (c *RedisCluster) Keys() map[string]string {
	c.T.Helper()
	all := map[string]string{}
	for _, s := range c.All() {
		if s.Says("role:master", "INFO", "replication") {
			assert.NilError(c.T, s.keys(all))
		}
	}
	return all
}

// readers maps each type to the command that reads its values.
var readers = map[string][]any{
	"string": {"GET", nil}, "hash": {"HGETALL", nil}, "list": {"LRANGE", nil, 0, -1}, "set": {"SMEMBERS", nil},
	"zset": {"ZRANGE", nil, 0, -1, "WITHSCORES"}, "stream": {"XRANGE", nil, "-", "+"},
}

func (s *RedisServer) keys(into map[string]string) error {
	ctx := context.Background()
	names, err := s.Do(ctx, "KEYS", "*").StringSlice()
	if err != nil {
		return fmt.Errorf("list the keys of %s: %w", s.Address(), err)
	}
	kinds, values := s.Pipeline(), s.Pipeline()
	for _, name := range names {
		kinds.Type(ctx, name)
	}
	found, err := kinds.Exec(ctx)
	if err != nil {
		return fmt.Errorf("ask %s for types: %w", s.Address(), err)
	}
	for i, name := range names {
		read := append([]any{}, readers[found[i].(*redis.StatusCmd).Val()]...)
		read[1] = name
		values.Do(ctx, read...)
		values.Do(ctx, "PEXPIRETIME", name)
	}
	if found, err = values.Exec(ctx); err != nil {
		return fmt.Errorf("read the keys of %s: %w", s.Address(), err)
	}
	for i, name := range names {
		value := found[2*i].(*redis.Cmd)
		if _, twice := into[name]; twice {
			return fmt.Errorf("key %q is on two masters", name)
		}
		into[name] = fmt.Sprint(ordered(value), found[2*i+1].(*redis.Cmd).Val())
	}
	return nil
}

// ordered returns a value. If the value's type has no order, it sorts the elements.
func ordered(answer *redis.Cmd) any {
	members, isList := answer.Val().([]any)
	kind := strings.ToLower(fmt.Sprint(answer.Args()[0]))
	if !isList || kind != "hgetall" && kind != "smembers" {
		return answer.Val()
	}
	step := 1
	if kind == "hgetall" {
		step = 2
	}
	var lines []string
	for i := 0; i < len(members); i += step {
		lines = append(lines, fmt.Sprintf("%q", members[i:i+step]))
	}
	sort.Strings(lines)
	return kind + strings.Join(lines, ",")
}

// KeysDiffer returns the first keys that differ between two clusters; "" for none.
func KeysDiffer(got, want map[string]string) string {
	var lines []string
	for name, value := range want {
		if other, ok := got[name]; !ok {
			lines = append(lines, fmt.Sprintf("%q is missing", name))
		} else if other != value {
			lines = append(lines, fmt.Sprintf("%q is %.80q, and should be %.80q", name, other, value))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			lines = append(lines, fmt.Sprintf("%q should not be there", name))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines[:min(len(lines), 10)], "\n")
}

// RedisLoad is a group of writers. Each writes keys with increasing numbers.
type RedisLoad struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	acks   []string
}

// Write starts writers. Each pauses before each write, so that other processes get processor time.
func (c *RedisCluster) Write(t testing.TB, writers int, pause time.Duration) *RedisLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, client := &RedisLoad{cancel: cancel}, c.Open()
	for w := range writers {
		l.group.Go(func() {
			for seq := 0; ctx.Err() == nil; seq++ {
				time.Sleep(pause)                                                   // no test depends on the number of writes
				name := fmt.Sprintf("load:%d:%d:%d", time.Now().UnixNano(), w, seq) // no other load uses this name
				if client.Set(ctx, name, seq, 0).Err() == nil {
					l.mu.Lock()
					l.acks = append(l.acks, name)
					l.mu.Unlock()
				}
			}
		})
	}
	t.Cleanup(l.Stop)
	return l
}

// Acks returns the keys whose writes have been acknowledged so far.
func (l *RedisLoad) Acks() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.acks...)
}

// Stop ends the writers.
func (l *RedisLoad) Stop() {
	l.cancel()
	l.group.Wait()
}
