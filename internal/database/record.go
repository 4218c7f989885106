// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Version identifies an observed state of an object. It is empty if there is no object.
type Version struct {
	UID     types.UID
	Version string
}

// Records locates the record of a kind: JSON in an annotation of a ConfigMap.
type Records[R any] struct {
	Annotation string
	Suffix     string // end of the ConfigMap's name, after the name of the resource
	Advice     string // what users can do if the record is unreadable
}

// Name returns the name of a resource's ConfigMap.
func (r Records[R]) Name(resource string) string { return resource + r.Suffix }

// Read returns the record in an object, which may be nil. It returns an error for an unreadable record, because an
// empty record would mean that no cluster ever existed.
func (r Records[R]) Read(o *unstructured.Unstructured) (record R, err error) {
	if o == nil || o.GetAnnotations()[r.Annotation] == "" {
		return record, nil
	}
	if err := json.Unmarshal([]byte(o.GetAnnotations()[r.Annotation]), &record); err != nil {
		return record, fmt.Errorf("read the record in annotation %s of ConfigMap %s: %s: %w", r.Annotation, o.GetName(), r.Advice, err)
	}
	return record, nil
}

// Planned returns the record from the objects of a plan's inputs. The record is empty if its ConfigMap is missing or has
// another owner.
func (r Records[R]) Planned(in reconcile.Inputs, owner object.Owner) (record R, err error) {
	kept, err := in.Lookup(object.ConfigMapKind.Kind, r.Name(owner.Name))
	if err != nil || kept == nil || !owner.Owns(kept) {
		return record, err
	}
	return r.Read(kept)
}

// Observe returns the record and the version of its ConfigMap. Both are empty if the ConfigMap is missing or has another owner.
func (r Records[R]) Observe(ctx context.Context, from client.Reader, owner object.Owner) (record R, at Version, err error) {
	kept := object.Empty(object.ConfigMapKind)
	err = from.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: r.Name(owner.Name)}, kept)
	if apierrors.IsNotFound(err) {
		return record, at, nil
	}
	if err != nil {
		return record, at, fmt.Errorf("read the record of the cluster: %w", err)
	}
	if !owner.Owns(kept) {
		return record, at, nil
	}
	at = Version{kept.GetUID(), kept.GetResourceVersion()}
	record, err = r.Read(kept)
	return record, at, err
}

// Publish merges texts into the data of the record's ConfigMap, unless the ConfigMap changed since its observation or is missing.
func (r Records[R]) Publish(ctx context.Context, c Cluster, at Version, texts map[string]string) error {
	if at.UID == "" {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": at.UID, "resourceVersion": at.Version}, "data": texts})
	if err != nil {
		return fmt.Errorf("write texts to the record of the cluster: %w", err)
	}
	o := object.Empty(object.ConfigMapKind)
	o.SetNamespace(c.Owner.Namespace)
	o.SetName(r.Name(c.Owner.Name))
	if err := c.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldManager)); err != nil {
		return fmt.Errorf("write texts to the record of the cluster: %w", err)
	}
	return nil
}

// Write replaces the record, unless the record changed since its observation.
func (r Records[R]) Write(ctx context.Context, c Cluster, at Version, record R) error {
	name := r.Name(c.Owner.Name)
	if at.UID == "" || at.Version == "" {
		return fmt.Errorf("write the record of the cluster: ConfigMap %s is not there yet", name)
	}
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("write the record of the cluster: %w", err)
	}
	o := object.Empty(object.ConfigMapKind)
	o.SetName(name)
	if err := c.Annotate(ctx, o, at, map[string]any{r.Annotation: string(data)}); err != nil {
		return fmt.Errorf("write the record of the cluster: %w", err)
	}
	return nil
}
