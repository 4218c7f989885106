// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

const (
	database = "db"
	claim    = "data-db-0"
	record   = "db-data"
	platform = stage.Platform
)

type fields = harness.Fields

// env is a namespace with running pods.
type env struct {
	*stage.Stage

	pods    *emulator.Emulator
	servers string // folder for a file that reports two servers at once
}

func start(t *testing.T) *env {
	t.Parallel()
	e := &env{Stage: suite.New(t), servers: t.TempDir()}
	self, err := os.Executable()
	e.Must(err)
	server := func(version string) emulator.Image {
		return emulator.Image{Entrypoint: []string{"/usr/sbin/mysqld"}, Cmd: []string{"/var/lib/mysql"},
			Env: map[string]string{"SERVER_VERSION": version, "SERVERS": e.servers}, Executables: map[string]string{"/usr/sbin/mysqld": self}}
	}
	guard := emulator.Image{Executables: map[string]string{"/agent": agent}}
	e.pods, err = emulator.Start(e.Ctx, suite.Config, emulator.Options{Namespace: e.Namespace, Images: map[string]emulator.Image{
		"example/mysql:5.7": server("5.7.44"), "example/mysql:8.0": server("8.0.36"),
		"example/agent:v1": guard, "example/agent:v2": guard,
		"example/service": {Entrypoint: []string{"/bin/service"}, Executables: map[string]string{"/bin/service": self}},
	}})
	e.Must(err)
	t.Cleanup(func() { e.Must(e.pods.Stop()) })
	return e
}

// guarded gives an operator the agent's image.
func guarded(version string) func(*rest.Config, *manager.Options) {
	return func(_ *rest.Config, o *manager.Options) {
		o.Images = map[string]string{"agent": "example/agent:" + version}
	}
}

// of returns a DataService with a database and a service that uses it.
func of(kind string, changes ...fields) *unstructured.Unstructured {
	address := []any{fields{"name": "POD_IP", "valueFrom": fields{"fieldRef": fields{"fieldPath": "status.podIP"}}}}
	ds := &unstructured.Unstructured{Object: fields{
		"apiVersion": "d3os-product.com.d3os/v1", "kind": "DataService", "metadata": fields{"name": platform},
		"spec": fields{
			"mysql": fields{"name": database, "kind": kind, "image": "example/mysql:5.7", "envs": address, "probes": fields{"startup": fields{"periodSeconds": 1}, "readiness": fields{"periodSeconds": 1}}},
			"additionalServices": []any{fields{"name": "reports", "image": "example/service:v1", "port": 8080, "envs": address,
				"dependsOn": []any{"mysql"}, "probes": fields{"readiness": fields{"periodSeconds": 1}}}},
		},
	}}
	return harness.With(ds, changes...)
}

// pod returns the database's pod, or nil.
func (e *env) pod() *corev1.Pod {
	for _, pod := range harness.Every[*corev1.Pod](e.Journal) {
		if pod.Labels["app.kubernetes.io/name"] == "mysql" && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	return nil
}

func (e *env) claim() *corev1.PersistentVolumeClaim {
	return harness.Lookup[*corev1.PersistentVolumeClaim](e.Journal, claim)
}

// recorded returns the operator's record of the data, or nil.
func (e *env) recorded() map[string]string {
	if found := harness.Lookup[*corev1.ConfigMap](e.Journal, record); found != nil {
		return found.Data
	}
	return nil
}

// folder returns the path of the volume on this machine.
func (e *env) folder() string {
	e.Helper()
	folder, err := e.pods.VolumeFolder(e.Ctx, claim)
	e.Must(err)
	return folder
}

// starts returns the versions of the servers that have started on the volume of a database.
func (e *env) starts(database string) []string {
	e.Helper()
	folder, err := e.pods.VolumeFolder(e.Ctx, "data-"+database+"-0")
	e.Must(err)
	text, err := os.ReadFile(filepath.Join(folder, "mysql", "starts"))
	if !errors.Is(err, os.ErrNotExist) {
		e.Must(err)
	}
	return strings.Fields(string(text))
}

// ran returns the versions of the servers that have started on the volume. Successive starts of the same version count once.
func (e *env) ran() string {
	e.Helper()
	return text(slices.Compact(e.starts(database)))
}

// delete deletes an object of the namespace.
func (e *env) delete(o client.Object, name string) {
	e.Helper()
	o.SetNamespace(e.Namespace)
	o.SetName(name)
	e.Must(client.IgnoreNotFound(suite.API.Delete(e.Ctx, o, client.GracePeriodSeconds(1))))
}

// loseClaim deletes claim and pod, and waits until a new claim exists.
func (e *env) loseClaim() {
	e.Helper()
	was, pod := e.claim().UID, e.pod()
	e.delete(&corev1.PersistentVolumeClaim{}, claim)
	e.delete(&corev1.Pod{}, pod.Name)
	e.Eventually("another claim", func() bool {
		now := e.claim()
		return now != nil && now.UID != was
	})
}

// refused waits until the guard in the pod has refused to start the server, and returns its message.
func (e *env) refused(reason string) string {
	e.Helper()
	var words string
	e.Until("the guard refuses: "+reason, func() error {
		pod := e.pod()
		if pod == nil {
			return errors.New("the database has no pod")
		}
		for _, c := range pod.Status.InitContainerStatuses {
			for _, state := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if c.Name == "d3os-guard" && state != nil && state.ExitCode == 3 && strings.Contains(state.Message, `"`+reason+`"`) {
					words = state.Message
					return nil
				}
			}
		}
		return fmt.Errorf("the pod has the statuses %v", pod.Status.InitContainerStatuses)
	})
	return words
}

