// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// rigidClass makes a storage class that cannot expand volumes, with a volume of 5Gi for the database.
func (e *env) rigidClass() *storagev1.StorageClass {
	e.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "rigid-" + e.Namespace}, Provisioner: "kubernetes.io/no-provisioner"}
	volume := &corev1.PersistentVolume{
		ObjectMeta: class.ObjectMeta,
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nonexistent/" + class.Name}},
		},
	}
	for _, object := range []client.Object{class, volume} {
		e.Must(api.Create(e.Ctx, object))
	}
	return class
}

// eventCount returns the number of events with a reason.
func (e *env) eventCount(reason string) int {
	n := 0
	for _, event := range harness.Every[*eventsv1.Event](e.Journal) {
		if event.Reason != reason {
			continue
		}
		n++
		if event.Series != nil {
			n += int(event.Series.Count)
		}
	}
	return n
}

// A volume that cannot grow keeps its size, and the status reports this. The operator applies other changes of the database, and a user can
// reset the size.
func TestVolumeThatCannotGrow(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	class := e.rigidClass()
	sized := func(size string) fields {
		return fields{"mysql": fields{"storage": fields{"size": size, "storageClassName": class.Name}}}
	}
	name := e.CreateReady(small(databaseOnly, sized("5Gi")))
	claim, password := e.claim(), e.password()
	e.ChangeReady(name, sized("20Gi"))
	e.staysSmall(name)
	e.Until("the event VolumeNotResized is recorded once", func() error { return stage.Unless(e.eventCount("VolumeNotResized") == 1, "not once") })

	mark := op.Mark()
	e.ChangeReady(name, fields{"mysql": fields{"image": "registry.example/mysql:v2"}})
	e.Until("the new image runs", func() error { return stage.Unless(e.runs("mysql", "registry.example/mysql:v2"), "the old one does") })
	e.passes(name)
	for _, sent := range op.Since(mark, harness.Sent.WritesObject) {
		if sent.Resource == "persistentvolumeclaims" {
			t.Errorf("the refused size is requested again: %s", sent)
		}
	}
	if n := e.eventCount("VolumeNotResized"); n != 1 {
		t.Errorf("%d events VolumeNotResized", n)
	}
	e.ChangeReady(name, sized("5Gi"))
	e.Until("the note goes", func() error { return saying(e.componentStatus(name, "mysql").Message) })
	e.sameData(claim, password)
}

// staysSmall expects the status to report the kept size of the database's volume and the reason.
func (e *env) staysSmall(name string) {
	e.Helper()
	if err := harness.Mentions(e.componentStatus(name, "mysql").Message, "stays at 5Gi", "storage class"); err != nil {
		e.Errorf("the status of mysql: %v", err)
	}
}

// asksFor returns an error unless the database's claim requests a size.
func (e *env) asksFor(size string) error {
	asks := e.claim().Spec.Resources.Requests.Storage().String()
	return stage.Unless(asks == size, "it asks for "+asks)
}

// A volume grows in place: the claim requests more, and the database's pod never stops.
func TestVolumeGrows(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small(databaseOnly))
	claim, password := e.claim(), e.password()
	set := harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice")
	before := e.pods("mysql")[0]
	mark, requests := e.Mark(), op.Mark()
	e.ChangeReady(name, fields{"mysql": fields{"storage": fields{"size": "20Gi"}}})
	e.Until("the claim asks for more", func() error { return e.asksFor("20Gi") })
	e.Until("the volume grows", func() error {
		capacity := e.claim().Status.Capacity.Storage().String()
		return stage.Unless(capacity == "20Gi", "it has "+capacity)
	})
	grown := harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice")
	if grown == nil || grown.UID == set.UID || grown.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String() != "20Gi" {
		t.Errorf("the StatefulSet was not replaced: %v", grown)
	}
	e.equal("objects written", harness.Objects(op.Since(requests, harness.Sent.WritesObject)),
		[]string{"PersistentVolumeClaim/data-mysql-dataservice-0", "StatefulSet/mysql-dataservice"})
	if writes := op.Since(requests, harness.Sent.WritesObject); len(writes) > 4 { // claim: 1; StatefulSet: 3 (refused change, deletion, creation)
		t.Errorf("%d writes: %v", len(writes), writes)
	}
	e.sameData(claim, password)
	e.neverStopped(mark, before)
	e.Until("the new StatefulSet adopts the pod", func() error {
		pods := e.pods("mysql")
		if len(pods) != 1 || pods[0].UID != before.UID {
			return errors.New("it is another pod")
		}
		return stage.Unless(metav1.IsControlledBy(pods[0], grown), "the pod has another controller")
	})
	if after := harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice"); after.Status.CurrentRevision != set.Status.CurrentRevision {
		t.Errorf("the revision of the pod has changed from %s to %s", set.Status.CurrentRevision, after.Status.CurrentRevision)
	}
}

// neverStopped expects that the database had only one pod, and that this pod was ready all the time.
func (e *env) neverStopped(mark int, only *corev1.Pod) {
	e.Helper()
	for _, c := range e.Since(mark) {
		p, ok := c.Object.(*corev1.Pod)
		if !ok || p.Labels["app.kubernetes.io/name"] != "mysql" {
			continue
		}
		if p.UID != only.UID || c.Event != watch.Modified || p.DeletionTimestamp != nil {
			e.Errorf("pod %s (%s): %s; it was %s", p.Name, p.UID, c.Event, only.UID)
		}
		for _, container := range p.Status.ContainerStatuses {
			if container.RestartCount != 0 || !container.Ready {
				e.Errorf("the database has stopped: %+v", container)
			}
		}
	}
}
