// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"maps"
	"slices"
	"strings"

	strictjson "sigs.k8s.io/json"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/specfield"
)

const (
	redisPort = "6379"
	// The values of finalizers in a RedisCluster: what becomes of the data when it is deleted.
	redisRetains = "retain"
	redisDeletes = "foreground"
)

// managedRedis returns the values of the chart of a RedisCluster: the whole of its spec. fields are those of the
// component with the defaults for all components below them.
func managedRedis(in Input, c *component.Component, fields map[string]any) (map[string]any, error) {
	r := c.Redis
	pod := map[string]any{}
	for _, name := range []string{"labels", "annotations", "affinity", "nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets", "resources"} {
		if value, ok := fields[name]; ok {
			pod[name] = value
		}
	}
	if variables := redisVariables(in, r); len(variables) > 0 {
		pod["env"] = variables
	}
	if r.MonitorImage != "" {
		pod["monitorImage"] = withRegistry(in, r.MonitorImage)
	}
	if r.Image != "" || in.Defaults != nil && in.Defaults.Registry != "" {
		pod["middlewareImage"] = redisImage(in, c)
	}
	spec := map[string]any{
		"replicas": int64(r.Replicas), "finalizers": redisRetains, "pod": []any{pod},
		"storage": map[string]any{"size": r.Storage.Size.String()},
	}
	if r.Storage.Retention == dsv1.RetentionDelete {
		spec["finalizers"] = redisDeletes
	}
	if r.Storage.StorageClassName != "" {
		spec["storage"].(map[string]any)["storageClassName"] = r.Storage.StorageClassName
	}
	for name, value := range map[string]string{"version": r.Version, "credentialsSecret": r.CredentialsSecret, "antiAffinity": r.AntiAffinity} {
		if value != "" {
			spec[name] = value
		}
	}
	if r.Size != "" && r.Size != dsv1.SizeCustom {
		spec["size"] = string(r.Size)
	}
	for _, name := range []string{"config", "topologySpreadConstraints"} {
		if value, ok := fields[name]; ok {
			spec[name] = value
		}
	}
	if err := redisTemplate(c, spec); err != nil {
		return nil, err
	}
	if err := redisPolicy(in, c, spec); err != nil {
		return nil, err
	}
	v := map[string]any{"instance": in.Instance, "managedBy": ManagedBy, "component": string(c.Name), "name": c.ObjectName, "spec": spec}
	if labels, ok := fields["labels"]; ok {
		v["labels"] = labels
	}
	return v, nil
}

// redisVariables are the variables of the Redis containers, by name.
func redisVariables(in Input, r *dsv1.Redis) []any {
	env := map[string]string{}
	if in.Defaults != nil && in.Defaults.TimeZone != "" {
		env["TZ"] = in.Defaults.TimeZone
	}
	maps.Copy(env, r.Env)
	var found []any
	for _, name := range slices.Sorted(maps.Keys(env)) {
		found = append(found, map[string]any{"name": name, "value": env[name]})
	}
	return found
}

// redisTemplate adds the podTemplate, which it reads strictly.
func redisTemplate(c *component.Component, spec map[string]any) error {
	if c.Redis.PodTemplate == nil {
		return nil
	}
	path := c.Path + ".podTemplate"
	if _, err := specfield.OverlayPods(path, map[string]any{}, c.Redis.PodTemplate.Raw); err != nil {
		return err
	}
	var template any
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(c.Redis.PodTemplate.Raw, &template); err != nil {
		return specfield.Mistake(path, "%v", err)
	}
	spec["podTemplate"] = template
	return nil
}

// redisPolicy lets those components connect that depend on redis, and nobody else but the operator.
func redisPolicy(in Input, c *component.Component, spec map[string]any) error {
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
	spec["networkPolicy"] = policy
	return nil
}

// useRedis gives a component that depends on redis its nodes and its password.
func useRedis(v map[string]any, in Input, c *component.Component) {
	redis := in.Graph.Get(component.Redis)
	if redis == nil || redis.Redis == nil || !slices.Contains(c.Requires, component.Redis) {
		return
	}
	added(v, "endpoints")["redis"] = map[string]any{"nodes": strings.Join(redisNodes(in, redis), ",")}
	if in.Credentials.RedisSecret == "" {
		return
	}
	added(v, "credentials")["redis"] = redisCredentials(in)
	annotate(v, "checksum/redis-credentials", in.Credentials.RedisChecksum)
}

func redisCredentials(in Input) map[string]any {
	credentials := map[string]any{"secretName": in.Credentials.RedisSecret, "passwordKey": "password"}
	if in.Credentials.RedisHasUser {
		credentials["usernameKey"] = "username"
	}
	return credentials
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

// redisNodes returns where clients find the cluster, as host:port. For a cluster of the operator's that is its Service,
// behind which are the nodes that are ready: it stays the same whichever shards come and go, so that no service restarts
// for that. A client that speaks Redis Cluster learns of the nodes from any of them.
func redisNodes(in Input, c *component.Component) []string {
	if c.Kind != component.ThirdParty {
		return []string{host(in, c) + ":" + redisPort}
	}
	var nodes []string
	for _, address := range redisAddresses(c.ThirdParty.URL) {
		name, port := splitPort(address)
		if port == "" {
			port = redisPort
		}
		nodes = append(nodes, name+":"+port)
	}
	return nodes
}

// redisAddresses are the addresses in redis://a:6379,b.
func redisAddresses(url string) []string {
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

// redisImage is the image of Redis where the spec says more of it than its version.
func redisImage(in Input, c *component.Component) string {
	if c.Redis.Image != "" {
		return withRegistry(in, c.Redis.Image)
	}
	shipped := in.Images[string(component.Redis)]
	if shipped == "" {
		shipped = load("rediscluster/values.yaml").Image
	}
	if c.Redis.Version != "" {
		shipped = withTag(shipped, c.Redis.Version)
	}
	return inRegistry(in, shipped)
}

// checkRedis finds names that no object can have, and addresses with a port that there is not.
func checkRedis(c *component.Component) error {
	tp := c.ThirdParty
	if tp == nil {
		return nil
	}
	if tp.SecretRef != nil {
		if _, err := subdomain(c.Path+".thirdParty.secretRef.name", tp.SecretRef.Name); err != nil {
			return err
		}
	}
	for _, address := range redisAddresses(tp.URL) {
		host, port := splitPort(address)
		if host == "" {
			return specfield.Mistake(c.Path+".thirdParty.url", "each address must have a host, such as 'redis://host:6379'")
		}
		if err := checkPort(c.Path+".thirdParty.url", port); err != nil {
			return err
		}
	}
	return nil
}
