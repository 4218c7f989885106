// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build alerts

package alerts_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// Normal operation raises no alert: a platform is created, changed, scaled and healed, and the operator is killed and upgraded. ALERTS=full
// runs for an hour, with durations of alerts that are closer to real ones. Each duration exceeds that of the Lease: after a crash of the
// leader, another replica leads only when the Lease has expired.
func TestNormalLife(t *testing.T) {
	shorten, lasts := 6, 90*time.Second
	if os.Getenv("ALERTS") == "full" {
		shorten, lasts = 3, time.Hour
	}
	w := newWorld(t, shorten)
	namespace := w.namespace(nil)
	args := []string{"--leader-elect", "--leader-elect-namespace=" + namespace, "--watch-namespaces=" + namespace}
	replicas := []*replica{w.start(programs.older, args), w.start(programs.older, args)}
	ready := fmt.Sprintf(`min(dataservice_condition{namespace=%q, condition="Ready"}) == 1 and on () max(dataservice_generation) == min(dataservice_observed_generation)`, namespace)
	w.create("d3os-product.com.d3os/v1", "DataService", namespace, harness.Small().Object["spec"].(fields))
	w.until("the platform is ready", func() error { return w.has(ready) })
	rounds := 0
	for ; rounds == 0 || time.Since(w.began) < lasts; rounds++ {
		for _, change := range []string{
			fmt.Sprintf("spec: {auth: {image: 'registry.example/auth:r%d'}}", rounds), fmt.Sprintf("spec: {proxy: {replica: %d}}", 2+rounds%2),
			fmt.Sprintf("spec: {mysql: {envs: [{name: ROUND, value: 'r%d'}]}}", rounds),
		} {
			w.must(w.patch(t.Context(), "d3os-product.com.d3os/v1", "DataService", namespace, name, change))
			w.until("changed", func() error { return w.has(ready) })
		}
		w.must(client.IgnoreNotFound(suite.API.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}})))
		// After a crash, the same pod restarts. An upgrade replaces one pod after the other.
		w.end(replicas[0], func() { _ = replicas[0].Signal(syscall.SIGKILL) })
		replicas[0] = w.start(programs.newer, args)
		w.end(replicas[1], func() { _ = replicas[1].Signal(syscall.SIGTERM) })
		replicas[1] = w.start(programs.newer, args)
		w.until("one leads", func() error { return w.has(`max(leader_election_master_status) == 1`) })
		w.until("healed", func() error {
			return suite.API.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, &corev1.Service{})
		})
	}
	if found := w.over(`ALERTS{alertstate="firing"}`, w.began); len(found) > 0 {
		t.Errorf("%d alerts fired: %v", len(found), found)
	}
	t.Logf("%d rounds in %s, durations of alerts divided by %d", rounds, time.Since(w.began).Round(time.Second), shorten)
}

// line starts a proxy to the API server that delays each piece of data to the API server. It returns the delay, which the test sets, and
// a kubeconfig that uses the proxy.
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

// connect forwards data in both directions, and delays the data from near to host.
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
			time.Sleep(time.Until(p.due)) // like a slow line
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

// panels runs the queries of each panel of the dashboard for the time of the test.
func panels(t *testing.T, w *world) {
	text, err := os.ReadFile(filepath.Join(cluster.Root(), "config", "prometheus", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$namespace", ".*", "$dataservice", ".*", "$component", ".*", "$__rate_interval", "10s")
	asked := 0
	for _, panel := range board.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			asked++
			if found := w.over(variables.Replace(target.Expr), w.began); len(found) == 0 {
				t.Errorf("panel %q has no data: %s", panel.Title, target.Expr)
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d queries ran, at least 20 are expected", asked)
	}
}
