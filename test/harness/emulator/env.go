// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness/process"
)

// variables returns the environment of a container with all sources and references resolved.
func (e *Emulator) variables(ctx context.Context, v *view, c *corev1.Container) ([]corev1.EnvVar, error) {
	var found []corev1.EnvVar
	for _, variable := range c.Env {
		value, given, err := e.value(ctx, v, c, variable, found)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
		}
		if given {
			found = append(found, corev1.EnvVar{Name: variable.Name, Value: value})
		}
	}
	return found, nil
}

// value returns the value of a variable. It returns false if the source is optional and does not exist.
func (e *Emulator) value(ctx context.Context, v *view, c *corev1.Container, variable corev1.EnvVar, earlier []corev1.EnvVar) (string, bool, error) {
	switch from := variable.ValueFrom; {
	case from == nil:
		return v.translate(process.Expand(variable.Value, earlier)), true, nil
	case from.FieldRef != nil:
		value, err := field(v.pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := limit(c, from.ResourceFieldRef)
		return value, true, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := e.secret(ctx, ref.Name, ref.Optional)
		value, ok := data[ref.Key]
		if err == nil && !ok && !ptr.Deref(ref.Optional, false) {
			err = fmt.Errorf("couldn't find key %s", ref.Key)
		}
		return value, ok, err
	default:
		return "", false, fmt.Errorf("its source is not emulated")
	}
}

// configMap returns the data of a ConfigMap, or none if the ConfigMap is optional and does not exist.
func (e *Emulator) configMap(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	object, err := e.api.CoreV1().ConfigMaps(e.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	if len(object.BinaryData) > 0 {
		return nil, fmt.Errorf("binary data of ConfigMap %s is not emulated", name)
	}
	return object.Data, unlessOptional(err, optional)
}

// secret returns the data of a Secret, or none if the Secret is optional and does not exist.
func (e *Emulator) secret(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	object, err := e.api.CoreV1().Secrets(e.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	data := map[string]string{}
	for key, value := range object.Data {
		data[key] = string(value)
	}
	return data, unlessOptional(err, optional)
}

func unlessOptional(err error, optional *bool) error {
	if ptr.Deref(optional, false) {
		return client.IgnoreNotFound(err)
	}
	return err
}

var annotation = regexp.MustCompile(`^metadata\.annotations\['(.*)'\]$`)

// field returns a field of a pod by the path that the downward API and fieldRef use.
func field(pod *corev1.Pod, path string) (string, error) {
	if m := annotation.FindStringSubmatch(path); m != nil {
		return pod.Annotations[m[1]], nil
	}
	value, ok := map[string]string{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID), "status.podIP": pod.Status.PodIP,
	}[path]
	if !ok {
		return "", fmt.Errorf("field %s is not emulated", path)
	}
	return value, nil
}

// limit returns the limit of a container for a resource, in whole units.
func limit(c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	name, isLimit := strings.CutPrefix(ref.Resource, "limits.")
	most, given := c.Resources.Limits[corev1.ResourceName(name)]
	if !isLimit || !given || !ref.Divisor.IsZero() || ref.ContainerName != "" && ref.ContainerName != c.Name {
		return "", fmt.Errorf("resource %s is not emulated, but limits of the same container without a divisor are", ref.Resource)
	}
	return strconv.FormatInt(most.Value(), 10), nil
}

// watchHealth runs the probes of a container that has just started, until the context ends. It calls sick when a probe requires a restart.
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

// results runs a probe every period until the context ends. It yields a result when the number of equal results in a row reaches the
// threshold. Without a probe it yields nothing.
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

// canCheck reports whether the emulator supports a probe: its port must be a number, and an HTTP probe may set only a port and a path.
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

// exec runs a command in the container until the command or the context ends.
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

// prober uses a new connection each time, as a kubelet does.
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
