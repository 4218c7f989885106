// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"d3os.com/d3os-operator/internal/render"
)

// appService converts an AppService. Depending on the version, the number of pods is in the field size or replicas.
func appService(s *source, _ Options) (map[string]any, error) {
	spec, err := s.fields("size", "replicas", "image", "resources", "envs", "ports")
	if err != nil {
		return nil, err
	}
	count := "size"
	if _, isGiven := spec[count]; !isGiven {
		count = "replicas"
	} else if _, isGiven := spec["replicas"]; isGiven {
		return nil, s.mistake("spec.replicas", "may not be set together with spec.size: remove spec.replicas or spec.size")
	}
	return s.service(spec, count)
}

// modelBox converts a ModelBox.
func modelBox(s *source, _ Options) (map[string]any, error) {
	spec, err := s.fields("name", "replicas", "image", "resources", "envs", "ports", "rollingUpdate", "minReadySeconds", "readinessProbe", "livenessProbe")
	if err != nil {
		return nil, err
	}
	entry, err := s.service(spec, "replicas")
	if err != nil {
		return nil, err
	}
	if name := spec["name"]; name != nil && name != "" && name != s.GetName() {
		s.note("spec.name", "the objects of a ModelBox have the name of the resource, and so has the component")
	}
	s.note("spec", "the containers db-container and init-container, which its operator added to each pod, are left out: use sidecars and initContainers")
	entry["minReadySeconds"] = int64(3) // the value of the ModelBox operator
	if err := s.same(spec, entry, map[string]any{"minReadySeconds": new(int32)}); err != nil {
		return nil, err
	}
	probes := map[string]any{}
	if err := s.same(spec, probes, map[string]any{"readinessProbe": &corev1.Probe{}, "livenessProbe": &corev1.Probe{}}); err != nil {
		return nil, err
	}
	if len(probes) > 0 { // a DataService has the same two names without the suffix Probe
		entry["probes"] = map[string]any{}
		for name, probe := range probes {
			entry["probes"].(map[string]any)[strings.TrimSuffix(name, "Probe")] = probe
		}
	}
	if given := spec["rollingUpdate"]; given != nil && given != "" {
		pace, problem := paceOf(given)
		if problem != "" {
			return nil, s.mistake("spec.rollingUpdate", "%s", problem)
		}
		entry["rollingUpdate"] = map[string]any{"maxSurge": pace, "maxUnavailable": pace}
	}
	return entry, nil
}

var percentage = regexp.MustCompile(`^([1-9]|[1-9][0-9]|100)%$`)

// paceOf returns the percentage of pods that an update replaces at a time. If the value is not a percentage, it returns the problem.
func paceOf(given any) (pace, problem string) {
	text, isText := given.(string)
	if !isText || !percentage.MatchString(text) {
		return "", fmt.Sprintf("'%v' must be a percentage from 1%% to 100%%", given)
	}
	return text, ""
}

// service converts the fields that AppServices and ModelBoxes have in common. count is the name of the field with the number of pods.
func (s *source) service(spec map[string]any, count string) (map[string]any, error) {
	entry, err := s.container(spec)
	if err != nil {
		return nil, err
	}
	if given := spec[count]; given != nil {
		replica, isNumber := given.(int64)
		if !isNumber || replica < 0 || replica > 1000 {
			return nil, s.mistake("spec."+count, "'%v' must be a number from 0 to 1000", given)
		}
		entry["replica"] = replica
	}
	return entry, s.ports(spec, entry)
}

// container returns an entry with the fields of the container, which are common to all three kinds.
func (s *source) container(spec map[string]any) (map[string]any, error) {
	image, err := s.image(spec)
	if err != nil {
		return nil, err
	}
	entry := map[string]any{"name": s.GetName(), "image": image}
	if resources, isObject := spec["resources"].(map[string]any); isObject && len(resources) > 0 {
		if err := render.Decode("spec.resources", resources, &corev1.ResourceRequirements{}); err != nil {
			return nil, fmt.Errorf("%s: %w", s.id(), err)
		}
		entry["resources"] = resources
	} else if spec["resources"] != nil && !isObject {
		return nil, s.mistake("spec.resources", "must be an object")
	}
	return entry, s.variables(spec, entry)
}

