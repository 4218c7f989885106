// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// NotAdoptedError reports that an object has the owner's reference, but was not created by this operator. Either the original operator
// created it, or a user set the owner reference. The object's pods are unknown to this operator.
type NotAdoptedError struct {
	Kind, Name string
	More       int // number of further objects that were not adopted
}

func (e *NotAdoptedError) Error() string {
	more := ""
	if e.More > 0 {
		more = fmt.Sprintf(" (and %d more)", e.More)
	}
	return fmt.Sprintf("%s %s%s exists and was not made by this operator, but by an earlier one or by hand: nothing is written. "+
		"To take over the objects of the original operator, run 'kubectl dataservice adopt'. Otherwise give the component another name; or save the object's data, if any, and then delete the object", e.Kind, e.Name, more)
}

// SeeOriginals sets the reader for the metadata of the original operator's objects.
func (a *Applier) SeeOriginals(originals client.Reader) { a.originals = originals }

// CheckAdopted returns a *NotAdoptedError if the original operator created one of the planned objects for this owner. It reads only the
// cache, which contains only objects with the original operator's label. Apply detects the others.
func (a *Applier) CheckAdopted(ctx context.Context, owner object.Owner, planned []*unstructured.Unstructured) error {
	if a.originals == nil {
		return nil
	}
	there := map[object.ID]bool{}
	for _, gvk := range object.OriginalKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := a.originals.List(ctx, list, client.InNamespace(owner.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list every %s of the original operator in %s: %w", gvk.Kind, owner.Namespace, err)
		}
		for i := range list.Items {
			if original := &list.Items[i]; owner.NotAdopted(original) {
				there[object.ID{Group: gvk.Group, Kind: gvk.Kind, Name: original.Name}] = true
			}
		}
	}
	var found *NotAdoptedError
	for _, obj := range planned {
		switch {
		case !there[object.IDOf(obj)]:
		case found == nil:
			found = &NotAdoptedError{Kind: obj.GetKind(), Name: obj.GetName()}
		default:
			found.More++
		}
	}
	if found == nil {
		return nil
	}
	return found
}
