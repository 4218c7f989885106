// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	strictjson "sigs.k8s.io/json"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

// This file contains the common code of redis, etcd, mongodb and a mysql with several members. Each is a resource of another kind, or runs
// outside of the cluster.

// resource returns the chart values of a resource with a spec. It adds the network policy to the spec. fields are the component's fields,
// including the defaults for all components.
func resource(in Input, c *component.Component, fields, spec map[string]any) (map[string]any, error) {
	if err := policyFor(in, c, spec); err != nil {
		return nil, err
	}
	v := map[string]any{"instance": in.Instance, "managedBy": ManagedBy, "component": string(c.Name), "name": c.ObjectName, "spec": spec}
	take(v, fields, "labels")
	return v, nil
}

// take copies the named fields. It skips fields that are not set.
func take(into, fields map[string]any, names ...string) {
	for _, name := range names {
		if value, ok := fields[name]; ok {
			into[name] = value
		}
	}
}

// give sets the fields whose value is not empty.
func give(into map[string]any, values map[string]string) {
	for name, value := range values {
		if value != "" {
			into[name] = value
		}
	}
}

// giveGrowth sets the growth of volumes in a field, if growth is declared.
func giveGrowth(into map[string]any, field string, given *backupv1.AutoGrow) {
	if given == nil {
		return
	}
	grow := map[string]any{"limit": given.Limit.String()}
	give(grow, map[string]string{"at": given.At, "by": given.By})
	into[field] = grow
}

// named returns the value of spec.size for a size. It returns "" for SizeCustom, which takes its amounts from `resources`.
func named(size dsv1.Size) string {
	if size == dsv1.SizeCustom {
		return ""
	}
	return string(size)
}

// templateOf parses a podTemplate strictly. It returns nil if given is nil.
func templateOf(c *component.Component, given *dsv1.Object) (map[string]any, error) {
	if given == nil {
		return nil, nil
	}
	path := c.Path + ".podTemplate"
	if _, err := render.OverlayPods(path, map[string]any{}, given.Raw); err != nil {
		return nil, err
	}
	var template map[string]any
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(given.Raw, &template); err != nil {
		return nil, render.FieldError(path, "%v", err)
	}
	return template, nil
}

// podsOf returns the podTemplate of a resource, with the labels, annotations and priority class of the pods: the
// resource's kind has no fields for them. Values in the given podTemplate take precedence.
func podsOf(c *component.Component, given *dsv1.Object, fields map[string]any) (map[string]any, error) {
	template, err := templateOf(c, given)
	if err != nil {
		return nil, err
	}
	if template == nil {
		template = map[string]any{}
	}
	for _, name := range []string{"labels", "annotations"} {
		values, _ := fields[name].(map[string]any)
		for key, value := range values {
			own := added(added(template, "metadata"), name)
			if _, ok := own[key]; !ok {
				own[key] = value
			}
		}
	}
	if class, ok := fields["priorityClassName"]; ok && added(template, "spec")["priorityClassName"] == nil {
		added(template, "spec")["priorityClassName"] = class
	}
	return template, nil
}

// takeBackup adds the destination of backups, and the backup to restore, to the spec of a cluster. It parses both strictly.
func takeBackup(path string, spec map[string]any, backup, restore *dsv1.Object) error {
	if backup != nil {
		var given backupv1.ClusterBackup
		if err := render.Decode(path+".backup", json.RawMessage(backup.Raw), &given); err != nil {
			return err
		}
		if err := render.CheckBackupSchedules(path+".backup", given.Schedule, "", given.TimeZone); err != nil {
			return err
		}
		if given.PodTemplate != nil {
			if _, err := render.OverlayPods(path+".backup.podTemplate", map[string]any{}, given.PodTemplate.Raw); err != nil {
				return err
			}
		}
		given.SetDefaults()
		spec["backup"] = given
	}
	if restore != nil {
		var given backupv1.ClusterRestore
		if err := render.Decode(path+".restoreFrom", json.RawMessage(restore.Raw), &given); err != nil {
			return err
		}
		given.SetDefaults()
		spec["restoreFrom"] = given
	}
	return plain(spec, "backup", "restoreFrom")
}

