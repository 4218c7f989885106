// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
)

// rigidClass makes a storage class that cannot expand volumes, with a volume of 5Gi for the database.
func (e *env) rigidClass() string {
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
		e.Cleanup(func() { e.Must(client.IgnoreNotFound(api.Delete(e.Ctx, object))) })
	}
	return class.Name
}

// noteOf returns what the status says of a component.
func (e *env) noteOf(name, component string) string {
	for _, c := range e.DataService(name).Status.Components {
		if c.Name == component {
			return c.Message
		}
	}
	return ""
}

// told returns how often an event of a reason was told.
func (e *env) told(reason string) int {
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

// A volume that cannot grow stays as it is and says so. Everything else of the database goes on, and
// the size can be set back.
func TestVolumeThatCannotGrow(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		t.Run(kind, func(t *testing.T) {
			e := parallel(t)
			op := e.Start()
			class := e.rigidClass()
			name := e.CreateReady(small(databaseOnly, fields{"mysql": fields{"kind": kind, "storage": fields{"size": "5Gi", "storageClassName": class}}}))
			claim, password := e.claim(), e.password()
			e.ChangeReady(name, fields{"mysql": fields{"storage": fields{"size": "20Gi"}}})
			if note := e.noteOf(name, "mysql"); !strings.Contains(note, "stays at 5Gi") || !strings.Contains(note, "storage class") {
				t.Errorf("the status says of mysql: %q", note)
			}
			e.Until("it is told", func() error { return unless(e.told("VolumeNotResized") == 1, "not once") })

			mark := op.Mark()
			workload := harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice")
			if kind == "StatefulSet" {
				e.Must(api.Delete(e.Ctx, workload.DeepCopy()))
				e.Until("it comes back", func() error {
					now := harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice")
					return unless(now != nil && now.UID != workload.UID && now.Status.ReadyReplicas == 1, "it is not there")
				})
			}
			e.ChangeReady(name, fields{"mysql": fields{"image": "registry.example/mysql:v2"}})
			e.Until("the new image runs", func() error {
				pods := e.pods("mysql")
				if len(pods) != 1 {
					return errors.New("not one pod")
				}
				return unless(pods[0].Spec.Containers[0].Image == "registry.example/mysql:v2", "the old image runs")
			})
			e.rests(op)
			for _, sent := range op.Since(mark, harness.Sent.WritesObject) {
				if sent.Resource == "persistentvolumeclaims" {
					t.Errorf("the refused size is asked for again: %s", sent)
				}
			}
			if n := e.told("VolumeNotResized"); n != 1 {
				t.Errorf("it is told %d times", n)
			}

			e.ChangeReady(name, fields{"mysql": fields{"storage": fields{"size": "5Gi"}}})
			e.Until("the note goes", func() error { return saying(e.noteOf(name, "mysql")) })
			e.sameData(claim, password)
		})
	}
}

// A volume grows when its class is changed to allow that, though no event tells the operator.
func TestVolumeThatMayGrowLater(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	e.Start(soon)
	name := e.CreateReady(small(databaseOnly, fields{"mysql": fields{"storage": fields{"size": "5Gi", "storageClassName": e.rigidClass()}}}))
	e.ChangeReady(name, fields{"mysql": fields{"storage": fields{"size": "20Gi"}}})
	e.Until("it is told", func() error { return unless(e.told("VolumeNotResized") > 0, "it is not") })
	e.Must(api.Patch(e.Ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "rigid-" + e.Namespace}},
		client.RawPatch(types.MergePatchType, []byte(`{"allowVolumeExpansion": true}`))))
	e.Until("the volume is asked to grow", func() error {
		size := e.claim().Spec.Resources.Requests[corev1.ResourceStorage]
		return unless(size.String() == "20Gi", "it has "+size.String())
	})
	e.Until("the note goes", func() error { return saying(e.noteOf(name, "mysql")) })
}

// A new DataService takes up a retained volume that is smaller than it asks for and cannot grow.
func TestRetainedVolumeIsSmaller(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		t.Run(kind, func(t *testing.T) {
			e := parallel(t)
			e.Start()
			class := e.rigidClass()
			sized := func(size string) fields {
				return fields{"mysql": fields{"kind": kind, "storage": fields{"size": size, "storageClassName": class}}}
			}
			name := e.CreateReady(small(databaseOnly, sized("5Gi")))
			claim, password := e.claim(), e.password()
			e.remove(name)
			e.Until("pods go", func() error { return unless(len(harness.Every[*corev1.Pod](e.Journal)) == 0, "some are still there") })
			e.CreateReady(small(databaseOnly, sized("20Gi")))
			e.sameData(claim, password)
			if note := e.noteOf(name, "mysql"); !strings.Contains(note, "stays at 5Gi") {
				t.Errorf("the status says of mysql: %q", note)
			}
		})
	}
}
