// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// variables returns the environment of a container as its spec has it, sources and references resolved.
func (e *Emulator) variables(ctx context.Context, v *view, c *corev1.Container) ([]corev1.EnvVar, error) {
	server := strings.TrimPrefix(strings.TrimPrefix(e.config.Host, "https://"), "http://")
	host, port, _ := strings.Cut(server, ":")
	found := []corev1.EnvVar{{Name: serviceHost, Value: host}, {Name: servicePort, Value: port}}
	for _, from := range c.EnvFrom {
		data, err := e.envFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(data)) {
			value := data[key]
			if from.ConfigMapRef != nil {
				value = v.translate(value)
			}
			found = append(found, corev1.EnvVar{Name: from.Prefix + key, Value: value})
		}
	}
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

const serviceHost, servicePort = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"

func (e *Emulator) envFrom(ctx context.Context, from corev1.EnvFromSource) (map[string]string, error) {
	if ref := from.ConfigMapRef; ref != nil {
		return e.configMap(ctx, ref.Name, ref.Optional)
	}
	return e.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
}

// value returns the value of a variable, and whether there is one: a source may be optional.
func (e *Emulator) value(ctx context.Context, v *view, c *corev1.Container, variable corev1.EnvVar, earlier []corev1.EnvVar) (string, bool, error) {
	from := variable.ValueFrom
	var data map[string]string
	var key string
	var optional *bool
	var err error
	switch {
	case from == nil:
		return v.translate(expand(variable.Value, earlier)), true, nil
	case from.FieldRef != nil:
		value, err := field(v.pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := quantity(v.pod, c, from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		key, optional = from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional
		data, err = e.configMap(ctx, from.ConfigMapKeyRef.Name, optional)
	case from.SecretKeyRef != nil:
		key, optional = from.SecretKeyRef.Key, from.SecretKeyRef.Optional
		data, err = e.secret(ctx, from.SecretKeyRef.Name, optional)
	default:
		return "", false, fmt.Errorf("its source is not emulated")
	}
	value, ok := data[key]
	if err == nil && !ok && !isTrue(optional) {
		err = fmt.Errorf("couldn't find key %s", key)
	}
	if ok && from.ConfigMapKeyRef != nil {
		value = v.translate(value)
	}
	return value, ok, err
}

func isTrue(b *bool) bool { return b != nil && *b }

// configMap returns the data of a ConfigMap; none for an optional one that is not there.
func (e *Emulator) configMap(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	object, err := e.api.CoreV1().ConfigMaps(e.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessOptional(err, optional)
	}
	data := maps.Clone(object.Data)
	for key, value := range object.BinaryData {
		if data == nil {
			data = map[string]string{}
		}
		data[key] = string(value)
	}
	return data, nil
}

// secret returns the data of a Secret; none for an optional one that is not there.
func (e *Emulator) secret(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	object, err := e.api.CoreV1().Secrets(e.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessOptional(err, optional)
	}
	data := map[string]string{}
	for key, value := range object.Data {
		data[key] = string(value)
	}
	return data, nil
}

func unlessOptional(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil
	}
	return err
}

var reference = regexp.MustCompile(`\$\$|\$\(([^()]*)\)`)

// expand replaces $(NAME) by a variable's value. $$ is a dollar sign; what is not known stays as it is.
func expand(text string, env []corev1.EnvVar) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		for _, variable := range slices.Backward(env) {
			if variable.Name == found[2:len(found)-1] {
				return variable.Value
			}
		}
		return found
	})
}

var keyed = regexp.MustCompile(`^metadata\.(labels|annotations)\['(.*)'\]$`)

// field returns a field of a pod, as downward API and fieldRef name it.
func field(pod *corev1.Pod, path string) (string, error) {
	if m := keyed.FindStringSubmatch(path); m != nil {
		return map[string]map[string]string{"labels": pod.Labels, "annotations": pod.Annotations}[m[1]][m[2]], nil
	}
	value, ok := map[string]string{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID),
		"metadata.labels": lines(pod.Labels), "metadata.annotations": lines(pod.Annotations),
		"spec.nodeName": pod.Spec.NodeName, "spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.hostIP": pod.Status.HostIP, "status.hostIPs": pod.Status.HostIP,
		"status.podIP": pod.Status.PodIP, "status.podIPs": pod.Status.PodIP,
	}[path]
	if !ok {
		return "", fmt.Errorf("field %s is not emulated", path)
	}
	return value, nil
}

// lines has the form of labels and annotations in a file of the downward API.
func lines(values map[string]string) string {
	var found []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		found = append(found, fmt.Sprintf("%s=%q", key, values[key]))
	}
	return strings.Join(found, "\n")
}

// quantity returns a resource of a container in units of the divisor, rounded up. A container without a limit has the node's.
func quantity(pod *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	if ref.ContainerName != "" {
		for _, other := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if other.Name == ref.ContainerName {
				c = &other
			}
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	limit, ok := c.Resources.Limits[corev1.ResourceName(name)]
	switch {
	case kind == "requests":
		limit = c.Resources.Requests[corev1.ResourceName(name)]
	case !ok && name == "cpu":
		limit = resource.MustParse("64")
	case !ok && name == "memory":
		limit = resource.MustParse("256Gi")
	case !ok:
		return "", fmt.Errorf("resource %s is not emulated", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	units := new(big.Rat).Quo(rational(limit), rational(divisor))
	whole, rest := new(big.Int).QuoRem(units.Num(), units.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.String(), nil
}

func rational(q resource.Quantity) *big.Rat {
	r, _ := new(big.Rat).SetString(q.AsDec().String())
	return r
}