// plain converts values to the types that templates use: maps, lists, strings and numbers.
func plain(spec map[string]any, names ...string) error {
	for _, name := range names {
		if spec[name] == nil {
			continue
		}
		text, err := json.Marshal(spec[name])
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		var value map[string]any
		if err := strictjson.UnmarshalCaseSensitivePreserveInts(text, &value); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		spec[name] = value
	}
	return nil
}

// policyFor adds a network policy to a spec: it admits the operator, the components that connect to the resource, and the peers in allowFrom.
func policyFor(in Input, c *component.Component, spec map[string]any) error {
	if in.NetworkPolicy == nil || !in.NetworkPolicy.Enabled {
		return nil
	}
	allowed, err := peers(in.NetworkPolicy.AllowFrom)
	if err != nil {
		return err
	}
	if callers := in.Graph.Callers(c.Name); len(callers) > 0 {
		names := make([]any, len(callers))
		for i, name := range slices.Sorted(slices.Values(callers)) {
			names[i] = string(name)
		}
		allowed = append([]any{map[string]any{"podSelector": map[string]any{
			"matchLabels":      map[string]any{"app.kubernetes.io/instance": in.Instance},
			"matchExpressions": []any{map[string]any{"key": "app.kubernetes.io/name", "operator": "In", "values": names}},
		}}}, allowed...)
	}
	policy := map[string]any{"enabled": true}
	if len(allowed) > 0 {
		policy["allowFrom"] = allowed
	}
	addPorts(policy, in.NetworkPolicy)
	spec["networkPolicy"] = policy
	return nil
}

// added returns the map under a key, and creates the map if it does not exist.
func added(v map[string]any, key string) map[string]any {
	found, ok := v[key].(map[string]any)
	if !ok {
		found = map[string]any{}
		v[key] = found
	}
	return found
}

// nodes returns the addresses in a url, as host:port.
func nodes(url, defaultPort string) []string {
	var found []string
	for _, address := range addressesIn(url) {
		name, port := splitPort(address)
		if port == "" {
			port = defaultPort
		}
		found = append(found, name+":"+port)
	}
	return found
}

// addressesIn returns the addresses in a URL such as redis://a:6379,b or mongodb://a,b/orders.
func addressesIn(url string) []string {
	_, list, _ := strings.Cut(url, "://")
	list, _, _ = strings.Cut(list, "/")
	return strings.Split(list, ",")
}

// splitPort splits an address into the host (with the brackets of an IPv6 address) and the port, which may be empty.
func splitPort(address string) (host, port string) {
	if i := strings.LastIndexByte(address, ':'); i > strings.LastIndexByte(address, ']') {
		return address[:i], address[i+1:]
	}
	return address, ""
}

// checkResource refuses settings of MongoDB on which other objects depend, and invalid fields of middleware outside of the cluster.
func checkResource(c *component.Component, v map[string]any) error {
	if c.MongoDB != nil {
		if err := checkMongoDB(c, v); err != nil {
			return err
		}
	}
	return checkElsewhere(c)
}

// checkElsewhere refuses, for middleware outside of the cluster, invalid object names, and addresses without a host or with an invalid
// port.
func checkElsewhere(c *component.Component) error {
	tp := c.ThirdParty
	if tp == nil {
		return nil
	}
	if tp.SecretRef != nil {
		if _, err := subdomain(c.Path+".thirdParty.secretRef.name", tp.SecretRef.Name); err != nil {
			return err
		}
	}
	scheme, _, _ := strings.Cut(tp.URL, "://")
	for _, address := range addressesIn(tp.URL) {
		host, port := splitPort(address)
		if host == "" {
			return render.FieldError(c.Path+".thirdParty.url", "each address must have a host, such as '%s://host'", scheme)
		}
		if err := checkPort(c.Path+".thirdParty.url", port); err != nil {
			return err
		}
	}
	return nil
}
