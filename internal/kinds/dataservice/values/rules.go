// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

const missing = "it must be given"

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
		return "protocol", "it must be TCP, UDP or SCTP"
	}
	switch {
	case p.TargetPort == nil:
		return "", ""
	case p.TargetPort.Type == intstr.String:
		return "targetPort", first(validation.IsValidPortName(p.TargetPort.StrVal))
	}
	return "targetPort", first(validation.IsValidPortNum(p.TargetPort.IntValue()))
}

// configPath is as narrow as a ConfigMap's key, which a path becomes.
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
		return "path", "it must be an absolute path of letters, digits, '.', '_' and '-', of at most 250 characters"
	case sources != 1:
		return "content", "a file has one of content, configMap and secret"
	case f.Key != "" && f.Content != nil:
		return "key", "it is for a file from a configMap or secret"
	case f.Key != "":
		return "key", first(validation.IsConfigMapKey(f.Key))
	case f.ConfigMap != "":
		return "configMap", first(validation.IsDNS1123Subdomain(f.ConfigMap))
	case f.Secret != "":
		return "secret", first(validation.IsDNS1123Subdomain(f.Secret))
	}
	return "", ""
}

// probe is a check of health as the spec gives it.
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
	if err := Decode(path, value, &given); err != nil {
		return nil, err
	}
	if given.Path != "" && !strings.HasPrefix(given.Path, "/") {
		return nil, mistake(path+".path", "it must start with /")
	}
	return withoutNulls(value), nil
}

// amount refuses what is neither a number of pods nor a percentage.
func amount(path string, v *intstr.IntOrString) error {
	if v == nil {
		return nil
	}
	if v.Type == intstr.String && len(validation.IsValidPercent(v.StrVal)) > 0 || v.Type == intstr.Int && v.IntVal < 0 {
		return mistake(path, "%s is neither a number nor a percentage", v.String())
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
		return nil, mistake(path+".maxUnavailable", "it must not be 0 while maxSurge is 0")
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
		return nil, mistake(path, "give either minAvailable or maxUnavailable")
	}
	return v, nil
}

// labelKey keeps the labels that the operator finds its objects by for itself.
func labelKey(key string) []string {
	switch key {
	case "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/part-of":
		return []string{"that label is the operator's own"}
	}
	return validation.IsQualifiedName(key)
}

// annotationKey keeps the annotations that mean something to the operator for itself.
func annotationKey(key string) []string {
	for _, prefix := range []string{"d3os-product.com.d3os/", "helm.sh/", "checksum/"} {
		if strings.HasPrefix(key, prefix) {
			return []string{fmt.Sprintf("annotations of %s are the operator's own", strings.TrimSuffix(prefix, "/"))}
		}
	}
	return validation.IsQualifiedName(strings.ToLower(key))
}

// checkTogether finds fields that contradict one another, or the component's kind.
func checkTogether(c *component.Component, v map[string]any) error {
	size, _ := v["size"].(string)
	switch {
	case size == string(dsv1.SizeCustom) && v["resources"] == nil:
		return mistake(c.Path+".resources", "size custom takes its amounts from resources")
	case size != "" && size != string(dsv1.SizeCustom) && v["resources"] != nil:
		return mistake(c.Path+".resources", "size %s has amounts of its own; resources are for size custom", size)
	}
	if inside := v["serviceType"] == "ClusterIP" || v["serviceType"] == "Headless"; inside && onNodes(v) {
		return mistake(c.Path+".nodePort", "a Service of type %s has none", v["serviceType"])
	}
	if c.Name == component.MySQL {
		if err := checkMySQL(c, v); err != nil {
			return err
		}
	}
	if c.Kind == component.ThirdParty {
		if err := checkURL(c); err != nil {
			return err
		}
	}
	if ingress, ok := v["ingress"].(map[string]any); ok {
		if _, err := checks["annotations"](c.Path+".ingress.annotations", ingress["annotations"]); err != nil {
			return err
		}
		for _, name := range []string{"className", "tlsSecret"} {
			if _, err := subdomain(c.Path+".ingress."+name, ingress[name]); err != nil {
				return err
			}
		}
	}
	if c.Service == nil {
		return nil
	}
	if err := checkMainPort(c, v); err != nil {
		return err
	}
	return checkRollout(c, v)
}

// checkURL refuses a port that there is not.
func checkURL(c *component.Component) error {
	path := c.Path + ".thirdParty.url"
	u, err := url.Parse(c.Middleware.ThirdParty.URL)
	if err != nil {
		return mistake(path, "it is no url") // the error would repeat all of it
	}
	if u.Port() == "" {
		return nil
	}
	number, err := strconv.Atoi(u.Port())
	if err != nil || number < 1 || number > 65535 {
		return mistake(path, "a port is a number from 1 to 65535, not %s", u.Port())
	}
	return nil
}

// checkMySQL finds settings of several lines, and names that no object can have: pods would wait
// for it for ever.
func checkMySQL(c *component.Component, v map[string]any) error {
	settings, _ := v["config"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if s, _ := settings[name].(string); strings.ContainsAny(name+s, "\n\r") {
			return mistake(fmt.Sprintf("%s.config[%s]", c.Path, name), "a setting of mysql has one line")
		}
	}
	for i, ref := range c.MySQL.InitScripts {
		if problems := validation.IsDNS1123Subdomain(ref.Name); len(problems) > 0 {
			return mistake(fmt.Sprintf("%s.initScripts[%d].name", c.Path, i), "%s", problems[0])
		}
	}
	if tp := c.Middleware.ThirdParty; tp != nil && tp.SecretRef != nil {
		_, err := subdomain(c.Path+".thirdParty.secretRef.name", tp.SecretRef.Name)
		return err
	}
	return nil
}

// checkMainPort keeps the name of the main port for it, unless one of the ports takes its place.
func checkMainPort(c *component.Component, v map[string]any) error {
	main := int64(port(c))
	taken := -1
	ports, _ := v["ports"].([]any)
	for i := range ports {
		p, _ := ports[i].(map[string]any)
		if p["port"] == main && (p["protocol"] == nil || p["protocol"] == "" || p["protocol"] == "TCP") {
			return nil
		}
		if p["name"] == "http" {
			taken = i
		}
	}
	if main != 0 && taken >= 0 {
		return mistake(fmt.Sprintf("%s.ports[%d].name", c.Path, taken), "http is the name of the main port, %d", main)
	}
	return nil
}

// checkRollout finds what the kind of a service's workload cannot do.
func checkRollout(c *component.Component, v map[string]any) error {
	recreate := v["strategy"] == "Recreate"
	s := c.Service
	switch {
	case s.ProgressDeadlineSeconds != nil && s.MinReadySeconds != nil && *s.ProgressDeadlineSeconds <= *s.MinReadySeconds:
		return mistake(c.Path+".progressDeadlineSeconds", "it must be more than minReadySeconds")
	case recreate && c.Kind != component.Deployment:
		return mistake(c.Path+".strategy", "Recreate is for kind Deployment, not %s", c.Kind)
	case recreate && v["rollingUpdate"] != nil:
		return mistake(c.Path+".rollingUpdate", "strategy Recreate has no rolling update")
	case c.Kind == component.StatefulSet && v["rollingUpdate"] != nil:
		return mistake(c.Path+".rollingUpdate", "a StatefulSet replaces one pod after the other")
	case c.Kind == component.DaemonSet && v["autoscaling"] != nil:
		return mistake(c.Path+".autoscaling", "a DaemonSet has one pod on each node")
	}
	return nil
}
