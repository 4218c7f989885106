// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live compares the objects in a namespace of a running cluster with the operator's plan.
package live

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/fields"
)

// NewPlanner returns a planner for the version of a cluster, as operators use it.
func NewPlanner(config *rest.Config) (*plan.Planner, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	server, err := d.ServerVersion()
	if err != nil {
		return nil, err
	}
	renderer, err := render.New(server.GitVersion)
	if err != nil {
		return nil, err
	}
	return plan.NewPlanner(renderer, nil), nil
}

// Namespace is the namespace of a DataService.
type Namespace struct {
	API     client.Client
	Planner *plan.Planner
	Name    string
}

// Planned returns the objects that a DataService should have. The Secrets have the live values. HTTPRoutes are omitted, because the tests'
// clusters do not serve them.
func (n *Namespace) Planned(ctx context.Context, ds *dsv1.DataService) ([]*unstructured.Unstructured, error) {
	planned, err := plan.Planned(ds, n.Planner, plan.NewKeeper(), func(kind, name string) (*unstructured.Unstructured, error) {
		obj := object.Empty(schema.GroupVersionKind{Version: "v1", Kind: kind})
		err := n.API.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, obj)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return obj, err
	})
	return slices.DeleteFunc(planned, func(o *unstructured.Unstructured) bool { return o.GroupVersionKind() == object.Route }), err
}

// Objects are objects by kind and name.
type Objects = map[string]*unstructured.Unstructured

// Objects returns the operators' objects from the API server. It omits spec.replicas if another writer may set it, or if it has the default 1:
// the operator does not write an object only to give up the default.
func (n *Namespace) Objects(ctx context.Context) (Objects, error) {
	found := Objects{}
	for _, gvk := range object.Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := n.API.List(ctx, list, client.InNamespace(n.Name), client.MatchingLabels{object.LabelManagedBy: "d3os-operator"}); err != nil {
			return nil, err
		}
		for i := range list.Items {
			found[fields.ID(&list.Items[i])] = &list.Items[i]
		}
	}
	for _, obj := range found {
		if pods, _, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas"); pods == 1 || !apply.OwnsReplicas(obj.GetManagedFields()) {
			unstructured.RemoveNestedField(obj.Object, "spec", "replicas")
		}
	}
	return found, nil
}

// Holds returns an error if applying one of the planned objects in asked would change a live object, or if an unplanned
// object exists. Holds sends only dry runs to the API server.
func (n *Namespace) Holds(ctx context.Context, all, asked []*unstructured.Unstructured, objects Objects) error {
	for _, planned := range asked {
		id := fields.ID(planned)
		if objects[id] == nil {
			return fmt.Errorf("%s is missing", id)
		}
		applied := planned.DeepCopy()
		if writer, ok := objects[id].GetAnnotations()[object.AnnotationWriter]; ok { // the annotation is not part of a plan
			if err := unstructured.SetNestedField(applied.Object, writer, "metadata", "annotations", object.AnnotationWriter); err != nil {
				return err
			}
		}
		stamp(applied, objects[id])
		if err := digests(applied, objects[id]); err != nil {
			return err
		}
		body, err := render.YAML(applied) // the client would not escape characters that YAML allows only in escaped form
		if err != nil {
			return err
		}
		if err := n.API.Patch(ctx, applied, client.RawPatch(types.ApplyYAMLPatchType, body),
			client.FieldOwner(apply.FieldManager), client.ForceOwnership, client.DryRunAll); err != nil {
			return err
		}
		if pods, ours, _ := unstructured.NestedInt64(planned.Object, "spec", "replicas"); pods == 1 || !ours {
			unstructured.RemoveNestedField(applied.Object, "spec", "replicas")
		}
		if was, is := exactly(objects[id]), exactly(applied); was != is {
			return fmt.Errorf("applying %s would change it: %s", id, cmp.Diff(was, is))
		}
	}
	planned := fields.ByID(all)
	for id, obj := range objects {
		if planned[id] == nil && !Stays(obj) && !IsRecord(id) {
			return fmt.Errorf("%s exists, but is not planned", id)
		}
	}
	return nil
}

// stamp copies annotations that are not part of a plan from a live object: those that prevent GitOps tools from pruning the object, and all
// annotations of its claim templates.
func stamp(planned, live *unstructured.Unstructured) {
	copied := planned.GetAnnotations()
	for key, value := range live.GetAnnotations() {
		if object.IsNoPrune(key) && len(planned.GetOwnerReferences()) == 0 {
			copied[key] = value
		}
	}
	planned.SetAnnotations(copied)
	want, _, _ := unstructured.NestedFieldNoCopy(planned.Object, "spec", "volumeClaimTemplates")
	has, _, _ := unstructured.NestedSlice(live.Object, "spec", "volumeClaimTemplates")
	templates, _ := want.([]any)
	for i := range min(len(templates), len(has)) {
		if annotations, ok, _ := unstructured.NestedMap(has[i].(map[string]any), "metadata", "annotations"); ok {
			templates[i].(map[string]any)["metadata"].(map[string]any)["annotations"] = annotations
		}
	}
}

