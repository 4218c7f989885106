// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

const (
	// part is the value of the name label on all objects of a MySQLCluster, which has only one part. A platform of the
	// same name may have a service called mysql. That service's selector does not match these pods, because the name of
	// a service has no dot.
	part = "mysql.cluster"
	// chart is the chart of a MySQLCluster.
	chart = "mysqlcluster"

	defaultImage = "docker.io/library/mysql:8.4.9"
	// maxMembers is the maximum number of members. maxVoters is the maximum number of voters. A voter is a member whose
	// copy counts. The primary is not a voter.
	maxMembers, maxVoters = 5, 2
)

// ImageName is the name of the default image of MySQL in manager.Options. The default image of a platform's database has another name.
const ImageName = "mysql-cluster"

// DefaultImages returns the images that the operator uses if the spec names none, by their names in manager.Options.
func DefaultImages() map[string]string { return map[string]string{ImageName: defaultImage} }

// replicasOf returns the wanted number of members.
func replicasOf(spec *mysqlv1.MySQLClusterSpec) int {
	if spec.Replicas == nil { // no API server has set the default
		return 3
	}
	return int(*spec.Replicas)
}

// maxLag returns the lag in seconds above which a replica is useless.
func maxLag(spec *mysqlv1.MySQLClusterSpec) int {
	lag, err := time.ParseDuration(cmp.Or(spec.Replication.MaxLag, "10s"))
	if err != nil {
		return 10
	}
	return int(lag / time.Second)
}

// wanted returns the desired state of the running database. If spec.replication.failover is Manual, the user replaces a lost primary by
// setting spec.replication.primary to the ordinal of another member.
func wanted(mc *mysqlv1.MySQLCluster, record replication.Record) replication.Want {
	r := &mc.Spec.Replication
	obs := replication.Want{
		Replicas: replicasOf(&mc.Spec), WhenAlone: replication.Write, Manual: r.Failover == mysqlv1.FailoverManual, MaxVoters: maxVoters, Members: maxMembers, AcceptLoss: r.AcceptLoss,
		Adopt: mc.Annotations[object.AnnotationAdopt],
	}
	if r.WhenAlone == mysqlv1.WhenAloneBlock {
		obs.WhenAlone = replication.Block
	}
	if r.Primary != nil {
		obs.Switch, obs.To = true, int(*r.Primary)
		obs.Manual = obs.Manual && obs.To == record.Primary.Ordinal
	}
	return obs
}

// planned holds the inputs of a plan, except the resource.
type planned struct {
	Replicas, Primary int
	Image             string
	// Formed reports whether the database was formed, so that no pod restores a backup any more. It is set only for a
	// database that restores a backup.
	Formed bool
}

// values returns the values of the chart.
func values(mc *mysqlv1.MySQLCluster, owner object.Owner, p planned, images Images) (map[string]any, error) {
	spec := &mc.Spec
	if b := spec.Backup; b != nil {
		checks := ""
		if b.Verify != nil {
			checks = b.Verify.Schedule
		}
		if err := render.CheckBackupSchedules("spec.backup", b.Schedule, checks, b.TimeZone); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Config)) {
		if err := render.CheckOption("spec.config", name, string(spec.Config[name])); err != nil {
			return nil, err
		}
	}
	service := map[string]any{"type": cmp.Or(spec.Service.Type, "ClusterIP")}
	if spec.Service.Annotations != nil {
		service["annotations"] = spec.Service.Annotations
	}
	v := map[string]any{
		"replicas": p.Replicas, "members": max(p.Replicas, replicasOf(spec)), "primary": p.Primary, "image": p.Image, "agentImage": images.Agent,
		"credentialsSecret": spec.CredentialsSecret, "databases": spec.Databases, "users": spec.Users, "usersSecret": spec.UsersSecret, "size": spec.Size,
		"storage": map[string]any{"size": spec.Storage.Size, "storageClassName": spec.Storage.StorageClassName, "autoGrow": spec.Storage.AutoGrow != nil},
		"service": service, "backup": spec.Backup, "restoreFrom": spec.RestoreFrom, "formed": p.Formed,
		"networkPolicy": map[string]any{"enabled": spec.NetworkPolicy.Enabled, "allowFrom": spec.NetworkPolicy.AllowFrom, "additionalPorts": spec.NetworkPolicy.AdditionalPorts},
	}
	if spec.Storage.Size == nil { // no API server has set the default
		delete(v["storage"].(map[string]any), "size")
	}
	if spec.Backup != nil {
		v["writer"] = string(mc.UID)
	}
	if images.Namespace != "" {
		v["operatorNamespace"] = images.Namespace
	}
	for name, value := range map[string]string{"antiAffinity": spec.AntiAffinity, "timeZone": spec.TimeZone} {
		if value != "" {
			v[name] = value
		}
	}
	for name, value := range map[string]any{
		"affinity": spec.Affinity, "nodeSelector": spec.NodeSelector, "tolerations": spec.Tolerations, "imagePullSecrets": spec.ImagePullSecrets,
		"resources": spec.Resources, "topologySpreadConstraints": spec.TopologySpreadConstraints, "config": spec.Config,
	} {
		v[name] = value
	}
	maps.Copy(v, database.Names(owner, part))
	return database.Plain(v)
}

// needsDryRun reports whether a spec has fields that only the API server can validate.
func needsDryRun(spec *mysqlv1.MySQLClusterSpec) bool {
	return spec.PodTemplate != nil || spec.Backup.Template() != nil || spec.Affinity != nil || spec.Resources != nil || len(spec.Tolerations)+len(spec.NodeSelector)+
		len(spec.TopologySpreadConstraints)+len(spec.NetworkPolicy.AllowFrom)+len(spec.Service.Annotations) > 0
}

// domain returns the DNS domain of the pods. podDomain returns the DNS name of one pod.
func domain(mc *mysqlv1.MySQLCluster) string {
	return fmt.Sprintf("%s-headless.%s.svc", mc.Name, mc.Namespace)
}

func podDomain(mc *mysqlv1.MySQLCluster, ordinal int) string {
	return database.PodName(mc.Name, ordinal) + "." + domain(mc)
}
