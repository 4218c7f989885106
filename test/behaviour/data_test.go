// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"d3os.com/d3os-operator/test/harness"
)

// Deleting a DataService needs no operator. The database's volume and password stay, and the
// next DataService of that name takes them up.
func TestDataOutlivesTheDataService(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small())
	claim, password := e.claim(), e.password()
	op.Stop()
	e.remove(name)
	e.Until("pods go", func() error { return unless(len(harness.Every[*corev1.Pod](e.Journal)) == 0, "some are still there") })
	e.equal("what is left", e.left(), []string{"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/data-mysql-dataservice-0", "Secret/mysql-dataservice-credentials"})
	e.Start()
	e.CreateReady(small())
	e.sameData(claim, password)
}

// With retention Delete nothing is left, whatever the database's kind.
func TestDataGoesWhenToldSo(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		t.Run(kind, func(t *testing.T) {
			e := parallel(t)
			op := e.Start()
			name := e.CreateReady(small(fields{"mysql": fields{"kind": kind, "storage": fields{"retention": "Delete"}}}))
			e.claim()
			op.Stop()
			e.remove(name)
			e.Until("nothing is left", func() error { return saying(harness.Difference(e.left(), nil)) })
		})
	}
}

// Retention may be changed while the database runs; the latest word counts.
func TestRetentionChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, from, to string }{
		{"StatefulSet", "Retain", "Delete"}, {"StatefulSet", "Delete", "Retain"},
		{"Deployment", "Retain", "Delete"}, {"Deployment", "Delete", "Retain"},
	} {
		t.Run(c.kind+"/"+c.from+" to "+c.to, func(t *testing.T) {
			e := parallel(t)
			op := e.Start()
			name := e.CreateReady(small(databaseOnly, databaseAs(c.kind, c.from)))
			e.ChangeReady(name, fields{"mysql": fields{"storage": fields{"retention": c.to}}})
			e.claim()
			e.password()
			op.Stop()
			e.remove(name)
			var want []string
			if c.to == "Retain" {
				want = []string{"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/data-mysql-dataservice-0", "Secret/mysql-dataservice-credentials"}
				e.Until("pods go", func() error { return unless(len(harness.Every[*corev1.Pod](e.Journal)) == 0, "some are still there") })
			}
			e.Until("what is left", func() error { return saying(harness.Difference(e.left(), want)) })
		})
	}
}

// left returns what is in the namespace but for what every namespace has.
func (e *env) left() []string {
	var found []string
	for _, id := range harness.IDs(e.All()) {
		if id != "ConfigMap/kube-root-ca.crt" && !strings.HasPrefix(id, "Event/") {
			found = append(found, id)
		}
	}
	return found
}

// A volume grows in place: the claim asks for more and the database's pod never stops.
func TestVolumeGrows(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small())
	claim, password := e.claim(), e.password()
	set := harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice")
	before := e.pods("mysql")[0]
	mark, requests := e.Mark(), op.Mark()
	e.ChangeReady(name, fields{"mysql": fields{"storage": fields{"size": "20Gi"}}})
	e.Until("the claim grows", func() error {
		size := e.claim().Spec.Resources.Requests.Storage().String()
		capacity := e.claim().Status.Capacity.Storage().String()
		return unless(size == "20Gi" && capacity == "20Gi", fmt.Sprintf("it asks for %s and has %s", size, capacity))
	})
	grown := harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice")
	if grown == nil || grown.UID == set.UID || grown.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String() != "20Gi" {
		t.Errorf("the StatefulSet was not replaced: %v", grown)
	}
	e.equal("objects written", harness.Objects(op.Since(requests, harness.Sent.WritesObject)),
		[]string{"PersistentVolumeClaim/data-mysql-dataservice-0", "StatefulSet/mysql-dataservice"})
	if writes := op.Since(requests, harness.Sent.WritesObject); len(writes) > 4 { // claim, refused change, deletion, creation
		t.Errorf("%d writes: %v", len(writes), writes)
	}
	e.sameData(claim, password)
	for _, c := range e.Since(mark) {
		p, ok := c.Object.(*corev1.Pod)
		if !ok || p.Labels["app.kubernetes.io/name"] != "mysql" {
			continue
		}
		if p.UID != before.UID || c.Event != watch.Modified || p.DeletionTimestamp != nil {
			t.Errorf("pod %s (%s): %s; it was %s", p.Name, p.UID, c.Event, before.UID)
		}
		for _, container := range p.Status.ContainerStatuses {
			if container.RestartCount != 0 || !container.Ready {
				t.Errorf("the database has stopped: %+v", container)
			}
		}
	}
	e.Until("the new StatefulSet adopts the pod", func() error {
		pods := e.pods("mysql")
		if len(pods) != 1 || pods[0].UID != before.UID {
			return errors.New("it is another pod")
		}
		return unless(metav1.IsControlledBy(pods[0], grown), "the pod has another controller")
	})
	if after := harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice"); after.Status.CurrentRevision != set.Status.CurrentRevision {
		t.Errorf("the revision of the pod has changed from %s to %s", set.Status.CurrentRevision, after.Status.CurrentRevision)
	}
}
