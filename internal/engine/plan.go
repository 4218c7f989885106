// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine makes the cluster follow a plan: it applies the parts of an
// owner in the order of their dependencies, removes what is no longer planned,
// and says how each part is. It knows no API type: every kind of resource is
// carried out by the same code.
package engine

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// Part is some objects of an owner that become ready together, such as a component of a platform.
type Part struct {
	// Name is the value of object.LabelComponent on all objects of the part.
	Name string
	// Kind is the kind of the part's workload.
	Kind string
	// Path is where the part is declared in the owner's spec, such as spec.auth.
	Path string
	// After names the parts that must be ready before a new revision of this one starts.
	After []string
	// CalledBy names the parts that connect to this one: while one of them is not settled, its
	// pods may still use what this part had before.
	CalledBy []string
	// Objects are complete but for what the API server adds; see Finish. They are shared; nobody may
	// change them.
	Objects []*unstructured.Unstructured
	// Revision is the digest of the objects without their number of replicas.
	Revision string
	// Known is the revision that was applied last, as the owner's status says; "" for none.
	Known string
	// IsOfThisSpec reports whether the owner's status is of its present spec: what the plan has was planned before. A
	// change of the number of replicas makes no new revision, but may plan an object more.
	IsOfThisSpec bool
	// NeedsDryRun reports whether the spec holds something that only the API server can judge.
	NeedsDryRun bool
	// RetainsData reports whether what the part stored outlives the owner.
	RetainsData bool
	// Notes are what a person should know of the part even while all is well.
	Notes []string
	// Spare returns why an object that the part had before is not removed while the part is declared, as a note for people,
	// or "". Nil: all are removed once they are of no more use.
	Spare func(leftover *unstructured.Unstructured) string
	// Doubt is why the part is not taken for ready, whatever its objects say; nil for none.
	Doubt *Doubt
}

// Doubt is a doubt about the data of a part.
type Doubt struct {
	// Culprit is the object to look at, and why; empty while there is nothing that a person should know.
	Culprit health.Culprit
	// Hold reports whether the part is left as it is: what runs is not changed, and no missing volume or workload is made.
	// Services and settings that are missing are.
	Hold bool
}

// Finish completes the objects of a part as they were rendered: with digest and owner. The part's
// revision follows from them. An object is refused that the engine would lose sight of.
func (p *Part) Finish(owner object.Owner) error {
	for _, o := range p.Objects {
		for key, value := range owner.Labels(p.Name) {
			if o.GetLabels()[key] != value {
				return fmt.Errorf("part %s: %s %s has the label %s=%q, not %q", p.Name, o.GetKind(), o.GetName(), key, o.GetLabels()[key], value)
			}
		}
	}
	var err error
	if p.Revision, err = object.FinishAll(p.Objects, owner); err != nil {
		return fmt.Errorf("part %s: %w", p.Name, err)
	}
	return nil
}

// Record is an object that says what is known of data.
type Record struct {
	Object *unstructured.Unstructured
	// MadeFrom is the resourceVersion of the live record that this one was planned from, or empty for the first one. A person
	// may have written to that record since, or deleted it to give the data up: then the plan is made again.
	MadeFrom string
}

// Plan is what an owner stands for.
type Plan struct {
	// Secrets are applied before any part.
	Secrets []*unstructured.Unstructured
	// Records are applied before any part, too: what has to be known of data before somebody uses it.
	Records []Record
	// Parts are in an order in which each comes after those that it names in After.
	Parts []Part
	// RemovalOrder orders what is removed: parts with a higher number go first. Nil: in any order.
	RemovalOrder func(part string) int
	// Farewell returns what people are told besides when an object is removed, such as what stays of it, or "". Nil: nothing.
	Farewell func(removed *unstructured.Unstructured) string
	// Adopt is told of a live Secret whose planned values were generated before it was seen. It
	// reports whether the plan has to be made again, with the values in use.
	Adopt func(live *unstructured.Unstructured) bool
	// Found is what the kind found out while it planned, for its Observe. The engine does not look at it.
	Found any
}

// PartSeen is what was seen of one part.
type PartSeen struct {
	Name     string
	Kind     string
	Revision string   // as planned
	Applied  bool     // the planned revision has been applied
	Held     bool     // it has not, because the owner has to wait (Order.Hold)
	Exists   bool     // some of its objects exist
	WaitsFor []string // parts that hold its new revision back
	Health   health.State
	Missing  []string       // objects that do not exist, as "Kind name"
	Error    string         // why it could not be applied
	Culprit  health.Culprit // the object that Error is about
	Notes    []string       // what a person should know even while all is well
	// Rewritten says which object an admission policy changed; empty for none.
	Rewritten string
	// LookAgain is when to look again though nothing happened at the API server; 0 is never.
	LookAgain time.Duration
}

// Seen is what was seen of an owner in one pass.
type Seen struct {
	Parts []PartSeen // in the order of the plan; nil when there is no plan
	Found any        // see Plan
}

func (s *Seen) part(name string) *PartSeen {
	for i := range s.Parts {
		if s.Parts[i].Name == name {
			return &s.Parts[i]
		}
	}
	return nil
}
