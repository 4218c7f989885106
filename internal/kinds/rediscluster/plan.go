// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// planner turns resources into objects. It remembers the last plan of each: a cluster that is being
// changed is planned every second or two, from the same spec. It is safe for concurrent use.
type planner struct {
	renderer  *render.Renderer
	image     string // that stands for the default one; empty for none
	passwords *passwords

	mu    sync.Mutex
	plans map[types.NamespacedName]planned
}

// planned is the objects of a cluster, and what they were made from.
type planned struct {
	from string
	part engine.Part
}

func newPlanner(renderer *render.Renderer, image string, generate func() (string, error)) *planner {
	return &planner{renderer: renderer, image: image, passwords: newPasswords(generate), plans: map[types.NamespacedName]planned{}}
}

// plan returns what a resource stands for.
func (p *planner) plan(rc *redisv1.RedisCluster, owner object.Owner, in kinds.Inputs) (*engine.Plan, error) {
	if version := rc.Spec.Version; !isSupported(version) {
		return nil, &kinds.Mistake{Reason: redisv1.ReasonUnsupportedVersion, Err: fmt.Errorf(
			"spec.version: Redis %s is not supported: use %d.%d or newer, such as %s", version, oldestMajor, oldestMinor, defaultVersion)}
	}
	kept, err := in.Lookup(configMapKind.Kind, recordName(rc.Name))
	if err != nil {
		return nil, err
	}
	record, err := readRecord(kept)
	if err != nil {
		return nil, err
	}
	shards, err := plannedShards(wantedShards(&rc.Spec), record, func(shard int) (int, error) { return livePods(rc, shard, in) })
	if err != nil {
		return nil, err
	}
	objects, err := p.objects(rc, owner, shards)
	if err != nil {
		return nil, err
	}
	plan := &engine.Plan{
		Parts: []engine.Part{objects},
		Adopt: func(live *unstructured.Unstructured) bool { return p.passwords.adopt(rc, live) },
	}
	live, err := in.Lookup("Secret", secretOf(rc))
	if err != nil {
		return nil, err
	}
	secret, err := p.passwords.plan(rc, owner, live, record)
	if err != nil {
		return nil, &engine.SecretError{Err: err}
	}
	if secret != nil {
		plan.Secrets = append(plan.Secrets, secret)
	}
	return plan, nil
}

// livePods returns the number of pods that the StatefulSet of a shard has been told to have; 0 without one.
func livePods(rc *redisv1.RedisCluster, shard int, in kinds.Inputs) (int, error) {
	set, err := in.Lookup(object.StatefulSetKind.Kind, setName(rc.Name, shard))
	if set == nil || err != nil {
		return 0, err
	}
	pods, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
	return int(pods), nil
}

// setName returns the name of a shard's StatefulSet.
func setName(cluster string, shard int) string { return fmt.Sprintf("%s-%d", cluster, shard) }

// objects returns all but the Secret.
func (p *planner) objects(rc *redisv1.RedisCluster, owner object.Owner, shards []int) (engine.Part, error) {
	key := types.NamespacedName{Namespace: rc.Namespace, Name: rc.Name}
	from := fmt.Sprintf("%s/%d/%v", rc.UID, rc.Generation, shards)
	p.mu.Lock()
	known, ok := p.plans[key]
	p.mu.Unlock()
	if ok && known.from == from && rc.UID != "" {
		return known.part, nil
	}
	made, err := p.make(rc, owner, shards)
	if err != nil {
		return made, err
	}
	p.mu.Lock()
	p.plans[key] = planned{from, made}
	p.mu.Unlock()
	return made, nil
}

func (p *planner) make(rc *redisv1.RedisCluster, owner object.Owner, shards []int) (engine.Part, error) {
	result := engine.Part{
		Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", NeedsDryRun: needsDryRun(&rc.Spec), RetainsData: keepsData(&rc.Spec),
	}
	v, err := values(rc, owner, shards, p.image)
	if err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
	}
	rendered, err := p.renderer.Render(render.Release{Name: rc.Name, Namespace: rc.Namespace}, []render.Part{{Name: part, Chart: chart, Values: v}})
	if err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonRenderFailed, Err: err}
	}
	if err := overlay(rc.Spec.PodTemplate, rendered[0]); err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
	}
	result.Objects = rendered[0]
	if err := result.Finish(owner); err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonRenderFailed, Err: err}
	}
	return result, nil
}

func (p *planner) forget(namespace, name string) {
	p.passwords.forget(namespace, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plans, types.NamespacedName{Namespace: namespace, Name: name})
}