// same copies fields that have the same name and meaning in a DataService. types maps field names to pointers to the field types.
func (s *source) same(spec, entry, types map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if spec[name] == nil {
			continue
		}
		if err := render.Decode("spec."+name, spec[name], types[name]); err != nil {
			return fmt.Errorf("%s: %w", s.id(), err)
		}
		entry[name] = spec[name]
	}
	return nil
}

// list returns a field of the spec that is a list.
func (s *source) list(spec map[string]any, name string) ([]any, error) {
	items, isList := spec[name].([]any)
	if spec[name] != nil && !isList {
		return nil, s.mistake("spec."+name, "must be a list")
	}
	return items, nil
}

func (s *source) variables(spec, entry map[string]any) error {
	envs, err := s.list(spec, "envs")
	if err != nil {
		return err
	}
	for i, item := range envs {
		if err := render.Decode(fmt.Sprintf("spec.envs[%d]", i), item, &corev1.EnvVar{}); err != nil {
			return fmt.Errorf("%s: %w", s.id(), err)
		}
	}
	if len(envs) > 0 {
		entry["envs"] = envs
	}
	return nil
}

// ports converts the ports of the Service, whose type is NodePort. A single plain port becomes the main port.
func (s *source) ports(spec, entry map[string]any) error {
	items, err := s.list(spec, "ports")
	if err != nil {
		return err
	}
	if len(items) == 0 {
		s.note("spec.ports", "the resource has no ports, so there is no Service")
		return nil
	}
	entry["serviceType"] = "NodePort"
	var ports []any
	var first corev1.ServicePort
	for i, item := range items {
		path := fmt.Sprintf("spec.ports[%d]", i)
		port := corev1.ServicePort{}
		if err := render.Decode(path, item, &port); err != nil {
			return fmt.Errorf("%s: %w", s.id(), err)
		}
		if port.Port < 1 || port.Port > 65535 {
			return s.mistake(path+".port", "%d must be a number from 1 to 65535", port.Port)
		}
		if port.NodePort < 0 || port.NodePort > 65535 {
			return s.mistake(path+".nodePort", "%d must be a number from 1 to 65535, or 0 for none", port.NodePort)
		}
		if i == 0 {
			first = port
		}
		ports = append(ports, s.port(path, &port))
	}
	isPlain := first.Name == "" && (first.Protocol == "" || first.Protocol == corev1.ProtocolTCP) && targetOf(&first) == first.Port
	if len(items) > 1 || !isPlain {
		entry["ports"] = ports
		return nil
	}
	entry["port"] = int64(first.Port)
	if first.NodePort != 0 {
		entry["nodePort"] = int64(first.NodePort)
	}
	return nil
}

// port converts one port.
func (s *source) port(path string, port *corev1.ServicePort) map[string]any {
	if port.AppProtocol != nil {
		s.note(path+".appProtocol", "a port of a DataService has no appProtocol: if this is the first port, set appProtocol of the component")
	}
	if port.TargetPort.Type == intstr.String && port.TargetPort.StrVal != "" {
		s.note(path+".targetPort", "no container has a port of the name %q: the number of the port is used", port.TargetPort.StrVal)
	}
	converted := map[string]any{"name": port.Name, "port": int64(port.Port)}
	if port.Name == "" {
		converted["name"] = fmt.Sprintf("port-%d", port.Port)
	}
	if target := targetOf(port); target != port.Port {
		converted["targetPort"] = int64(target)
	}
	if port.Protocol != "" && port.Protocol != corev1.ProtocolTCP {
		converted["protocol"] = string(port.Protocol)
	}
	if port.NodePort != 0 {
		converted["nodePort"] = int64(port.NodePort)
	}
	return converted
}

// targetOf returns the number of the container's port.
func targetOf(port *corev1.ServicePort) int32 {
	if port.TargetPort.Type == intstr.Int && port.TargetPort.IntVal != 0 {
		return port.TargetPort.IntVal
	}
	return port.Port
}
