// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"d3os.com/d3os-operator/test/harness"
)

// process is the operator as a process of its own.
type process struct {
	command *exec.Cmd
	dir     string
	metrics string // address
	profile string // address
	done    chan error
	began   time.Time
}

// usage is what a process uses; sizes are in MiB.
type usage struct {
	rss, peak, heap, system float64
	cpu, reconciles         float64
	queued, waited          float64            // how often a DataService was in the queue, and seconds in all
	requests                map[string]float64 // by HTTP method
}

// since is what was used since another look; sizes are those of now.
func (u usage) since(before usage) usage {
	u.cpu, u.reconciles = u.cpu-before.cpu, u.reconciles-before.reconciles
	u.queued, u.waited = u.queued-before.queued, u.waited-before.waited
	u.requests = maps.Clone(u.requests)
	for method, n := range before.requests {
		u.requests[method] -= n
	}
	return u
}

// startProcess builds the operator, starts it with more variables of its environment, and waits
// until its workers start.
func (b *bench) startProcess(ctx context.Context, environ ...string) (*process, error) {
	dir, err := os.MkdirTemp("", "d3os-bench-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, done: make(chan error, 1)}
	if err := p.start(ctx, b, environ); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) start(ctx context.Context, b *bench, environ []string) error {
	binary, err := harness.Build(ctx, p.dir)
	if err != nil {
		return err
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return err
	}
	p.metrics, p.profile = addresses[0], addresses[1]
	command := exec.Command(binary, "--metrics-secure=false", "--health-probe-bind-address=0",
		"--metrics-bind-address="+p.metrics, "--pprof-bind-address="+p.profile)
	// GOGC as in a cluster: make test sets another one for itself.
	command.Env = append(append(os.Environ(), "KUBECONFIG="+b.cluster.Kubeconfig, "GOGC="), environ...)
	log, err := command.StderrPipe()
	if err != nil {
		return err
	}
	p.began = time.Now()
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the operator: %w", err)
	}
	p.command = command
	started := make(chan struct{})
	go func() {
		last := follow(log, started)
		err := command.Wait()
		if err != nil {
			err = fmt.Errorf("the operator ended: %w: %s", err, last)
			b.fail(err)
		}
		p.done <- err
	}()
	select {
	case <-started:
		return nil
	case err := <-p.done:
		p.done <- err
		return errors.Join(errors.New("the operator did not start"), err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow reads a log to its end, tells when the workers start, and returns the last line.
func follow(log io.Reader, started chan<- struct{}) string {
	last, told := "", false
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = lines.Text()
		if !told && strings.Contains(last, "Starting workers") {
			close(started)
			told = true
		}
	}
	return last
}

// stop ends the process and removes its files.
func (p *process) stop() error {
	var err error
	if p.command != nil {
		_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
		err = <-p.done
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *process) usage(ctx context.Context) (usage, error) {
	var u usage
	status := fmt.Sprintf("/proc/%d/status", p.command.Process.Pid)
	u.rss, u.peak = kilobytes(fact(status, "VmRSS")), kilobytes(fact(status, "VmHWM"))
	metrics, err := scrape(ctx, "http://"+p.metrics+"/metrics", " ")
	if err != nil {
		return u, err
	}
	u.cpu, u.reconciles, u.requests = metrics["process_cpu_seconds_total"], reconciles(metrics), requestsOf(metrics)
	const queue = `{controller="dataservice",name="dataservice"}`
	u.queued, u.waited = metrics["workqueue_queue_duration_seconds_count"+queue], metrics["workqueue_queue_duration_seconds_sum"+queue]
	heap, err := scrape(ctx, "http://"+p.profile+"/debug/pprof/heap?gc=1&debug=1", " = ")
	if err != nil {
		return u, err
	}
	u.heap, u.system = heap["# HeapAlloc"]/(1<<20), heap["# Sys"]/(1<<20)
	return u, nil
}

// awaitReconciles waits until that many reconciliations are done. Nothing tells of those that
// write nothing but the metrics, which can only be asked again.
func (p *process) awaitReconciles(ctx context.Context, n int) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, waitAtMost, true, func(ctx context.Context) (bool, error) {
		metrics, err := scrape(ctx, "http://"+p.metrics+"/metrics", " ")
		return err == nil && reconciles(metrics) >= float64(n), err
	})
}

func reconciles(metrics map[string]float64) float64 {
	sum := 0.0
	for name, value := range metrics {
		if strings.HasPrefix(name, "controller_runtime_reconcile_total{") {
			sum += value
		}
	}
	return sum
}

// scrape reads the lines "name<separator>number" of a page.
func scrape(ctx context.Context, url, separator string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	values := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if at := strings.LastIndex(line, separator); at > 0 {
			if value, err := strconv.ParseFloat(line[at+len(separator):], 64); err == nil {
				values[line[:at]] = value
			}
		}
	}
	return values, lines.Err()
}

// freeAddresses returns addresses of this machine that nobody listens on.
func freeAddresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// kilobytes turns "1234 kB" into MiB.
func kilobytes(text string) float64 {
	number, _, _ := strings.Cut(text, " ")
	value, _ := strconv.ParseFloat(number, 64) // 0 where there is no /proc
	return value / 1024
}
