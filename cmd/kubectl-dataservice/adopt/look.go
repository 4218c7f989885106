// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/plugin"
)

// Look observes a DataService and the original operator's objects. The caller sets Original and GitOps.
func Look(ctx context.Context, r *plugin.Reader, operator *plugin.Operator, ds *unstructured.Unstructured) (*Observation, error) {
	o := &Observation{DataService: ds, Live: map[object.ID]*unstructured.Unstructured{}}
	var err error
	if o.Record, err = readRecord(ctx, r, ds); err != nil {
		return nil, err
	}
	all, refused, err := r.Objects(ctx, "", slices.Concat(object.OriginalKinds, []schema.GroupVersionKind{replicaSetKind, podKind}))
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("you may not list %s in namespace %s: an adoption reads and writes them", strings.Join(refused, ", "), r.Namespace)
	}
	for _, live := range all {
		switch live.GetKind() {
		case replicaSetKind.Kind:
			o.ReplicaSets = append(o.ReplicaSets, live)
		case podKind.Kind:
			o.Pods = append(o.Pods, live)
		default:
			if o.owner().NotAdopted(live) {
				o.Live[object.IDOf(live)] = live
			}
		}
	}
	mysql, _, _ := unstructured.NestedMap(ds.Object, "spec", "mysql")
	if name, _ := mysql["name"].(string); name != "" && name != mysqlName {
		if o.Own, err = r.Get(ctx, object.ClaimKind, "data-"+name+"-0"); err != nil {
			return nil, err
		}
	}
	if o.Wanted, err = o.wanted(elsewhere(o)); err != nil {
		return nil, err
	}
	planned, there, err := operator.Plan(ctx, r, o.Wanted)
	if err != nil {
		return nil, fmt.Errorf("plan DataService %s: %w", ds.GetName(), err)
	}
	o.Plan = planned
	for _, live := range there.Objects {
		o.Live[object.IDOf(live)] = live
	}
	return o, o.lookAhead(ctx, r, operator)
}

// lookAhead plans the new database, which would import the original one.
func (o *Observation) lookAhead(ctx context.Context, r *plugin.Reader, operator *plugin.Operator) (err error) {
	before := o.original()
	if before == nil || progressOf(o.DataService) != notCopied || o.isReplaced() {
		return nil
	}
	if o.Claim, err = r.Get(ctx, object.ClaimKind, "data-"+newName+"-0"); err != nil {
		return err
	}
	ds, err := o.wanted(copied(o.owner().Name, before))
	if err != nil {
		return err
	}
	planned, there, err := operator.Plan(ctx, r, ds)
	if err != nil {
		o.CopyRefused = "a new database cannot have the fields of spec.mysql: " + err.Error()
		return nil //nolint:nilerr // the report contains the error
	}
	o.Copy = planned
	for _, live := range there.Objects {
		o.Live[object.IDOf(live)] = live
	}
	return nil
}

// wanted returns the DataService with the given spec.mysql. If mysql is nil, spec.mysql stays unchanged.
func (o *Observation) wanted(mysql map[string]any) (*dsv1.DataService, error) {
	ds := o.DataService
	changed := ds.DeepCopy()
	if mysql != nil {
		if err := unstructured.SetNestedMap(changed.Object, mysql, "spec", "mysql"); err != nil {
			return nil, fmt.Errorf("read spec.mysql of DataService %s: %w", ds.GetName(), err)
		}
	}
	typed := &dsv1.DataService{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, typed); err != nil {
		return nil, fmt.Errorf("read DataService %s: %w", ds.GetName(), err)
	}
	return typed, nil
}

// elsewhere returns the spec.mysql during the adoption: kind ThirdParty, with the address of the original database. It
// returns nil if spec.mysql does not change.
func elsewhere(o *Observation) map[string]any {
	if isElsewhere(o.DataService) || progressOf(o.DataService) != notCopied || o.isReplaced() {
		return nil
	}
	return o.thirdParty()
}

// isReplaced reports whether spec.mysql declares a database that is neither the original nor its copy. Services may have written to that
// database.
func (o *Observation) isReplaced() bool {
	switch {
	case progressOf(o.DataService) != notCopied:
		return false
	case o.Record == nil:
		return !isElsewhere(o.DataService) && o.Own != nil
	}
	return o.Record.MySQL != nil && !isSame(o) && !o.leadsToOriginal()
}

// leadsToOriginal reports whether spec.mysql has kind ThirdParty and the address of the original database.
func (o *Observation) leadsToOriginal() bool {
	url, _, _ := unstructured.NestedString(o.DataService.Object, "spec", "mysql", "thirdParty", "url")
	want, _, _ := unstructured.NestedString(o.thirdParty(), "thirdParty", "url")
	return isElsewhere(o.DataService) && url == want
}

// thirdParty returns a spec.mysql of kind ThirdParty with the original database.
func (o *Observation) thirdParty() map[string]any {
	ds := o.DataService
	name, _ := o.original()["name"].(string)
	if name == "" {
		name = mysqlName
	}
	return map[string]any{"name": name, "kind": "ThirdParty", "thirdParty": map[string]any{
		"url": fmt.Sprintf("mysql://%s.%s.svc:3306", mysqlName, ds.GetNamespace()), "secretRef": map[string]any{"name": accountName(ds.GetName())},
	}}
}

// FindOriginal finds the original operator among Deployments with the labels of kubebuilder's scaffold: its namespace, name or image
// contains d3os-operator. This operator's Deployment differs by its label app.kubernetes.io/name.
func FindOriginal(deployments []appsv1.Deployment) OriginalOperator {
	found := OriginalOperator{Known: true}
	for i := range deployments {
		d := &deployments[i]
		isOperator := strings.Contains(d.Namespace+"/"+d.Name, "d3os-operator")
		for _, c := range d.Spec.Template.Spec.Containers {
			isOperator = isOperator || strings.Contains(c.Image, "d3os-operator")
		}
		runs := d.Spec.Replicas == nil || *d.Spec.Replicas > 0 || d.Status.Replicas > 0
		if isOperator && runs && d.Labels["app.kubernetes.io/name"] != "d3os-operator" {
			found.Running = append(found.Running, d.Namespace+"/"+d.Name)
		}
	}
	return found
}

// selectorOf returns the labels by which a Deployment or a Service selects pods.
func selectorOf(o *unstructured.Unstructured) map[string]string {
	path := []string{"spec", "selector"}
	if o.GetKind() != serviceKind.Kind {
		path = append(path, "matchLabels")
	}
	selector, _, _ := unstructured.NestedStringMap(o.Object, path...)
	return selector
}

// has reports whether labels contain all of the other labels.
func has(labels, others map[string]string) bool {
	for key, value := range others {
		if labels[key] != value {
			return false
		}
	}
	return true
}

func isControlled(o *unstructured.Unstructured) bool { return metav1.GetControllerOfNoCopy(o) != nil }
