// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

package ha_test

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"d3os.com/d3os-operator/test/harness"
)

// replica is one process of the operator. Each replica acts as a separate user of the API server.
type replica struct {
	scene   *scene
	name    string
	network *proxy
	command *exec.Cmd
	log     harness.LogBuffer
	ended   chan struct{}
	err     error
}

// start starts one more replica of a stage, and waits until its cache is filled. The replica then leads, or waits for the Lease.
func (s *scene) start() *replica {
	s.Helper()
	s.replicas++
	r := &replica{scene: s, name: fmt.Sprintf("%s-%d", s.Namespace, s.replicas), ended: make(chan struct{})}
	r.command = exec.Command(binary, "--leader-elect", "--leader-elect-namespace="+s.Namespace, "--watch-namespaces="+s.Namespace,
		"--health-probe-bind-address=0", "--zap-log-level=1")
	r.command.Env = append(os.Environ(), "KUBECONFIG="+r.kubeconfig())
	r.command.Stderr = &r.log
	s.Must(r.command.Start())
	go func() {
		r.err = r.command.Wait()
		close(r.ended)
	}()
	s.Cleanup(func() {
		_ = r.command.Process.Kill() // the process may have ended
		<-r.ended
		if log := r.log.String(); s.Failed() {
			s.Logf("log of %s:\n%s", r.name, log[max(0, len(log)-4000):])
		}
	})
	s.until(r.name+" starts", func() bool { return strings.Contains(r.log.String(), "Attempting to acquire leader lease") })
	return r
}

// kubeconfig writes a kubeconfig with the address of the replica's proxy.
func (r *replica) kubeconfig() string {
	s := r.scene
	s.Helper()
	file, err := clientcmd.LoadFromFile(suite.Kubeconfig)
	s.Must(err)
	for _, c := range file.Clusters {
		server, err := url.Parse(c.Server)
		s.Must(err)
		r.network = newProxy(s.T, server.Host)
		c.Server = "https://" + r.network.address()
	}
	for _, user := range file.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = r.name, []string{"system:masters"}
	}
	path := filepath.Join(s.TempDir(), r.name)
	s.Must(clientcmd.WriteToFile(*file, path))
	return path
}

func (r *replica) signal(which syscall.Signal) {
	r.scene.Helper()
	if err := r.command.Process.Signal(which); err != nil {
		r.scene.Errorf("%s to %s: %v", which, r.name, err)
	}
}

// end waits until the process has ended, cleanly or with an error.
func (r *replica) end(clean bool) {
	r.scene.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.scene.Fatalf("%s does not end", r.name)
	}
	if (r.err == nil) != clean {
		r.scene.Errorf("%s ended with %v", r.name, r.err)
	}
}

// proxy is the network between one replica and the API server.
type proxy struct {
	to       string
	listener net.Listener

	open  sync.RWMutex // locked for reading while data passes, and for writing while the network is cut
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

// cut stops all traffic, without a message to either side.
func (p *proxy) cut() { p.open.Lock() }

// heal permits traffic again. Earlier data is lost, because heal first resets the connections.
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

// pass forwards the data that it reads, and the end of the data.
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
