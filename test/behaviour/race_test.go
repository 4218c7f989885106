// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"d3os.com/d3os-operator/test/harness"
)

// Only where a change ends counts.
func TestThereAndBackAgain(t *testing.T) {
	e := parallel(t)
	e.Start()
	name := e.CreateReady(small())
	image := func() string { return pod(harness.Lookup[*appsv1.Deployment](e.Journal, "auth")).Containers[0].Image }
	was := image()
	e.Change(name, fields{"auth": fields{"image": "registry.example/auth:v2", "replica": 3}})
	e.ChangeReady(name, fields{"auth": fields{"image": was, "replica": 1}})
	e.Until("as before", func() error {
		return unless(image() == was && e.runs("auth", was) && len(e.pods("auth")) == 1, "image "+image())
	})
	e.Change(name, fields{"proxy": nil})
	e.ChangeReady(name, fields{"proxy": fields{"replica": 2}})
	e.Until("proxy is there", func() error {
		d := harness.Lookup[*appsv1.Deployment](e.Journal, "proxy")
		return unless(d != nil && d.Status.ReadyReplicas == 2 && d.DeletionTimestamp == nil, "it is not")
	})
	e.Ready(name)
}

// A DataService that is deleted while it comes up leaves only what is to be retained.
func TestDeletedWhileCreating(t *testing.T) {
	e := parallel(t)
	e.Start()
	name := e.Create(small())
	e.Until("the first objects are there", func() error {
		return unless(harness.Lookup[*corev1.Service](e.Journal, "eureka") != nil && e.DataService(name) != nil, "they are not")
	})
	e.remove(name)
	e.Until("pods go", func() error { return unless(len(harness.Every[*corev1.Pod](e.Journal)) == 0, "some are still there") })
	retained := []string{"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/data-mysql-dataservice-0", "Secret/mysql-dataservice-credentials"}
	if extra := without(e.left(), retained); len(extra) > 0 {
		t.Errorf("left: %v", extra)
	}
	e.never("something comes back", func() bool { return len(without(e.left(), retained)) > 0 })
	e.CreateReady(small())
}

// An operator that ends in the middle of its work is as good as one that does not: the next
// one finishes the work, and nothing is made twice.
func TestOperatorEndsWhileCreating(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"Secret/mysql-dataservice-credentials", "StatefulSet/mysql-dataservice", "Deployment/auth"} {
		t.Run(at, func(t *testing.T) {
			e := parallel(t)
			op := e.Start()
			name := e.Create(small())
			e.Until(at+" is there", func() error { return unless(e.Object(at) != nil, "it is not") })
			op.Cancel()
			op.Stop()
			e.Start()
			e.Ready(name)
			const all = 21
			made := e.made()
			if len(made) != all {
				t.Errorf("%d objects: %v", len(made), harness.IDs(made))
			}
			for _, object := range made {
				var events []watch.EventType
				for _, c := range e.Since(0) {
					if c.ID == harness.IDOf(object) && c.Event != watch.Modified {
						events = append(events, c.Event)
					}
				}
				if len(events) != 1 {
					t.Errorf("%s: %v", harness.IDOf(object), events)
				}
			}
			e.password()
		})
	}
}
