// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// portsMove reports whether, at the start of Apply, another Service of the owner had a node port of a planned Service.
// Only then does Apply read Services again and write them one after the other.
func (p *pass) portsMove() bool {
	for i := range p.plan.Parts {
		for _, planned := range p.plan.Parts[i].Objects {
			if len(p.holders(planned)) > 0 {
				return true
			}
		}
	}
	return false
}

// holders returns the owner's other Services that had a node port of a planned Service at the start of Apply.
func (p *pass) holders(planned *unstructured.Unstructured) []*unstructured.Unstructured {
	wanted := nodePorts(planned)
	if len(wanted) == 0 {
		return nil
	}
	var found []*unstructured.Unstructured
	for _, o := range p.owned {
		if o.GetName() != planned.GetName() && len(common(nodePorts(o), wanted)) > 0 {
			found = append(found, o)
		}
	}
	return found
}

// clearNodePorts frees the node ports of a planned Service: it removes them from other Services of the owner whose plans do not have them.
// Otherwise the API server would refuse the Service. The caller holds p.ports.
func (p *pass) clearNodePorts(ctx context.Context, part *Part, planned *unstructured.Unstructured) error {
	for _, o := range p.holders(planned) {
		holder, err := p.applier.Get(ctx, o)
		if err != nil {
			return err
		}
		if holder == nil || holder.GetDeletionTimestamp() != nil || !p.owner.Controls(holder) {
			continue
		}
		if numbers := common(nodePorts(holder), nodePorts(planned)); len(numbers) > 0 {
			if err := p.clear(ctx, part, holder, numbers); err != nil {
				return fmt.Errorf("free node port %d for Service %s: %w", numbers[0], planned.GetName(), err)
			}
		}
	}
	return nil
}

// clear removes node ports from a Service of the owner by an apply of the Service's plan. If the Service still has the ports, clear lets
// the API server choose others. If two Services exchange their ports, one of them temporarily gets a third port.
func (p *pass) clear(ctx context.Context, part *Part, holder *unstructured.Unstructured, numbers []int64) error {
	of, wanted := p.planOf(holder)
	if of == nil {
		of = p.part(holder.GetLabels()[object.LabelComponent])
	}
	if wanted == nil && (of == nil || of.Name == part.Name) {
		return p.remove(ctx, holder, of != nil)
	}
	if len(common(nodePorts(wanted), numbers)) > 0 {
		return nil // this Service keeps the ports, so the API server refuses the other Service
	}
	held, err := p.isHeld(ctx, of)
	switch {
	case err != nil:
		return err
	case held && !p.isAfter(of, part.Name): // otherwise the two Services would wait for each other
		return fmt.Errorf("the Service %s keeps the port until the operator may change component %s", holder.GetName(), of.Name)
	case !held && wanted != nil:
		result, err := p.applier.Apply(ctx, p.owner, wanted, holder)
		switch {
		case apierrors.IsInvalid(err): // for example, another Service still has the node port of this Service
		case err != nil:
			return err
		default:
			recordApplied(ctx, p.recorder, of, wanted, result)
			if holder = result.Object; holder == nil {
				return nil
			}
		}
	}
	if numbers = common(nodePorts(holder), numbers); len(numbers) == 0 {
		return nil
	}
	return p.applier.ReleaseNodePorts(ctx, p.owner, holder, numbers)
}

// planOf returns the planned object of a live object, and its part, or nil if the object is not planned.
func (p *pass) planOf(live *unstructured.Unstructured) (*Part, *unstructured.Unstructured) {
	for i := range p.plan.Parts {
		for _, planned := range p.plan.Parts[i].Objects {
			if object.IDOf(planned) == object.IDOf(live) {
				return &p.plan.Parts[i], planned
			}
		}
	}
	return nil, nil
}

// isHeld reports whether no new object of a part may be written now.
func (p *pass) isHeld(ctx context.Context, part *Part) (bool, error) {
	live, err := p.live(ctx, part)
	if err != nil || part.isDoubted() {
		return true, err
	}
	waits := p.hold || p.healOnly || slices.ContainsFunc(part.After, func(name string) bool { return !p.ready[name] })
	return waits && newRevision(part, live), nil
}

// isAfter reports whether a new revision of a part waits for another part, directly or through others.
func (p *pass) isAfter(part *Part, other string) bool {
	return slices.ContainsFunc(part.After, func(name string) bool {
		before := p.part(name)
		return name == other || before != nil && p.isAfter(before, other)
	})
}

// nodePorts returns the node ports of a Service. For nil and for other objects, it returns none.
func nodePorts(o *unstructured.Unstructured) []int64 {
	if o == nil || o.GetKind() != "Service" {
		return nil
	}
	ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
	var found []int64
	for _, port := range ports {
		if number, _, _ := unstructured.NestedInt64(port.(map[string]any), "nodePort"); number != 0 {
			found = append(found, number)
		}
	}
	return found
}

func common(a, b []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(a), func(n int64) bool { return !slices.Contains(b, n) })
}
