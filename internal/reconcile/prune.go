// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// prune removes the objects that the owner controls and no longer plans; it removes dependents first. If the part of
// such an object is still declared, an object with data stays (see isData). Any other object stays until the part's new
// revision has been applied, and until the object is no longer used (see replaced).
func (p *pass) prune(ctx context.Context, seen *PlanSeen) error {
	var useless []*unstructured.Unstructured
	for _, o := range p.leftovers() {
		part := seen.part(o.GetLabels()[object.LabelComponent])
		if part == nil {
			useless = append(useless, o)
			continue
		}
		declared := p.part(part.Name)
		data, err := p.isData(ctx, o, declared)
		switch {
		case err != nil:
			return err
		case data && declared.RetainsData:
			if err := p.applier.LetGo(ctx, p.owner, o.DeepCopy()); err != nil {
				return err
			}
		case !data && part.Applied && p.replaced(o, part, seen):
			if note := declared.spares(o); note != "" {
				part.Notes = append(part.Notes, health.Info(note))
				continue
			}
			useless = append(useless, o)
		}
	}
	if order := p.plan.RemovalOrder; order != nil {
		slices.SortStableFunc(useless, func(a, b *unstructured.Unstructured) int {
			return order(b.GetLabels()[object.LabelComponent]) - order(a.GetLabels()[object.LabelComponent])
		})
	}
	for _, o := range useless {
		if err := p.remove(ctx, o, seen.part(o.GetLabels()[object.LabelComponent]) != nil); err != nil {
			return err
		}
	}
	return nil
}

func (part *Part) spares(leftover *unstructured.Unstructured) string {
	if part.KeepReason == nil {
		return ""
	}
	return part.KeepReason(leftover)
}

// isData reports whether a leftover of a declared part holds irreplaceable data: a volume, or a Secret that may open one.
func (p *pass) isData(ctx context.Context, o *unstructured.Unstructured, declared *Part) (bool, error) {
	if isClaim(o) {
		return true, nil
	}
	if !declared.MayOpenVolume(o) {
		return false, nil
	}
	claims := object.EmptyList(object.ClaimKind) // claims whose labels name the owner, with any controller
	err := p.client.List(ctx, claims, client.InNamespace(p.owner.Namespace), client.MatchingFields{object.IndexOwner: p.owner.Key()})
	if err != nil {
		return false, fmt.Errorf("list the volumes of %s: %w", declared.Name, err)
	}
	return slices.ContainsFunc(claims.Items, func(claim unstructured.Unstructured) bool {
		return claim.GetLabels()[object.LabelComponent] == declared.Name
	}), nil
}

// MayOpenVolume reports whether a leftover of the part is a Secret that a volume may need, although the part has no
// volume now: for example, its database may run elsewhere for a while. While the part uses a volume, its plan
// contains the Secrets of that volume.
func (part *Part) MayOpenVolume(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Secret" && !hasVolume(part)
}

// remove deletes an object. It keeps the volumes of a StatefulSet if the part is still declared.
func (p *pass) remove(ctx context.Context, o *unstructured.Unstructured, declared bool) error {
	if declared && o.GetKind() == "StatefulSet" {
		if err := p.applier.ReleaseClaims(ctx, p.owner, o); err != nil {
			return err
		}
	}
	if err := p.applier.Delete(ctx, o); err != nil {
		return err
	}
	recordPruned(ctx, p.recorder, o, p.plan.DeletionNote)
	return nil
}

// leftovers returns the objects that the owner controls and does not plan.
func (p *pass) leftovers() []*unstructured.Unstructured {
	planned := map[object.ID]bool{}
	for _, o := range p.allPlanned() {
		planned[object.IDOf(o)] = true
	}
	return slices.DeleteFunc(slices.Clone(p.owned), func(o *unstructured.Unstructured) bool {
		return planned[object.IDOf(o)] || object.OutlivesOwner(o) || o.GetDeletionTimestamp() != nil
	})
}

// replaced reports whether a leftover of a declared part is no longer used. A part with another name or kind gets new
// objects next to the old ones.
//   - Most old objects stay until the new pods are ready and the clients have applied their new revisions. Until then,
//     clients use the old address.
//   - A workload is removed earlier if the new workload needs its volume. A disruption budget is removed earlier,
//     because two budgets over the same pods forbid every eviction.
//   - The account and the alias of a database that ran elsewhere stay until the next database and its clients are
//     ready. An import may take days.
func (p *pass) replaced(o *unstructured.Unstructured, part *PartSeen, seen *PlanSeen) bool {
	declared := p.part(part.Name)
	if hasVolume(declared) && !isForClients(o) || declared.ReplacesAtOnce || o.GetKind() == "PodDisruptionBudget" {
		return true
	}
	if !part.Health.Settled {
		return false
	}
	for _, name := range declared.CalledBy {
		caller := seen.part(name)
		if caller != nil && (!caller.Applied || !caller.Health.Settled) {
			return false
		}
	}
	return true
}

// isForClients reports whether only the clients of a part use an object: a Secret, or a Service of type ExternalName.
func isForClients(o *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "type")
	return o.GetKind() == "Secret" || o.GetKind() == "Service" && kind == "ExternalName"
}

func (p *pass) part(name string) *Part {
	for i := range p.plan.Parts {
		if p.plan.Parts[i].Name == name {
			return &p.plan.Parts[i]
		}
	}
	return nil
}

// hasVolume reports whether a part stores data.
func hasVolume(part *Part) bool {
	return slices.ContainsFunc(part.Objects, func(o *unstructured.Unstructured) bool {
		templates, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
		return isClaim(o) || len(templates) > 0
	})
}

func isClaim(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == object.ClaimKind.GroupKind()
}
