// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build alerts

package alerts_test

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// line is a connection to the API server for a replica, and how long each piece of data takes on it.
func (w *world) line() (delay *atomic.Int64, kubeconfig string) {
	w.Helper()
	config, err := clientcmd.LoadFromFile(suite.Kubeconfig)
	w.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	w.Cleanup(func() { listener.Close() })
	delay = &atomic.Int64{}
	for _, c := range config.Clusters {
		server, err := url.Parse(c.Server)
		w.must(err)
		c.Server = "https://" + listener.Addr().String()
		go func() {
			for {
				near, err := listener.Accept()
				if err != nil {
					return
				}
				go connect(near, server.Host, delay)
			}
		}()
	}
	kubeconfig = filepath.Join(w.dir, "kubeconfig")
	w.must(clientcmd.WriteToFile(*config, kubeconfig))
	return delay, kubeconfig
}

// connect hands on what one side sends to the other, late.
func connect(near net.Conn, host string, delay *atomic.Int64) {
	defer near.Close()
	far, err := net.Dial("tcp", host)
	if err != nil {
		return
	}
	defer far.Close()
	go func() { _, _ = io.Copy(near, far) }()
	type piece struct {
		data []byte
		due  time.Time
	}
	pieces := make(chan piece, 10000)
	go func() {
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := far.Write(p.data); err != nil {
				return
			}
		}
	}()
	defer close(pieces)
	for {
		buffer := make([]byte, 64<<10)
		n, err := near.Read(buffer)
		if err != nil {
			return
		}
		pieces <- piece{buffer[:n], time.Now().Add(time.Duration(delay.Load()))}
	}
}
