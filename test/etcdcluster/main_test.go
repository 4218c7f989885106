// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdcluster_test runs the operator with EtcdClusters on a real API server, with real etcd processes, which the agent starts in
// pods of the emulator.
package etcdcluster_test

import (
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness/slowdisk"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience is the time limit of all waits without a promised time. It is long, because the machine may be busy.
const patience = 150 * time.Second

// full selects the full form: the operator is killed at every step, each way to lose a volume and every version of etcd is tested,
// TestAtRest takes ten minutes, and the sample is created twenty times.
var full = os.Getenv("ETCD_TESTS") == "full"

var (
	suite = &stage.Suite{
		Patience: func() time.Duration { return patience }, Parallel: 4,
		Lists: append([]client.ObjectList{
			&dsv1.DataServiceList{}, &appsv1.DeploymentList{}, &etcdv1.EtcdClusterList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{},
			&appsv1.StatefulSetList{}, &corev1.PodList{},
		}, stage.Backups...),
	}
	agent string // path of the agent's program
)

func TestMain(m *testing.M) {
	slowdisk.Main()
	os.Exit(suite.MainWithAgent(m, cluster.Options{Name: "etcdcluster"}, &agent))
}
