// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"maps"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

const (
	// part is the value of the name label on all objects of an EtcdCluster, which has only one part. The dot keeps it
	// distinct: a platform with the name of the EtcdCluster may have a service named etcd, and no service's name has a
	// dot. So the Service of that service does not select these pods.
	part = "etcd.cluster"
	// chart is the chart of an EtcdCluster.
	chart = "etcdcluster"
)

// planned holds the inputs of a plan, except the resource.
type planned struct {
	Replicas int
	Version  string
	Image    string
	// Expected is the version that the agent expects in the image. It equals Version, unless the plan keeps the image
	// of the live pods: then it is the version that these pods expect.
	Expected string
	// Formed reports whether the cluster was formed, so that no pod restores a backup any more. It is set only for a
	// cluster that restores a backup.
	Formed bool
	// Positions holds the positions of the members' data for the agents, by pod.
	Positions map[string]string
}

// values returns the values of the chart.
func values(ec *etcdv1.EtcdCluster, owner object.Owner, p planned, images Images) (map[string]any, error) {
	spec := &ec.Spec
	if b := spec.Backup; b != nil {
		if err := render.CheckBackupSchedules("spec.backup", b.Schedule, "", b.TimeZone); err != nil {
			return nil, err
		}
	}
	tls := map[string]any{}
	if server, peer := tlsSecrets(ec); server != "" {
		tls["serverSecret"], tls["peerSecret"], tls["clientSecret"] = server, peer, clientSecret(ec)
	}
	v := map[string]any{
		"replicas": p.Replicas, "members": max(p.Replicas, replicasOf(spec)), "image": p.Image, "agentImage": images.Agent, "legacyHealth": hasLegacyHealth(p.Version),
		"size": spec.Size, "storage": map[string]any{"size": spec.Storage, "storageClassName": spec.StorageClassName, "autoGrow": spec.StorageAutoGrow != nil},
		"flags": flags(spec), "tls": tls, "backup": spec.Backup, "restoreFrom": spec.RestoreFrom, "formed": p.Formed, "positions": p.Positions,
		"networkPolicy": map[string]any{"enabled": spec.NetworkPolicy.Enabled, "allowFrom": spec.NetworkPolicy.AllowFrom, "additionalPorts": spec.NetworkPolicy.AdditionalPorts},
	}
	if spec.Storage == nil { // only if no API server has set the default
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
	maps.Copy(v, database.Names(owner, part))
	return database.Plain(v)
}

// needsDryRun reports whether a spec has fields that only the API server can validate.
func needsDryRun(spec *etcdv1.EtcdClusterSpec) bool {
	return spec.PodTemplate != nil || spec.Backup.Template() != nil || spec.Affinity != nil || spec.Resources != nil || len(spec.Tolerations)+len(spec.NodeSelector)+
		len(spec.TopologySpreadConstraints)+len(spec.NetworkPolicy.AllowFrom) > 0
}
