// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// restored is the database that a restore has prepared. loss is the loss that the status names for a switch to it.
const (
	restored = "restored"
	loss     = "everything since " + harness.RestoredTo
)

// scaled returns a DataService with a service whose number of pods an autoscaler sets.
func scaled(kind string) *unstructured.Unstructured {
	ds := of(kind)
	services, _, _ := unstructured.NestedSlice(ds.Object, "spec", "additionalServices")
	services[0].(map[string]any)["autoscaling"] = fields{"min": int64(2), "max": int64(3)}
	_ = unstructured.SetNestedSlice(ds.Object, services, "spec", "additionalServices")
	return ds
}

// prepare creates a claim as a DataRestore prepares it, with a database.
func (e *env) prepare() {
	e.Helper()
	e.Must(suite.API.Create(e.Ctx, harness.RestoredClaim(e.Namespace, platform, database, restored)))
	folder, err := e.pods.VolumeFolder(e.Ctx, "data-"+restored+"-0")
	e.Must(err)
	e.Must(os.MkdirAll(filepath.Join(folder, "mysql", "mysql"), 0o755))
	e.Must(os.WriteFile(filepath.Join(folder, "mysql", "mysql", "user.frm"), nil, 0o600))
	e.Must(os.WriteFile(filepath.Join(folder, "d3os-data.json"), []byte(`{"format":1,"id":"0123456789abcdef","server":"5.7.44","restoredFrom":"x"}`), 0o600))
}

// switchMessage waits until the condition DatabaseSwitch has a reason, and returns its message.
func (e *env) switchMessage(reason string) string {
	e.Helper()
	var message string
	e.Until("DatabaseSwitch: "+reason, func() error {
		ds := e.DataService(platform)
		c := meta.FindStatusCondition(ds.Status.Conditions, dsv1.ConditionDatabaseSwitch)
		if c == nil || c.Reason != reason || ds.Status.ObservedGeneration != ds.Generation {
			return fmt.Errorf("generation %d, seen %d, %+v", ds.Generation, ds.Status.ObservedGeneration, c)
		}
		message = c.Message
		return nil
	})
	return message
}

// since returns the loss that a message asks the user to accept.
func since(message string) string {
	_, text, _ := strings.Cut(message, `acceptLoss: "`)
	text, _, _ = strings.Cut(text, `"`)
	return text
}

// switchTo names a database in the spec, accepts the loss that the status names, and waits until the DataService is ready.
func (e *env) switchTo(name string) {
	e.Helper()
	e.Change(platform, fields{"mysql": fields{"name": name}})
	e.ChangeReady(platform, fields{"mysql": fields{"acceptLoss": since(e.switchMessage(dsv1.ReasonLossNotAccepted))}})
}

// inOrder returns the changes after a mark, of all kinds, in the order in which they were written.
func (e *env) inOrder(mark int) []harness.Change {
	changes := e.Since(mark)
	slices.SortStableFunc(changes, func(a, b harness.Change) int { return cmp.Compare(version(a), version(b)) })
	return changes
}

func version(c harness.Change) uint64 {
	n, _ := strconv.ParseUint(c.Object.GetResourceVersion(), 10, 64)
	return n
}

// isOrderly fails the test if two servers ran at once, if pods of two databases existed at once, or if a database was replaced while a pod
// of a service existed. It returns the number of replacements.
func (e *env) isOrderly(mark int, pods bool) (replaced int) {
	e.Helper()
	if _, err := os.Stat(filepath.Join(e.servers, "two")); err == nil {
		e.Error("two servers ran at once")
	}
	there := map[string]string{}
	turns := map[string]string{}
	for _, c := range e.inOrder(0) {
		switch o := c.Object.(type) {
		case *corev1.Pod:
			component := o.Labels["app.kubernetes.io/name"]
			there[o.Name] = component
			ended := o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
			if c.Event == watch.Deleted || ended && component != "mysql" {
				delete(there, o.Name)
			}
			if component != "mysql" || c.Event != watch.Added {
				continue
			}
			for other, of := range there {
				if pods && of == "mysql" && other != o.Name {
					e.Errorf("%s was created while %s existed", o.Name, other)
				}
			}
		case *corev1.ConfigMap:
			at := o.Data["replacedAt"]
			if at == "" || turns[o.Name] == o.Data["switch"] {
				continue
			}
			turns[o.Name] = o.Data["switch"]
			replaced++
			for pod, of := range there {
				if of == "reports" {
					e.Errorf("%s was replaced while %s existed", o.Name, pod)
				}
			}
		}
	}
	return replaced
}

// The operator switches to a database only after the spec contains the name of the database and the loss. The switch back works in the same
// way.
func TestASwitchAndBack(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			if kind != kinds[0] {
				harness.Long(t)
			}
			switchesAndBack(t, kind)
		})
	}
}

