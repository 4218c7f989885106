// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// ErrClosed reports that a server closed a connection before it sent anything. The controller retries errors with the words "connection
// reset by peer" for a while before the status reports them.
var ErrClosed = errors.New("connection reset by peer before any answer, as by a mesh with strict mTLS")

// Conn wraps a connection. If the server closes it before it has sent a byte, Read calls closed and returns ErrClosed.
// Only one goroutine may read at a time.
func Conn(c net.Conn, closed func(error)) net.Conn { return &conn{Conn: c, closed: closed} }

type conn struct {
	net.Conn

	closed   func(error)
	answered bool
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.answered = true
	}
	if (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) && !c.answered {
		c.closed(ErrClosed)
		return n, ErrClosed
	}
	return n, err
}
