// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

package ha_test

import (
	"fmt"
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
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// replica is one process of the operator. It is a user of its own to the API server.
type replica struct {
	t       *testing.T
	name    string
	network *proxy
	command *exec.Cmd
	ready   chan struct{} // closed when its cache is filled and it leads or waits to
	ended   chan struct{}
	err     error

	mu  sync.Mutex
	log strings.Builder
}

// start starts one more replica of a stage.
func (s *scene) start() *replica {
	s.Helper()
	s.replicas++
	server, err := url.Parse(config.Host)
	if err != nil {
		s.Fatal(err)
	}
	r := &replica{
		t: s.T, name: fmt.Sprintf("%s-%d", s.Namespace, s.replicas), network: newProxy(s.T, server.Host),
		ready: make(chan struct{}), ended: make(chan struct{}),
	}
	r.command = exec.Command(binary, "--leader-elect", "--leader-elect-namespace="+s.Namespace, "--watch-namespaces="+s.Namespace,
		"--health-probe-bind-address=0", "--zap-log-level=1")
	r.command.Env = append(os.Environ(), "KUBECONFIG="+r.kubeconfig())
	r.command.Stderr = r
	if err := r.command.Start(); err != nil {
		s.Fatalf("start a replica: %v", err)
	}
	go func() {
		r.err = r.command.Wait()
		close(r.ended)
	}()
	s.Cleanup(func() {
		r.kill()
		if s.Failed() {
			s.Logf("log of %s:\n%s", r.name, r.tail())
		}
	})
	select {
	case <-r.ready:
	case <-r.ended:
		s.Fatalf("%s has ended: %v", r.name, r.err)
	case <-time.After(patience):
		s.Fatalf("%s does not start", r.name)
	}
	return r
}

// kubeconfig writes one through the replica's own network.
func (r *replica) kubeconfig() string {
	const name = "replica"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{
		Server: "https://" + r.network.address(), CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
		InsecureSkipTLSVerify: config.Insecure,
	}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificate: config.CertFile, ClientCertificateData: config.CertData, ClientKey: config.KeyFile, ClientKeyData: config.KeyData,
		Impersonate: r.name, ImpersonateGroups: []string{"system:masters"},
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	path := filepath.Join(r.t.TempDir(), r.name)
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// Write takes the replica's log.
func (r *replica) Write(data []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Write(data)
	select {
	case <-r.ready:
	default:
		if strings.Contains(r.log.String(), "Attempting to acquire leader lease") {
			close(r.ready)
		}
	}
	return len(data), nil
}

// tail is the end of the log.
func (r *replica) tail() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log.String()
	return log[max(0, len(log)-4000):]
}

func (r *replica) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.command.Process.Signal(s); err != nil {
		r.t.Errorf("%s to %s: %v", s, r.name, err)
	}
}

// end waits until the process has ended.
func (r *replica) end() error {
	r.t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(patience):
		r.t.Fatalf("%s does not end", r.name)
		return nil
	}
}

func (r *replica) kill() {
	_ = r.command.Process.Kill() // it may have ended
	<-r.ended
}
