// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Only where a change ends counts.
func TestThereAndBackAgain(t *testing.T) {
	e := parallel(t)
	e.startOperator()
	name := e.createReady(small())
	image := func() string { return pod(lookup[*appsv1.Deployment](e.journal, "auth")).Containers[0].Image }
	was := image()
	e.change(name, fields{"auth": fields{"image": "registry.example/auth:v2", "replica": 3}})
	e.changeReady(name, fields{"auth": fields{"image": was, "replica": 1}})
	e.until("as before", func() error {
		return unless(image() == was && e.runs("auth", was) && len(e.pods("auth")) == 1, "image "+image())
	})
	e.change(name, fields{"proxy": nil})
	e.changeReady(name, fields{"proxy": fields{"replica": 2}})
	e.until("proxy is there", func() error {
		d := lookup[*appsv1.Deployment](e.journal, "proxy")
		return unless(d != nil && d.Status.ReadyReplicas == 2 && d.DeletionTimestamp == nil, "it is not")
	})
	e.ready(name)
}

// A DataService that is deleted while it comes up leaves only what is to be retained.
func TestDeletedWhileCreating(t *testing.T) {
	e := parallel(t)
	e.startOperator()
	name := e.create(small())
	e.until("the first objects are there", func() error {
		return unless(lookup[*corev1.Service](e.journal, "eureka") != nil && e.dataService(name) != nil, "they are not")
	})
	e.remove(name)
	e.until("pods go", func() error { return unless(len(every[*corev1.Pod](e.journal)) == 0, "some are still there") })
	retained := []string{"PersistentVolumeClaim/data-mysql-dataservice-0", "Secret/mysql-dataservice-credentials"}
	if extra := without(e.left(), retained); len(extra) > 0 {
		t.Errorf("left: %v", extra)
	}
	e.never("something comes back", func() bool { return len(without(e.left(), retained)) > 0 })
	e.createReady(small())
}

// An operator that ends in the middle of its work is as good as one that does not: the next
// one finishes the work, and nothing is made twice.
func TestOperatorEndsWhileCreating(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"Secret/mysql-dataservice-credentials", "StatefulSet/mysql-dataservice", "Deployment/auth"} {
		t.Run(at, func(t *testing.T) {
			e := parallel(t)
			op := e.startOperator()
			name := e.create(small())
			e.until(at+" is there", func() error { return unless(e.object(at) != nil, "it is not") })
			op.cancel()
			op.stop()
			e.startOperator()
			e.ready(name)
			const all = 20
			made := e.made()
			if len(made) != all {
				t.Errorf("%d objects: %v", len(made), ids(made))
			}
			for _, object := range made {
				var events []watch.EventType
				for _, c := range e.since(0) {
					if c.id == idOf(object) && c.event != watch.Modified {
						events = append(events, c.event)
					}
				}
				if len(events) != 1 {
					t.Errorf("%s: %v", idOf(object), events)
				}
			}
			e.password()
		})
	}
}
