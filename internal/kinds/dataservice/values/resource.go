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
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/specfield"
)

// What redis and etcd have in common: each is a resource of a kind of its own, or runs elsewhere.

// resource returns the values of the chart of a resource with a spec, to which it adds the network policy. fields are those
// of the component with the defaults for all components below them.
func resource(in Input, c *component.Component, fields, spec map[string]any) (map[string]any, error) {
	if err := policyFor(in, c, spec); err != nil {
		return nil, err
	}
	v := map[string]any{"instance": in.Instance, "managedBy": ManagedBy, "component": string(c.Name), "name": c.ObjectName, "spec": spec}
	take(v, fields, "labels")
	return v, nil
}

// take copies what is given of these fields.
func take(into, fields map[string]any, names ...string) {
	for _, name := range names {
		if value, ok := fields[name]; ok {
			into[name] = value
		}
	}
}

// give sets the fields that have a value.
func give(into map[string]any, values map[string]string) {
	for name, value := range values {
		if value != "" {
			into[name] = value
		}
	}
}

// named is a size that the kind knows by its name: the amounts of the size custom are in resources.
func named(size dsv1.Size) string {
	if size == dsv1.SizeCustom {
		return ""
	}
	return string(size)
}

// templateOf returns a podTemplate, which it reads strictly; nil without one.
func templateOf(c *component.Component, given *dsv1.Object) (map[string]any, error) {
	if given == nil {
		return nil, nil
	}
	path := c.Path + ".podTemplate"
	if _, err := specfield.OverlayPods(path, map[string]any{}, given.Raw); err != nil {
		return nil, err
	}
	var template map[string]any
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(given.Raw, &template); err != nil {
		return nil, specfield.Mistake(path, "%v", err)
	}
	return template, nil
}

// takeBackup adds to the spec of a cluster where its backups go and which one it is made of, which it reads strictly.
func takeBackup(path string, spec map[string]any, backup, restore *dsv1.Object) error {
	if backup != nil {
		var given backupv1.ClusterBackup
		if err := specfield.Decode(path+".backup", json.RawMessage(backup.Raw), &given); err != nil {
			return err
		}
		if given.PodTemplate != nil {
			if _, err := specfield.OverlayPods(path+".backup.podTemplate", map[string]any{}, given.PodTemplate.Raw); err != nil {
				return err
			}
		}
		given.SetDefaults()
		spec["backup"] = given
	}
	if restore != nil {
		var given backupv1.ClusterRestore
		if err := specfield.Decode(path+".restoreFrom", json.RawMessage(restore.Raw), &given); err != nil {
			return err
		}
		given.SetDefaults()
		spec["restoreFrom"] = given
	}
	return plain(spec, "backup", "restoreFrom")
}

// plain makes of these values what templates take: maps, lists, texts and numbers.
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

// policyFor lets those components connect that depend on a resource, and nobody else but the operator.
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

// added returns the map under a key, which it makes where there is none.
func added(v map[string]any, key string) map[string]any {
	found, ok := v[key].(map[string]any)
	if !ok {
		found = map[string]any{}
		v[key] = found
	}
	return found
}

// nodes are the addresses of a url, as host:port.
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

// addressesIn are the addresses in redis://a:6379,b.
func addressesIn(url string) []string {
	_, list, _ := strings.Cut(url, "://")
	return strings.Split(strings.TrimRight(list, "/"), ",")
}

// splitPort splits an address into host, with the brackets of an IPv6 address, and port, which may be empty.
func splitPort(address string) (host, port string) {
	if i := strings.LastIndexByte(address, ':'); i > strings.LastIndexByte(address, ']') {
		return address[:i], address[i+1:]
	}
	return address, ""
}

// checkElsewhere finds, of what runs elsewhere, names that no object can have, and addresses without a host or with a port
// that there is not.
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
			return specfield.Mistake(c.Path+".thirdParty.url", "each address must have a host, such as '%s://host'", scheme)
		}
		if err := checkPort(c.Path+".thirdParty.url", port); err != nil {
			return err
		}
	}
	return nil
}
