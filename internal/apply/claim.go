// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// The controller of a claim determines when its volume is deleted. If the owner is the controller, the volume is deleted with the owner. If
// a StatefulSet with the retention policy Delete is the controller, the volume is deleted with the StatefulSet. Without a controller, the
// volume is retained. The functions below change the controller, so that no change of a workload deletes a volume.

// claims lists the claims of a StatefulSet: those that refer to it as an owner, and the owner's claims with a name from
// its templates.
func (a *Applier) claims(ctx context.Context, from client.Reader, owner object.Owner, set *unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	list := object.EmptyList(object.ClaimKind)
	options := []client.ListOption{client.InNamespace(owner.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()}}
	if from == a.live {
		options[1] = client.MatchingLabels{object.LabelInstance: owner.Name}
	}
	if err := from.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("list the volumes of %s: %w", describe(set), err)
	}
	templates, _, _ := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	return slices.DeleteFunc(list.Items, func(claim unstructured.Unstructured) bool {
		if refersTo(&claim, set.GetUID()) {
			return false
		}
		return !owner.Names(&claim) || !slices.ContainsFunc(templates, func(t any) bool {
			template := unstructured.Unstructured{Object: t.(map[string]any)}
			return strings.HasPrefix(claim.GetName(), claimPrefix(template.GetName(), set))
		})
	}), nil
}

// ReleaseClaims makes the owner the controller of the claims that Kubernetes would delete with a live StatefulSet. It reads from the API
// server, because the StatefulSet controller may have just added its reference. It also makes the owner the controller of claims without
// a controller, because the StatefulSet controller does not change a claim that has a controller.
func (a *Applier) ReleaseClaims(ctx context.Context, owner object.Owner, set *unstructured.Unstructured) error {
	claims, err := a.claims(ctx, a.live, owner, set)
	if err != nil {
		return err
	}
	for i := range claims {
		claim := &claims[i]
		if !refersTo(claim, set.GetUID()) && !deletesClaims(set) {
			continue
		}
		if err := a.takeClaim(ctx, owner, claim, set.GetUID()); err != nil {
			return err
		}
	}
	return nil
}

// takeClaim replaces a claim's reference to a StatefulSet by a reference to the owner, unless the claim has another controller.
func (a *Applier) takeClaim(ctx context.Context, owner object.Owner, claim *unstructured.Unstructured, set types.UID) error {
	refs := slices.DeleteFunc(claim.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == set })
	if !slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ptr.Deref(ref.Controller, false) }) {
		refs = append(refs, owner.Reference())
	}
	return a.setOwners(ctx, claim, refs)
}

func (a *Applier) setOwners(ctx context.Context, claim *unstructured.Unstructured, refs []metav1.OwnerReference) error {
	if slices.EqualFunc(refs, claim.GetOwnerReferences(), func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) {
		return nil
	}
	before := claim.DeepCopy()
	claim.SetOwnerReferences(refs)
	if len(refs) == 0 {
		claim.SetAnnotations(object.WithoutPrune(claim.GetAnnotations(), claim.GetAnnotations()))
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := a.client.Patch(ctx, claim, patch, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("set the owner of %s: %w", describe(claim), err)
	}
	return nil
}

// HoldClaims corrects the controller of a planned claim, or of the claims of a planned StatefulSet. It must run before the
// object is applied. It returns the live object after these writes.
//   - If the controller of a planned claim is one of the owner's StatefulSets, the owner becomes the controller.
//   - If a claim must outlive the owner, and no StatefulSet would adopt it, the claim gets no controller.
func (a *Applier) HoldClaims(ctx context.Context, owner object.Owner, planned, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch {
	case planned.GetKind() == object.ClaimKind.Kind && live != nil:
		return a.holdClaim(ctx, owner, planned, live)
	case planned.GetKind() == "StatefulSet" && !deletesClaims(planned) && (live == nil || !deletesClaims(live)):
		claims, err := a.claims(ctx, a.client, owner, planned)
		if err != nil {
			return nil, err
		}
		for i := range claims {
			if owner.Controls(&claims[i]) {
				if err := a.letGo(ctx, owner, claims[i].DeepCopy()); err != nil {
					return nil, err
				}
			}
		}
	}
	return live, nil
}

func (a *Applier) holdClaim(ctx context.Context, owner object.Owner, planned, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ref := metav1.GetControllerOf(live)
	if ref == nil {
		return live, nil
	}
	held := live.DeepCopy()
	if ref.Kind == "StatefulSet" {
		set := object.Empty(object.StatefulSetKind)
		set.SetNamespace(live.GetNamespace())
		set.SetName(ref.Name)
		found, err := a.Get(ctx, set)
		if err != nil || found == nil || found.GetUID() != ref.UID || !owner.Controls(found) {
			return live, err
		}
		return held, a.takeClaim(ctx, owner, held, ref.UID)
	}
	if !object.OutlivesOwner(planned) || ref.UID != owner.UID {
		return live, nil
	}
	return held, a.LetGo(ctx, owner, held)
}

// LetGo removes the owner's reference from an object that must outlive the owner. If the object is a claim, and one of
// the owner's StatefulSets would adopt and later delete it, LetGo changes nothing.
func (a *Applier) LetGo(ctx context.Context, owner object.Owner, o *unstructured.Unstructured) error {
	sets := object.EmptyList(object.StatefulSetKind)
	err := a.client.List(ctx, sets, client.InNamespace(owner.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()})
	if err != nil {
		return fmt.Errorf("list the StatefulSets that may use %s: %w", describe(o), err)
	}
	for i := range sets.Items {
		if deletesClaims(&sets.Items[i]) && strings.Contains(o.GetName(), "-"+sets.Items[i].GetName()+"-") {
			return nil
		}
	}
	return a.letGo(ctx, owner, o)
}

// letGo removes the owner's reference from an object, in memory and on the API server.
func (a *Applier) letGo(ctx context.Context, owner object.Owner, o *unstructured.Unstructured) error {
	return a.setOwners(ctx, o, slices.DeleteFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner.UID
	}))
}

// deletesClaims reports whether Kubernetes deletes the claims of a StatefulSet together with it.
func deletesClaims(set *unstructured.Unstructured) bool {
	policy, _, _ := unstructured.NestedString(set.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	return policy == "Delete"
}

func refersTo(o *unstructured.Unstructured, uid types.UID) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}
