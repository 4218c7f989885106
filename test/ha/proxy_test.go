// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

package ha_test

import (
	"cmp"
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is the network between one replica and the API server.
type proxy struct {
	to       string
	listener net.Listener

	open  sync.RWMutex // held while data goes through, and for writing while the network is cut
	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, listener: listener}
	t.Cleanup(func() { listener.Close(); p.reset() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// cut lets nothing through from now on, without a word to either side.
func (p *proxy) cut() { p.open.Lock() }

// heal lets traffic through again. What was sent meanwhile is lost, because connections are reset before.
func (p *proxy) heal() {
	p.reset()
	p.open.Unlock()
}

func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	go p.pass(client, server)
	p.pass(server, client)
}

// pass hands on what it reads, and in the end that there is no more.
func (p *proxy) pass(from io.ReadCloser, to io.WriteCloser) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.open.RLock()
		if n > 0 {
			_, writeErr := to.Write(buffer[:n])
			err = cmp.Or(err, writeErr)
		}
		if err != nil {
			from.Close()
			to.Close()
		}
		p.open.RUnlock()
		if err != nil {
			return
		}
	}
}
