// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"d3os.com/d3os-operator/test/harness"
)

// settled is the time without requests to the API server after which an action counts as complete. The operator delays status writes that
// report only progress by a quarter of a second.
const settled = time.Second

// operator is the operator as a separate process, with the memory limit of config/manager.
type operator struct {
	*bench

	command *exec.Cmd
	metrics string // address of the metrics
	profile string // address of the profiles
	journal *journal
	ended   chan struct{} // closed when the process has ended
	err     error         // the error with which the process ended
	began   time.Time
	traffic *traffic // stays empty without a proxy
}

// work is a function that runs while an operator runs.
type work func(context.Context, *operator) error

// counted runs do while an operator runs behind a proxy that records the operator's requests.
func (b *bench) counted(ctx context.Context, do work, args ...string) error {
	sent := &traffic{}
	config := b.config()
	config.Wrap(sent.Before)
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: server.Scheme, Host: server.Host}) },
		Transport: transport, ErrorLog: log.New(io.Discard, "", 0), // drops errors of watches that end with the operator
	})
	defer proxy.Close()
	file := clientcmdapi.NewConfig()
	file.Clusters["proxy"] = &clientcmdapi.Cluster{Server: proxy.URL}
	file.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	file.CurrentContext = "proxy"
	kubeconfig := filepath.Join(b.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*file, kubeconfig); err != nil {
		return err
	}
	return b.operate(ctx, kubeconfig, sent, do, args...)
}

// measured runs do while an operator runs without a proxy.
func (b *bench) measured(ctx context.Context, do work) error {
	return b.operate(ctx, b.cluster.Kubeconfig, &traffic{}, do)
}

func (b *bench) operate(ctx context.Context, kubeconfig string, sent *traffic, do work, args ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	address := b.network.Next()
	o := &operator{
		bench: b, traffic: sent, journal: newJournal(), ended: make(chan struct{}),
		metrics: address + ":8080", profile: address + ":6060",
	}
	// With this verbosity, the log contains a line for every reconciliation.
	o.command = exec.Command(filepath.Join(b.dir, "manager"), append(args, "--zap-log-level=5", "--metrics-secure=false",
		"--health-probe-bind-address=0", "--metrics-bind-address="+o.metrics, "--pprof-bind-address="+o.profile)...)
	// GOGC has its default, as in a cluster: make test sets another value for the tests.
	o.command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "GOGC=", fmt.Sprintf("GOMEMLIMIT=%.0fMiB", b.memory))
	output, err := o.command.StderrPipe()
	if err != nil {
		return err
	}
	o.began = time.Now()
	if err := o.command.Start(); err != nil {
		return fmt.Errorf("start the operator: %w", err)
	}
	go func() {
		defer close(o.ended)
		last := o.journal.follow(output)
		if err := o.command.Wait(); err != nil {
			o.err = fmt.Errorf("the operator ended: %w: %s", err, last)
			cancel(o.err) // ends the context also if no caller waits
		}
	}()
	if err = o.journal.awaitStart(ctx); err == nil {
		err = do(ctx, o)
	}
	_ = o.command.Process.Signal(syscall.SIGTERM) // the process may have ended already
	<-o.ended
	return errors.Join(err, o.err)
}

// count runs do and counts the operator's actions until the operator sends no more requests.
func (o *operator) count(ctx context.Context, do func() error) (tally, error) {
	if err := o.traffic.quiet(ctx, settled); err != nil {
		return tally{}, err
	}
	o.traffic.reset()
	o.journal.reset()
	if err := do(); err != nil {
		return tally{}, err
	}
	return o.tally(ctx)
}

// tally waits until the operator sends no more requests, and returns the requests since the last reset.
func (o *operator) tally(ctx context.Context) (tally, error) {
	if err := o.traffic.quiet(ctx, settled); err != nil {
		return tally{}, err
	}
	t := o.traffic.tally(func(harness.Sent) bool { return true })
	t.looks, t.errors = o.journal.counts()
	return t, nil
}
