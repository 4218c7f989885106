// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Digest is all data of a cluster: the digest of the serialised value of each key.
type Digest map[string][sha256.Size]byte

// Digest reads all keys of all masters. A key that two masters hold is an error.
func (f *Fleet) Digest(ctx context.Context) (Digest, error) {
	all := Digest{}
	for _, pod := range f.Pods() {
		if !pod.Running() {
			continue
		}
		role, err := pod.Client().Do(ctx, "ROLE").Slice()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pod.Name, err)
		}
		if role[0] != "master" {
			continue
		}
		if err := pod.digest(ctx, all); err != nil {
			return nil, fmt.Errorf("%s: %w", pod.Name, err)
		}
	}
	return all, nil
}

func (p *Pod) digest(ctx context.Context, all Digest) error {
	for cursor := uint64(0); ; {
		keys, next, err := p.Client().Scan(ctx, cursor, "", 1000).Result()
		if err != nil {
			return err
		}
		pipe := p.Client().Pipeline()
		dumps := map[string]*redis.StringCmd{}
		for _, key := range keys {
			dumps[key] = pipe.Dump(ctx, key)
		}
		if len(keys) > 0 {
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
		mine := Digest{}
		for key, dump := range dumps {
			mine[key] = sha256.Sum256([]byte(dump.Val()))
		}
		for key, sum := range mine {
			if other, ok := all[key]; ok && other != sum {
				return fmt.Errorf("key %s is on another master too, with another value", key)
			}
			all[key] = sum
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// Differ says which keys two digests differ in.
func (d Digest) Differ(other Digest) error {
	var missing, changed, more []string
	for key, sum := range d {
		switch now, ok := other[key]; {
		case !ok:
			missing = append(missing, key)
		case now != sum:
			changed = append(changed, key)
		}
	}
	for key := range other {
		if _, ok := d[key]; !ok {
			more = append(more, key)
		}
	}
	if len(missing)+len(changed)+len(more) == 0 {
		return nil
	}
	return fmt.Errorf("of %d keys %d are missing (%.3q ...), %d have changed, %d are new", len(d), len(missing), missing[:min(3, len(missing))], len(changed), len(more))
}

// Fill writes keys through a cluster's client, so many in each of some slots' worth of names.
func (f *Fleet) Fill(ctx context.Context, keys, size int) error {
	client := f.ClusterClient()
	defer client.Close()
	value := make([]byte, size)
	for from := 0; from < keys; from += 500 {
		pipe := client.Pipeline()
		for i := from; i < min(keys, from+500); i++ {
			pipe.Set(ctx, fmt.Sprintf("fill-%d", i), fmt.Sprintf("%d-%s", i, value), 0)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

// Without returns a digest without keys of a prefix.
func (d Digest) Without(prefix string) Digest {
	rest := Digest{}
	for key, sum := range d {
		if !strings.HasPrefix(key, prefix) {
			rest[key] = sum
		}
	}
	return rest
}
