// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/test/harness/process"
)

// pause is the time between two requests of a writer or reader. At full speed (REDIS_TESTS=full) there is no pause, and the
// clients use all available processor time. The short form leaves this time to other suites.
var pause = func() time.Duration {
	if os.Getenv("REDIS_TESTS") == "full" {
		return 0
	}
	return 4 * time.Millisecond
}()

// rest waits for the pause to pass.
func rest(ctx context.Context) {
	if pause == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// Ledger writes and reads continuously, and records the acknowledged writes.
type Ledger struct {
	t      testing.TB
	client *redis.ClusterClient
	wait   bool
	stop   context.CancelFunc
	done   sync.WaitGroup
	keys   []*entry

	writes, reads, unknown atomic.Int64
	longest                atomic.Int64 // the longest time without a write of a key, in nanoseconds
	mu                     sync.Mutex
	wrong                  []string
	oldest                 time.Duration
	from                   map[*entry]int64
}

// entry is one key. Its value is a number that only increases.
type entry struct {
	key   string
	acked atomic.Int64 // the last number that was acknowledged
	tried atomic.Int64 // the last number that was sent

	mu    sync.Mutex
	times []ack
}

type ack struct {
	number int64
	at     time.Time
}

// NewLedger starts writers and readers of keys with a new prefix. Close ends them, and closes the client. With wait,
// a write counts as acknowledged only when a replica also has it (WAIT 1).
func NewLedger(t testing.TB, client *redis.ClusterClient, name string, wait bool) *Ledger {
	ctx, stop := context.WithCancel(t.Context())
	l := &Ledger{t: t, client: client, wait: wait, stop: stop}
	for i := range 96 { // enough keys for each of up to 8 shards and for moved slots
		l.keys = append(l.keys, &entry{key: fmt.Sprintf("%s-%d", name, i)})
	}
	const writers = 4
	for w := range writers {
		l.done.Go(func() { l.write(ctx, w, writers) })
		l.done.Go(func() { l.read(ctx, w, writers) })
	}
	return l
}

func (l *Ledger) write(ctx context.Context, first, step int) {
	last := map[*entry]time.Time{}
	for i := first; ctx.Err() == nil; i += step {
		rest(ctx)
		e := l.keys[i%len(l.keys)]
		n := e.tried.Add(1)
		if err := l.set(ctx, e.key, n); err != nil {
			l.unknown.Add(1)
			l.client.ReloadState(ctx)
			continue
		}
		now := time.Now()
		l.note(e, n, now)
		l.writes.Add(1)
		if before, ok := last[e]; ok && now.Sub(before).Nanoseconds() > l.longest.Load() {
			l.longest.Store(now.Sub(before).Nanoseconds())
		}
		last[e] = now
	}
}

// note records a write as acknowledged.
func (l *Ledger) note(e *entry, n int64, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.acked.Store(n)
	e.times = append(e.times, ack{n, now})
	if len(e.times) > 4096 {
		e.times = e.times[2048:]
	}
}

// since returns the time from the first acknowledged write after number n to the last acknowledged write before the
// next pause. It returns 0 if no such write exists.
func (e *entry) since(n int64) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.times {
		if a.number > n {
			return e.lastBeforePause(a.at)
		}
	}
	return 0
}

// lastBeforePause returns the time from a write to the last write before a pause of the key. The pause begins when the
// key's master ends.
func (e *entry) lastBeforePause(from time.Time) time.Duration {
	last := from
	for _, a := range e.times {
		if a.at.After(last) && a.at.Sub(last) < time.Second {
			last = a.at
		}
	}
	return last.Sub(from)
}

// Written returns an error until a number of writes have been acknowledged.
func (l *Ledger) Written(n int64) error {
	if got := l.writes.Load(); got < n {
		return fmt.Errorf("%d writes are acknowledged", got)
	}
	return nil
}

// WrittenAll returns an error until each key has been written since the first call.
func (l *Ledger) WrittenAll() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from == nil {
		l.from = map[*entry]int64{}
		for _, e := range l.keys {
			l.from[e] = e.acked.Load()
		}
	}
	for _, e := range l.keys {
		if e.acked.Load() == l.from[e] {
			return fmt.Errorf("%s has not been written", e.key)
		}
	}
	return nil
}

