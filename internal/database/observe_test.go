// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"testing"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestOrdinals(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"cache-0": 0, "cache-12": 12, "cache-": -1, "cache-a": -1, "cache-01": -1, "other-1": -1, "cache-1-0": -1, "cache--1": -1} {
		n, ok := Ordinal(name, "cache-")
		if !ok {
			n = -1
		}
		assert.Equal(t, n, want, name)
	}
}

// While the operator replaces a StatefulSet and its pods keep running, for example to enlarge volumes, the pods still
// count. A foreign pod does not count, and does not delay any step.
func TestPodsStayWhileTheirStatefulSetIsReplaced(t *testing.T) {
	t.Parallel()
	of := func(kind, name string, uid types.UID) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "store-0"}}
		if kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
		}
		return pod
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "store", UID: "new"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1)}}
	lagging := set.DeepCopy()
	lagging.Generation = 2
	for name, c := range map[string]struct {
		set             *appsv1.StatefulSet
		pod             *corev1.Pod
		seen, replacing bool
	}{
		"the StatefulSet's pod":                 {set, of("StatefulSet", "store", "new"), true, false},
		"no StatefulSet":                        {nil, of("", "", ""), true, true},
		"no StatefulSet, the earlier one's pod": {nil, of("StatefulSet", "store", "old"), true, true},
		"a StatefulSet that has not adopted it": {lagging, of("", "", ""), true, true},
		"a foreign pod":                         {set, of("", "", ""), false, false},
		"the pod of a ReplicaSet":               {nil, of("ReplicaSet", "store", "x"), false, false},
	} {
		seen := podsOf("store", c.set, []*corev1.Pod{c.pod})
		assert.Equal(t, len(seen.List) == 1, c.seen, name)
		assert.Equal(t, seen.Replacing, c.replacing, name)
		assert.Equal(t, seen.Lagging, c.replacing, name)
	}
}