// digests copies the digests of used Secrets and ConfigMaps from a live workload to a planned one, and computes the digest of the planned
// one again.
func digests(planned, live *unstructured.Unstructured) error {
	contents, has := live.GetAnnotations()[object.AnnotationContents]
	if !has {
		return nil
	}
	wanted := object.Unfinished(planned)
	unstructured.RemoveNestedField(wanted.Object, "metadata", "annotations", object.AnnotationWriter)
	for _, o := range []*unstructured.Unstructured{wanted, planned} {
		if err := unstructured.SetNestedField(o.Object, contents, "metadata", "annotations", object.AnnotationContents); err != nil {
			return err
		}
	}
	if _, err := object.Finish(wanted, object.Owner{}); err != nil {
		return err
	}
	return unstructured.SetNestedField(planned.Object, object.Digest(wanted), "metadata", "annotations", object.AnnotationDigest)
}

// Stays reports whether an object outlives its plan: an object with data, or with credentials of data.
func Stays(obj *unstructured.Unstructured) bool {
	return object.OutlivesOwner(obj) || obj.GetKind() == "PersistentVolumeClaim"
}

// Baseline is an earlier state of live objects.
type Baseline struct {
	Was   Objects
	known map[string]string // the latest version in which each object was unchanged
}

func versionOf(obj *unstructured.Unstructured) string {
	return string(obj.GetUID()) + " " + obj.GetResourceVersion()
}

// NewBaseline stores objects as a baseline.
func NewBaseline(objects Objects) *Baseline {
	b := &Baseline{Was: objects, known: map[string]string{}}
	for id, obj := range objects {
		b.known[id] = versionOf(obj)
	}
	return b
}

// Differs reports whether the content of an object has changed.
func (b *Baseline) Differs(obj *unstructured.Unstructured) bool {
	return content(obj) != content(b.Was[fields.ID(obj)])
}

// Same returns an error unless the objects for which concerns returns true are unchanged. Additional retained data is no error.
func (b *Baseline) Same(objects Objects, concerns func(id string) bool) error {
	for id, was := range b.Was {
		if !concerns(id) || was.GetKind() == "PersistentVolumeClaim" {
			continue
		}
		if objects[id] == nil {
			return fmt.Errorf("%s is missing", id)
		}
		if versionOf(objects[id]) == b.known[id] {
			continue
		}
		if before, now := content(was), content(objects[id]); before != now {
			return fmt.Errorf("%s has changed: %s", id, cmp.Diff(before, now))
		}
		b.known[id] = versionOf(objects[id])
	}
	for id, obj := range objects {
		if b.Was[id] == nil && concerns(id) && !Stays(obj) {
			return fmt.Errorf("%s is there", id)
		}
	}
	return nil
}

// exactly returns an object as text, without managedFields, resourceVersion and status.
func exactly(obj *unstructured.Unstructured) string {
	data, err := render.YAML(without(obj, "managedFields", "resourceVersion"))
	if err != nil {
		panic(err) // every unstructured object can be written as YAML
	}
	return string(data)
}

// without returns a copy of an object without some of its metadata and without its status.
func without(obj *unstructured.Unstructured, metadata ...string) *unstructured.Unstructured {
	obj = obj.DeepCopy()
	for _, field := range metadata {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(obj.Object, "status")
	return obj
}

// content returns an object as text, without status and without values that the cluster sets: UID, versions, creation time, cluster IP. It
// replaces each node port with a fixed text.
func content(obj *unstructured.Unstructured) string {
	obj = without(obj, "managedFields", "resourceVersion", "uid", "generation", "creationTimestamp")
	for _, annotation := range []string{"deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", annotation)
	}
	if obj.GetKind() == "Service" {
		if address, _, _ := unstructured.NestedString(obj.Object, "spec", "clusterIP"); address != corev1.ClusterIPNone {
			unstructured.RemoveNestedField(obj.Object, "spec", "clusterIP")
			unstructured.RemoveNestedField(obj.Object, "spec", "clusterIPs")
		}
		ports, _, _ := unstructured.NestedSlice(obj.Object, "spec", "ports")
		for _, port := range ports {
			if port := port.(map[string]any); port["nodePort"] != nil {
				port["nodePort"] = "some"
			}
		}
		if ports != nil {
			obj.Object["spec"].(map[string]any)["ports"] = ports
		}
	}
	return fields.Text(obj)
}

// IsRecord reports whether an object is the record of a database's data. A plan that is made without a cluster contains no record.
// test/guard tests that the record exists as long as the data.
func IsRecord(id string) bool {
	return strings.HasPrefix(id, "ConfigMap/") && strings.HasSuffix(id, mysql.RecordName(""))
}
