// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

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
