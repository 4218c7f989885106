// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/specfield"
)

// planner turns resources into objects. It remembers the last plan of each: a cluster that is being
// changed is planned every second or two, from the same spec. It is safe for concurrent use.
type planner struct {
	renderer  *render.Renderer
	image     string // that stands for the default one; empty for none
	passwords *passwords
	holds     *holds

	mu    sync.Mutex
	plans map[types.NamespacedName]planned
}

// planned is the objects of a cluster, and what they were made from.
type planned struct {
	from string
	part engine.Part
}

func newPlanner(renderer *render.Renderer, image string, generate func() (string, error)) *planner {
	return &planner{renderer: renderer, image: image, passwords: newPasswords(generate), holds: newHolds(), plans: map[types.NamespacedName]planned{}}
}

// plan returns what a resource stands for.
func (p *planner) plan(rc *redisv1.RedisCluster, owner object.Owner, in kinds.Inputs) (*engine.Plan, error) {
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
	if !isSupported(rc.Spec.Version) {
		// What runs is healed as ever, with the image that it has.
		if rc, err = withRunningImage(rc, len(shards), in); err != nil {
			return nil, err
		}
	}
	file, err := in.Lookup(configMapKind.Kind, rc.Name+"-config")
	if err != nil {
		return nil, err
	}
	objects, err := p.objects(rc, owner, shards, p.holds.file(rc, file))
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

// unsupported says that the version of a spec is too old.
func unsupported(version string) string {
	return fmt.Sprintf("spec.version: Redis %s is not supported: use %d.%d or newer, such as %s", version, oldestMajor, oldestMinor, defaultVersion)
}

// withRunningImage returns a copy of a resource of an unsupported version that asks for the image which its
// pods have. Without pods it is a mistake.
func withRunningImage(rc *redisv1.RedisCluster, shards int, in kinds.Inputs) (*redisv1.RedisCluster, error) {
	for shard := range shards {
		set, err := in.Lookup(object.StatefulSetKind.Kind, setName(rc.Name, shard))
		if err != nil {
			return nil, err
		}
		if set == nil {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			fields, _ := c.(map[string]any)
			image, _ := fields["image"].(string)
			if fields["name"] != container || image == "" {
				continue
			}
			rc = rc.DeepCopy()
			rc.Spec.Repository, rc.Spec.Version = "", ""
			if len(rc.Spec.Pod) == 0 {
				rc.Spec.Pod = []redisv1.Pod{{}}
			}
			rc.Spec.Pod[0].MiddlewareImage = image
			return rc, nil
		}
	}
	return nil, &kinds.Mistake{Reason: redisv1.ReasonUnsupportedVersion, Err: errors.New(unsupported(rc.Spec.Version))}
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
func (p *planner) objects(rc *redisv1.RedisCluster, owner object.Owner, shards []int, live map[string]string) (engine.Part, error) {
	key := types.NamespacedName{Namespace: rc.Namespace, Name: rc.Name}
	from := fmt.Sprintf("%s/%d/%v/%v", rc.UID, rc.Generation, shards, live)
	p.mu.Lock()
	known, ok := p.plans[key]
	p.mu.Unlock()
	if ok && known.from == from && rc.UID != "" {
		return known.part, nil
	}
	made, err := p.make(rc, owner, shards, live)
	if err != nil {
		return made, err
	}
	p.mu.Lock()
	p.plans[key] = planned{from, made}
	p.mu.Unlock()
	return made, nil
}

func (p *planner) make(rc *redisv1.RedisCluster, owner object.Owner, shards []int, live map[string]string) (engine.Part, error) {
	result := engine.Part{
		Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", NeedsDryRun: needsDryRun(&rc.Spec), RetainsData: keepsData(&rc.Spec),
	}
	v, err := values(rc, owner, shards, live, p.image)
	if err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
	}
	rendered, err := p.renderer.Render(render.Release{Name: rc.Name, Namespace: rc.Namespace}, []render.Part{{Name: part, Chart: chart, Values: v}})
	if err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonRenderFailed, Err: err}
	}
	if template := rc.Spec.PodTemplate; template != nil {
		if err := specfield.OverlayStatefulSets("spec.podTemplate", rendered[0], template.Raw, redisv1.GroupVersion.Group); err != nil {
			return result, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
		}
	}
	result.Objects = rendered[0]
	if err := result.Finish(owner); err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonRenderFailed, Err: err}
	}
	return result, nil
}

func (p *planner) forget(namespace, name string) {
	p.passwords.forget(namespace, name)
	p.holds.forget(namespace, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plans, types.NamespacedName{Namespace: namespace, Name: name})
}
