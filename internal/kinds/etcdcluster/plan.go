// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/specfield"
)

// planner turns resources into objects. It remembers the last plan of each: a cluster that is being
// changed is planned every second or two, from the same spec. It is safe for concurrent use.
type planner struct {
	renderer *render.Renderer
	images   Images
	keeper   *keeper

	mu    sync.Mutex
	plans map[types.NamespacedName]remembered
}

// remembered is the objects of a cluster, and what they were made from.
type remembered struct {
	from string
	part engine.Part
}

func newPlanner(renderer *render.Renderer, images Images, now func() time.Time) *planner {
	return &planner{renderer: renderer, images: images, keeper: newKeeper(now), plans: map[types.NamespacedName]remembered{}}
}

// plan returns what a resource stands for.
func (p *planner) plan(ec *etcdv1.EtcdCluster, owner object.Owner, in kinds.Inputs) (*engine.Plan, error) {
	if err := checkVersion(versionOf(&ec.Spec)); err != nil {
		return nil, &kinds.Mistake{Reason: etcdv1.ReasonUnsupportedVersion, Err: err}
	}
	if p.images.Agent == "" {
		return nil, &kinds.Mistake{Reason: etcdv1.ReasonAgentMissing, Err: errors.New("the operator does not know the image of its agent, without which no member starts: " +
			"set RELATED_IMAGE_AGENT in the operator's Deployment to the operator's own image")}
	}
	kept, err := in.Lookup(object.ConfigMapKind.Kind, recordName(ec.Name))
	if err != nil {
		return nil, err
	}
	record, err := readRecord(kept)
	if err != nil {
		return nil, err
	}
	how, err := p.planned(ec, record, in)
	if err != nil {
		return nil, err
	}
	live, err := in.Lookup(object.StatefulSetKind.Kind, ec.Name)
	if err != nil {
		return nil, err
	}
	objects, err := p.objects(ec, owner, how, live)
	if err != nil {
		return nil, err
	}
	secrets, err := p.keeper.plan(ec, owner, in, record)
	if err != nil {
		return nil, &engine.SecretError{Err: err}
	}
	return &engine.Plan{
		Parts: []engine.Part{objects}, Secrets: secrets,
		Adopt: func(live *unstructured.Unstructured) bool { return p.keeper.adopt(ec, live) },
	}, nil
}

// planned returns how many pods there are at present, and of which etcd, as the record says. Where a person has deleted the
// record, what lives stays as it is until the operator has made the record again.
func (p *planner) planned(ec *etcdv1.EtcdCluster, record membership.Record, in kinds.Inputs) (planned, error) {
	replicas, version := membership.Planned(wanted(ec), record)
	how := planned{Replicas: replicas, Version: version, Image: imageOf(&ec.Spec, version, p.images.Etcd)}
	if record.Replicas > 0 {
		return how, nil
	}
	live, err := in.Lookup(object.StatefulSetKind.Kind, ec.Name)
	if err != nil || live == nil {
		return how, err
	}
	if pods, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas"); replicas > 0 {
		how.Replicas = max(how.Replicas, int(pods))
	}
	if image := liveImage(live); image != "" && record.Version == "" {
		how.Image = image
	}
	return how, nil
}

// liveImage returns the image of etcd that a StatefulSet has.
func liveImage(set *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok && c["name"] == container {
			image, _ := c["image"].(string)
			return image
		}
	}
	return ""
}

// objects returns all but the Secrets.
func (p *planner) objects(ec *etcdv1.EtcdCluster, owner object.Owner, how planned, live *unstructured.Unstructured) (engine.Part, error) {
	key := types.NamespacedName{Namespace: ec.Namespace, Name: ec.Name}
	from := fmt.Sprintf("%s/%d/%+v/%v", ec.UID, ec.Generation, how, podsOf(live))
	p.mu.Lock()
	known, ok := p.plans[key]
	p.mu.Unlock()
	if ok && known.from == from && ec.UID != "" {
		return known.part, nil
	}
	made, err := p.make(ec, owner, how, live)
	if err != nil {
		return made, err
	}
	p.mu.Lock()
	p.plans[key] = remembered{from, made}
	p.mu.Unlock()
	return made, nil
}

func (p *planner) make(ec *etcdv1.EtcdCluster, owner object.Owner, how planned, live *unstructured.Unstructured) (engine.Part, error) {
	result := engine.Part{Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", NeedsDryRun: needsDryRun(&ec.Spec), RetainsData: true}
	v, err := values(ec, owner, how, p.images.Agent)
	if err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
	}
	rendered, err := p.renderer.Render(render.Release{Name: ec.Name, Namespace: ec.Namespace}, []render.Part{{Name: part, Chart: chart, Values: v}})
	if err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonRenderFailed, Err: err}
	}
	if template := ec.Spec.PodTemplate; template != nil {
		if err := specfield.OverlayStatefulSets("spec.podTemplate", rendered[0], template.Raw, etcdv1.GroupVersion.Group); err != nil {
			return result, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
		}
	}
	if err := settle(rendered[0], podsOf(live)); err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonRenderFailed, Err: err}
	}
	result.Objects = rendered[0]
	if err := result.Finish(owner); err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonRenderFailed, Err: err}
	}
	return result, nil
}

func (p *planner) forget(namespace, name string) {
	p.keeper.forget(namespace, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plans, types.NamespacedName{Namespace: namespace, Name: name})
}
