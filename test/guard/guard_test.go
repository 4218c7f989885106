// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The guard refuses an empty volume where data is expected, even without an operator. A server fills the volume only after a person has
// deleted the record.
func TestALostClaimIsNotFilled(t *testing.T) {
	e, op := guardedBy(t, of("StatefulSet"))
	was := e.recorded()["id"]
	op.Stop()
	e.loseClaim()
	e.refused("DataLost")
	equal(t, "starts", text(e.starts(database)), "")
	e.Start(guarded("v1"))
	e.says("DataLost", claim, "empty", "ConfigMap "+record)
	equal(t, "record", e.recorded()["id"], was)
	e.refusesAgain()
	equal(t, "starts", text(e.starts(database)), "")
	e.delete(&corev1.ConfigMap{}, record)
	e.isReady()
	e.isRecorded()
	equal(t, "servers", e.ran(), "5.7.44")
	if e.recorded()["id"] == was {
		t.Error("the new data has the ID of the old data")
	}
}

// The operator creates the claim of a database in a Deployment. If the claim is deleted, the operator does not create it again while the
// record of the data exists.
func TestALostClaimOfADeploymentIsNotCreated(t *testing.T) {
	harness.Long(t)
	e, _ := guardedBy(t, of("Deployment"))
	e.delete(&corev1.PersistentVolumeClaim{}, claim)
	e.delete(&corev1.Pod{}, e.pod().Name)
	e.says("DataLost", claim, "gone", "ConfigMap "+record)
	e.never("a claim is created", func() bool { return e.claim() != nil })
	e.delete(&corev1.ConfigMap{}, record)
	e.isReady()
	e.isRecorded()
}

// The guard recognizes the right volume under a new claim by the mark on the volume, and refuses a foreign volume.
func TestVolumesAreRecognizedByTheirMarks(t *testing.T) {
	harness.Long(t)
	e, _ := guardedBy(t, of("StatefulSet"))
	id, saved := e.recorded()["id"], t.TempDir()
	e.Must(os.CopyFS(saved, os.DirFS(e.folder())))
	e.loseClaim()
	e.refused("DataLost")

	mark := filepath.Join(e.folder(), "d3os-data.json")
	e.Must(os.CopyFS(filepath.Join(e.folder(), "mysql"), os.DirFS(filepath.Join(saved, "mysql"))))
	e.Must(os.WriteFile(mark, []byte(`{"format":1,"id":"0123456789abcdef"}`), 0o600))
	starts := text(e.starts(database))
	e.says("DataLost", "0123456789abcdef", id)
	e.refusesAgain()
	equal(t, "starts", text(e.starts(database)), starts)

	right, err := os.ReadFile(filepath.Join(saved, "d3os-data.json"))
	e.Must(err)
	e.Must(os.WriteFile(mark, right, 0o600))
	e.isReady()
	e.isRecorded()
	equal(t, "record", e.recorded()["id"], id)
}

// The operator records the content of a volume before a client can write to it. While the claim of a running database is being deleted, the
// operator does nothing that would end the pod.
func TestADeletedClaimUnderARunningDatabase(t *testing.T) {
	harness.Long(t)
	forEach(t, func(e *env, op *stage.Operator) {
		var order []string
		for _, sent := range op.Since(0, harness.Sent.WritesObject) {
			if sent.Name == record || sent.Name == "reports" && sent.Resource == "deployments" {
				order = append(order, sent.Name)
			}
		}
		equal(e.T, "order of writes", text(order), record+" reports")
		e.restartDatabase()
		e.isReady()
		equal(e.T, "starts", text(e.starts(database)), "5.7.44 5.7.44")
		pod := e.pod()
		e.delete(&corev1.PersistentVolumeClaim{}, claim)
		e.says("VolumeBeingDeleted", claim, "save the data")
		e.Change(platform, fields{"mysql": fields{"config": fields{"max_connections": "500"}}})
		e.never("the pod was replaced", func() bool { now := e.pod(); return now == nil || now.UID != pod.UID })
		e.says("VolumeBeingDeleted")
	})
}

// The guard refuses an image of another release series before the server starts on the data. With the former image, everything is as
// before. A person may allow the series in the record.
func TestAnotherReleaseSeriesIsRefused(t *testing.T) {
	harness.Long(t)
	forEach(t, func(e *env, _ *stage.Operator) {
		e.Change(platform, fields{"mysql": fields{"image": "example/mysql:8.0"}})
		e.refused("ServerVersionRefused")
		e.says("ServerVersionRefused", "MySQL 8.0.36", "MySQL 5.7.44", "spec.mysql.image")
		before := len(e.starts(database))
		e.ChangeReady(platform, fields{"mysql": fields{"image": "example/mysql:5.7"}})
		equal(e.T, "servers", e.ran(), "5.7.44")
		if len(e.starts(database)) == before {
			e.Error("the server has not started again")
		}

		e.Change(platform, fields{"mysql": fields{"serverVersion": "8.0"}})
		e.refused("ServerVersionRefused")
		e.says("ServerVersionRefused", "spec.mysql.serverVersion", "5.7.44")
		e.ChangeReady(platform, fields{"mysql": fields{"serverVersion": "5.7"}})

		e.Change(platform, fields{"mysql": fields{"image": "example/mysql:8.0", "serverVersion": "8.0"}})
		e.refused("ServerVersionRefused")
		found := harness.Lookup[*corev1.ConfigMap](e.Journal, record).DeepCopy()
		found.Data["allowServer"] = "8.0"
		e.Must(suite.API.Update(e.Ctx, found))
		e.isReady()
		equal(e.T, "servers", e.ran(), "5.7.44 8.0.36")
		equal(e.T, "allowed", e.recorded()["allowServer"], "8.0")
	})
}