func (l *Ledger) set(ctx context.Context, key string, n int64) error {
	if !l.wait {
		return l.client.Set(ctx, key, n, 0).Err()
	}
	// Use one connection, because WAIT applies only to the writes of its connection.
	master, err := l.client.MasterForKey(ctx, key)
	if err != nil {
		return err
	}
	pipe := master.Pipeline()
	pipe.Set(ctx, key, n, 0)
	reached := pipe.Do(ctx, "WAIT", 1, 1000)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if count, err := reached.Int(); err != nil || count < 1 {
		return fmt.Errorf("%d replicas have it (%w)", count, err)
	}
	return nil
}

func (l *Ledger) read(ctx context.Context, first, step int) {
	for i := first; ctx.Err() == nil; i += step {
		rest(ctx)
		_ = l.look(ctx, l.keys[i%len(l.keys)]) // the loop reads the key again
	}
}

// look reads a key. The value must be at least the last acknowledged value.
func (l *Ledger) look(ctx context.Context, e *entry) error {
	acked := e.acked.Load()
	text, err := l.client.Get(ctx, e.key).Result()
	switch {
	case errors.Is(err, redis.Nil):
		if acked > 0 {
			l.blame("%s is nil, %d was acknowledged", e.key, acked)
		}
		return nil
	case err != nil:
		l.client.ReloadState(ctx)
		return err
	}
	l.reads.Add(1)
	n, err := strconv.ParseInt(text, 10, 64)
	if tried := e.tried.Load(); err != nil || n < acked || n > tried {
		l.blame("%s is %s, %d was acknowledged, %d was sent", e.key, text, acked, tried)
		age := e.since(n)
		l.mu.Lock()
		l.oldest = max(l.oldest, age)
		l.mu.Unlock()
	}
	return nil
}

func (l *Ledger) blame(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// Figures counts the requests of a Ledger.
type Figures struct {
	Writes, Unknown, Reads int64
	Longest                time.Duration // the longest time without a write of one key
	Wrong                  []string      // reads of a value below the acknowledged value
	Lost                   int           // keys below the acknowledged value at the end
	Oldest                 time.Duration // the longest time from an acknowledged write that was lost to the pause of its key's writes
}

// Close ends writers and readers, reads each key once more, and returns the results. It closes the client.
func (l *Ledger) Close() Figures {
	l.t.Helper()
	l.stop()
	l.done.Wait()
	l.mu.Lock()
	seen := len(l.wrong)
	l.mu.Unlock()
	for _, e := range l.keys {
		if err := process.Wait(context.Background(), time.Minute, func() error { return l.look(context.Background(), e) }); err != nil {
			l.t.Errorf("%s cannot be read at the end: %v", e.key, err)
		}
	}
	_ = l.client.Close() // no request is pending
	l.mu.Lock()
	defer l.mu.Unlock()
	return Figures{
		Writes: l.writes.Load(), Unknown: l.unknown.Load(), Reads: l.reads.Load(), Longest: time.Duration(l.longest.Load()),
		Wrong: l.wrong, Lost: len(l.wrong) - seen, Oldest: l.oldest,
	}
}

// Nothing ("nothing is lost") logs the figures, and fails the test if an acknowledged write was lost or a read was wrong.
func (f Figures) Nothing(t testing.TB, during string) {
	t.Helper()
	t.Logf("%s: %d writes acknowledged, %d of unknown outcome, %d reads, longest pause of a key %s, %d wrong reads, %d keys lost",
		during, f.Writes, f.Unknown, f.Reads, f.Longest.Round(time.Millisecond), len(f.Wrong), f.Lost)
	if len(f.Wrong) > 0 {
		t.Errorf("%s: acknowledged writes were lost: %s", during, f.Wrong[:min(10, len(f.Wrong))])
	}
	if f.Writes == 0 || f.Reads == 0 {
		t.Errorf("%s: nothing was written or read", during)
	}
}
