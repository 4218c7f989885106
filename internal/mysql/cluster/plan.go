// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// agentPods is the annotation of the StatefulSet that stores the digest of its pod template, computed without the agent's image.
const agentPods = database.Agent("d3os-product.com.d3os/pods")

// planner computes the objects of resources. It is safe for concurrent use.
type planner struct {
	plans  *database.Plans
	images Images
	keeper *keeper
}

func newPlanner(renderer *render.Renderer, images Images, now func() time.Time) *planner {
	return &planner{plans: database.NewPlans(renderer), images: images, keeper: newKeeper(now)}
}

// plan returns the objects of a resource.
func (p *planner) plan(mc *mysqlv1.MySQLCluster, owner object.Owner, in reconcile.Inputs) (*reconcile.Plan, error) {
	if p.images.Agent == "" {
		return nil, &reconcile.SpecError{Reason: mysqlv1.ReasonAgentMissing, Err: errors.New("the operator does not know the image of its agent, without which no member starts: " +
			"set RELATED_IMAGE_AGENT in the operator's Deployment to the operator's own image")}
	}
	record, err := records.Planned(in, owner)
	if err != nil {
		return nil, err
	}
	live, err := in.Lookup(object.StatefulSetKind.Kind, mc.Name)
	if err != nil {
		return nil, err
	}
	how := planned{Replicas: record.Pods(replicasOf(&mc.Spec)), Primary: record.Primary.Ordinal, Image: cmp.Or(mc.Spec.Image, p.images.MySQL, defaultImage),
		Formed: mc.Spec.RestoreFrom != nil && record.Formed}
	if !record.Formed && replicasOf(&mc.Spec) > 0 {
		how.Replicas = max(how.Replicas, database.Replicas(live)) // without a record, any existing member may be the primary
	}
	objects, err := p.plans.Part(mc, fmt.Sprintf("%+v/%v", how, agentPods.Pods(live)), func() (reconcile.Part, error) { return p.make(mc, owner, how, live) })
	if err != nil {
		return nil, err
	}
	secrets, err := p.keeper.plan(mc, owner, in, record.Formed, database.Replicas(live) > 0)
	if err != nil {
		return nil, &reconcile.SecretError{Err: err}
	}
	return &reconcile.Plan{
		Parts: []reconcile.Part{objects}, Secrets: secrets,
		Adopt: func(live *unstructured.Unstructured) bool { return p.keeper.adopt(mc, live) },
	}, nil
}

// make renders all objects except Secrets.
func (p *planner) make(mc *mysqlv1.MySQLCluster, owner object.Owner, how planned, live *unstructured.Unstructured) (reconcile.Part, error) {
	result := reconcile.Part{Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", NeedsDryRun: needsDryRun(&mc.Spec), RetainsData: true}
	if g := mc.Spec.Storage.AutoGrow; g != nil {
		result.Grow = apply.NewGrowthPolicy(g.Limit, g.At, g.By)
	}
	v, err := values(mc, owner, how, p.images)
	if err != nil {
		return result, &reconcile.SpecError{Reason: reconcile.ReasonInvalidSpec, Err: err}
	}
	rendering := database.Rendering{
		Owner: owner, Chart: chart, Values: v, BackupTemplate: mc.Spec.Backup.Template(), Parked: replicasOf(&mc.Spec) == 0,
		Settle: func(objects []*unstructured.Unstructured) error {
			return agentPods.Settle(objects, agentPods.Pods(live))
		},
	}
	if mc.Spec.PodTemplate != nil {
		rendering.PodTemplate = mc.Spec.PodTemplate.Raw
	}
	return p.plans.Render(result, rendering)
}

func (p *planner) forget(namespace, name string) {
	p.keeper.forget(namespace, name)
	p.plans.Forget(namespace, name)
}

// selectedPod returns the name of the pod that a Service selects, or "".
func selectedPod(service *unstructured.Unstructured) string {
	pod, _, _ := unstructured.NestedString(service.Object, "spec", "selector", "statefulset.kubernetes.io/pod-name")
	return pod
}