func switchesAndBack(t *testing.T, kind string) {
	e, _ := guardedBy(t, scaled(kind))
	twoPods := func() error {
		d := harness.Lookup[*appsv1.Deployment](e.Journal, "reports")
		return stage.Unless(d != nil && *d.Spec.Replicas == 2 && d.Status.ReadyReplicas == 2, "reports does not have two pods")
	}
	e.Until("the autoscaler's pods", twoPods)
	mark, pod := e.Mark(), e.pod()

	e.Change(platform, fields{"mysql": fields{"name": restored, "acceptLoss": loss}})
	if words := e.switchMessage(dsv1.ReasonNotPrepared); !strings.Contains(words, "databaseName: "+restored) {
		t.Errorf("message %q", words)
	}
	e.Change(platform, fields{"mysql": fields{"acceptLoss": "nothing"}})
	e.prepare()
	if words := since(e.switchMessage(dsv1.ReasonLossNotAccepted)); words != loss {
		t.Errorf("to accept: %q", words)
	}
	equal(t, "the database's pod", e.pod().UID, pod.UID)
	for _, c := range e.Since(mark) {
		if c.Event != watch.Modified || strings.HasPrefix(c.ID, kind+"/"+restored) {
			if c.ID != "PersistentVolumeClaim/data-"+restored+"-0" {
				t.Errorf("without consent: %s %s", c.Event, c.ID)
			}
		}
	}
	equal(t, "starts of the restored database", len(e.starts(restored)), 0)

	e.ChangeReady(platform, fields{"mysql": fields{"acceptLoss": loss}})
	e.Until("the service has the autoscaler's number of pods", twoPods)
	before, after := len(e.starts(database)), len(e.starts(restored))
	if after == 0 {
		t.Error("the restored database has not started")
	}
	equal(t, "replaced", e.isOrderly(mark, true), 1)

	e.Change(platform, fields{"mysql": fields{"name": database}})
	back := since(e.switchMessage(dsv1.ReasonLossNotAccepted))
	if back == loss || !strings.HasPrefix(back, "everything since 20") {
		t.Errorf("the switch back loses %q", back)
	}
	if pod := e.pod(); !strings.HasPrefix(pod.Name, restored+"-") {
		t.Errorf("the database in use has the pod %s", pod.Name)
	}
	equal(t, "starts of the database that was replaced", len(e.starts(database)), before)
	e.ChangeReady(platform, fields{"mysql": fields{"acceptLoss": back}})
	e.Until("the service has the autoscaler's number of pods", twoPods)
	if len(e.starts(database)) == before {
		t.Error("the database has not started again")
	}
	equal(t, "replaced", e.isOrderly(mark, true), 2)
	if c := meta.FindStatusCondition(e.DataService(platform).Status.Conditions, dsv1.ConditionDatabaseSwitch); c != nil {
		t.Errorf("%+v", c)
	}
	for _, reason := range []string{dsv1.ReasonNotPrepared, dsv1.ReasonLossNotAccepted, dsv1.ReasonStopping, dsv1.ReasonStarting} {
		e.Until("an event "+reason, func() error {
			return stage.Unless(slices.ContainsFunc(e.Events(), func(event eventsv1.Event) bool { return event.Reason == reason }), "there is none")
		})
	}
}

// A user can cancel a switch by restoring the name, until the operator writes the record of the database in use. Everything then runs as
// before.
func TestASwitchIsCancelled(t *testing.T) {
	harness.Long(t)
	e := start(t)
	p := fault.New()
	e.Start(guarded("v1"), faulty(p))
	e.comesUp(scaled("StatefulSet"))
	e.prepare()
	pod := e.pod()
	p.Rule(&fault.Rule{
		When: func(r harness.Request) bool { return r.Writes() && r.Resource == "configmaps" }, Do: fault.Refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
	})
	e.Change(platform, fields{"mysql": fields{"name": restored, "acceptLoss": loss}})
	has := func(pods int32) error {
		d := harness.Lookup[*appsv1.Deployment](e.Journal, "reports")
		return stage.Unless(d.Status.ReadyReplicas == pods && *d.Spec.Replicas == pods, "reports has another number of pods")
	}
	e.Until("the services have stopped", func() error { return has(0) })
	e.never("it was switched", func() bool { return e.recorded()["replacedBy"] != "" || e.pod() == nil || e.pod().UID != pod.UID })
	e.Change(platform, fields{"mysql": fields{"name": database}})
	p.Clear()
	e.isReady()
	e.Until("the service has the autoscaler's number of pods", func() error { return has(2) })
	equal(t, "the database's pod", e.pod().UID, pod.UID)
	equal(t, "starts of the restored database", len(e.starts(restored)), 0)
}

// A pod of a service with a foreign finalizer does not block a switch: its containers have ended, and do not start again.
func TestASwitchWithAPodThatStays(t *testing.T) {
	harness.Long(t)
	e, _ := guardedBy(t, scaled("StatefulSet"))
	e.prepare()
	held := e.hold("reports")
	e.ChangeReady(platform, fields{"mysql": fields{"name": restored, "acceptLoss": loss}})
	equal(t, "the database in use", e.pod().Name, restored+"-0")
	equal(t, "replaced", e.isOrderly(0, true), 1)
	if harness.Lookup[*corev1.Pod](e.Journal, held.Name) == nil {
		t.Errorf("%s was deleted in spite of its finalizer", held.Name)
	}
	e.Must(suite.API.Patch(e.Ctx, held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// hold adds a finalizer to one pod of a service, as another operator may do.
func (e *env) hold(service string) *corev1.Pod {
	e.Helper()
	for _, pod := range harness.Every[*corev1.Pod](e.Journal) {
		if pod.Labels["app.kubernetes.io/name"] == service {
			held := pod.DeepCopy()
			held.Finalizers = append(held.Finalizers, "example.com/held")
			e.Must(suite.API.Patch(e.Ctx, held, client.MergeFrom(pod)))
			return held
		}
	}
	e.Fatalf("%s has no pod", service)
	return nil
}
