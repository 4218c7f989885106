// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/redis/topology"
)

const (
	defaultRepository = "docker.io/library/redis"
	defaultVersion    = "7.0.15"
	defaultPipeline   = 100
	// defaultNodeTimeout is the value in the chart's redis.conf.
	defaultNodeTimeout = 5 * time.Second

	// placeholder is used instead of an image in examples of an earlier operator.
	placeholder = "string"
)

// The oldest supported version of Redis.
const (
	oldestMajor = 6
	oldestMinor = 2
)

// DefaultImages returns the images that the operator uses if the spec names none, by their names in manager.Options.
func DefaultImages() map[string]string {
	return map[string]string{ImageName: defaultRepository + ":" + defaultVersion}
}

// ImageName is the name of the default image of Redis.
const ImageName = "redis"

// podOf returns the pod settings of a spec.
func podOf(spec *redisv1.RedisClusterSpec) *redisv1.Pod {
	if len(spec.Pod) == 0 {
		return &redisv1.Pod{}
	}
	return &spec.Pod[0]
}

// defaultReplicas is the default of spec.replicas in the CRD, for a resource that no API server has defaulted.
const defaultReplicas = 6

// isParked reports whether no pod is wanted.
func isParked(spec *redisv1.RedisClusterSpec) bool {
	return spec.Replicas != nil && *spec.Replicas == 0
}

// wantedShards returns, for each shard in order, how many pods it has. One or two pods form one shard. More pods form at least three shards,
// because fewer masters cannot elect a new master. From eight pods on, there is one shard for every two pods. The pods are distributed evenly;
// if some are left, the first shards get one more pod each.
func wantedShards(spec *redisv1.RedisClusterSpec) []int {
	pods := int(ptr.Deref(spec.Replicas, defaultReplicas))
	count := max(pods/2, 3)
	if pods < count {
		count = min(pods, 1)
	}
	shards := make([]int, count)
	for i := range shards {
		shards[i] = (pods + count - 1 - i) / count
	}
	return shards
}

// withoutReplica returns how many shards have only one pod.
func withoutReplica(shards []int) (n int) {
	for _, pods := range shards {
		if pods == 1 {
			n++
		}
	}
	return n
}

// plannedShards returns the number of pods that each shard should have at present. Recorded pods stay until they are drained and removed
// from the record. Until the cluster is formed, live pods also stay.
func plannedShards(wanted []int, record topology.Record, live func(shard int) (pods int, err error)) ([]int, error) {
	planned := append([]int{}, wanted...) // never nil: for nil, the chart uses a default
	keep := func(shard, pods int) {
		for len(planned) <= shard {
			planned = append(planned, 0)
		}
		planned[shard] = max(planned[shard], pods)
	}
	for shard, pods := range record.Shards {
		keep(shard, pods)
	}
	for shard := 0; !record.Formed; shard++ {
		pods, err := live(shard)
		if err != nil {
			return nil, err
		}
		if pods == 0 && shard >= len(planned) {
			break
		}
		keep(shard, pods)
	}
	for shard, pods := range planned {
		if !record.Parked { // otherwise the StatefulSets have no pods, and annotations keep the numbers
			planned[shard] = record.MayRun(shard, pods)
		}
	}
	return planned, nil
}

// imageOf returns the image of Redis. If the spec names no image, it returns the operator's configured image (related),
// or the default image if that is empty.
func imageOf(spec *redisv1.RedisClusterSpec, related string) string {
	repository, image := spec.Repository, given(podOf(spec).MiddlewareImage)
	if repository == "" && image == "" && spec.Version == "" && related != "" {
		return related
	}
	version := spec.Version
	switch {
	case image == "" && strings.HasSuffix(repository, "/"):
		image = repository + "redis"
	case image == "" && repository == "":
		image = defaultRepository
	case image == "":
		image = repository
	case strings.HasSuffix(repository, "/"):
		image = repository + image
	}
	if version == "" && given(podOf(spec).MiddlewareImage) == "" {
		version = defaultVersion
	}
	if version == "" || hasTag(image) {
		return image
	}
	return image + ":" + version
}

// given returns an image, or "" for the placeholder of examples.
func given(image string) string {
	if image == placeholder {
		return ""
	}
	return image
}

func hasTag(image string) bool {
	return strings.ContainsAny(image[strings.LastIndex(image, "/")+1:], ":@")
}

// isSupported reports whether a version of Redis is supported. A text that is not a version counts as supported.
func isSupported(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, err := strconv.Atoi(major)
	if err != nil {
		return true
	}
	n, err := strconv.Atoi(minor)
	return m > oldestMajor || m == oldestMajor && (err == nil && n >= oldestMinor)
}

// sharedClaim returns the claim that all pods share, or "" if each pod has one.
func sharedClaim(spec *redisv1.RedisClusterSpec) string {
	volumes := podOf(spec).Volumes
	if volumes == nil || volumes.Type != "nfs" || !isClaimName(volumes.PersistentVolumeClaimName) {
		return ""
	}
	return volumes.PersistentVolumeClaimName
}

func isClaimName(name string) bool {
	return len(validation.IsDNS1123Subdomain(name)) == 0
}

// backupOf returns the declared backups. While no pod is wanted, no backup is scheduled, because it would fail.
func backupOf(spec *redisv1.RedisClusterSpec) *backupv1.ClusterBackup {
	if spec.Backup == nil || !isParked(spec) {
		return spec.Backup
	}
	declared := spec.Backup.DeepCopy()
	declared.Schedule = ""
	return declared
}

// keepsData reports whether volumes, password and record outlive the resource.
func keepsData(spec *redisv1.RedisClusterSpec) bool { return spec.Finalizers != "foreground" }

// replacesPods reports whether the operator replaces pods of an old revision.
func replacesPods(spec *redisv1.RedisClusterSpec) bool {
	strategy := podOf(spec).UpdateStrategy
	return strategy == nil || strategy.Type != "OnDelete"
}

// pipelineOf returns the number of keys that one MIGRATE moves.
func pipelineOf(spec *redisv1.RedisClusterSpec) int {
	if spec.UpdateStrategy == nil {
		return defaultPipeline
	}
	n, err := strconv.Atoi(spec.UpdateStrategy.Pipeline)
	if err != nil {
		return defaultPipeline
	}
	return n
}

// wanted returns the desired state of the running cluster.
func wanted(rc *redisv1.RedisCluster, announced bool) topology.Wanted {
	settings := settingsOf(rc.Spec.Config)
	obs := topology.Wanted{
		Generation: rc.Generation, Shards: wantedShards(&rc.Spec), Parked: isParked(&rc.Spec), Settings: settings.live, NodeTimeout: nodeTimeout(settings.live),
		Restores: rc.Spec.RestoreFrom != nil, Announced: announced,
	}
	if consent := rc.Annotations[redisv1.AnnotationConsent]; consent != "" {
		obs.Consent = list(consent)
	}
	strategy := rc.Spec.UpdateStrategy
	if strategy == nil || strategy.Type != "AssignReceive" {
		return obs
	}
	obs.Assign = []topology.Assignment{}
	for _, entry := range strategy.AssignStrategies {
		obs.Assign = append(obs.Assign, topology.Assignment{Slots: int(entry.Slots), From: list(entry.FromReplicas)})
	}
	return obs
}

// list splits a comma-separated list.
func list(text string) []string {
	var found []string
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			found = append(found, entry)
		}
	}
	return found
}
