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
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"d3os.com/d3os-operator/test/harness"
)

// replica is one process of the operator. It is a user of its own to the API server.
type replica struct {
	scene   *scene
	name    string
	network *proxy
	command *exec.Cmd
	log     harness.LogBuffer
	ended   chan struct{}
	err     error
}

// start starts one more replica of a stage, and waits until its cache is filled and it leads or waits to.
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
		_ = r.command.Process.Kill() // it may have ended
		<-r.ended
		if log := r.log.String(); s.Failed() {
			s.Logf("log of %s:\n%s", r.name, log[max(0, len(log)-4000):])
		}
	})
	s.until(r.name+" starts", func() bool { return strings.Contains(r.log.String(), "Attempting to acquire leader lease") })
	return r
}

// kubeconfig writes one through the replica's own network.
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
