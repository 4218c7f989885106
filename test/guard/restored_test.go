// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// After a restore of objects with their old ownerReferences, Kubernetes deletes the claim and the record of a database
// together. The database then begins again on an empty volume. The status, an event and `kubectl dataservice why` name
// the claim until a user accepts the loss.
func TestAClaimThatIsYoungerThanTheDatabase(t *testing.T) {
	forEach(t, func(e *env, op *stage.Operator) {
		op.Stop()
		ready := e.readyAt(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)) // a restored status
		e.delete(&corev1.ConfigMap{}, record)
		was, pod := e.claim().UID, e.pod()
		e.delete(&corev1.PersistentVolumeClaim{}, claim)
		e.delete(&corev1.Pod{}, pod.Name)
		e.Eventually("the claim is gone", func() bool { now := e.claim(); return now == nil || now.UID != was })

		e.Start(guarded("v1"))
		note := fmt.Sprintf("PersistentVolumeClaim %s began empty: it was created after the database was ready (%s)", claim, ready)
		e.Until("the status names the claim", func() error { return harness.Mentions(e.Component("mysql").Message, note, "ConfigMap "+record) })
		e.isReady()
		e.Until("the message begins with it", func() error { return harness.Mentions(e.DataService(platform).Status.Message, "mysql: "+note) })
		e.Until("an event names it", func() error {
			return stage.Unless(slices.ContainsFunc(e.Events(), func(event eventsv1.Event) bool {
				return event.Reason == "DataLost" && strings.Contains(event.Note, note)
			}), "no event DataLost")
		})
		e.restartDatabase()
		e.isReady()
		e.Until("it still does after a restart", func() error { return harness.Mentions(e.Component("mysql").Message, note) })

		accepted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: record}}
		e.Must(suite.API.Patch(e.Ctx, accepted, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/data/readyBefore"}]`))))
		e.Until("the user has accepted it", func() error {
			if message := e.Component("mysql").Message; message != "" {
				return fmt.Errorf("it says %s", message)
			}
			return nil
		})
		equal(e.T, "readyBefore", e.recorded()["readyBefore"], "")
	})
}

// readyAt sets, in the status, the time at which the database became ready. It returns this time as text.
func (e *env) readyAt(at time.Time) string {
	e.Helper()
	ds := e.DataService(platform)
	changed := ds.DeepCopy()
	for i := range changed.Status.Components {
		if c := &changed.Status.Components[i]; c.Name == "mysql" {
			c.LastTransitionTime = &metav1.Time{Time: at}
		}
	}
	e.Must(suite.API.Status().Patch(e.Ctx, changed, client.MergeFrom(ds)))
	e.Eventually("the status is stored", func() bool {
		return slices.ContainsFunc(e.DataService(platform).Status.Components, func(c dsv1.ComponentStatus) bool {
			return c.LastTransitionTime != nil && c.LastTransitionTime.Equal(&metav1.Time{Time: at})
		})
	})
	return at.Format(time.RFC3339)
}
