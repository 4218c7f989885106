// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"d3os.com/d3os-operator/internal/kinds"
)

// While a StatefulSet is replaced around its pods, as for larger volumes, they are still members, and nothing is decided. A pod of
// somebody else is none, and holds nothing up.
func TestPodsStayMembersWhileTheirStatefulSetIsReplaced(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	yes := true
	of := func(kind, name string, uid types.UID) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "store-0"}}
		if kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: &yes}}
		}
		return pod
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "store", UID: "new"}}
	for name, c := range map[string]struct {
		set             *appsv1.StatefulSet
		lagging         bool
		pod             *corev1.Pod
		seen, replacing bool
	}{
		"its pod":                        {set, false, of("StatefulSet", "store", "new"), true, false},
		"no set":                         {nil, false, of("", "", ""), true, true},
		"no set, and the earlier one's":  {nil, false, of("StatefulSet", "store", "old"), true, true},
		"a new set that has not adopted": {set, true, of("", "", ""), true, true},
		"a stranger beside a set":        {set, false, of("", "", ""), false, false},
		"somebody else's":                {nil, false, of("ReplicaSet", "store", "x"), false, false},
	} {
		w := World{Problems: map[string]string{}}
		w.View.Lagging = c.lagging
		k := &Kind{now: time.Now}
		k.seePod(ec, c.set, c.pod, &w)
		assert.Equal(t, len(w.View.Pods) == 1, c.seen, name)
		assert.Equal(t, w.Replacing, c.replacing, name)
		if w.Replacing {
			assert.Equal(t, len(k.Decide(ec, kinds.Seen[World]{}.Seen, w).Steps), 0, name)
		}
	}
}
