// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/render"
)

const missing = "must be set"

func first(problems []string) string {
	if len(problems) > 0 {
		return problems[0]
	}
	return ""
}

func envVar(e *corev1.EnvVar) (field, problem string) {
	return "name", first(validation.IsRelaxedEnvVarName(e.Name))
}

func volumeMount(m *corev1.VolumeMount) (field, problem string) {
	switch {
	case m.Name == "":
		return "name", missing
	case m.MountPath == "":
		return "mountPath", missing
	}
	return "", ""
}

func volume(v *corev1.Volume) (field, problem string) {
	return "name", first(validation.IsDNS1123Label(v.Name))
}

func container(c *corev1.Container) (field, problem string) {
	if c.Image == "" {
		return "image", missing
	}
	if i, other := render.RepeatedPort(c.Ports); i > 0 {
		return fmt.Sprintf("ports[%d].containerPort", i), render.RepeatedPortProblem(c.Ports, i, other)
	}
	return "name", first(validation.IsDNS1123Label(c.Name))
}

func pullSecret(r *corev1.LocalObjectReference) (field, problem string) {
	return "name", first(validation.IsDNS1123Subdomain(r.Name))
}

func servicePort(p *dsv1.Port) (field, problem string) {
	if problem := first(validation.IsValidPortName(p.Name)); problem != "" {
		return "name", problem
	}
	if problem := first(validation.IsValidPortNum(int(p.Port))); problem != "" {
		return "port", problem
	}
	if p.NodePort != nil && *p.NodePort != 0 {
		if problem := first(validation.IsValidPortNum(int(*p.NodePort))); problem != "" {
			return "nodePort", problem
		}
	}
	switch p.Protocol {
	case "", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
	default:
		return "protocol", "must be TCP, UDP or SCTP"
	}
	switch {
	case p.TargetPort == nil:
		return "", ""
	case p.TargetPort.Type == intstr.String:
		return "targetPort", first(validation.IsValidPortName(p.TargetPort.StrVal))
	}
	return "targetPort", first(validation.IsValidPortNum(p.TargetPort.IntValue()))
}

// configPath is as strict as the rule for a ConfigMap's keys, because paths become keys.
var configPath = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)

func configFile(f *dsv1.ConfigFile) (field, problem string) {
	sources := 0
	for _, isGiven := range []bool{f.Content != nil, f.ConfigMap != "", f.Secret != ""} {
		if isGiven {
			sources++
		}
	}
	switch {
	case len(f.Path) > 250 || !configPath.MatchString(f.Path):
		return "path", "must be an absolute path of letters, digits, '.', '_' and '-', of at most 250 characters, such as '/etc/app/app.conf'"
	case sources != 1:
		return "content", "must be the only source: set exactly one of content, configMap and secret"
	case f.Key != "" && f.Content != nil:
		return "key", "may not be set with content: it names the key in a configMap or secret; remove it"
	case f.Key != "":
		return "key", first(validation.IsConfigMapKey(f.Key))
	case f.ConfigMap != "":
		return "configMap", first(validation.IsDNS1123Subdomain(f.ConfigMap))
	case f.Secret != "":
		return "secret", first(validation.IsDNS1123Subdomain(f.Secret))
	}
	return "", ""
}

// probe is a health check from the spec.
type probe struct {
	Disabled     bool `json:"disabled,omitempty"`
	corev1.Probe `json:",inline"`
}

func probes(path string, value any) (any, error) {
	var given struct {
		Path      string `json:"path"`
		Startup   *probe `json:"startup"`
		Readiness *probe `json:"readiness"`
		Liveness  *probe `json:"liveness"`
	}
	if err := render.Decode(path, value, &given); err != nil {
		return nil, err
	}
	if given.Path != "" && !strings.HasPrefix(given.Path, "/") {
		return nil, render.FieldError(path+".path", "must start with '/', such as '/healthz'")
	}
	return withoutNulls(value), nil
}

// amount refuses values that are neither a number of pods nor a percentage.
func amount(path string, v *intstr.IntOrString) error {
	if v == nil {
		return nil
	}
	if v.Type == intstr.String && len(validation.IsValidPercent(v.StrVal)) > 0 || v.Type == intstr.Int && v.IntVal < 0 {
		return render.FieldError(path, "must be a number of pods such as 1, or a percentage such as '25%%', not '%s'", v.String())
	}
	return nil
}

func isZero(v *intstr.IntOrString) bool {
	return v != nil && (v.Type == intstr.Int && v.IntVal == 0 || v.Type == intstr.String && strings.Trim(v.StrVal, "0") == "%")
}

func rollingUpdate(path string, value any) (any, error) {
	r := &dsv1.RollingUpdate{}
	v, err := decoded(path, value, r)
	if err != nil {
		return nil, err
	}
	if err := amount(path+".maxSurge", r.MaxSurge); err != nil {
		return nil, err
	}
	if err := amount(path+".maxUnavailable", r.MaxUnavailable); err != nil {
		return nil, err
	}
	if isZero(r.MaxSurge) && (r.MaxUnavailable == nil || isZero(r.MaxUnavailable)) {
		return nil, render.FieldError(path+".maxUnavailable", "must be above 0 when maxSurge is 0: no pod could be replaced otherwise")
	}
	return v, nil
}

func disruptionBudget(path string, value any) (any, error) {
	b := &dsv1.DisruptionBudget{}
	v, err := decoded(path, value, b)
	if err != nil {
		return nil, err
	}
	if err := amount(path+".minAvailable", b.MinAvailable); err != nil {
		return nil, err
	}
	if err := amount(path+".maxUnavailable", b.MaxUnavailable); err != nil {
		return nil, err
	}
	if b.MinAvailable != nil && b.MaxUnavailable != nil {
		return nil, render.FieldError(path, "set either minAvailable or maxUnavailable, not both")
	}
	return v, nil
}
