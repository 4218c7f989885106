// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/halt"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// IsAtWork reports whether a switch is in progress.
func (d *Databases) IsAtWork() bool {
	return d.IsStopping || d.IsBarred || d.IsOther || len(d.Halted) > 0 || d.IsStarting
}

// StillThere is the text before the list of remaining pods in the condition's message.
const StillThere = ". Still there: "

// Switch is the state of a switch to another database.
type Switch struct {
	Reason, Message string
	IsRefused       bool // only a user can act
}

// Switch returns the state of a switch for users; nil for none.
func (d *Databases) Switch() *Switch {
	switch {
	case d == nil:
		return nil
	case d.Reason == dsv1.ReasonStopping && len(d.Remains) > 0:
		return &Switch{Reason: d.Reason, Message: d.Message + StillThere + halt.Few(d.Remains)}
	case d.Reason != "":
		return &Switch{Reason: d.Reason, Message: d.Message, IsRefused: d.IsRefused}
	case d.IsOther:
		return &Switch{Reason: dsv1.ReasonSwitching, Message: fmt.Sprintf("database %s starts when the pod of the former database is deleted", d.Active)}
	case len(d.Halted) > 0:
		return &Switch{Reason: dsv1.ReasonStarting, Message: fmt.Sprintf("database %s is in use and starts; the services start after it", d.Active)}
	case d.IsStarting:
		return &Switch{Reason: dsv1.ReasonStarting, Message: fmt.Sprintf("database %s is in use; the services start", d.Active)}
	}
	return nil
}

// Steps returns the next write of a switch; nil while the write's preconditions are not met.
func (d *Databases) Steps(c client.Client, seen reconcile.PlanSeen) []reconcile.Step {
	record := d.Active
	switch d.Act {
	case Enlist:
		record = d.Wanted
		fallthrough
	case Replace:
		for _, part := range seen.Parts {
			for _, halted := range d.Halted {
				if part.Name == halted.Name && !part.Applied {
					return nil
				}
			}
		}
		if len(d.Remains) > 0 {
			return nil
		}
	case Reinstate:
		if d.IsOther {
			return nil
		}
	case None:
		return nil
	}
	message := map[Act]string{
		Enlist:    fmt.Sprintf("record that database %s exists and is not in use", d.Wanted),
		Replace:   fmt.Sprintf("record that database %s replaces %s", d.Wanted, d.Active),
		Reinstate: fmt.Sprintf("record that database %s is in use", d.Active),
	}[d.Act]
	return []reconcile.Step{{Name: string(d.Act), Message: message, Do: func(ctx context.Context) error { return d.act(ctx, c, record) }}}
}

// act writes the record of a database. Before that, it proves that the judged state has not changed.
func (d *Databases) act(ctx context.Context, c client.Client, database string) error {
	if err := d.prove(); err != nil {
		return err
	}
	known := d.records[database]
	record := newRecord(d.spec.Owner, database)
	if known != nil {
		record = known.DeepCopy()
	}
	var err error
	switch d.Act {
	case Enlist:
		at := ""
		if known, _, is := ReadRecord(record); is && known.HasData && known.ReplacedBy == "" {
			at = Unknown
		}
		err = Replaced(record, string(d.claim.GetUID()), d.Active, at, d.Turn)
	case Replace:
		err = Replaced(record, "", d.Wanted, time.Now().UTC().Format(time.RFC3339), d.Turn)
	case Reinstate:
		err = Reinstated(record)
	case None:
		return nil
	}
	if err != nil {
		return fmt.Errorf("change the record of database %s: %w", database, err)
	}
	if known == nil {
		err = c.Create(ctx, record, client.FieldOwner(apply.FieldManager))
	} else { // includes the resourceVersion
		err = c.Update(ctx, record, client.FieldOwner(apply.FieldManager))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: ConfigMap %s was replaced after it was read", reconcile.ErrAgain, record.GetName())
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", record.GetName(), err)
	}
	return nil
}

// newRecord returns an empty record for a database. The record outlives the DataService.
func newRecord(owner object.Owner, database string) *unstructured.Unstructured {
	record := emptyRecord(owner, database)
	record.SetAnnotations(object.WithoutPrune(map[string]string{object.AnnotationPolicy: object.PolicyKeep}, nil))
	return record
}

// emptyRecord returns an empty record for a database.
func emptyRecord(owner object.Owner, database string) *unstructured.Unstructured {
	record := object.Empty(object.ConfigMapKind)
	record.SetName(RecordName(database))
	record.SetNamespace(owner.Namespace)
	labels := owner.Labels(Component)
	labels[object.LabelPartOf] = "dataservice"
	record.SetLabels(labels)
	return record
}

// isCurrent returns an error if the spec in the API server is not the judged spec.
func (d *Databases) isCurrent() error {
	generation, err := d.in.Generation()
	if err == nil && generation != d.spec.Generation {
		err = fmt.Errorf("%w: the DataService has changed", reconcile.ErrAgain)
	}
	return err
}

// prove checks in the API server that the judged state is unchanged: the spec, the records and the claim. It also checks that all pods and
// Jobs that must end have ended.
func (d *Databases) prove() error {
	again := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{reconcile.ErrAgain}, args...)...)
	}
	if err := d.isCurrent(); err != nil {
		return err
	}
	for _, database := range []string{d.Active, d.Wanted} {
		live, err := d.in.LookupLive("ConfigMap", RecordName(database))
		if err != nil {
			return err
		}
		if known := d.records[database]; (live == nil) != (known == nil) || live != nil && live.GetResourceVersion() != known.GetResourceVersion() {
			return again("ConfigMap %s has changed", RecordName(database))
		}
	}
	if d.Act == Reinstate {
		other, err := otherPod(d.Active, d.in)
		if other != "" {
			return again("there still is Pod %s of another database", other)
		}
		return err
	}
	claim, err := d.in.LookupLive(object.ClaimKind.Kind, ClaimName(d.Wanted))
	if err != nil {
		return err
	}
	if claim == nil || claim.GetUID() != d.claim.GetUID() || claim.GetDeletionTimestamp() != nil {
		return again("claim %s has changed", ClaimName(d.Wanted))
	}
	for _, part := range d.Halted {
		remains, err := remainsOf(part.Name, part.Workloads, d.in.LookupLive, d.in.PodsLive)
		if err != nil {
			return err
		}
		if len(remains) > 0 {
			return again("there still is %s", halt.Few(remains))
		}
	}
	return nil
}
