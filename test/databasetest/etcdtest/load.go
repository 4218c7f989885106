// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdtest contains clients that write to a real etcd and record their writes, the paths of etcd's programs, and a function that damages a
// volume.
package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/harness/process"
)

// The parameters of the load.
const (
	writers    = 3                       // clients that write and read the shared keys
	sharedKeys = 4                       // number of the keys that clients share, for the history
	every      = 15 * time.Millisecond   // time between two requests of a client
	patience   = 1500 * time.Millisecond // time limit of a request
)

// Load runs clients that write and read, and records their requests. The history of a few shared keys must be
// linearizable. Other keys are written once, and each acknowledged key must exist.
type Load struct {
	dial  Dial
	stop  context.CancelFunc
	all   sync.WaitGroup
	began time.Time

	mu       sync.Mutex
	history  []porcupine.Operation
	ledger   map[string]string
	failed   []Failure // requests that failed or whose outcome is unknown
	requests int
	gap      time.Duration // the longest time without an acknowledged write
	last     time.Time
}

// Failure is a request that failed.
type Failure struct {
	At  time.Time // the time of the failure
	Err error
}

// Dial connects to the etcd of a pod that the number selects.
type Dial func(number int) (*clientv3.Client, error)

// NewLoad starts clients. The clients stop when End is called or the test ends.
func NewLoad(t testing.TB, dial Dial) *Load {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &Load{dial: dial, stop: stop, began: time.Now(), last: time.Now(), ledger: map[string]string{}}
	for id := range writers {
		l.all.Go(func() { l.work(ctx, id, l.shared) })
	}
	l.all.Go(func() { l.work(ctx, writers, l.once) })
	t.Cleanup(func() { stop(); l.all.Wait() })
	assert.NilError(t, process.Wait(ctx, time.Minute, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.ledger) < 20 {
			return fmt.Errorf("only %d keys are acknowledged", len(l.ledger))
		}
		return nil
	}))
	return l
}

// work sends requests to one pod after the other, as clients with several endpoints do.
func (l *Load) work(ctx context.Context, id int, request func(context.Context, *clientv3.Client, int) error) {
	random := rand.New(rand.NewPCG(uint64(id), 1))
	var c *clientv3.Client
	for ctx.Err() == nil {
		if c == nil {
			var err error
			if c, err = l.dial(random.IntN(1 << 30)); err != nil {
				pause(ctx, every)
				continue
			}
		}
		within, cancel := context.WithTimeout(ctx, patience)
		err := request(within, c, random.IntN(1<<30))
		cancel()
		l.mu.Lock()
		l.requests++
		if err != nil && ctx.Err() == nil {
			l.failed = append(l.failed, Failure{time.Now(), err})
		}
		l.mu.Unlock()
		if err != nil {
			_ = c.Close() // the next request uses another pod
			c = nil
		}
		pause(ctx, every)
	}
	if c != nil {
		_ = c.Close()
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (l *Load) now() int64 { return int64(time.Since(l.began)) }

// shared writes or reads a key that other clients use, too.
func (l *Load) shared(ctx context.Context, c *clientv3.Client, chance int) error {
	op := operation{key: fmt.Sprintf("shared/%d", chance%sharedKeys), write: chance/sharedKeys%2 == 0, value: fmt.Sprint(chance, "-", l.now())}
	call, output := l.now(), ""
	var err error
	if op.write {
		_, err = c.Put(ctx, op.key, op.value)
	} else {
		var found *clientv3.GetResponse
		if found, err = c.Get(ctx, op.key); err == nil && len(found.Kvs) > 0 {
			output = string(found.Kvs[0].Value)
		}
	}
	done := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.history = append(l.history, porcupine.Operation{Input: op, Call: call, Output: output, Return: done})
		if op.write {
			l.acknowledged()
		}
	case op.write && !refused(err):
		// The write may take effect at any later time.
		l.history = append(l.history, porcupine.Operation{Input: op, Call: call, Return: never})
	}
	return err
}

// refused reports whether a request certainly had no effect.
func refused(err error) bool {
	return errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, rpctypes.ErrGRPCNotSupportedForLearner) || status.Code(err) == codes.FailedPrecondition
}

func (l *Load) acknowledged() {
	l.gap = max(l.gap, time.Since(l.last))
	l.last = time.Now()
}

// once writes a key that only this client writes.
func (l *Load) once(ctx context.Context, c *clientv3.Client, chance int) error {
	l.mu.Lock()
	key := fmt.Sprintf("once/%06d", l.requests)
	l.mu.Unlock()
	value := fmt.Sprint(chance)
	_, err := c.Put(ctx, key, value)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.ledger[key] = value
		l.acknowledged()
	}
	return err
}

// End stops the clients and compares their results with the promises of etcd.
func (l *Load) End(t testing.TB) {
	t.Helper()
	l.stop()
	l.all.Wait()
	l.Verify(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	began := time.Now()
	if result := porcupine.CheckOperationsTimeout(register, certain(l.history), 30*time.Second); result != porcupine.Ok {
		t.Errorf("the history of %d operations is not linearizable: %s", len(l.history), result)
	}
	t.Logf("load: %d requests, %d failed, longest time without an acknowledged write %s; %d operations linearizable (checked in %s), %d keys in the ledger, all there",
		l.requests, len(l.failed), l.gap.Round(time.Millisecond), len(l.history), time.Since(began).Round(time.Millisecond), len(l.ledger))
}

// Failures returns the requests that have failed.
func (l *Load) Failures() []Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.failed)
}

// Paused reports a time without an acknowledged write that exceeds the limit.
func (l *Load) Paused(t testing.TB, longest time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gap > longest {
		t.Errorf("nothing was written for %s, and it should be %s at most", l.gap.Round(time.Millisecond), longest)
	}
}

// The versions of etcd with available programs; 3.4 is Debian's.
const (
	V34 = "3.4.23"
	V35 = "3.5.35"
	V36 = "3.6.16"
	V37 = "3.7.3"
)

// Program returns the path of etcd of a version.
func Program(version string) (string, error) {
	return process.Program("ETCD", "etcds", "etcd-"+version[:strings.LastIndex(version, ".")])
}

// FlipWAL inverts bytes in the middle of the log on a volume. No etcd may run on the volume.
func FlipWAL(volume string) error {
	logs, err := filepath.Glob(filepath.Join(volume, "etcd", "member", "wal", "*.wal"))
	if err == nil && len(logs) == 0 {
		err = errors.New("it has no log")
	}
	for _, path := range logs {
		var text []byte
		if text, err = os.ReadFile(path); err != nil {
			break
		}
		used := len(bytes.TrimRight(text, "\x00"))
		for i := used / 2; i < min(used, used/2+64); i++ {
			text[i] ^= 0xff
		}
		if err = os.WriteFile(path, text, 0o600); err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("flip bytes of the log in %s: %w", volume, err)
	}
	return nil
}
