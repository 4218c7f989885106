// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// names makes the DNS names of pods (<hostname>.<subdomain>.<namespace>.svc) available to programs. For each program it mounts a separate
// /etc/hosts if the test's user may mount files. An HTTP proxy records connections between pods, and can block them.
type names struct {
	emulator *Emulator
	server   *http.Server
	address  string
	hosts    string   // path of the separate /etc/hosts
	wrap     []string // start of a command line that mounts this file; empty if mounting is not allowed

	mu    sync.Mutex
	lines map[[2]string]line
}

// line is the traffic from one pod to another. Cut ends its context.
type line struct {
	context.Context
	cut context.CancelFunc
}

func (n *names) line(from, to string) line {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, known := n.lines[[2]string{from, to}]
	if !known {
		l.Context, l.cut = context.WithCancel(n.emulator.ctx)
		n.lines[[2]string{from, to}] = l
	}
	return l
}

// serveNames starts the proxy.
func (e *Emulator) serveNames(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(e.network.Host(), "0"))
	if err != nil {
		return fmt.Errorf("serve the names of pods: %w", err)
	}
	n := &names{emulator: e, address: listener.Addr().String(), lines: map[[2]string]line{}}
	n.server = &http.Server{Handler: n, ReadHeaderTimeout: time.Minute}
	n.hosts = filepath.Join(e.dir, "hosts")
	if err := n.list(); err != nil {
		return err
	}
	for _, user := range [][]string{{"-m"}, {"-rm"}} {
		wrap := append(append([]string{"unshare"}, user...), "/bin/sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, n.hosts)
		if exec.CommandContext(ctx, wrap[0], append(wrap[1:], "true")...).Run() == nil {
			n.wrap = wrap
			break
		}
	}
	e.names = n
	e.running.Go(func() { _ = n.server.Serve(listener) })
	return nil
}

// variables returns the environment variables for the proxy. The proxy's user name is the pod's name.
func (n *names) variables(pod string) map[string]string {
	proxy := "http://" + pod + ":x@" + n.address
	return map[string]string{"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": "127.0.0.0/8,localhost"}
}

// list writes the names of all pods into the hosts file. It overwrites the file in place, because processes have mounted the file.
func (n *names) list() error {
	var text strings.Builder
	text.WriteString("127.0.0.1 localhost\n")
	n.emulator.mu.Lock()
	for _, p := range n.emulator.pods {
		if p.spec.Subdomain != "" {
			fmt.Fprintf(&text, "%s %s\n", p.address, p.domain())
		}
	}
	n.emulator.mu.Unlock()
	if err := os.WriteFile(n.hosts, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write the names of pods: %w", err)
	}
	return nil
}

// domain returns the pod's DNS name.
func (p *pod) domain() string {
	return p.spec.Hostname + "." + p.spec.Subdomain + "." + p.emulator.options.Namespace + ".svc"
}

// Cut blocks connections between two pods in both directions, if the pods use DNS names. Mend unblocks them.
func (e *Emulator) Cut(a, b string) {
	e.names.line(a, b).cut()
	e.names.line(b, a).cut()
}

// Mend ends a Cut.
func (e *Emulator) Mend(a, b string) {
	n := e.names
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.lines, [2]string{a, b})
	delete(n.lines, [2]string{b, a})
}

// dial connects to a pod by its name.
func (n *names) dial(ctx context.Context, from, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	to, _, _ := strings.Cut(host, ".")
	p, err := n.emulator.find(to)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	if domain := strings.TrimSuffix(host, ".cluster.local"); domain != p.domain() {
		return nil, fmt.Errorf("look up %s: no such host", host)
	}
	line := n.line(from, to)
	if line.Err() != nil {
		return nil, fmt.Errorf("dial %s: the network is cut", host)
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(p.address, port))
	if err == nil {
		// Cut ends the context; both ends then see a closed connection.
		context.AfterFunc(line, func() { _ = conn.Close() }) //nolint:contextcheck // the line is cut, not the request
	}
	return conn, err
}

// who returns the name of the pod that sent a request.
func who(r *http.Request) string {
	proxied := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	name, _, _ := proxied.BasicAuth() // only pods send requests, and each sends its name as the user name
	return name
}

// ServeHTTP forwards a request or a connection.
func (n *names) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := who(r)
	if r.Method == http.MethodConnect {
		n.tunnel(w, r, from)
		return
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {}, // ReverseProxy has already removed the headers for the proxy
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return n.dial(ctx, from, address)
		}},
	}
	proxy.ServeHTTP(w, r)
}

func (n *names) tunnel(w http.ResponseWriter, r *http.Request, from string) {
	to, err := n.dial(r.Context(), from, r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer client.Close()
	if _, err := client.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		return
	}
	var both sync.WaitGroup
	copyTo := func(dst net.Conn, src io.Reader) {
		_, _ = io.Copy(dst, src) // the end of one direction closes the other
		_ = dst.Close()
	}
	both.Go(func() { copyTo(to, buffered) })
	both.Go(func() { copyTo(client, to) })
	both.Wait()
}

func (n *names) close() { _ = n.server.Close() }

// MySQL returns an image of MySQL for MySQLClusters. server is the path of mysqld. run is the folder for the sockets of all pods: the path
// of a socket must be short.
func MySQL(server, run string) Image {
	folder := func(pod *corev1.Pod) string { return filepath.Join(run, string(pod.UID[:8])) }
	return Image{Executables: map[string]string{"mysqld": server}, Rewrite: func(pod *corev1.Pod, text string) string {
		switch {
		case text == "--listen=*": // pods share the machine's ports
			return "--listen=" + pod.Status.PodIP
		case strings.HasPrefix(text, "--run="):
			if err := os.MkdirAll(folder(pod), 0o700); err != nil {
				return err.Error() // the agent's error then names the missing folder
			}
			return "--run=" + folder(pod)
		case strings.HasSuffix(text, "/mysqld.sock"): // the socket of one server
			if err := os.MkdirAll(folder(pod), 0o700); err != nil {
				return err.Error()
			}
			return filepath.Join(folder(pod), "mysqld.sock")
		}
		return text
	}}
}
