// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// watchHealth runs the probes of a container that has just started, until the context ends, and tells when it is to be restarted.
func (c *container) watchHealth(ctx context.Context, v *view, sick func()) {
	hasStarted := c.spec.StartupProbe == nil
	for hasStarted = range c.results(ctx, v, c.spec.StartupProbe) {
		break
	}
	if !hasStarted {
		sick()
		return
	}
	c.change(func(s *corev1.ContainerStatus) {
		s.Started, s.Ready = &hasStarted, c.spec.ReadinessProbe == nil
	})
	var probing sync.WaitGroup
	probing.Go(func() {
		for ok := range c.results(ctx, v, c.spec.ReadinessProbe) {
			c.change(func(s *corev1.ContainerStatus) { s.Ready = ok })
		}
	})
	probing.Go(func() {
		for ok := range c.results(ctx, v, c.spec.LivenessProbe) {
			if !ok {
				sick()
				return
			}
		}
	})
	probing.Wait()
}

// results checks every period until the context ends. Its results are those that came as often in a row as the threshold asks
// for. There are none without a probe.
func (c *container) results(ctx context.Context, v *view, probe *corev1.Probe) iter.Seq[bool] {
	return func(yield func(ok bool) bool) {
		if probe == nil || !sleep(ctx, seconds(probe.InitialDelaySeconds)) {
			return
		}
		last, times := false, int32(0)
		for {
			limited, cancel := context.WithTimeout(ctx, seconds(probe.TimeoutSeconds))
			ok := c.check(limited, v, &probe.ProbeHandler) == nil
			cancel()
			if ctx.Err() != nil {
				return
			}
			if ok != last {
				last, times = ok, 0
			}
			times++
			threshold := probe.FailureThreshold
			if ok {
				threshold = probe.SuccessThreshold
			}
			if times == threshold && !yield(ok) || !sleep(ctx, seconds(probe.PeriodSeconds)) {
				return
			}
		}
	}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// canCheck reports whether check does what a probe asks for: nothing but a port by its number, and no more to HTTP than a path.
func canCheck(probe *corev1.Probe) bool {
	get, socket := probe.HTTPGet, probe.TCPSocket
	return probe.Exec != nil ||
		socket != nil && socket.Host == "" && socket.Port.Type == intstr.Int ||
		get != nil && get.Host == "" && get.Port.Type == intstr.Int && get.Scheme == corev1.URISchemeHTTP && len(get.HTTPHeaders) == 0
}

func (c *container) check(ctx context.Context, v *view, probe *corev1.ProbeHandler) error {
	switch {
	case probe.Exec != nil:
		return c.exec(ctx, v, probe.Exec.Command)
	case probe.HTTPGet != nil:
		return get(ctx, "http://"+net.JoinHostPort(c.pod.address, probe.HTTPGet.Port.String())+probe.HTTPGet.Path)
	default:
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(c.pod.address, probe.TCPSocket.Port.String()))
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// exec runs a command in the container until it ends, or the context does.
func (c *container) exec(ctx context.Context, v *view, command []string) error {
	var argv []string
	for _, arg := range command {
		argv = append(argv, v.translate(arg))
	}
	run, err := c.start(v, argv)
	if err != nil {
		return err
	}
	select {
	case <-run.Done:
	case <-ctx.Done():
		run.Kill()
		return ctx.Err()
	}
	if run.Code != 0 {
		return fmt.Errorf("%s exited with code %d", argv[0], run.Code)
	}
	return nil
}

// prober asks each time by a connection of its own, as a kubelet does.
var prober = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := prober.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	_ = response.Body.Close()
	return err
}
