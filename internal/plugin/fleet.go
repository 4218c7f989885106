// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// Ready reports whether a DataService is ready with its latest spec.
func Ready(ds *dsv1.DataService) bool {
	return Seen(ds) && meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionReady)
}

// Seen reports whether the status describes the latest spec.
func Seen(ds *dsv1.DataService) bool { return ds.Status.ObservedGeneration >= ds.Generation }

// Since returns the time at which a DataService became ready or not ready.
func Since(ds *dsv1.DataService) *metav1.Time {
	if c := meta.FindStatusCondition(ds.Status.Conditions, dsv1.ConditionReady); c != nil {
		return &c.LastTransitionTime
	}
	return &ds.CreationTimestamp
}

// Message returns the message of the status. If the latest spec has no status yet, it returns a text that reports this.
func Message(ds *dsv1.DataService) string {
	if !Seen(ds) {
		return fmt.Sprintf("the operator has not reported on generation %d yet", ds.Generation)
	}
	return ds.Status.Message
}

// Fleet prints a line for each DataService: those that are not ready first, then by namespace and name.
func (s Style) Fleet(all []dsv1.DataService, namespaces bool, now time.Time) string {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b dsv1.DataService) int {
		return cmp.Or(
			cmp.Compare(urgency(&a), urgency(&b)),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		)
	})
	head := []cell{{text: "NAME"}, {text: "READY"}, {text: "PHASE"}, {text: "SINCE"}, {text: "MESSAGE"}}
	if namespaces {
		head = slices.Insert(head, 0, cell{text: "NAMESPACE"})
	}
	rows := [][]cell{head}
	ready := 0
	for i := range all {
		ds := &all[i]
		if Ready(ds) {
			ready++
		}
		row := []cell{
			{text: ds.Name}, {text: cmp.Or(ds.Status.Ready, "-")}, {cmp.Or(string(ds.Status.Phase), "-"), ds.Status.Phase},
			{text: Age(Since(ds), now)}, {text: Message(ds)},
		}
		if namespaces {
			row = slices.Insert(row, 0, cell{text: ds.Namespace})
		}
		rows = append(rows, row)
	}
	return s.table(rows) + fmt.Sprintf("%d of %d ready\n", ready, len(all))
}

// urgency orders DataServices: broken, in progress, healthy.
func urgency(ds *dsv1.DataService) int {
	switch {
	case ds.Status.Phase == dsv1.PhaseFailed:
		return 0
	case ds.Status.Phase == dsv1.PhaseDegraded:
		return 1
	case !Ready(ds):
		return 2
	}
	return 3
}
