// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// emulated reports what of a container the emulator cannot do.
func emulated(c *corev1.Container) error {
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if probe != nil && probe.GRPC != nil {
			return errors.New("gRPC probes are not emulated")
		}
	}
	return nil
}

// watchHealth runs the probes of a container that has just started, until the context ends.
func (c *container) watchHealth(ctx context.Context, v *view, unhealthy chan<- struct{}) {
	sick := func() {
		select {
		case unhealthy <- struct{}{}:
		default:
		}
	}
	if c.spec.StartupProbe != nil {
		passed := false
		c.probe(ctx, v, c.spec.StartupProbe, func(ok bool) bool {
			passed = ok
			return true
		})
		if !passed {
			if ctx.Err() == nil {
				sick()
			}
			return
		}
	}
	isStarted := true
	c.change(func(s *corev1.ContainerStatus) {
		s.Started, s.Ready = &isStarted, c.spec.ReadinessProbe == nil
	})
	select {
	case <-c.started:
	default:
		close(c.started)
	}
	var probing sync.WaitGroup
	if c.spec.ReadinessProbe != nil {
		probing.Go(func() {
			c.probe(ctx, v, c.spec.ReadinessProbe, func(ok bool) bool {
				c.change(func(s *corev1.ContainerStatus) { s.Ready = ok })
				return false
			})
		})
	}
	if c.spec.LivenessProbe != nil {
		probing.Go(func() {
			c.probe(ctx, v, c.spec.LivenessProbe, func(ok bool) bool {
				if !ok {
					sick()
				}
				return !ok
			})
		})
	}
	probing.Wait()
}

// probe checks every period and tells of a result that has come as often in a row as its threshold asks for, until
// that function returns true or the context ends.
func (c *container) probe(ctx context.Context, v *view, probe *corev1.Probe, tell func(ok bool) bool) {
	wait := time.NewTimer(seconds(probe.InitialDelaySeconds, 0))
	defer wait.Stop()
	last, times := false, int32(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		limited, cancel := context.WithTimeout(ctx, seconds(probe.TimeoutSeconds, 1))
		ok := c.act(limited, v, probe.Exec, probe.HTTPGet, probe.TCPSocket) == nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		if ok != last {
			last, times = ok, 0
		}
		times++
		threshold := max(probe.FailureThreshold, 1)
		if ok {
			threshold = max(probe.SuccessThreshold, 1)
		}
		if times == threshold && tell(ok) {
			return
		}
		wait.Reset(seconds(probe.PeriodSeconds, 10))
	}
}

func seconds(n, fallback int32) time.Duration {
	if n == 0 {
		n = fallback
	}
	return time.Duration(n) * time.Second
}

// hook runs a lifecycle handler; none succeeds.
func (c *container) hook(ctx context.Context, v *view, h *corev1.LifecycleHandler) error {
	switch {
	case h == nil:
		return nil
	case h.Sleep != nil:
		timer := time.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return ctx.Err()
	default:
		return c.act(ctx, v, h.Exec, h.HTTPGet, h.TCPSocket)
	}
}

// act does what a probe or a hook asks for.
func (c *container) act(ctx context.Context, v *view, command *corev1.ExecAction, get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) error {
	switch {
	case command != nil:
		return c.exec(ctx, v, command.Command)
	case get != nil:
		return c.get(ctx, get)
	default:
		port := c.port(socket.Port)
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(orElse(socket.Host, c.pod.address), port))
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// exec runs a command as the container would.
func (c *container) exec(ctx context.Context, v *view, command []string) error {
	var argv []string
	for _, arg := range command {
		argv = append(argv, v.translate(arg))
	}
	out, err := os.OpenFile(c.pod.logFile(c.spec.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close() // the process has it
	run, err := c.pod.emulator.guard.Start(argv, v.environ(), v.dir, out)
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

// client asks each time by a connection of its own, as a kubelet does, and takes any certificate.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

func (c *container) get(ctx context.Context, get *corev1.HTTPGetAction) error {
	port := c.port(get.Port)
	scheme := "http://"
	if get.Scheme == corev1.URISchemeHTTPS {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+net.JoinHostPort(orElse(get.Host, c.pod.address), port)+orElse(get.Path, "/"), nil)
	if err != nil {
		return err
	}
	for _, header := range get.HTTPHeaders {
		request.Header.Set(header.Name, header.Value)
		if header.Name == "Host" {
			request.Host = header.Value
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	return nil
}

// port returns a port by its number or its name in the container.
func (c *container) port(p intstr.IntOrString) string {
	if p.Type == intstr.Int {
		return strconv.Itoa(p.IntValue())
	}
	i := slices.IndexFunc(c.spec.Ports, func(port corev1.ContainerPort) bool { return port.Name == p.StrVal })
	if i < 0 {
		return p.StrVal // a number as text, or no port at all
	}
	return strconv.Itoa(int(c.spec.Ports[i].ContainerPort))
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