// An operator that introduces the guard restarts no database. The next pod of a StatefulSet has the guard. The pods of a Deployment have
// the guard after the next change of the Deployment. Afterwards, a newer image of the agent restarts no database either.
func TestTheGuardIsAddedWithoutARestart(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			e := start(t)
			op := e.Start()
			e.CreateReady(of(kind))
			pod := e.pod()
			op.Stop()

			op = e.Start(guarded("v1"))
			if kind == "StatefulSet" {
				e.Until("it has OnDelete", func() error {
					set := harness.Lookup[*appsv1.StatefulSet](e.Journal, database)
					return stage.Unless(set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType, "it has not")
				})
			}
			e.Rests(op, time.Second)
			e.isReady()
			equal(t, "pod", e.pod().UID, pod.UID)
			equal(t, "it has the guard", hasGuard(e.pod()), false)
			if kind == "Deployment" {
				equal(t, "object writes", len(op.Since(0, harness.Sent.WritesObject)), 0)
				e.ChangeReady(platform, fields{"mysql": fields{"config": fields{"max_connections": "500"}}})
			} else {
				e.restartDatabase()
			}
			equal(t, "it has the guard", hasGuard(e.pod()), true)
			e.isRecorded()

			e.ChangeReady(platform, fields{"mysql": fields{"config": fields{"max_connections": "501"}}})
			if kind == "StatefulSet" {
				set := harness.Lookup[*appsv1.StatefulSet](e.Journal, database)
				equal(t, "strategy", set.Spec.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
			}
			pod = e.pod()
			op.Stop()
			op = e.Start(guarded("v2"))
			e.Rests(op, time.Second)
			equal(t, "object writes for a newer agent", len(op.Since(0, harness.Sent.WritesObject)), 0)
			equal(t, "pod", e.pod().UID, pod.UID)
			e.ChangeReady(platform, fields{"mysql": fields{"config": fields{"max_connections": "502"}}})
			equal(t, "agent", e.pod().Spec.InitContainers[0].Image, "example/agent:v2")
		})
	}
}

// endsAfter makes an operator end after this number of writes of objects: later requests fail.
func endsAfter(writes int64) func(*rest.Config, *manager.Options) {
	var sent atomic.Int64
	return func(config *rest.Config, _ *manager.Options) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return harness.Transport(func(r *http.Request) (*http.Response, error) {
				object := strings.Contains(r.URL.Path, "/statefulsets/") || strings.Contains(r.URL.Path, "/configmaps/"+record)
				if r.Method == http.MethodGet || !object {
					if sent.Load() > writes {
						return nil, errors.New("the operator has ended")
					}
					return next.RoundTrip(r)
				}
				if sent.Add(1) > writes {
					return nil, errors.New("the operator has ended")
				}
				return next.RoundTrip(r)
			})
		})
	}
}

// An operator that ends after any of the writes that introduce the guard leaves a running database. The next operator completes the writes.
func TestTheOperatorEndsWhileItAddsTheGuard(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	for writes := range int64(5) {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			e := start(t)
			op := e.Start()
			e.CreateReady(of("StatefulSet"))
			pod := e.pod()
			op.Stop()
			e.delete(&corev1.ConfigMap{}, record) // the state that an earlier release leaves

			op = e.Start(guarded("v1"), endsAfter(writes))
			e.never("the pod was replaced", func() bool { now := e.pod(); return now == nil || now.UID != pod.UID })
			op.Stop()
			op = e.Start(guarded("v1"))
			e.Until("the StatefulSet has OnDelete and the guard", func() error {
				set := harness.Lookup[*appsv1.StatefulSet](e.Journal, database)
				return stage.Unless(set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType && len(set.Spec.Template.Spec.InitContainers) == 2 &&
					set.Annotations["d3os-product.com.d3os/restoring"] == "" && e.recorded()["claim"] == string(e.claim().UID), "it has not")
			})
			e.Rests(op, time.Second)
			equal(t, "pod", e.pod().UID, pod.UID)
			e.restartDatabase()
			e.isRecorded()
			e.loseClaim()
			e.refused("DataLost")
		})
	}
}

// Only a user may decide that the processes on an unreachable node have ended. The status names the node and the next step. The operator
// deletes no pod. The database continues on its node when the node returns.
func TestAnUnreachableNode(t *testing.T) {
	harness.Long(t)
	forEach(t, func(e *env, op *stage.Operator) {
		pod, mark := e.pod(), op.Mark()
		e.Must(e.pods.StopNode(e.Ctx, pod.Spec.NodeName))
		words := []string{"pod " + pod.Name, "node " + pod.Spec.NodeName, " since ", "kubectl taint node " + pod.Spec.NodeName}
		e.says("NodeUnreachable", words...)
		e.delete(&corev1.Pod{}, pod.Name) // as Kubernetes does after five minutes
		e.never("the pod is deleted", func() bool {
			return !slices.ContainsFunc(harness.Every[*corev1.Pod](e.Journal), func(p *corev1.Pod) bool { return p.UID == pod.UID })
		})
		e.says("NodeUnreachable", words...)
		for _, sent := range op.Since(mark, harness.Sent.WritesObject) {
			e.Errorf("the operator wrote: %s", sent)
		}
		e.Must(e.pods.StartNode(e.Ctx, pod.Spec.NodeName))
		e.isReady()
		equal(e.T, "starts", text(e.starts(database)), "5.7.44 5.7.44")
	})
}
