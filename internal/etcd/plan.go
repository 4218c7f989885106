// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/contract/etcdmember"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

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
func (p *planner) plan(ec *etcdv1.EtcdCluster, owner object.Owner, in reconcile.Inputs) (*reconcile.Plan, error) {
	if err := checkVersion(versionOf(&ec.Spec)); err != nil {
		return nil, &reconcile.SpecError{Reason: etcdv1.ReasonUnsupportedVersion, Err: err}
	}
	if err := checkImage(&ec.Spec); err != nil {
		return nil, &reconcile.SpecError{Reason: reconcile.ReasonInvalidSpec, Err: err}
	}
	if p.images.Agent == "" {
		return nil, &reconcile.SpecError{Reason: etcdv1.ReasonAgentMissing, Err: errors.New("the operator does not know the image of its agent, without which no member starts: " +
			"set RELATED_IMAGE_AGENT in the operator's Deployment to the operator's own image")}
	}
	record, err := records.Planned(in, owner)
	if err != nil {
		return nil, err
	}
	if err := checkScheme(&ec.Spec, record); err != nil {
		return nil, &reconcile.SpecError{Reason: reconcile.ReasonInvalidSpec, Err: err}
	}
	how, err := p.planned(ec, record, in)
	if err != nil {
		return nil, err
	}
	live, err := in.Lookup(object.StatefulSetKind.Kind, ec.Name)
	if err != nil {
		return nil, err
	}
	runs, err := isRunning(live, in)
	if err != nil {
		return nil, err
	}
	secrets, err := p.keeper.plan(ec, owner, in, record, runs)
	if err != nil {
		return nil, &reconcile.SecretError{Err: err}
	}
	if !runs && !p.keeper.planned(ec).continues(record.Authority) {
		how.Replicas = 0 // no pod starts while the record names other authorities
	}
	objects, err := p.plans.Part(ec, fmt.Sprintf("%+v/%+v/%v", how, ec.Spec.TLS, agentPods.Pods(live)), func() (reconcile.Part, error) { return p.make(ec, owner, how, live) })
	if err != nil {
		return nil, err
	}
	return &reconcile.Plan{
		Parts: []reconcile.Part{objects}, Secrets: secrets,
		Adopt: func(live *unstructured.Unstructured) bool { return p.keeper.adopt(ec, live) },
	}, nil
}

// planned returns the inputs of the plan, among them the recorded number of pods and the recorded version of etcd. If a
// user has deleted the record, the image of the live StatefulSet is kept until the operator has created the record
// again.
func (p *planner) planned(ec *etcdv1.EtcdCluster, record membership.Record, in reconcile.Inputs) (planned, error) {
	live, err := in.Lookup(object.StatefulSetKind.Kind, ec.Name)
	if err != nil {
		return planned{}, err
	}
	claims, err := claimsIn(ec, in)
	if err != nil {
		return planned{}, err
	}
	before, err := publishedIn(ec, in)
	if err != nil {
		return planned{}, err
	}
	replicas, version := membership.Planned(wanted(ec), record, database.Replicas(live), claims)
	how := planned{
		Replicas: replicas, Version: version, Expected: version, Image: imageOf(&ec.Spec, version, p.images.Etcd),
		Formed: ec.Spec.RestoreFrom != nil && isFormed(record, claims), Positions: positions(ec, claims, before),
	}
	if live != nil && (how.Image == "" || record.Version == "") {
		if image := database.ImageOf(live, container); image != "" {
			how.Image, how.Expected = image, expectedIn(live)
		}
	}
	if how.Image == "" {
		return how, &reconcile.SpecError{Reason: reconcile.ReasonInvalidSpec, Err: fmt.Errorf("spec.image names one fixed image, of etcd %s, but the members run etcd %s: give spec.image without a tag and digest",
			versionOf(&ec.Spec), version)}
	}
	return how, nil
}

// isFormed reports whether a cluster was formed: the record or a claim names one, or an annotation of a claim is malformed.
func isFormed(record membership.Record, claims []membership.Claim) bool {
	return record.Cluster != 0 || slices.ContainsFunc(claims, func(claim membership.Claim) bool { return claim.Cluster != 0 || claim.Malformed != "" })
}

// expectedIn returns the version that the agent in the pods of a StatefulSet expects; "" if it expects none.
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

// claimsIn returns the claims of a cluster's pods.
func claimsIn(ec *etcdv1.EtcdCluster, in reconcile.Inputs) (claims []membership.Claim, err error) {
	for ordinal := range membership.MaxReplicas {
		o, err := in.Lookup(object.ClaimKind.Kind, database.ClaimName(ec.Name, ordinal))
		if err != nil {
			return nil, err
		}
		if o == nil {
			continue
		}
		if claim, ok := readClaim(ec.Name, o, time.Time{}); ok {
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// publishedIn returns the data of the record's ConfigMap, from which the agents read positions.
func publishedIn(ec *etcdv1.EtcdCluster, in reconcile.Inputs) (map[string]string, error) {
	kept, err := in.Lookup(object.ConfigMapKind.Kind, records.Name(ec.Name))
	if err != nil || kept == nil {
		return nil, err
	}
	data, _, err := unstructured.NestedStringMap(kept.Object, "data")
	if err != nil {
		return nil, fmt.Errorf("read the positions in ConfigMap %s: %w", kept.GetName(), err)
	}
	return data, nil
}

// positions returns the last known log entry of each member's data, by pod name, in the text form of etcdmember.Known.
// The agent does not start etcd on a log that ends before this entry. If a claim was created again, for example from a
// snapshot, it has no annotations: its pod keeps the position that was published before. The agent ignores a position
// of another member.
func positions(ec *etcdv1.EtcdCluster, claims []membership.Claim, before map[string]string) map[string]string {
	found := map[string]string{}
	for ordinal := range membership.MaxReplicas {
		if pod := database.PodName(ec.Name, ordinal); isPosition(before[pod]) {
			found[pod] = before[pod]
		}
	}
	for i := range claims {
		claim := &claims[i]
		if claim.Member == 0 {
			continue
		}
		delete(found, database.PodName(ec.Name, claim.Ordinal))
		if claim.Position.Index != 0 {
			found[database.PodName(ec.Name, claim.Ordinal)] = etcdmember.Known{Cluster: claim.Cluster.String(), Member: claim.Member.String(), Position: claim.Position}.String()
		}
	}
	return found
}

// isPosition reports whether a text is in the agent's format. A user may have edited the text.
func isPosition(text string) bool {
	known, err := etcdmember.ParseKnown(text)
	return err == nil && known.String() == text
}

// make renders all objects except Secrets.
func (p *planner) make(ec *etcdv1.EtcdCluster, owner object.Owner, how planned, live *unstructured.Unstructured) (reconcile.Part, error) {
	result := reconcile.Part{Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", NeedsDryRun: needsDryRun(&ec.Spec), RetainsData: true}
	if g := ec.Spec.StorageAutoGrow; g != nil {
		result.Grow = apply.NewGrowthPolicy(g.Limit, g.At, g.By)
	}
	v, err := values(ec, owner, how, p.images)
	if err != nil {
		return result, &reconcile.SpecError{Reason: reconcile.ReasonInvalidSpec, Err: err}
	}
	rendering := database.Rendering{
		Owner: owner, Chart: chart, Values: v, BackupTemplate: ec.Spec.Backup.Template(), Parked: replicasOf(&ec.Spec) == 0,
		Settle: func(objects []*unstructured.Unstructured) error {
			return agentPods.Settle(objects, agentPods.Pods(live))
		},
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