// refusesAgain waits until the guard of the pod has ended at least once more.
func (e *env) refusesAgain() {
	e.Helper()
	starts := func() (n int32) {
		if pod := e.pod(); pod != nil {
			for _, c := range pod.Status.InitContainerStatuses {
				n += c.RestartCount
			}
		}
		return n
	}
	now := starts()
	e.Eventually("the guard refuses again", func() bool { return starts() > now+1 }) // a run that started earlier does not count
}

// says waits until the status of the database shows a reason, and a message with these words.
func (e *env) says(reason string, words ...string) {
	e.Helper()
	e.Until("the status says "+reason, func() error {
		c := e.Component("mysql")
		if c.Culprit == nil || c.Culprit.Reason != reason || c.Phase != "Degraded" {
			return fmt.Errorf("%+v (%+v)", c, c.Culprit)
		}
		return harness.Mentions(c.Message, words...)
	})
}

// comesUp creates a DataService and waits until it is ready and its database is recorded.
func (e *env) comesUp(ds *unstructured.Unstructured) {
	e.Helper()
	e.CreateReady(ds)
	e.isRecorded()
}

// isRecorded waits until the record names the claim and the mark on the volume.
func (e *env) isRecorded() {
	e.Helper()
	e.Until("the record is complete", func() error {
		mark, err := os.ReadFile(filepath.Join(e.folder(), "d3os-data.json"))
		if err != nil {
			return err
		}
		has := e.recorded()
		if has["id"] == "" || !strings.Contains(string(mark), `"id":"`+has["id"]+`"`) || has["claim"] != string(e.claim().UID) {
			return fmt.Errorf("record %v, mark %s, claim %s", has, mark, e.claim().UID)
		}
		return nil
	})
}

func (e *env) isReady() {
	e.Helper()
	e.Until("ready", func() error { return e.IsReady(platform, e.DataService(platform).Generation) })
}

func (e *env) restartDatabase() {
	e.Helper()
	was := e.pod()
	e.delete(&corev1.Pod{}, was.Name)
	e.Eventually("another pod is ready", func() bool {
		pod := e.pod()
		return pod != nil && pod.UID != was.UID && stage.IsReady(pod)
	})
}

func hasGuard(pod *corev1.Pod) bool {
	return len(pod.Spec.InitContainers) == 2 && pod.Spec.InitContainers[1].Name == "d3os-guard"
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func text(list []string) string { return strings.Join(list, " ") }

// never checks that something does not happen within two seconds.
func (e *env) never(what string, happens func() bool) {
	e.Helper()
	if e.Within(2*time.Second, func() error { return stage.Unless(happens(), "it does not") }) == nil {
		e.Fatal(what)
	}
}

var kinds = []string{"StatefulSet", "Deployment"}

// forEach runs a test once for each kind of workload, with an operator and a running database. The operator treats both kinds in the
// same way, so make test tests only the first kind.
func forEach(t *testing.T, test func(e *env, op *stage.Operator)) {
	t.Helper()
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			if kind != kinds[0] {
				harness.Long(t)
			}
			e, op := guardedBy(t, of(kind))
			test(e, op)
		})
	}
}

// guardedBy starts an operator with the agent's image, and a database.
func guardedBy(t *testing.T, ds *unstructured.Unstructured) (*env, *stage.Operator) {
	t.Helper()
	e := start(t)
	op := e.Start(guarded("v1"))
	e.comesUp(ds)
	return e, op
}
