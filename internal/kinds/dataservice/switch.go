// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/guard"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/status"
	"d3os.com/d3os-operator/internal/kinds/dataservice/switchover"
	"d3os.com/d3os-operator/internal/object"
)

// isAtWork reports whether a switch goes on.
func (d *Databases) isAtWork() bool {
	return d.IsStopping || d.IsBarred || d.IsOther || len(d.Halted) > 0 || d.IsStarting
}

// stillThere is what stands before the pods that are still there, in the condition's message.
const stillThere = ". Still there: "

// told says of a switch what people should know; nil where there is nothing.
func (d *Databases) told() *status.Switch {
	switch {
	case d == nil:
		return nil
	case d.Reason == dsv1.ReasonStopping && len(d.Remains) > 0:
		return &status.Switch{Reason: d.Reason, Message: d.Message + stillThere + few(d.Remains)}
	case d.Reason != "":
		return &status.Switch{Reason: d.Reason, Message: d.Message, IsRefused: d.IsRefused}
	case d.IsOther:
		return &status.Switch{Reason: dsv1.ReasonSwitching, Message: fmt.Sprintf("database %s starts when the pod of the one before is gone", d.Active)}
	case len(d.Halted) > 0:
		return &status.Switch{Reason: dsv1.ReasonStarting, Message: fmt.Sprintf("database %s is in use and starts; then the services do", d.Active)}
	case d.IsStarting:
		return &status.Switch{Reason: dsv1.ReasonStarting, Message: fmt.Sprintf("database %s is in use; the services start", d.Active)}
	}
	return nil
}

// few names the first of some objects, and how many more there are.
func few(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// switches returns the next write of a switch, if it is time for it.
func (k *Kind) switches(ds *dsv1.DataService, seen engine.Seen, d *Databases) []day2.Step {
	record := d.Active
	switch d.Act {
	case switchover.Enlist:
		record = d.Wanted
		fallthrough
	case switchover.Replace:
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
	case switchover.Reinstate:
		if d.IsOther {
			return nil
		}
	case switchover.None:
		return nil
	}
	message := map[switchover.Act]string{
		switchover.Enlist:    fmt.Sprintf("record that database %s is there, and not in use", d.Wanted),
		switchover.Replace:   fmt.Sprintf("record that database %s takes the place of %s", d.Wanted, d.Active),
		switchover.Reinstate: fmt.Sprintf("record that database %s is the one in use", d.Active),
	}[d.Act]
	return []day2.Step{{Name: string(d.Act), Message: message, Do: func(ctx context.Context) error { return k.act(ctx, ds, d, record) }}}
}

// act writes the record of a database, after it was proved that all is still as it was judged.
func (k *Kind) act(ctx context.Context, ds *dsv1.DataService, d *Databases, database string) error {
	if err := d.prove(); err != nil {
		return err
	}
	known := d.records[database]
	record := newRecord(ds, database)
	if known != nil {
		record = known.DeepCopy()
	}
	var err error
	switch d.Act {
	case switchover.Enlist:
		at := ""
		if known, _, is := guard.Record(record); is && known.HasData && known.ReplacedBy == "" {
			at = switchover.Unknown
		}
		err = guard.Replaced(record, string(d.claim.GetUID()), d.Active, at, d.Turn)
	case switchover.Replace:
		err = guard.Replaced(record, "", d.Wanted, time.Now().UTC().Format(time.RFC3339), d.Turn)
	case switchover.Reinstate:
		err = guard.Reinstated(record)
	case switchover.None:
		return nil
	}
	if err != nil {
		return fmt.Errorf("change the record of database %s: %w", database, err)
	}
	if known == nil {
		err = k.client.Create(ctx, record, client.FieldOwner(apply.FieldManager))
	} else { // its resourceVersion goes along
		err = k.client.Update(ctx, record, client.FieldOwner(apply.FieldManager))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: ConfigMap %s is another one than was judged", day2.ErrAgain, record.GetName())
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", record.GetName(), err)
	}
	return nil
}

// newRecord returns the record of a database that has none. It outlives the DataService.
func newRecord(ds *dsv1.DataService, database string) *unstructured.Unstructured {
	record := object.Empty(object.ConfigMapKind)
	record.SetName(guard.RecordName(database))
	record.SetNamespace(ds.Namespace)
	labels := plan.OwnerOf(ds).Labels(string(component.MySQL))
	labels[object.LabelPartOf] = "dataservice"
	record.SetLabels(labels)
	record.SetAnnotations(object.WithoutPrune(map[string]string{object.AnnotationPolicy: object.PolicyKeep}, nil))
	return record
}

// isCurrent asks the API server whether the spec is still the one that was judged.
func (d *Databases) isCurrent() error {
	generation, err := d.in.Generation()
	if err == nil && generation != d.generation {
		err = fmt.Errorf("%w: the DataService has changed", day2.ErrAgain)
	}
	return err
}

// prove asks the API server whether all is still as it was judged: the spec, the records, the claim, and that nothing runs which
// would have to be gone.
func (d *Databases) prove() error {
	again := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{day2.ErrAgain}, args...)...)
	}
	if err := d.isCurrent(); err != nil {
		return err
	}
	for _, database := range []string{d.Active, d.Wanted} {
		live, err := d.in.LookupLive("ConfigMap", guard.RecordName(database))
		if err != nil {
			return err
		}
		if known := d.records[database]; (live == nil) != (known == nil) || live != nil && live.GetResourceVersion() != known.GetResourceVersion() {
			return again("ConfigMap %s has changed", guard.RecordName(database))
		}
	}
	if d.Act == switchover.Reinstate {
		other, err := otherPod(d.Active, d.in)
		if other != "" {
			return again("there still is Pod %s of another database", other)
		}
		return err
	}
	claim, err := d.in.LookupLive(object.ClaimKind.Kind, guard.ClaimName(d.Wanted))
	if err != nil {
		return err
	}
	if claim == nil || claim.GetUID() != d.claim.GetUID() || claim.GetDeletionTimestamp() != nil {
		return again("claim %s has changed", guard.ClaimName(d.Wanted))
	}
	for _, part := range d.Halted {
		remains, err := remainsOf(part.Name, part.Workloads, d.in.LookupLive, d.in.PodsLive)
		if err != nil {
			return err
		}
		if len(remains) > 0 {
			return again("there still is %s", few(remains))
		}
	}
	return nil
}
