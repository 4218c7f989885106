// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

package ha_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is the network between one replica and the API server.
type proxy struct {
	to       string
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, listener: listener, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { listener.Close(); p.heal() })
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

// drop loses all traffic from now on, without a word to either side.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
}

// heal lets traffic through again. What was sent meanwhile is lost, so old connections are reset.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	for conn := range p.conns {
		conn.Close()
	}
	clear(p.conns)
}

func (p *proxy) dropping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	go p.pass(client, server)
	p.pass(server, client)
}

// pass hands on what it reads, unless traffic is dropped.
func (p *proxy) pass(from io.ReadCloser, to io.WriteCloser) {
	defer func() {
		if !p.dropping() { // the end of a connection does not get through either
			from.Close()
			to.Close()
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.dropping() {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
