// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// planner turns resources into objects. It is safe for concurrent use.
type planner struct {
	plans  *stateful.Plans
	images Images
	keeper *keeper
}

func newPlanner(renderer *render.Renderer, images Images, now func() time.Time) *planner {
	return &planner{plans: stateful.NewPlans(renderer), images: images, keeper: newKeeper(now)}
}

// plan returns what a resource stands for.
func (p *planner) plan(ec *etcdv1.EtcdCluster, owner object.Owner, in kinds.Inputs) (*engine.Plan, error) {
	if err := checkVersion(versionOf(&ec.Spec)); err != nil {
		return nil, &kinds.Mistake{Reason: etcdv1.ReasonUnsupportedVersion, Err: err}
	}
	if err := checkImage(&ec.Spec); err != nil {
		return nil, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
	}
	if p.images.Agent == "" {
		return nil, &kinds.Mistake{Reason: etcdv1.ReasonAgentMissing, Err: errors.New("the operator does not know the image of its agent, without which no member starts: " +
			"set RELATED_IMAGE_AGENT in the operator's Deployment to the operator's own image")}
	}
	record, err := records.Planned(in, owner)
	if err != nil {
		return nil, err
	}
	if err := checkScheme(&ec.Spec, record); err != nil {
		return nil, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
	}
	how, err := p.planned(ec, record, in)
	if err != nil {
		return nil, err
	}
	live, err := in.Lookup(object.StatefulSetKind.Kind, ec.Name)
	if err != nil {
		return nil, err
	}
	objects, err := p.plans.Part(ec, fmt.Sprintf("%+v/%v", how, podsOf(live)), func() (engine.Part, error) { return p.make(ec, owner, how, live) })
	if err != nil {
		return nil, err
	}
	runs, err := isRunning(live, in)
	if err != nil {
		return nil, err
	}
	secrets, err := p.keeper.plan(ec, owner, in, record, runs)
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
	live, err := in.Lookup(object.StatefulSetKind.Kind, ec.Name)
	if err != nil {
		return planned{}, err
	}
	claims, err := claimsIn(ec, in)
	if err != nil {
		return planned{}, err
	}
	replicas, version := membership.Planned(wanted(ec), record, replicasIn(live), claims)
	how := planned{
		Replicas: replicas, Version: version, Expected: version, Image: imageOf(&ec.Spec, version, p.images.Etcd),
		Formed: ec.Spec.RestoreFrom != nil && isFormed(record, claims), Positions: positions(ec, claims),
	}
	if live != nil && (how.Image == "" || record.Version == "") {
		if image := stateful.ImageOf(live, container); image != "" {
			how.Image, how.Expected = image, expectedIn(live)
		}
	}
	if how.Image == "" {
		return how, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: fmt.Errorf("spec.image names one image, of etcd %s, and the members are of %s: give the image without a tag and digest",
			versionOf(&ec.Spec), version)}
	}
	return how, nil
}

// isFormed reports whether there was a cluster: by the record, or by a claim with data of one.
func isFormed(record membership.Record, claims []membership.Claim) bool {
	return record.Cluster != 0 || slices.ContainsFunc(claims, func(claim membership.Claim) bool { return claim.Cluster != 0 })
}

// expectedIn returns the version that the agent in the pods of a StatefulSet looks for; empty for none.
func expectedIn(set *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		fields, _ := c.(map[string]any)
		command, _, _ := unstructured.NestedStringSlice(fields, "command")
		for _, argument := range command {
			if version, ok := strings.CutPrefix(argument, "--version="); ok && fields["name"] == container {
				return version
			}
		}
	}
	return ""
}

// replicasIn returns how many pods a StatefulSet is to have, which may be nil.
func replicasIn(set *unstructured.Unstructured) int {
	if set == nil {
		return 0
	}
	pods, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
	return int(pods)
}

// claimsIn returns the claims of a cluster's pods.
func claimsIn(ec *etcdv1.EtcdCluster, in kinds.Inputs) (claims []membership.Claim, err error) {
	for ordinal := range membership.MaxReplicas {
		o, err := in.Lookup(object.ClaimKind.Kind, claimName(ec.Name, ordinal))
		if err != nil {
			return nil, err
		}
		if o == nil {
			continue
		}
		claim, ok, err := readClaim(ec.Name, o, time.Time{})
		if err != nil {
			return nil, err
		}
		if ok {
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// positions are up to which entry the data of each member went, by the name of the pod, as the agent reads it: cluster, member,
// term and index. The agent starts no log that ends before.
func positions(ec *etcdv1.EtcdCluster, claims []membership.Claim) map[string]string {
	found := map[string]string{}
	for i := range claims {
		claim := &claims[i]
		if claim.Member != 0 && claim.Position.Index != 0 {
			found[podName(ec.Name, claim.Ordinal)] = fmt.Sprintf("%s %s %d %d", claim.Cluster, claim.Member, claim.Position.Term, claim.Position.Index)
		}
	}
	return found
}

// make returns all but the Secrets.
func (p *planner) make(ec *etcdv1.EtcdCluster, owner object.Owner, how planned, live *unstructured.Unstructured) (engine.Part, error) {
	result := engine.Part{Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", NeedsDryRun: needsDryRun(&ec.Spec), RetainsData: true}
	v, err := values(ec, owner, how, p.images)
	if err != nil {
		return result, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: err}
	}
	rendering := stateful.Rendering{
		Owner: owner, Chart: chart, Values: v, BackupTemplate: ec.Spec.Backup.Template(),
		Settle: func(objects []*unstructured.Unstructured) error { return settle(objects, podsOf(live)) },
	}
	if ec.Spec.PodTemplate != nil {
		rendering.PodTemplate = ec.Spec.PodTemplate.Raw
	}
	return p.plans.Render(result, rendering)
}

func (p *planner) forget(namespace, name string) {
	p.keeper.forget(namespace, name)
	p.plans.Forget(namespace, name)
}
