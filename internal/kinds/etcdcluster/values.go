// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"maps"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/object"
)

const (
	// part is the one part of an EtcdCluster: the value of the name label on all of its objects.
	// It has a dot, which no name of a service has: a service called etcd of a platform of the cluster's name selects other pods.
	part = "etcd.cluster"
	// chart is its chart.
	chart = "etcdcluster"
)

// planned is what a plan depends on besides the resource.
type planned struct {
	Replicas int
	Version  string
	Image    string
	// Expected is the version that the agent looks for in the image: Version, or with the image of the pods, what they expect.
	Expected string
	// Formed reports whether the cluster was formed, so that nothing is restored any more. Only where a backup was to be.
	Formed bool
	// Positions are by pod, for the agents.
	Positions map[string]string
}

// values returns those of the chart.
func values(ec *etcdv1.EtcdCluster, owner object.Owner, p planned, images Images) (map[string]any, error) {
	spec := &ec.Spec
	tls := map[string]any{}
	if server, peer := tlsSecrets(ec); server != "" {
		tls["serverSecret"], tls["peerSecret"], tls["clientSecret"] = server, peer, clientSecret(ec)
	}
	v := map[string]any{
		"replicas": p.Replicas, "members": max(p.Replicas, replicasOf(spec)), "image": p.Image, "agentImage": images.Agent, "legacyHealth": hasLegacyHealth(p.Version),
		"size": spec.Size, "storage": map[string]any{"size": spec.Storage, "storageClassName": spec.StorageClassName},
		"flags": flags(spec), "tls": tls, "backup": spec.Backup, "restoreFrom": spec.RestoreFrom, "formed": p.Formed, "positions": p.Positions,
		"networkPolicy": map[string]any{"enabled": spec.NetworkPolicy.Enabled, "allowFrom": spec.NetworkPolicy.AllowFrom, "additionalPorts": spec.NetworkPolicy.AdditionalPorts},
	}
	if spec.Storage == nil { // of a resource that no API server has completed
		delete(v["storage"].(map[string]any), "size")
	}
	if spec.Backup != nil {
		v["writer"] = string(ec.UID)
	}
	if images.Namespace != "" {
		v["operatorNamespace"] = images.Namespace
	}
	if p.Expected != "" {
		v["version"] = p.Expected
	}
	if spec.AntiAffinity != "" {
		v["antiAffinity"] = spec.AntiAffinity
	}
	for name, value := range map[string]any{
		"affinity": spec.Affinity, "nodeSelector": spec.NodeSelector, "tolerations": spec.Tolerations, "imagePullSecrets": spec.ImagePullSecrets,
		"resources": spec.Resources, "topologySpreadConstraints": spec.TopologySpreadConstraints,
	} {
		v[name] = value
	}
	maps.Copy(v, stateful.Names(owner, part))
	return stateful.Plain(v)
}

// needsDryRun reports whether a spec holds what only the API server can judge.
func needsDryRun(spec *etcdv1.EtcdClusterSpec) bool {
	return spec.PodTemplate != nil || spec.Backup.Template() != nil || spec.Affinity != nil || spec.Resources != nil || len(spec.Tolerations)+len(spec.NodeSelector)+
		len(spec.TopologySpreadConstraints)+len(spec.NetworkPolicy.AllowFrom) > 0
}
