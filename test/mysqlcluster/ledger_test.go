// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ledger runs clients that write increasing numbers through the primary's Service. It records the acknowledged numbers with their times,
// and the numbers that the server refused.
type ledger struct {
	scene *scene
	end   chan struct{}
	done  sync.WaitGroup

	mu      sync.Mutex
	next    int
	acked   map[int]time.Time
	refused []int
	failed  []failure
	last    time.Time
}

// failure is a number whose write was not acknowledged, with the time when the client failed, and its error output.
type failure struct {
	number int
	at     time.Time
	words  string
}

// patient is the time after which a client abandons a statement and reconnects.
const patient = 3 * time.Second

// refusal matches the errors of a server that is read-only or offline: the statement had no effect.
var refusal = regexp.MustCompile(`ERROR (1290|1836|3032) `)

// write starts a client that writes until it is stopped.
func (s *scene) write() *ledger { return s.writers(1) }

// writers starts clients that write until they are stopped.
func (s *scene) writers(clients int) *ledger {
	s.Helper()
	l := &ledger{scene: s, end: make(chan struct{}), acked: map[int]time.Time{}}
	s.Until("the table exists", func() error {
		address, err := s.route()
		if err == nil {
			_, err = s.ask(address, "CREATE TABLE IF NOT EXISTS ledger.t (n BIGINT PRIMARY KEY)")
		}
		return err
	})
	if _, err := fmt.Sscan(s.max(), &l.next); err != nil {
		s.Fatal(err)
	}
	for range clients {
		l.done.Go(l.run)
	}
	s.Cleanup(l.stop)
	s.Eventually("the client writes", func() bool { return l.count() > 0 })
	return l
}

// max returns the highest number that the primary has.
func (s *scene) max() string {
	s.Helper()
	address, err := s.route()
	s.Must(err)
	text, err := s.ask(address, "SELECT COALESCE(MAX(n), 0) FROM ledger.t")
	s.Must(err)
	return text
}

func (l *ledger) stop() {
	select {
	case <-l.end:
	default:
		close(l.end)
	}
	l.done.Wait()
}

func (l *ledger) run() {
	for {
		select {
		case <-l.end:
			return
		default:
			l.connection()
		}
	}
}

// connection writes over one connection until it fails.
func (l *ledger) connection() {
	address, err := l.scene.route()
	if err != nil {
		l.scene.Pass(50 * time.Millisecond)
		return
	}
	command := l.scene.client(address)
	in, err := command.StdinPipe()
	l.scene.Must(err)
	out, err := command.StdoutPipe()
	l.scene.Must(err)
	words := &bytes.Buffer{}
	command.Stderr = words
	l.scene.Must(command.Start())
	lines := make(chan string)
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
		close(lines)
	}()
	n := 0
	for l.one(in, lines, &n) {
	}
	at := time.Now()
	_ = command.Process.Kill() // the process may have ended already
	for range lines {
	}
	_ = command.Wait() // the exit code reports only that the connection failed
	l.mu.Lock()
	defer l.mu.Unlock()
	if refusal.Match(words.Bytes()) {
		l.refused = append(l.refused, n)
	}
	if l.acked[n].IsZero() {
		l.failed = append(l.failed, failure{n, at, strings.TrimSpace(words.String())})
	}
}

// one writes a number, and reports whether the write was acknowledged.
func (l *ledger) one(in io.Writer, lines <-chan string, number *int) bool {
	l.mu.Lock()
	l.next++
	n := l.next
	l.mu.Unlock()
	*number = n
	if _, err := fmt.Fprintf(in, "INSERT INTO ledger.t VALUES (%d); SELECT %d;\n", n, n); err != nil {
		return false
	}
	select {
	case line, ok := <-lines:
		if !ok || line != strconv.Itoa(n) {
			return false
		}
	case <-time.After(patient):
		return false
	}
	l.mu.Lock()
	l.acked[n], l.last = time.Now(), time.Now()
	l.mu.Unlock()
	select {
	case <-l.end:
		return false
	case <-time.After(5 * time.Millisecond): // the servers of several tests share two processors
		return true
	}
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// again waits until the server acknowledges a number that a client began to write after the call of again. It returns the time between
// the parameter after and the first such acknowledgement.
func (l *ledger) again(after time.Time) time.Duration {
	l.scene.Helper()
	l.mu.Lock()
	from := l.next
	l.mu.Unlock()
	took := time.Duration(0)
	l.scene.Until("the client writes again", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for n, at := range l.acked {
			if n > from && (took == 0 || at.Sub(after) < took) {
				took = at.Sub(after)
			}
		}
		if took == 0 {
			return fmt.Errorf("none of %d later numbers was acknowledged", l.next-from)
		}
		return nil
	})
	return took
}

// kept stops the clients. It fails the test unless all members have each acknowledged number exactly once, and no refused number.
func (l *ledger) kept(members int) {
	l.scene.Helper()
	l.stop()
	rows := l.scene.agree(members)
	there := map[string]bool{}
	for _, row := range rows {
		there[row] = true
	}
	var lost []int
	for n := range l.acked {
		if !there[strconv.Itoa(n)] {
			lost = append(lost, n)
		}
	}
	for _, n := range l.refused {
		if there[strconv.Itoa(n)] {
			l.scene.Errorf("number %d was refused, but exists", n)
		}
	}
	slices.Sort(lost)
	l.scene.Logf("%d of %d numbers were acknowledged, and %d of these are lost; each of %d members has %d rows", len(l.acked), l.next, len(lost), members, len(rows))
	if len(lost) > 0 {
		l.scene.Errorf("lost: %v", lost[:min(len(lost), 20)])
	}
}

// pause returns the longest time without an acknowledged number, beginning at a time.
func (l *ledger) pause(since time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []time.Time
	for _, at := range l.acked {
		if at.After(since) {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	for _, at := range all {
		longest, since = max(longest, at.Sub(since)), at
	}
	return longest
}
