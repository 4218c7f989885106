// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// roll replaces a Deployment by a Deployment of the same name with another selector. (1) The old Deployment is deleted
// without its pods. (2) The pods get the labels of the new Deployment. (3) The new Deployment adopts the pods and
// replaces them gradually. So the Service always has a ready address.
type roll struct {
	owner    object.Owner
	name     string
	from, to map[string]string // selectors of the old and of the new Deployment
	// isFrom reports whether a live Deployment with the labels from is the old one, and may be deleted.
	isFrom func(live *unstructured.Unstructured) bool
	// toService is the selector of the Service after the replacement.
	toService map[string]string
	// service writes the Service. before writes the objects that the new pods need. deployment writes the new Deployment.
	service, before, deployment func(ctx context.Context) error
}

func (a *Adopter) roll(ctx context.Context, r roll) error {
	if err := a.orphan(ctx, r); err != nil {
		return err
	}
	if err := a.label(ctx, r); err != nil {
		return err
	}
	if err := a.moveService(ctx, r); err != nil {
		return err
	}
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.deployment(ctx); err != nil {
		return err
	}
	return a.until(ctx, func() (string, error) {
		live, err := a.get(ctx, deploymentKind, r.owner.Namespace, r.name)
		if err != nil {
			return "", err
		}
		return unrolled(r.name, live), nil
	})
}

// orphan deletes the old Deployment, and keeps its ReplicaSets and pods.
func (a *Adopter) orphan(ctx context.Context, r roll) error {
	live, err := a.get(ctx, deploymentKind, r.owner.Namespace, r.name)
	if live == nil || err != nil || maps.Equal(selectorOf(live), r.to) {
		return err
	}
	if !maps.Equal(selectorOf(live), r.from) || !r.isFrom(live) {
		return fmt.Errorf("another writer (%[2]s) made Deployment %[1]s again: stop the original operator", r.name, strings.Join(writers(live), ", "))
	}
	uid := live.GetUID()
	if live.GetDeletionTimestamp() == nil {
		if err := a.delete(ctx, live, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			return err
		}
	}
	return a.until(ctx, func() (string, error) {
		live, err := a.get(ctx, deploymentKind, r.owner.Namespace, r.name)
		if err != nil || live == nil || live.GetUID() != uid {
			return "", err
		}
		return "the deletion of Deployment " + r.name + " has not ended: its finalizers are " + strings.Join(live.GetFinalizers(), ", "), nil
	})
}

func writers(o *unstructured.Unstructured) (names []string) {
	for _, entry := range o.GetManagedFields() {
		names = append(names, entry.Manager)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// label adds the new labels to the ReplicaSets without a Deployment, to their templates, and to their pods. Pods that a ReplicaSet creates
// later also have the labels.
func (a *Adopter) label(ctx context.Context, r roll) error {
	sets, err := a.list(ctx, replicaSetKind, r.owner.Namespace, r.from)
	if err != nil {
		return err
	}
	labels := map[string]any{}
	for key, value := range r.to {
		labels[key] = value
	}
	for _, set := range sets {
		if isControlled(set) || !strings.HasPrefix(set.GetName(), r.name+"-") {
			continue
		}
		template, _, _ := unstructured.NestedStringMap(set.Object, "spec", "template", "metadata", "labels")
		if !has(set.GetLabels(), r.to) || !has(template, r.to) {
			err := a.merge(ctx, set, map[string]any{"metadata": map[string]any{"labels": maps.Clone(labels)},
				"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": labels}}}})
			if err != nil {
				return err
			}
		}
		pods, err := a.list(ctx, podKind, r.owner.Namespace, selectorOf(set))
		if err != nil {
			return err
		}
		for _, pod := range controlledBy(pods, set) {
			if !has(pod.GetLabels(), r.to) {
				if err := a.merge(ctx, pod, map[string]any{"metadata": map[string]any{"labels": maps.Clone(labels)}}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// moveService changes the selector of the Service. Before that, it creates a temporary Service with the new selector,
// and waits until that Service has the addresses of all ready pods. Otherwise the Service could have no address for a
// moment.
func (a *Adopter) moveService(ctx context.Context, r roll) error {
	live, err := a.get(ctx, serviceKind, r.owner.Namespace, r.name)
	if err != nil {
		return err
	}
	if live != nil && !maps.Equal(selectorOf(live), r.toService) {
		if err := a.probe(ctx, r); err != nil {
			return err
		}
	}
	if err := r.service(ctx); err != nil {
		return err
	}
	probe, err := a.get(ctx, serviceKind, r.owner.Namespace, r.name+probeSuffix)
	if err != nil || probe == nil || probe.GetLabels()[object.LabelManagedBy] != manager {
		return err
	}
	return a.delete(ctx, probe)
}

func (a *Adopter) probe(ctx context.Context, r roll) error {
	probe := object.Empty(serviceKind)
	probe.SetNamespace(r.owner.Namespace)
	probe.SetName(r.name + probeSuffix)
	probe.SetLabels(map[string]string{object.LabelManagedBy: manager, object.LabelPartOf: "dataservice"})
	selector := map[string]any{}
	for key, value := range r.toService {
		selector[key] = value
	}
	probe.Object["spec"] = map[string]any{"clusterIP": "None", "selector": selector, "ports": []any{map[string]any{"name": "probe", "port": int64(1)}}}
	if err := a.create(ctx, probe); err != nil {
		return err
	}
	live, err := a.get(ctx, serviceKind, r.owner.Namespace, probe.GetName())
	if err != nil {
		return err
	}
	if live == nil || !maps.Equal(selectorOf(live), r.toService) {
		return fmt.Errorf("the temporary Service %s exists and selects other pods: delete it, and run the command again", probe.GetName())
	}
	return a.until(ctx, func() (string, error) {
		before, err := a.ready(ctx, r.owner.Namespace, r.name)
		if err != nil {
			return "", err
		}
		after, err := a.ready(ctx, r.owner.Namespace, probe.GetName())
		for address := range before {
			if !after[address] {
				return "the pod at " + address + " is not in the EndpointSlices of Service " + probe.GetName(), err
			}
		}
		return "", err
	})
}

// ready returns the ready addresses of a Service.
func (a *Adopter) ready(ctx context.Context, namespace, service string) (map[string]bool, error) {
	slices := &discoveryv1.EndpointSliceList{}
	if err := a.Client.List(ctx, slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %s: %w", service, err)
	}
	found := map[string]bool{}
	for i := range slices.Items {
		for _, endpoint := range slices.Items[i].Endpoints {
			if isReady := endpoint.Conditions.Ready; isReady == nil || *isReady {
				for _, address := range endpoint.Addresses {
					found[address] = true
				}
			}
		}
	}
	return found, nil
}

// unrolled returns the reason why the rollout of a Deployment is not complete; "" if it is.
func unrolled(name string, live *unstructured.Unstructured) string {
	if live == nil {
		return "Deployment " + name + " does not exist"
	}
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(live.Object, path...)
		return n
	}
	want := number("spec", "replicas")
	if number("status", "observedGeneration") >= live.GetGeneration() && number("status", "updatedReplicas") == want &&
		number("status", "availableReplicas") == want && number("status", "replicas") == want {
		return ""
	}
	return fmt.Sprintf("Deployment %s has %d of %d new pods, %d available, %d in all", name, number("status", "updatedReplicas"), want,
		number("status", "availableReplicas"), number("status", "replicas"))
}
