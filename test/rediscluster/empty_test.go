// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// After the loss of all volumes, no slot is served before a user consents. If the record is lost as well, the cluster is formed again, and its
// status names the loss until a user accepts it.
func TestAllVolumesLost(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.Start()
	s.create("{replicas: 3, repository: redis}")
	s.ready(3)
	s.write()
	op.Stop()
	for _, pod := range s.pods() {
		s.loseVolume(pod.Name, "")
	}
	op = s.Start()
	s.judged("SlotsLost")
	s.says("no pod has the data of the recorded cluster", `accept-data-loss: "0-16383"`)
	s.accepts("0-16383")
	s.ready(3)
	s.accepts("")
	s.write()
	if began := meta.FindStatusCondition(s.get().Status.Conditions, redisv1.ConditionBeganEmpty); began != nil {
		t.Errorf("a user has consented, and the status has the condition %+v", began)
	}

	op.Stop()
	s.Must(suite.API.Delete(s.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-topology"}}))
	for _, pod := range s.pods() {
		s.loseVolume(pod.Name, "")
	}
	s.Start()
	s.Until("the status names the loss", func() error {
		return harness.Mentions(s.get().Status.Message, "are served by 3 shards", "RedisCluster "+name+" began empty: it was formed without data and without a record after it was ready (")
	})
	s.Must(suite.API.Status().Patch(s.Ctx, s.get(), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/status/firstReady"}]`))))
	s.Until("the loss is accepted", func() error {
		return stage.Unless(meta.FindStatusCondition(s.get().Status.Conditions, redisv1.ConditionBeganEmpty) == nil, s.get().Status.Message)
	})
}
