// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// Kubernetes' autoscaler scales the EtcdCluster of a DataService whose spec has no number of members. It has no metrics here: it sets
// minReplicas if there are fewer members, and maxReplicas if there are more.
func TestAutoscaler(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	s.CreateReady(s.NewPlatform(withService))
	s.ready(1)
	s.write()
	cluster := s.get().Status.ClusterID
	s.Become("{etcd: {replicas: null}}")
	s.ready(1) // the number of members stays unchanged

	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: etcdv1.GroupVersion.String(), Kind: etcdv1.Kind, Name: name},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 9,
		},
	}
	s.Must(suite.API.Create(s.Ctx, autoscaler))
	s.Until("the autoscaler writes its minimum", func() error { return s.declares(2) })
	s.ready(3)
	if notes := s.get().Status.Notes; len(notes) != 1 {
		t.Errorf("the notes of an even number are %q", notes)
	}

	within := func(least, most int32) {
		s.Must(suite.API.Patch(s.Ctx, autoscaler, client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"spec":{"minReplicas":%d,"maxReplicas":%d}}`, least, most))))
	}
	within(10, 12)
	s.Until("the autoscaler reports that more than nine members are refused", func() error {
		if err := suite.API.Get(s.Ctx, client.ObjectKeyFromObject(autoscaler), autoscaler); err != nil {
			return err
		}
		for _, c := range autoscaler.Status.Conditions {
			if c.Type == autoscalingv2.AbleToScale && c.Status == "False" && c.Reason == "FailedUpdateScale" {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", autoscaler.Status.Conditions)
	})
	s.Must(s.declares(2))
	s.ready(3)

	within(1, 1)
	s.Until("the autoscaler writes its maximum", func() error { return s.declares(1) })
	s.ready(1)
	s.holds()
	s.isCluster(cluster)
	s.harmless()
}

// declares returns nil if the spec of the EtcdCluster contains this number of members.
func (s *scene) declares(members int32) error {
	if spec := s.get().Spec; ptr.Deref(spec.Replicas, -1) != members {
		return fmt.Errorf("spec.replicas is %v", ptr.Deref(spec.Replicas, -1))
	}
	return nil
}
