// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"maps"
	"slices"
	"strings"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/component"
)

const (
	redisPort = "6379"
	// Values of finalizers in a RedisCluster: redisRetains keeps the data when the cluster is deleted, redisDeletes
	// deletes the data.
	redisRetains = "retain"
	redisDeletes = "foreground"
)

// managedRedis returns the chart values of a RedisCluster, with its whole spec. fields are the component's fields, including the defaults for
// all components.
func managedRedis(in Input, c *component.Component, fields map[string]any) (map[string]any, error) {
	r := c.Redis
	pod := map[string]any{}
	take(pod, fields, "labels", "annotations", "affinity", "nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets", "resources")
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
		"finalizers": redisRetains, "pod": []any{pod}, "storage": map[string]any{"size": r.Storage.Size.String()},
	}
	if r.Replicas != nil {
		spec["replicas"] = int64(*r.Replicas)
	}
	if r.Storage.Retention == dsv1.RetentionDelete {
		spec["finalizers"] = redisDeletes
	}
	if r.Storage.StorageClassName != "" {
		spec["storage"].(map[string]any)["storageClassName"] = r.Storage.StorageClassName
	}
	giveGrowth(spec["storage"].(map[string]any), "autoGrow", r.Storage.AutoGrow)
	give(spec, map[string]string{
		"version": r.Version, "credentialsSecret": r.CredentialsSecret, "antiAffinity": r.AntiAffinity, "size": named(r.Size),
	})
	take(spec, fields, "config", "topologySpreadConstraints")
	if err := takeBackup(c.Path, spec, r.Backup, r.RestoreFrom); err != nil {
		return nil, err
	}
	template, err := templateOf(c, r.PodTemplate)
	if err != nil {
		return nil, err
	}
	if template != nil {
		spec["podTemplate"] = template
	}
	return resource(in, c, fields, spec)
}

// redisVariables returns the variables of the Redis containers, sorted by name.
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

// useRedis adds the nodes and the password of Redis to a component that depends on Redis.
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

// redisNodes returns the client addresses of the cluster, as host:port. For a RedisCluster, the address is that of its Service, which
// selects the ready nodes. The address does not change with the shards, so no service restarts. A client of Redis Cluster discovers all
// nodes from any node.
func redisNodes(in Input, c *component.Component) []string {
	if c.Kind != component.ThirdParty {
		return []string{host(in, c) + ":" + redisPort}
	}
	return nodes(c.ThirdParty.URL, redisPort)
}

// redisImage returns the image of Redis from the spec, or else from the operator's environment variable, or else from
// the chart.
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
