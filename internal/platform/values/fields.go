// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

// translated lists fields that charts do not read under these names. Build or package plan uses them.
var translated = []string{
	"name", "image", "version", "kind", "port", "replica", "dependsOn", "thirdParty", "storage", "initScripts", "credentialsSecret",
	"podTemplate", "replication",
}

// ofProbe lists the fields that apply to the probe if redis, etcd or mongodb runs outside of the cluster.
var ofProbe = []string{
	"imagePullSecrets", "labels", "annotations", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priorityClassName",
}

// unused lists the fields that have no effect if middleware runs outside of the cluster.
var unused = []string{"port", "nodePort", "serviceType", "serviceAnnotations", "serviceLabels", "config", "serverVersion", "backup", "restoreFrom", "importFrom"}

// fields returns the fields of a component in the spec, with the defaults for all components. Chart values have the
// same names. A new field needs a Go type and a line in a chart. If the CRD does not specify the field's schema, the
// new field also needs a line in checks or serverChecks.
func fields(in Input, c *component.Component) (map[string]any, error) {
	v, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.Fields)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.Path, err)
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if err := render.CheckSize(c.Path+"."+name, v[name]); err != nil {
			return nil, err
		}
	}
	if err := check(c.Path, v); err != nil {
		return nil, err
	}
	if err := checkSettings(c, v); err != nil {
		return nil, err
	}
	if err := checkTogether(c, v); err != nil {
		return nil, err
	}
	for _, name := range translated {
		delete(v, name)
	}
	if c.Kind == component.ThirdParty {
		for _, name := range unused {
			delete(v, name)
		}
	}
	if c.IsResource() && c.Kind == component.ThirdParty {
		maps.DeleteFunc(v, func(name string, _ any) bool { return !slices.Contains(ofProbe, name) })
	}
	if c.Kind == component.CronJob {
		if zone, ok := v["timeZone"]; ok { // for a cron job, timeZone is the time zone of the schedule; for other components, of the containers
			delete(v, "timeZone")
			v["scheduleTimeZone"] = zone
		}
	}
	if in.Defaults != nil {
		if err := addDefaults(v, in.Defaults, c); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// addDefaults adds the defaults for all components. Values of a component override the defaults.
func addDefaults(v map[string]any, defaults *dsv1.Defaults, c *component.Component) error {
	d, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&defaults.SchedulingFields)
	if err != nil {
		return fmt.Errorf("read spec.defaults: %w", err)
	}
	if err := check("spec.defaults", d); err != nil {
		return err
	}
	if c.Middleware == nil && !c.IsResource() && len(defaults.Env) > 0 {
		env := make(map[string]any, len(defaults.Env))
		for name, value := range defaults.Env {
			env[name] = value
		}
		d["env"] = env
	}
	if c.Service != nil && defaults.Size != "" && v["resources"] == nil {
		d["size"] = string(defaults.Size)
	}
	for name, value := range d {
		switch own := v[name].(type) {
		case nil:
			v[name] = value
		case map[string]any:
			if merged, ok := value.(map[string]any); ok && name != "affinity" {
				merged = maps.Clone(merged)
				maps.Copy(merged, own)
				v[name] = merged
			}
		}
	}
	return nil
}
