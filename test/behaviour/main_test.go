// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package behaviour_test holds the operator against what it promises its
// users, on a real API server: each test runs an operator of its own in a
// namespace of its own, changes something, and looks at live objects and at
// the requests that the operator sent.
package behaviour_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience is how long anything may take that has no promise of its own; the machine may be busy.
const patience = 2 * time.Minute

// What all tests share.
var (
	suite = &stage.Suite{
		Patience: func() time.Duration { return patience },
		Lists: []client.ObjectList{
			&dsv1.DataServiceList{},
			&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{},
			&corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{},
			&batchv1.CronJobList{}, &autoscalingv2.HorizontalPodAutoscalerList{}, &policyv1.PodDisruptionBudgetList{},
			&networkingv1.IngressList{}, &networkingv1.NetworkPolicyList{},
			&corev1.PodList{}, &eventsv1.EventList{},
		},
	}
	config *rest.Config
	api    client.WithWatch // as the cluster's administrator
	audit  string           // the API server's audit log
)

func TestMain(m *testing.M) {
	policy := filepath.Join(cluster.Root(), "hack", "cluster", "audit.yaml")
	os.Exit(suite.Main(m, cluster.Options{Name: "behaviour", Nodes: 40, Audit: policy}, func(context.Context) error {
		config, api, audit = suite.Config, suite.API, suite.AuditLog
		return nil
	}))
}
