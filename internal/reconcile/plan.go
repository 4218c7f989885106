// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// Part is a group of an owner's objects that become ready together, such as a component of a platform.
type Part struct {
	// Name is the value of object.LabelComponent on all objects of the part.
	Name string
	// Kind is the kind of the part's workload.
	Kind string
	// Path is the path of the part in the owner's spec, such as spec.auth.
	Path string
	// After names the parts that must be ready before a new revision of this part starts.
	After []string
	// CalledBy names the parts that connect to this part. While such a part is not settled, its pods may still use the
	// old objects of this part.
	CalledBy []string
	// Objects are complete except for fields that the API server adds; see Finish. They are shared and must not be changed.
	Objects []*unstructured.Unstructured
	// Revision is the digest of the objects without their number of replicas.
	Revision string
	// NumberField is the path of the field in the owner's spec that a user may remove to let another writer set the number of pods. It is ""
	// if only the operator sets this number.
	NumberField string
	// Known is the last applied revision, from the owner's status; "" if there is none.
	Known string
	// IsOfThisSpec reports whether the owner's status describes its present spec. If it does not, the plan may have one
	// more object although the revision is the same, because a new number of replicas makes no new revision.
	IsOfThisSpec bool
	// NeedsDryRun reports whether the spec has fields that only the API server can validate.
	NeedsDryRun bool
	// HasEqualSets reports whether the StatefulSets of the part differ only in names and numbers, so that one dry run is enough for all.
	HasEqualSets bool
	// RetainsData reports whether the data of the part outlives the owner.
	RetainsData bool
	// Notes are messages about the part. They are shown even if the part is healthy.
	Notes []health.Note
	// KeepReason returns a note for users with the reason why an object stays although the part no longer plans it; "" if
	// the object may be removed. If KeepReason is nil, all such objects are removed when they are unused.
	KeepReason func(leftover *unstructured.Unstructured) string
	// ReplacesAtOnce removes the old objects of the part immediately, because they would conflict with the new objects.
	ReplacesAtOnce bool
	// Confirm adds facts to the health that no object of the part shows, for example about a Secret that another
	// operator writes. live contains the live objects, and nil for each missing object. again reports whether Confirm
	// must be called again without an event. If Confirm is nil, the objects show everything.
	Confirm func(live []*unstructured.Unstructured, state *health.State) (again bool, err error)
	// Restart is the reason why the plan restarts pods although the spec did not change, as a note for users; "" if it restarts none.
	Restart string
	// If KeepsRunning is set, the part stays unchanged, except that its CronJobs are suspended.
	KeepsRunning bool
	// Stopped is set for a part that is planned without pods, because the owner hibernates.
	Stopped *Stopped
	// Grow is the rule for the growth of the part's volumes; nil if they do not grow. The pods report the use of the volumes.
	Grow *apply.GrowthPolicy
	// Doubt is a reason why the part does not count as ready, regardless of its objects; nil if there is none.
	Doubt *Doubt

	// lookAgain is the PartSeen.LookAgain of a part from whose plan an object was removed (see withoutUnserved);
	// otherwise 0.
	lookAgain time.Duration
}

// Doubt is a doubt about the data of a part.
type Doubt struct {
	// Culprit is the object that causes the problem, with the reason; empty without a problem.
	Culprit health.Culprit
	// If Hold is set, the part stays unchanged: running workloads are not changed, and no missing volume or workload
	// is created. Missing Services and ConfigMaps are created.
	Hold bool
	// IsCause reports whether the culprit causes the problem that pods report. The culprit then replaces that problem.
	IsCause bool
}

// Stopped is the state of a part that should have no pods.
type Stopped struct {
	// Remains names the pods and Jobs that still run.
	Remains []string
}

// Finish adds digest and owner to the rendered objects of a part, and computes the part's revision. It refuses an object that the engine
// could not find again.
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

// Record is an object that stores the operator's knowledge of a database's data.
type Record struct {
	Object *unstructured.Unstructured
	// MadeFrom is the resourceVersion of the live record from which this record was planned; empty for the first record.
	// If a user has changed or deleted the live record since then, the plan is made again: a deletion means that the user
	// no longer needs the data.
	MadeFrom string
}

// Trial is a resource that a later plan applies, with the path of its part in the owner's spec.
type Trial struct {
	Path   string
	Object *unstructured.Unstructured
}

// Plan is the desired state of an owner's objects.
type Plan struct {
	// Secrets are applied before any part.
	Secrets []*unstructured.Unstructured
	// Records are applied before any part: they must exist before the data is used.
	Records []Record
	// Trials are resources that the API server only validates: a later plan applies them.
	Trials []Trial
	// Parts are sorted: each part comes after the parts in its After.
	Parts []Part
	// RemovalOrder orders removals: parts with a higher number are removed first. If it is nil, the order is arbitrary.
	RemovalOrder func(part string) int
	// DeletionNote returns a text for the event of an object's removal, such as the data that is kept, or "". It may be nil.
	DeletionNote func(removed *unstructured.Unstructured) string
	// Adopt is called with a live Secret whose values differ from the plan. It reports whether the plan must be made again with the values
	// in use.
	Adopt func(live *unstructured.Unstructured) bool
	// IsRequested reports whether a user requested the change of running pods, such as a switch of databases.
	IsRequested bool
}

// PartSeen is the observed state of one part.
type PartSeen struct {
	Name     string
	Kind     string
	Revision string   // as planned
	Applied  bool     // the planned revision has been applied
	Held     bool     // the planned revision waits (Request.Hold)
	Exists   bool     // some of its objects exist
	WaitsFor []string // parts that hold its new revision back
	Health   health.State
	Missing  []string       // objects that do not exist, as "Kind name"
	Error    string         // the reason why it could not be applied
	Culprit  health.Culprit // the object that Error is about
	Notes    []health.Note  // facts for the user, even if the part is healthy
	Stopped  *Stopped       // as planned
	Restart  string         // as planned
	// Rewritten names the object that an admission policy changed; empty if there is none.
	Rewritten string
	// LookAgain is the time until the next reconciliation without an event; 0 means never.
	LookAgain time.Duration

	grow *apply.GrowthPolicy // as planned
}

// PlanSeen is the observed state of an owner in one reconciliation.
type PlanSeen struct {
	Parts []PartSeen // in the order of the plan; nil without a plan
}

func (s *PlanSeen) part(name string) *PartSeen {
	for i := range s.Parts {
		if s.Parts[i].Name == name {
			return &s.Parts[i]
		}
	}
	return nil
}
