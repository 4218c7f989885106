// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Limits of one answer, or of all answers to one pipeline. The description of a cluster of 1,000 nodes has 200 KB; the largest answers are
// keys and functions.
const (
	maxBytes   = 64 << 20
	maxBulk    = 32 << 20
	maxLine    = 64 << 10
	maxItems   = 1 << 20
	maxHeaders = 1 << 16 // headers of arrays, which may be nested
)

// ErrTooMuch reports that a server's answer is larger than any valid answer.
var ErrTooMuch = errors.New("the server's answer is too large to be one of Redis")

// Conn returns a connection that fails with ErrTooMuch if the server announces or sends more than the limits above. Each write resets the
// counters, because a new answer follows.
func Conn(c net.Conn) net.Conn {
	guarded := &conn{Conn: c}
	if _, ok := c.(syscall.Conn); ok {
		return raw{guarded}
	}
	return guarded
}

// raw is a connection with a file descriptor, which the client library uses to detect a closed connection.
type raw struct{ *conn }

// SyscallConn returns the raw connection.
func (r raw) SyscallConn() (syscall.RawConn, error) { return r.Conn.(syscall.Conn).SyscallConn() }

type conn struct {
	net.Conn

	err                   error
	bytes, items, headers int
	line                  []byte // the beginning of the present line
	length                int    // length of the present line
	skip                  int    // remaining bytes of a text
}

// Write sends a request, and resets the counters for its answer.
func (c *conn) Write(p []byte) (int, error) {
	c.bytes, c.items, c.headers = 0, 0, 0
	return c.Conn.Write(p)
}

// Read reads the next part of an answer, and fails if the answer exceeds a limit.
func (c *conn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	if c.err = c.scan(p[:n]); c.err != nil {
		return 0, errors.Join(c.err, c.Close())
	}
	return n, err
}

// scan parses the next part of an answer in RESP 2 or 3, and returns an error if the answer exceeds a limit.
func (c *conn) scan(p []byte) error {
	if c.bytes += len(p); c.bytes > maxBytes {
		return fmt.Errorf("%w: more than %d bytes", ErrTooMuch, maxBytes)
	}
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			c.skip, p = c.skip-n, p[n:]
			continue
		}
		b := p[0]
		p = p[1:]
		if b != '\n' {
			if c.length++; c.length > maxLine {
				return fmt.Errorf("%w: a line of more than %d bytes", ErrTooMuch, maxLine)
			}
			if len(c.line) < 32 {
				c.line = append(c.line, b)
			}
			continue
		}
		err := c.header()
		c.line, c.length = c.line[:0], 0
		if err != nil {
			return err
		}
	}
	return nil
}

// header evaluates a line that may announce the length of further data.
func (c *conn) header() error {
	line := c.line
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) == 0 {
		return nil
	}
	switch line[0] {
	case '$', '=', '!': // texts
		n, err := announced(line, maxBulk)
		if err != nil || n < 0 {
			return err
		}
		c.skip = n + 2
	case '*', '~', '>', '%', '|': // lists; in the last two, an element has two entries
		n, err := announced(line, maxItems)
		c.items += 2 * max(n, 0)
		if c.headers++; err == nil && (c.items > 2*maxItems || c.headers > maxHeaders) {
			err = fmt.Errorf("%w: more than %d entries or %d lists", ErrTooMuch, maxItems, maxHeaders)
		}
		return err
	}
	return nil
}

// announced returns the number in a header; -1 means a null value.
func announced(line []byte, limit int) (int, error) {
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n < -1 || n > limit {
		return 0, fmt.Errorf("%w: it announces %q", ErrTooMuch, line)
	}
	return n, nil
}
