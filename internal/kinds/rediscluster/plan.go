// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// planner turns resources into objects. It is safe for concurrent use.
type planner struct {
	plans     *stateful.Plans
	images    Images
	passwords *passwords
	holds     *holds
}

func newPlanner(renderer *render.Renderer, images Images, generate func() (string, error)) *planner {
	return &planner{plans: stateful.NewPlans(renderer), images: images, passwords: newPasswords(generate), holds: newHolds()}
}

// plan returns what a resource stands for.
func (p *planner) plan(rc *redisv1.RedisCluster, owner object.Owner, in kinds.Inputs) (*engine.Plan, error) {
	record, err := records.Planned(in, owner)
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
	file, err := in.Lookup(object.ConfigMapKind.Kind, rc.Name+"-config")
	if err != nil {
		return nil, err
	}
	copied, err := p.passwords.copied(rc, in.LookupLive)
	if err != nil && len(record.Nodes) == 0 && !record.Formed { // what runs is healed as ever
		return nil, &engine.SecretError{Err: err}
	}
	how := planned{Copied: copied != "", Shards: shards, Settings: p.holds.file(rc, file), Formed: rc.Spec.RestoreFrom != nil && len(record.Nodes) > 0}
	if how.Agents, err = p.agents(rc, record, in); err != nil {
		return nil, err
	}
	objects, err := p.plans.Part(rc, fmt.Sprintf("%+v", how), func() (engine.Part, error) { return p.make(rc, owner, how) })
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
	secret, err := p.passwords.plan(rc, owner, live, record, copied)
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
		if image := stateful.ImageOf(set, container); image != "" {
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

// make returns all but the Secret.
func (p *planner) make(rc *redisv1.RedisCluster, owner object.Owner, how planned) (engine.Part, error) {
	result := engine.Part{
		Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", NeedsDryRun: needsDryRun(&rc.Spec), RetainsData: keepsData(&rc.Spec),
	}
	v, err := values(rc, owner, how, p.images)
	if err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
	}
	rendering := stateful.Rendering{Owner: owner, Chart: chart, Values: v, BackupTemplate: rc.Spec.Backup.Template()}
	if rc.Spec.PodTemplate != nil {
		rendering.PodTemplate = rc.Spec.PodTemplate.Raw
	}
	return p.plans.Render(result, rendering)
}

func (p *planner) forget(namespace, name string) {
	p.passwords.forget(namespace, name)
	p.holds.forget(namespace, name)
	p.plans.Forget(namespace, name)
}
