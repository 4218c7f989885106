// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

func (t *trial) dataService(ctx context.Context) (*dsv1.DataService, error) {
	ds := &dsv1.DataService{}
	return ds, t.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: t.example.GetName()}, ds)
}

// bringUp applies the example and waits until it is ready.
func (t *trial) bringUp(ctx context.Context) error {
	ds := t.example.DeepCopy()
	ds.SetNamespace(t.namespace)
	if err := t.Apply(ctx, client.ApplyConfigurationFromUnstructured(ds), client.FieldOwner("scorecard")); err != nil {
		return &failure{errors: []string{"the API server refuses the example: " + err.Error()}}
	}
	t.logf("applied in namespace %s", t.namespace)
	err := t.until(ctx, min(unseen, t.timeout), func() (problem error, err error) {
		seen, err := t.dataService(ctx)
		if err == nil && seen.Status.ObservedGeneration == 0 {
			problem = &failure{
				errors:      []string{fmt.Sprintf("DataService %s has no status: no operator has reconciled it", ds.GetName())},
				suggestions: []string{"check whether the operator runs, whether one of its replicas leads, and whether it watches all namespaces"},
			}
		}
		return problem, err
	})
	if err != nil {
		return err
	}
	return t.ready(ctx)
}

// ready waits until the DataService and its workloads are ready, or until it waits for an operator that the cluster lacks.
func (t *trial) ready(ctx context.Context) error {
	shown := ""
	err := t.until(ctx, t.timeout, func() (problem error, err error) {
		ds, err := t.dataService(ctx)
		if err != nil {
			return nil, err
		}
		if line := fmt.Sprintf("%s %s", ds.Status.Ready, ds.Status.Phase); line != shown {
			shown = line
			t.logf("%s", line)
		}
		if t.lacks = t.unserved(ds); t.lacks != "" {
			t.logf("not tried, because the cluster lacks what it needs: %s", t.lacks)
			return nil, nil
		}
		if f := unready(ds); f != nil {
			return f, nil
		}
		pods, err := t.lacking(ctx)
		if len(pods) > 0 {
			problem = &failure{errors: append([]string{"DataService " + ds.Name + " reports that it is ready, but"}, pods...)}
		}
		return problem, err
	})
	return err
}

// notServed matches the message of a component whose kind another operator serves.
var notServed = regexp.MustCompile(`the API server does not serve (\w+) of ([\w.-]+)/(\w+): install`)

// unserved returns the message of a component that waits for another operator, if the API server does not serve that operator's kind.
func (t *trial) unserved(ds *dsv1.DataService) string {
	for _, c := range ds.Status.Components {
		if kind := notServed.FindStringSubmatch(c.Message); kind != nil {
			if _, err := t.RESTMapper().RESTMapping(schema.GroupKind{Group: kind[2], Kind: kind[1]}, kind[3]); apimeta.IsNoMatchError(err) {
				return c.Message
			}
		}
	}
	return ""
}

// unready returns the reason in a DataService's status why it is not ready, or nil.
func unready(ds *dsv1.DataService) *failure {
	status, ready := &ds.Status, false
	reason := ""
	for _, c := range status.Conditions {
		if c.Type == dsv1.ConditionReady {
			ready = c.Status == metav1.ConditionTrue && status.ObservedGeneration == ds.Generation
			reason = c.Reason
		}
	}
	if ready {
		return nil
	}
	f := &failure{errors: []string{fmt.Sprintf("DataService %s is not ready: %s components, phase %s (%s): %s",
		ds.Name, status.Ready, status.Phase, reason, status.Message)}}
	for _, c := range status.Components {
		if c.Phase == dsv1.PhaseRunning {
			continue
		}
		f.errors = append(f.errors, fmt.Sprintf("%s (%s): %s, %d of %d pods are ready: %s",
			c.Name, c.Kind, c.Phase, c.Ready, c.Desired, c.Message))
		for sign, suggestion := range suggestions {
			if strings.Contains(c.Message, sign) && !slices.Contains(f.suggestions, suggestion) {
				f.suggestions = append(f.suggestions, suggestion)
			}
		}
	}
	slices.Sort(f.suggestions)
	return f
}

// suggestions are for problems that are more often caused by the cluster than by the operator.
var suggestions = map[string]string{
	"ImagePull":     "make the examples' images available to the cluster's nodes",
	"ErrImage":      "make the examples' images available to the cluster's nodes",
	"Insufficient":  "the examples ask for more CPU or memory than the cluster has left",
	"unbound":       "the cluster needs a default StorageClass with a provisioner",
	"allocated":     "a node port of the example is in use in the cluster",
	"Unschedulable": "no node takes the pods: see kubectl describe node",
}

// lacking lists the workloads that have fewer ready pods than declared.
func (t *trial) lacking(ctx context.Context) ([]string, error) {
	var lacking []string
	some := false
	for kind, desired := range map[string][]string{
		"Deployment": {"spec", "replicas"}, "StatefulSet": {"spec", "replicas"}, "DaemonSet": {"status", "desiredNumberScheduled"},
	} {
		list, err := t.list(ctx, "apps", kind)
		if err != nil {
			return nil, err
		}
		for _, workload := range list {
			some = true
			want, _, _ := unstructured.NestedInt64(workload.Object, desired...)
			is, _, _ := unstructured.NestedInt64(workload.Object, "status", map[bool]string{true: "numberReady", false: "readyReplicas"}[kind == "DaemonSet"])
			if is < want {
				lacking = append(lacking, fmt.Sprintf("%s/%s has %d of %d pods ready", kind, workload.GetName(), is, want))
			}
		}
	}
	if !some {
		lacking = append(lacking, "there is no Deployment, StatefulSet or DaemonSet")
	}
	slices.Sort(lacking)
	return lacking, nil
}

func (t *trial) list(ctx context.Context, group, kind string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind + "List"})
	err := t.List(ctx, list, client.InNamespace(t.namespace))
	return list.Items, err
}

// objects returns the metadata of the objects in the namespace, except those that exist in every namespace.
func (t *trial) objects(ctx context.Context) (map[string]*meta, error) {
	found := map[string]*meta{}
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := t.List(ctx, list, client.InNamespace(t.namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			object := &list.Items[i]
			switch id := kind.Kind + "/" + object.Name; id {
			case "ConfigMap/kube-root-ca.crt", "ConfigMap/openshift-service-ca.crt":
			default:
				found[id] = object
			}
		}
	}
	return found, nil
}
