// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

// Package mysqlcluster_test tests the operator with MySQLClusters on a real API server, with real MySQL processes, which the agent starts
// in pods of the emulator. `make test` does not build this package, because no stable distribution contains MySQL 9.7.
package mysqlcluster_test

import (
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness/slowdisk"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience is the time limit of all waits without a promised time. It is long, because the machine may be busy.
const patience = 4 * time.Minute

// full selects the full form: all tests run, the operator is killed at every change, and each loss is repeated 20 times.
var full = os.Getenv("MYSQL_TESTS") == "full"

var (
	suite = &stage.Suite{
		Patience: func() time.Duration { return patience }, Parallel: 2,
		Lists: append([]client.ObjectList{
			&dsv1.DataServiceList{}, &appsv1.DeploymentList{}, &mysqlv1.MySQLClusterList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceList{},
			&corev1.PersistentVolumeClaimList{},
			&appsv1.StatefulSetList{}, &corev1.PodList{},
		}, stage.Backups...),
	}
	agent string // path of the agent's program
)

func TestMain(m *testing.M) {
	slowdisk.Main()
	os.Exit(suite.MainWithAgent(m, cluster.Options{Name: "mysqlcluster"}, &agent))
}
