// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
)

// This file detects fields of a spec that have no effect, that the operator uses as other fields, or that reduce redundancy.

// defaultSize is the default of spec.storage.size in the CRD.
const defaultSize = "10Gi"

// ignored returns the fields of a spec that have no effect, with the reasons.
func ignored(spec *redisv1.RedisClusterSpec) []string {
	var notes []string
	if volumes := podOf(spec).Volumes; volumes != nil && volumes.Type == "nfs" {
		switch name := volumes.PersistentVolumeClaimName; {
		case name == "":
			notes = append(notes, "spec.pod[0].volumes is of type nfs without persistentVolumeClaimName: each pod has its own claim")
		case !isClaimName(name):
			notes = append(notes, fmt.Sprintf("spec.pod[0].volumes.persistentVolumeClaimName: no claim can be named %q: each pod has its own claim", name))
		}
	}
	return notes
}

// affinityOf returns the affinity of the pods. In resources of an earlier operator, a required node selector may stand
// outside of nodeAffinity: affinityOf moves it into nodeAffinity.
func affinityOf(spec *redisv1.RedisClusterSpec) *corev1.Affinity {
	given := podOf(spec).Affinity
	if given == nil {
		return nil
	}
	affinity := &corev1.Affinity{NodeAffinity: given.NodeAffinity, PodAffinity: given.PodAffinity, PodAntiAffinity: given.PodAntiAffinity}
	if required := given.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
		if given.NodeAffinity != nil {
			affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = given.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		}
	}
	return affinity
}

// resourcesOf returns the resources of the Redis container, without the entry storage, which is not a resource of
// containers. storage is the amount of that entry, or nil.
func resourcesOf(spec *redisv1.RedisClusterSpec) (resources *corev1.ResourceRequirements, storage *resource.Quantity) {
	resources = podOf(spec).Resources.DeepCopy()
	if resources == nil {
		return nil, nil
	}
	for _, list := range []*corev1.ResourceList{&resources.Limits, &resources.Requests} {
		amount, ok := (*list)[corev1.ResourceStorage]
		if !ok {
			continue
		}
		storage = &amount
		if delete(*list, corev1.ResourceStorage); len(*list) == 0 {
			*list = nil
		}
	}
	return resources, storage
}

// sizeOf returns the size of each volume: spec.storage.size, or the amount of storage in the resources if spec.storage.size is not given.
// The API server sets the default, so the default counts as not given.
func sizeOf(spec *redisv1.RedisClusterSpec) *resource.Quantity {
	size := spec.Storage.Size
	if _, storage := resourcesOf(spec); storage != nil && storage.Sign() > 0 && (size == nil || size.Cmp(resource.MustParse(defaultSize)) == 0) {
		return storage
	}
	return size
}

// notes returns the notes about a spec for the user: shards without a replica, and fields that the operator uses as other fields.
func notes(spec *redisv1.RedisClusterSpec) (notes []string) {
	shards := wantedShards(spec)
	switch n := withoutReplica(shards); {
	case n == 1 && len(shards) == 1:
		notes = append(notes, "spec.replicas: one pod owns all slots, which suits development only: no slot is served while the pod does not run, and its volume has the only copy of the data")
	case n > 0:
		notes = append(notes, fmt.Sprintf("spec.replicas: %d of %d shards have no replica: their slots are not served while their pod does not run, and the data of such a shard is lost with the volume of its pod; "+
			"6 pods give each shard a replica", n, len(shards)))
	}
	if affinity := podOf(spec).Affinity; affinity != nil && affinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		notes = append(notes, "spec.pod[0].affinity.requiredDuringSchedulingIgnoredDuringExecution is used as the field of that name in nodeAffinity: move it to spec.pod[0].affinity.nodeAffinity")
	}
	if _, storage := resourcesOf(spec); storage != nil {
		text := fmt.Sprintf("spec.pod[0].resources: storage %s is the size of each volume: write it to spec.storage.size", storage)
		if size := sizeOf(spec); size == nil || size.Cmp(*storage) != 0 {
			text = fmt.Sprintf("spec.pod[0].resources: storage %s is not used: spec.storage.size is %s", storage, size)
		} else if sharedClaim(spec) != "" {
			text = fmt.Sprintf("spec.pod[0].resources: storage %s is not used: all pods share a claim", storage)
		}
		notes = append(notes, text)
	}
	return notes
}
