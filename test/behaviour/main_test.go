// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package behaviour_test checks the operator's promises to users on a real API server. Each test runs a separate operator in its own
// namespace, changes something, and checks live objects and the operator's requests.
package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience is the time limit of each wait. Only a hang exceeds it, even on a busy machine.
const patience = 5 * time.Minute

// The state that all tests share.
var (
	suite = &stage.Suite{
		Patience: func() time.Duration { return patience },
		Lists: []client.ObjectList{
			&dsv1.DataServiceList{},
			&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{},
			&corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{},
			&batchv1.CronJobList{}, &autoscalingv2.HorizontalPodAutoscalerList{}, &policyv1.PodDisruptionBudgetList{},
			&networkingv1.IngressList{}, &networkingv1.NetworkPolicyList{},
			&corev1.PodList{}, &eventsv1.EventList{},
		},
	}
	config *rest.Config
	api    client.WithWatch // has the rights of the cluster's administrator
	audit  string           // the API server's audit log
)

func TestMain(m *testing.M) {
	policy := filepath.Join(cluster.Root(), "hack", "cluster", "audit.yaml")
	os.Exit(suite.Main(m, cluster.Options{Name: "behaviour", Nodes: 40, Audit: policy}, func(context.Context) error {
		config, api, audit = suite.Config, suite.API, suite.AuditLog
		return nil
	}))
}

const (
	sampleName = "dataservice-sample"
	managedBy  = object.LabelManagedBy
)

// env is a namespace with the functions by which a test acts and observes.
type env struct{ *stage.Stage }

// parallel lets other tests run at the same time, and gives the test a namespace.
func parallel(t *testing.T) *env {
	t.Parallel()
	return alone(t)
}

// alone gives a test a namespace. No other test of this process runs at that time, unless the test has called parallel.
func alone(t *testing.T) *env {
	t.Helper()
	return &env{suite.New(t)}
}

// passes waits until the operator has reconciled a DataService twice after the call. For each reconciliation, passes
// edits the order of rollouts, which changes no object, and then waits for the new generation in the status.
// Reconciliations of a DataService run one after the other, so all effects of earlier events are then complete. A test
// compares the objects before and after.
func (e *env) passes(name string) {
	e.Helper()
	for _, order := range []any{"Sequential", nil} {
		generation := e.Change(name, fields{"rollout": fields{"order": order}})
		e.Until("the operator passes", func() error { return harness.Observed(e.DataService(name), generation) })
	}
}

// remove deletes a DataService and waits until nothing that it controlled is left.
func (e *env) remove(name string) {
	e.Helper()
	ds := e.DataService(name)
	e.Must(api.Delete(e.Ctx, ds.DeepCopy()))
	e.Until("everything owned goes", func() error {
		if e.DataService(name) != nil {
			return errors.New("the DataService is still there")
		}
		for _, object := range e.All() {
			if metav1.IsControlledBy(object, ds) {
				return fmt.Errorf("%s is still there", harness.IDOf(object))
			}
		}
		return nil
	})
}

// fields are parts of a resource, as in a patch.
type fields = harness.Fields

// sample returns the sample with changes, see harness.Sample.
func sample(changes ...fields) *unstructured.Unstructured { return harness.Sample(changes...) }

// small returns a DataService with the middleware, auth, proxy and web.
func small(changes ...fields) *unstructured.Unstructured { return harness.Small(changes...) }

// condition waits until a DataService has a condition whose message names all parts.
func (e *env) condition(name, kind string, status metav1.ConditionStatus, reason string, parts ...string) {
	e.Helper()
	e.Until("condition "+kind, func() error {
		ds := e.DataService(name)
		return harness.HasCondition(ds, kind, status, reason, parts...)
	})
}

// owned returns the objects that a DataService controls.
func (e *env) owned(name string) []client.Object {
	ds := e.DataService(name)
	if ds == nil {
		return nil
	}
	return slices.DeleteFunc(e.All(), func(object client.Object) bool { return !metav1.IsControlledBy(object, ds) })
}

// made returns the objects that the operator manages, except pods and claims.
func (e *env) made() []client.Object {
	return slices.DeleteFunc(e.All(), func(object client.Object) bool {
		kind := harness.KindOf(object)
		return kind == "Pod" || kind == "PersistentVolumeClaim" || object.GetLabels()[managedBy] != "d3os-operator"
	})
}

// versions returns, for each object, a value that shows a write: the generation of a workload, because other controllers write its status,
// and the resource version of any other object.
func versions(objects ...client.Object) map[string]any {
	found := map[string]any{}
	for _, object := range objects {
		found[harness.IDOf(object)] = object.GetResourceVersion()
		if object.GetGeneration() > 0 {
			found[harness.IDOf(object)] = object.GetGeneration()
		}
	}
	return found
}

// touched returns the objects whose version has changed, or that were deleted.
func (e *env) touched(before map[string]any) []string {
	var found []string
	after := versions(e.All()...)
	for id, version := range before {
		if after[id] != version {
			found = append(found, id)
		}
	}
	return found
}

// equal fails the test if two lists differ, without regard to their order.
func (e *env) equal(what string, got, want []string) {
	e.Helper()
	if diff := harness.Difference(got, want); diff != "" {
		e.Errorf("%s: %s", what, diff)
	}
}

// saying returns a text as an error, or nil for an empty text.
func saying(text string) error { return stage.Unless(text == "", text) }

// get reads an object of the test's namespace from the API server, not from the journal.
func get[T client.Object](e *env, object T, name string) T {
	e.Helper()
	e.Must(api.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, object))
	return object
}
