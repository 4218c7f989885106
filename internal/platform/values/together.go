// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

// checkTogether refuses fields that contradict each other, or the component's kind.
func checkTogether(c *component.Component, v map[string]any) error {
	size, _ := v["size"].(string)
	switch {
	case size == string(dsv1.SizeCustom) && v["resources"] == nil:
		return render.FieldError(c.Path+".resources", "must be set when size is 'custom': the amounts come from here")
	case size != "" && size != string(dsv1.SizeCustom) && v["resources"] != nil:
		return render.FieldError(c.Path+".resources", "may not be set when size is '%s': remove it, or set size to 'custom'", size)
	}
	if inside := v["serviceType"] == "ClusterIP" || v["serviceType"] == "Headless"; inside && onNodes(v) {
		return render.FieldError(c.Path+".nodePort", "may not be set when serviceType is '%s': remove it, or use 'NodePort' or 'LoadBalancer'", v["serviceType"])
	}
	if c.Name == component.MySQL {
		if err := checkMySQL(c, v); err != nil {
			return err
		}
	}
	if err := checkSchedule(c); err != nil {
		return err
	}
	if c.IsResource() {
		return checkResource(c, v)
	}
	if c.Kind == component.ThirdParty {
		if err := checkURL(c); err != nil {
			return err
		}
	}
	if err := checkIngress(c, v); err != nil {
		return err
	}
	if err := checkHTTPRoute(c, v); err != nil {
		return err
	}
	if c.Service == nil {
		return nil
	}
	if err := checkMainPort(c, v); err != nil {
		return err
	}
	return checkRollout(c, v)
}

