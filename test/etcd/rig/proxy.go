// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
)

// proxy is the network between members: it knows the present address of each pod's name, and cuts links.
type proxy struct {
	fleet    *Fleet
	listener net.Listener
	server   *http.Server
	forward  *httputil.ReverseProxy

	mu   sync.Mutex
	cut  map[[2]string]bool
	open map[int]link
	next int
}

// link is a request that is under way.
type link struct {
	ends [2]string
	end  context.CancelFunc
}

func newProxy(f *Fleet) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(f.network.Host(), "0"))
	if err != nil {
		return nil, err
	}
	p := &proxy{fleet: f, listener: listener, cut: map[[2]string]bool{}, open: map[int]link{}}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // members end their streams as they like
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Second},
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = p.server.Serve(listener) }() // it ends with close
	return p, nil
}

func (p *proxy) close() error { return p.server.Close() }

// url is the proxy for a pod, which it knows by the name in it.
func (p *proxy) url(pod string) string {
	return "http://" + pod + ":x@" + p.listener.Addr().String()
}

// ServeHTTP passes a request on to the pod that has the name now.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := ""
	if text, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Header.Get("Proxy-Authorization"), "Basic ")); err == nil {
		from, _, _ = strings.Cut(string(text), ":")
	}
	to, _, _ := strings.Cut(r.URL.Hostname(), ".")
	ip := ""
	for _, pod := range p.fleet.Pods() {
		if pod.Name == to {
			ip = pod.IP
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ends := [2]string{from, to}
	p.mu.Lock()
	cut := p.cut[ends]
	p.next++
	id := p.next
	p.open[id] = link{ends, cancel}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, id)
	}()
	if cut || ip == "" {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	r = r.WithContext(ctx)
	r.Header.Del("Proxy-Authorization")
	r.URL.Host = net.JoinHostPort(ip, r.URL.Port())
	p.forward.ServeHTTP(w, r)
}

// withNames returns what a program is started with so that it finds the names of pods: etcd resolves them before it joins,
// to compare addresses. Connections go through the proxy, so any address will do. A mount of its own over /etc/hosts needs no
// root where the kernel lets users have namespaces.
func (f *Fleet) withNames() []string {
	argv := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		argv = append(argv, "--map-root-user")
	}
	return append(argv, "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, filepath.Join(f.dir, "hosts"))
}

func (f *Fleet) writeNames() error {
	text := "127.0.0.1 localhost\n"
	for ordinal := range membership.MaxReplicas {
		text += fmt.Sprintf("%s %s.%s\n", f.network.Next(), PodName(ordinal), domain)
	}
	return os.WriteFile(filepath.Join(f.dir, "hosts"), []byte(text), 0o644)
}

// Cut ends what two pods have to say to each other, in both directions, or lets them speak again.
func (f *Fleet) Cut(a, b int, cut bool) {
	p := f.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ends := range [][2]string{{PodName(a), PodName(b)}, {PodName(b), PodName(a)}} {
		p.cut[ends] = cut
		for _, l := range p.open {
			if cut && l.ends == ends {
				l.end()
			}
		}
	}
}
