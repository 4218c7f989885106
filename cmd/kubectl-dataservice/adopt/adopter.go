// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
)

// often is the interval between two observations while a step waits.
const often = 200 * time.Millisecond

// Adopter changes the cluster with the rights of its client.
type Adopter struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Applier applies planned objects as the operator does.
	Applier *apply.Applier
	// Observe observes the cluster.
	Observe func(ctx context.Context) (*Observation, error)
	// Say prints a line about a step.
	Say func(text string)
	// Timeout limits the wait for one step.
	Timeout time.Duration
}

// RefusedError reports that the command changed nothing, with the reasons.
type RefusedError struct{ Reasons []string }

func (e *RefusedError) Error() string {
	return "nothing was changed: " + strings.Join(e.Reasons, "; ")
}

// get reads an object; it returns nil if the object does not exist.
func (a *Adopter) get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	live := object.Empty(gvk)
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, name, err)
	}
	return live, nil
}

// list lists the objects of a kind with labels.
func (a *Adopter) list(ctx context.Context, gvk schema.GroupVersionKind, namespace string, labels map[string]string) ([]*unstructured.Unstructured, error) {
	found := object.EmptyList(gvk)
	if err := a.Client.List(ctx, found, client.InNamespace(namespace), client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("list every %s in %s: %w", gvk.Kind, namespace, err)
	}
	all := make([]*unstructured.Unstructured, len(found.Items))
	for i := range found.Items {
		all[i] = &found.Items[i]
	}
	return all, nil
}

// delete deletes an object if the object still has the same UID. A Secret must also have the same resource version: another run of the
// command may have written to the Secret.
func (a *Adopter) delete(ctx context.Context, live *unstructured.Unstructured, options ...client.DeleteOption) error {
	uid, version := live.GetUID(), live.GetResourceVersion()
	only := client.Preconditions{UID: &uid}
	if live.GetKind() == secretKind.Kind {
		only.ResourceVersion = &version
	}
	err := a.Client.Delete(ctx, live, append(options, only)...)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", live.GetKind(), live.GetName(), err)
	}
	return nil
}

// create creates an object. It changes nothing if an object of that name exists.
func (a *Adopter) create(ctx context.Context, o *unstructured.Unstructured) error {
	err := a.Client.Create(ctx, o, client.FieldOwner(manager))
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// merge applies a merge patch to an object. It fails if the object was deleted and created again.
func (a *Adopter) merge(ctx context.Context, live *unstructured.Unstructured, patch map[string]any) error {
	_, err := a.merged(ctx, live, patch)
	return err
}

// merged does the same as merge, and returns the new resource version.
func (a *Adopter) merged(ctx context.Context, live *unstructured.Unstructured, patch map[string]any) (version string, err error) {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"] = live.GetUID()
	body, err := json.Marshal(patch)
	changed := live.DeepCopy()
	if err == nil {
		err = a.Client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, body), client.FieldOwner(manager))
	}
	if err != nil {
		return "", fmt.Errorf("change %s %s: %w", live.GetKind(), live.GetName(), err)
	}
	return changed.GetResourceVersion(), nil
}

// until calls the function missing repeatedly, until it returns "" or an error. Otherwise the function returns a text that describes the
// state that is not reached yet. After the time limit, until returns an error with this text.
func (a *Adopter) until(ctx context.Context, missing func() (string, error)) error {
	deadline := time.NewTimer(a.Timeout)
	defer deadline.Stop()
	again := time.NewTicker(often)
	defer again.Stop()
	for {
		what, err := missing()
		if what == "" || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		case <-deadline.C:
			return fmt.Errorf("not within %s: %s", a.Timeout, what)
		}
	}
}

// apply writes a planned object as the operator does. If the live object belongs to the original operator, the applier gets a copy with
// this operator's labels and digest, so that it adopts the object. The report has listed this adoption before.
func (a *Adopter) apply(ctx context.Context, o *Observation, planned *unstructured.Unstructured) error {
	live, err := a.get(ctx, planned.GroupVersionKind(), planned.GetNamespace(), planned.GetName())
	if err != nil {
		return err
	}
	if o.isOriginal(live) {
		if _, hasPods, _ := unstructured.NestedMap(live.Object, "spec", "template"); hasPods { // the applier would replace such an object together with its pods
			return fmt.Errorf("another writer (%s) made %s %s again: stop the original operator", strings.Join(writers(live), ", "), live.GetKind(), live.GetName())
		}
		live = adopted(o.owner(), live)
	}
	result, err := a.Applier.Apply(ctx, o.owner(), planned, live)
	switch {
	case err != nil:
		return err
	case result.Action == apply.Waiting || result.Action == apply.Replaced:
		return fmt.Errorf("%s %s is being deleted: run the command again", planned.GetKind(), planned.GetName())
	}
	return nil
}

// adopted returns a live object with this operator's labels and owner.
func adopted(owner object.Owner, live *unstructured.Unstructured) *unstructured.Unstructured {
	live = live.DeepCopy()
	labels, annotations := live.GetLabels(), live.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[object.LabelManagedBy], labels[object.LabelInstance] = object.ManagedBy, owner.Name
	annotations[object.AnnotationDigest] = "original"
	live.SetLabels(labels)
	live.SetAnnotations(annotations)
	return live
}

// patchSpec sets spec.paused and spec.mysql of a DataService. It fails if the spec has changed since it was read. If mysql is nil,
// spec.mysql stays unchanged.
func (a *Adopter) patchSpec(ctx context.Context, ds *unstructured.Unstructured, paused bool, mysql map[string]any) error {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	patch := []operation{{"test", "/metadata/uid", ds.GetUID()}, {"test", "/metadata/generation", ds.GetGeneration()}}
	switch {
	case paused:
		patch = append(patch, operation{"add", "/spec/paused", true})
	case isPaused(ds):
		patch = append(patch, operation{Op: "remove", Path: "/spec/paused"})
	}
	if mysql != nil {
		patch = append(patch, operation{"add", "/spec/mysql", mysql})
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	if err := a.Client.Patch(ctx, ds.DeepCopy(), client.RawPatch(types.JSONPatchType, body), client.FieldOwner(manager)); err != nil {
		return fmt.Errorf("change DataService %s: %w", ds.GetName(), err)
	}
	return nil
}

// dataService reads the DataService.
func (a *Adopter) dataService(ctx context.Context, o *Observation) (*unstructured.Unstructured, error) {
	ds, err := a.get(ctx, dsv1.GroupVersion.WithKind(dsv1.Kind), o.DataService.GetNamespace(), o.DataService.GetName())
	if err == nil && (ds == nil || ds.GetUID() != o.DataService.GetUID()) {
		err = errors.New("DataService " + o.DataService.GetName() + " was deleted")
	}
	return ds, err
}