func checkIngress(c *component.Component, v map[string]any) error {
	ingress, ok := v["ingress"].(map[string]any)
	if !ok {
		return nil
	}
	if _, err := checks["annotations"](c.Path+".ingress.annotations", ingress["annotations"]); err != nil {
		return err
	}
	for _, name := range []string{"className", "tlsSecret"} {
		if _, err := subdomain(c.Path+".ingress."+name, ingress[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkHTTPRoute refuses names and annotations that the API server would refuse.
func checkHTTPRoute(c *component.Component, v map[string]any) error {
	route, ok := v["httpRoute"].(map[string]any)
	if !ok {
		return nil
	}
	path := c.Path + ".httpRoute"
	if _, err := checks["annotations"](path+".annotations", route["annotations"]); err != nil {
		return err
	}
	gateways, _ := route["gateways"].([]any)
	for i := range gateways {
		gateway, _ := gateways[i].(map[string]any)
		for _, name := range []string{"name", "namespace", "sectionName"} {
			if _, err := subdomain(fmt.Sprintf("%s.gateways[%d].%s", path, i, name), gateway[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxAstral is the maximum number of characters beyond U+FFFF in the settings of a component. Each such character is written as two
// escapes.
const maxAstral = 5000

// checkSettings refuses settings that take too long to write.
func checkSettings(c *component.Component, v map[string]any) error {
	settings, _ := v["config"].(map[string]any)
	found := 0
	for name, value := range settings {
		text, _ := value.(string)
		for _, r := range name + text {
			if r > 0xffff {
				found++
			}
		}
	}
	if found > maxAstral {
		return render.FieldError(c.Path+".config", "it has %d characters beyond U+FFFF, such as emoji, but at most %d are allowed: use configFiles", found, maxAstral)
	}
	return nil
}

// checkURL refuses a third party's URL that cannot be parsed or has an invalid port.
func checkURL(c *component.Component) error {
	path := c.Path + ".thirdParty.url"
	u, err := url.Parse(c.ThirdParty.URL)
	if err != nil {
		return render.FieldError(path, "must be a URL such as 'https://host:443/path'") // the error would repeat the whole URL
	}
	return checkPort(path, u.Port())
}

// checkPort refuses an invalid port. An empty port is valid.
func checkPort(path, port string) error {
	if port == "" {
		return nil
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 1 || number > 65535 {
		return render.FieldError(path, "must have a port from 1 to 65535, not '%s'", port)
	}
	return nil
}

// checkBackup refuses a name that is too long for CronJobs, invalid schedules, a user with the name of a backup account, and invalid
// resources.
func checkBackup(c *component.Component) error {
	backup := c.MySQL.Backup
	if backup == nil {
		return nil
	}
	if len(c.ObjectName) > longestName {
		return render.FieldError(c.Path+".name", "'%s' must have at most %d characters with backup: it becomes a part of the names of CronJobs", c.ObjectName, longestName)
	}
	checks := ""
	if backup.Verify != nil {
		checks = backup.Verify.Schedule
	}
	if err := render.CheckBackupSchedules(c.Path+".backup", backup.Schedule, checks, backup.TimeZone); err != nil {
		return err
	}
	for i, user := range c.MySQL.Users {
		if user.Name == BackupAccount || user.Name == ArchiveAccount {
			return render.FieldError(fmt.Sprintf("%s.users[%d].name", c.Path, i), "%s is the account of backups; choose another name", user.Name)
		}
	}
	if template := c.BackupTemplate(); template != nil {
		if _, err := render.OverlayPods(c.Path+".backup.podTemplate", map[string]any{}, template.Raw); err != nil {
			return err
		}
	}
	if backup.Resources == nil {
		return nil
	}
	return render.Decode(c.Path+".backup.resources", json.RawMessage(backup.Resources.Raw), &corev1.ResourceRequirements{})
}

// checkMySQL refuses settings that mysqld would parse to another value. It also refuses invalid object names, because pods would wait
// forever for objects that cannot exist.
func checkMySQL(c *component.Component, v map[string]any) error {
	settings, _ := v["config"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s, _ := settings[name].(string)
		if err := render.CheckOption(c.Path+".config", name, s); err != nil {
			return err
		}
	}
	if err := checkBackup(c); err != nil {
		return err
	}
	for i, ref := range c.MySQL.InitScripts {
		if problems := validation.IsDNS1123Subdomain(ref.Name); len(problems) > 0 {
			return render.FieldError(fmt.Sprintf("%s.initScripts[%d].name", c.Path, i), "%s", problems[0])
		}
	}
	if tp := c.ThirdParty; tp != nil && tp.SecretRef != nil {
		_, err := subdomain(c.Path+".thirdParty.secretRef.name", tp.SecretRef.Name)
		return err
	}
	return nil
}

// checkMainPort reserves the name of the main port, unless one of the ports replaces the main port.
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
		return render.FieldError(fmt.Sprintf("%s.ports[%d].name", c.Path, taken), "'http' is the name of the main port, %[1]d: choose another name, or set port: %[1]d here to replace the main port", main)
	}
	return nil
}

// checkRollout refuses fields that the workload's kind does not support.
func checkRollout(c *component.Component, v map[string]any) error {
	recreate := v["strategy"] == "Recreate"
	s := c.Service
	switch {
	case s.ProgressDeadlineSeconds != nil && s.MinReadySeconds != nil && *s.ProgressDeadlineSeconds <= *s.MinReadySeconds:
		return render.FieldError(c.Path+".progressDeadlineSeconds", "must be greater than minReadySeconds: no update could succeed in time otherwise")
	case recreate && c.Kind != component.Deployment:
		return render.FieldError(c.Path+".strategy", "may be 'Recreate' for kind Deployment only, but this is a %s: remove it", c.Kind)
	case recreate && v["rollingUpdate"] != nil:
		return render.FieldError(c.Path+".rollingUpdate", "may not be set when strategy is 'Recreate': remove rollingUpdate or strategy")
	case c.Kind == component.StatefulSet && v["rollingUpdate"] != nil:
		return render.FieldError(c.Path+".rollingUpdate", "may not be set for kind StatefulSet, which always replaces one pod after the other: remove it")
	case c.Kind == component.DaemonSet && v["autoscaling"] != nil:
		return render.FieldError(c.Path+".autoscaling", "may not be set for kind DaemonSet, which has one pod on each node: remove it")
	}
	return nil
}
