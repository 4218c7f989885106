// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

const (
	// part is the value of the name label on all objects of a RedisCluster, which has only one part. The dot keeps it
	// distinct: a platform with the name of the RedisCluster may have a service named redis, and no service's name has a
	// dot. So the Service of that service does not select these pods.
	part = "redis.cluster"
	// chart is the chart of a RedisCluster.
	chart = "rediscluster"
)

// ownVariables are environment variables that the chart sets for the scripts.
var ownVariables = []string{"POD_IP", "POD_NAME", "POD_NAMESPACE", "SERVICE", "MEMORY_LIMIT", "SHARED_FOLDER", "REDISCLI_AUTH"}

// planned holds the inputs of a plan other than the resource.
type planned struct {
	// Copied reports whether pods read the operator's copy of the user's Secret.
	Copied bool
	Shards []int
	// Settings are the settings that can be changed on running servers. Servers also read them from a file at their start.
	Settings map[string]string
	Agents   agents
	// Formed and Restored are set only for a cluster with spec.restoreFrom. Formed reports whether the cluster has
	// begun: from then on, no pod restores the backup. Restored reports whether the cluster is formed: from then on,
	// its pods need no backup store.
	Formed, Restored bool
	// Parked reports whether the StatefulSets have no pods.
	Parked bool
}

// values returns the values of the chart.
func values(rc *redisv1.RedisCluster, owner object.Owner, how planned, images Images) (map[string]any, error) {
	spec, pod := &rc.Spec, podOf(&rc.Spec)
	for _, variable := range pod.Env {
		if slices.Contains(ownVariables, variable.Name) {
			return nil, fmt.Errorf("spec.pod[0].env: %s is set by the operator: remove it", variable.Name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if problems := render.AnnotationKey(key); len(problems) > 0 {
			return nil, render.FieldError("spec.pod[0].annotations", "%s", problems[0])
		}
	}
	if b := spec.Backup; b != nil {
		if err := render.CheckBackupSchedules("spec.backup", b.Schedule, "", b.TimeZone); err != nil {
			return nil, err
		}
	}
	settings := settingsOf(spec.Config)
	resources, _ := resourcesOf(spec)
	size := sizeOf(spec)
	v := map[string]any{
		"shards": how.Shards, "image": imageOf(spec, images.Redis), "initImage": given(pod.InitImage), "monitorImage": given(pod.MonitorImage),
		"size": spec.Size, "credentialsSecret": secretOf(rc),
		"storage": map[string]any{
			"size": size, "storageClassName": spec.Storage.StorageClassName, "claim": sharedClaim(spec), "retain": keepsData(spec), "autoGrow": spec.Storage.AutoGrow != nil,
		},
		"settings": how.Settings, "startSettings": settings.start, "settingsConfigMap": pod.ConfigMap,
		"networkPolicy":     map[string]any{"enabled": spec.NetworkPolicy.Enabled, "allowFrom": spec.NetworkPolicy.AllowFrom, "additionalPorts": spec.NetworkPolicy.AdditionalPorts},
		"priorityClassName": pod.PriorityClassName,
		"agentImage":        how.Agents.backup, "restoreAgentImage": how.Agents.restore, "backup": backupOf(spec), "restoreFrom": spec.RestoreFrom, "formed": how.Formed, "restored": how.Restored,
		"restoreShards": len(wantedShards(spec)),
	}
	if how.Copied {
		v["credentialsSecret"] = copyOf(rc)
	}
	if size == nil { // a resource that no API server has defaulted
		delete(v["storage"].(map[string]any), "size")
	}
	if spec.Backup != nil {
		v["writer"] = string(rc.UID)
	}
	if how.Parked {
		v["parked"] = true
	}
	if images.Namespace != "" {
		v["operatorNamespace"] = images.Namespace
	}
	if spec.AntiAffinity != "" {
		v["antiAffinity"] = spec.AntiAffinity
	}
	for name, value := range map[string]any{
		"envs": pod.Env, "labels": pod.Labels, "annotations": pod.Annotations, "affinity": affinityOf(spec), "nodeSelector": pod.NodeSelector,
		"tolerations": pod.Tolerations, "imagePullSecrets": pod.ImagePullSecrets, "resources": resources,
		"topologySpreadConstraints": spec.TopologySpreadConstraints,
	} {
		v[name] = value
	}
	maps.Copy(v, database.Names(owner, part))
	return database.Plain(v)
}

// heaviestPods limits the bytes of spec.pod and spec.podTemplate, times the number of shards: a plan has a StatefulSet for each shard, and
// merges spec.podTemplate into each of them. Up to fewShards shards, the API server's limit on the size of a resource is enough.
const heaviestPods, fewShards = 512 << 10, 3

// checkPods returns an error if spec.pod and spec.podTemplate are too large for the number of shards.
func checkPods(spec *redisv1.RedisClusterSpec, shards int) error {
	data, err := json.Marshal(struct {
		Pod      []redisv1.Pod
		Template any
	}{spec.Pod, spec.PodTemplate})
	if err != nil || shards <= fewShards || len(data)*shards <= heaviestPods {
		return err
	}
	return render.FieldError("spec.podTemplate", "has %d bytes together with spec.pod, but may have at most %d for %d shards: shorten both fields, or lower spec.replicas",
		len(data), heaviestPods/shards, shards)
}

// needsDryRun reports whether a spec has fields that only the API server can validate.
func needsDryRun(spec *redisv1.RedisClusterSpec) bool {
	return len(spec.Pod) > 0 || spec.PodTemplate != nil || spec.Backup.Template() != nil || len(spec.TopologySpreadConstraints) > 0
}
