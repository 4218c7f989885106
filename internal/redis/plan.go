// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// planner computes the objects of resources. It is safe for concurrent use.
type planner struct {
	plans     *database.Plans
	images    Images
	passwords *passwords
	holds     *holds
}

func newPlanner(renderer *render.Renderer, images Images, generate func() (string, error)) *planner {
	return &planner{plans: database.NewPlans(renderer), images: images, passwords: newPasswords(generate), holds: newHolds()}
}

// plan returns the objects of a resource.
func (p *planner) plan(rc *redisv1.RedisCluster, owner object.Owner, in reconcile.Inputs) (*reconcile.Plan, error) {
	record, err := records.Planned(in, owner)
	if err != nil {
		return nil, err
	}
	shards, err := plannedShards(wantedShards(&rc.Spec), record, func(shard int) (int, error) { return livePods(rc, shard, in) })
	if err != nil {
		return nil, err
	}
	if !isSupported(rc.Spec.Version) {
		// Running servers are still maintained, with their present image.
		if rc, err = withRunningImage(rc, len(shards), in); err != nil {
			return nil, err
		}
	}
	file, err := in.Lookup(object.ConfigMapKind.Kind, rc.Name+"-config")
	if err != nil {
		return nil, err
	}
	copied, err := p.passwords.copied(rc, in.LookupLive)
	if err != nil && len(record.Nodes) == 0 && !record.Formed { // running servers are still maintained
		return nil, &reconcile.SecretError{Err: err}
	}
	restores := rc.Spec.RestoreFrom != nil
	how := planned{
		Copied: copied != "", Shards: shards, Settings: p.holds.file(rc, file), Formed: restores && len(record.Nodes) > 0, Restored: restores && record.Formed,
		Parked: record.Parked,
	}
	if how.Agents, err = p.agents(rc, record, in); err != nil {
		return nil, err
	}
	objects, err := p.plans.Part(rc, fmt.Sprintf("%+v", how), func() (reconcile.Part, error) { return p.make(rc, owner, how) })
	if err != nil {
		return nil, err
	}
	plan := &reconcile.Plan{
		Parts: []reconcile.Part{objects},
		Adopt: func(live *unstructured.Unstructured) bool { return p.passwords.adopt(rc, live) },
	}
	live, err := in.Lookup("Secret", secretOf(rc))
	if err != nil {
		return nil, err
	}
	secret, err := p.passwords.plan(rc, owner, live, record, copied)
	if lost := (*LostError)(nil); errors.As(err, &lost) {
		if live, err = object.UnseenSecret(owner, in.LookupLive, lost.Secret, lost); err == nil {
			secret, err = p.passwords.plan(rc, owner, live, record, copied)
		}
	}
	if err != nil {
		return nil, &reconcile.SecretError{Err: err}
	}
	if secret != nil {
		plan.Secrets = append(plan.Secrets, secret)
	}
	return plan, nil
}

// unsupported returns the message for a version that is too old.
func unsupported(version string) string {
	return fmt.Sprintf("spec.version: Redis %s is not supported: the oldest supported version is %d.%d. Set this field to a supported version, such as %s", version, oldestMajor, oldestMinor, defaultVersion)
}

// withRunningImage returns a copy of a resource whose spec.version is not supported. The copy names the image of an
// existing StatefulSet. If no StatefulSet has an image, withRunningImage returns an error.
func withRunningImage(rc *redisv1.RedisCluster, shards int, in reconcile.Inputs) (*redisv1.RedisCluster, error) {
	for shard := range shards {
		set, err := in.Lookup(object.StatefulSetKind.Kind, setName(rc.Name, shard))
		if err != nil {
			return nil, err
		}
		if set == nil {
			continue
		}
		if image := database.ImageOf(set, container); image != "" {
			rc = rc.DeepCopy()
			rc.Spec.Repository, rc.Spec.Version = "", ""
			if len(rc.Spec.Pod) == 0 {
				rc.Spec.Pod = []redisv1.Pod{{}}
			}
			rc.Spec.Pod[0].MiddlewareImage = image
			return rc, nil
		}
	}
	return nil, &reconcile.SpecError{Reason: redisv1.ReasonUnsupportedVersion, Err: errors.New(unsupported(rc.Spec.Version))}
}

// annotationPods is an annotation of the StatefulSets of a parked cluster. Its value is the number of pods while the cluster is not parked.
const annotationPods = "redis.middleware.hc.cn/pods"

// livePods returns the number of pods of a shard's StatefulSet, or 0 without one. For a parked cluster it returns the number before
// the parking: if it returned 0, the loss of the record would remove the shard.
func livePods(rc *redisv1.RedisCluster, shard int, in reconcile.Inputs) (int, error) {
	set, err := in.Lookup(object.StatefulSetKind.Kind, setName(rc.Name, shard))
	if set == nil || err != nil {
		return 0, err
	}
	pods, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
	if parked, err := strconv.Atoi(set.GetAnnotations()[annotationPods]); pods == 0 && err == nil {
		return parked, nil
	}
	return int(pods), nil
}

// setName returns the name of a shard's StatefulSet.
func setName(cluster string, shard int) string { return fmt.Sprintf("%s-%d", cluster, shard) }

// make renders all objects except the Secret.
func (p *planner) make(rc *redisv1.RedisCluster, owner object.Owner, how planned) (reconcile.Part, error) {
	result := reconcile.Part{
		Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", NeedsDryRun: needsDryRun(&rc.Spec), HasEqualSets: true, RetainsData: keepsData(&rc.Spec),
	}
	if g := rc.Spec.Storage.AutoGrow; g != nil {
		result.Grow = apply.NewGrowthPolicy(g.Limit, g.At, g.By)
	}
	err := checkPods(&rc.Spec, len(how.Shards))
	var v map[string]any
	if err == nil {
		v, err = values(rc, owner, how, p.images)
	}
	if err != nil {
		return result, &reconcile.SpecError{Reason: reconcile.ReasonInvalidSpec, Err: err}
	}
	rendering := database.Rendering{Owner: owner, Chart: chart, Values: v, BackupTemplate: rc.Spec.Backup.Template(), Parked: isParked(&rc.Spec)}
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
