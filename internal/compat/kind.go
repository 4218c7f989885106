// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compat implements the kinds AppService, ModelBox and CronTab. This operator replaces three older operators,
// whose users have resources of these kinds. The plan of a resource has one part: the objects of a chart that
// DataServices also use.
//
//   - kind.go contains the methods that the kinds share, and values.go the chart values.
//   - appservice.go, modelbox.go and crontab.go contain the chart values of each kind.
//   - status.go computes the status.
//
// The CRDs of these kinds, and the operator's rights to them, are in config/compat. Without config/compat, the operator
// has no rights to these kinds.
package compat

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shared "d3os.com/d3os-operator/api/compat"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// definition holds the functions in which the kinds differ.
type definition[T client.Object] struct {
	gvk    schema.GroupVersionKind
	create func() T
	// values returns the chart of a resource and the chart's values. An error means a mistake in the spec.
	values func(resource T, agent string) (chart string, values map[string]any, err error)
	// status returns the part of the status that the kinds share.
	status func(T) *shared.Status
	// report sets the fields of the status that only this kind has. It is nil if there are none. The workload in obs may be nil.
	report func(resource T, obs Observation)
	// well returns the message of a healthy status. If well is nil, the message is the number of ready pods.
	well func(T) string
	// live reads the output of a failing readiness probe; nil for a kind whose probes print no reason.
	live client.Reader
}

// Kind implements one of the kinds.
type Kind[T client.Object] struct {
	definition[T]

	plans  *database.Plans
	client client.Client
	agent  string
}

var _ reconcile.Kind[client.Object, Observation] = &Kind[client.Object]{}

// newKind returns a kind. The client reads from the operator's cache; agent is the image of the agent, or empty if it is not known.
func newKind[T client.Object](d definition[T], renderer *render.Renderer, c client.Client, agent string) *Kind[T] {
	if agent == "" {
		agent = object.UnknownImage
	}
	return &Kind[T]{definition: d, plans: database.NewPlans(renderer), client: c, agent: agent}
}

// Observation holds the results of Observe for a resource.
type Observation struct {
	Workload *unstructured.Unstructured // nil if it does not exist
	// Unready is the name of a running pod that is not ready, and Probe is the output of the pod's readiness probe. Both are empty if there is no
	// such pod.
	Unready, Probe string
}

// lookAgain is the time until the next read of a pod whose readiness probe fails. The operator must read again, because
// the status of a pod does not contain the probe's output.
const lookAgain = 10 * time.Second

// GVK returns the group, version and kind.
func (k *Kind[T]) GVK() schema.GroupVersionKind { return k.gvk }

// New returns an empty resource.
func (k *Kind[T]) New() T { return k.create() }

// Paused returns false, because the kinds have no field for a pause.
func (*Kind[T]) Paused(T) bool { return false }

// Forget drops the cached plan of a resource.
func (k *Kind[T]) Forget(namespace, name string) { k.plans.Forget(namespace, name) }

// Plan returns the objects of the chart as one part.
func (k *Kind[T]) Plan(resource T, in reconcile.Inputs, _ *Observation) (*reconcile.Plan, error) {
	owner := reconcile.OwnerOf(k, resource)
	part, err := k.plans.Part(resource, "", func() (reconcile.Part, error) { return k.part(resource, owner) })
	if err != nil {
		return nil, err
	}
	part.IsOfThisSpec = k.status(resource).ObservedGeneration == resource.GetGeneration()
	if err := database.KeepAgent(&part, owner, in); err != nil {
		return nil, err
	}
	return &reconcile.Plan{Parts: []reconcile.Part{part}}, nil
}

func (k *Kind[T]) part(resource T, owner object.Owner) (reconcile.Part, error) {
	result := reconcile.Part{Name: partOf(owner), Kind: "Deployment", Path: "spec", NeedsDryRun: true}
	chart, values, err := k.values(resource, k.agent)
	if err != nil {
		return result, reconcile.SpecErrorOf(err)
	}
	if values, err = database.Plain(values); err != nil {
		return result, reconcile.SpecErrorOf(err)
	}
	values["instance"], values["name"], values["component"], values["managedBy"] = owner.Name, owner.Name, result.Name, object.ManagedBy
	values["labels"] = map[string]any{object.LabelKind: owner.KindLabel(), "app": owner.Name}
	if result, err = k.plans.Render(result, database.Rendering{Owner: owner, Chart: chart, Values: values}); err != nil {
		return result, err
	}
	for _, o := range result.Objects {
		if o.GetKind() == object.CronJobKind.Kind {
			result.Kind = o.GetKind()
		}
	}
	return result, nil
}

// partOf returns the name of the part of a resource. The name contains a dot, which the name of a DataService's component never contains.
// So the pods of a resource and of a DataService with the same name have different labels.
func partOf(owner object.Owner) string { return owner.KindLabel() }

// Observe reads the workload and a pod that is not ready from the cache, and the output of the pod's readiness probe from the API server.
func (k *Kind[T]) Observe(ctx context.Context, resource T, seen reconcile.PlanSeen, pods reconcile.Pods, obs *Observation) error {
	owner := reconcile.OwnerOf(k, resource)
	for i := range seen.Parts {
		gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: seen.Parts[i].Kind}
		if gvk.Kind == object.CronJobKind.Kind {
			gvk = object.CronJobKind
		}
		live := object.Empty(gvk)
		err := k.client.Get(ctx, client.ObjectKeyFromObject(resource), live)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %s %s: %w", gvk.Kind, resource.GetName(), err)
		}
		if err == nil && owner.Controls(live) {
			obs.Workload = live
		}
	}
	if k.live == nil || obs.Workload == nil || obs.Workload.GetKind() == object.CronJobKind.Kind {
		return nil
	}
	all, err := pods(ctx, partOf(owner))
	for _, pod := range all {
		if health.Unready(pod) {
			obs.Unready, obs.Probe = pod.Name, database.ProbeFailure(ctx, k.live, pod)
			break
		}
	}
	return err
}

// Decide returns no steps: these kinds have only objects.
func (*Kind[T]) Decide(_ T, _ reconcile.PlanSeen, obs *Observation) reconcile.Decision {
	if obs.Unready != "" {
		return reconcile.Decision{LookAgain: lookAgain}
	}
	return reconcile.Decision{}
}
