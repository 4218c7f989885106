// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradeable

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

const (
	// patience limits the time for which a rollout may block an upgrade. A longer rollout may need the upgrade.
	patience = 30 * time.Minute
	// namedAtMost limits the DataServices that a message names.
	namedAtMost = 3

	reasonRollingOut = "RolloutInProgress"
	reasonIdle       = "NoRollout"
)

// inProgress reports whether a DataService is being rolled out, or is about to be. A rollout without progress does not count, because a
// newer operator may fix it. A change of the number of pods does not count, because autoscalers change it often.
func inProgress(ds *dsv1.DataService) bool {
	switch {
	case ds.Spec.Paused || ds.DeletionTimestamp != nil:
		return false
	case ds.Status.ObservedGeneration < ds.Generation:
		return true // the operator has not reconciled it yet
	}
	return ds.Status.Phase != dsv1.PhaseScaling &&
		meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionProgressing) &&
		!meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionDegraded)
}

// rollouts stores the start of each rollout in progress.
type rollouts map[types.UID]time.Time

// look returns the names of the DataServices with rollouts that block an upgrade, and the time at which the oldest of these rollouts stops
// blocking.
func (r rollouts) look(all []dsv1.DataService, now time.Time) (names []string, until time.Time) {
	present := map[types.UID]bool{}
	for i := range all {
		ds := &all[i]
		if !inProgress(ds) {
			continue
		}
		present[ds.UID] = true
		if r[ds.UID].IsZero() {
			r[ds.UID] = now
		}
		end := r[ds.UID].Add(patience)
		if !end.After(now) {
			continue
		}
		names = append(names, ds.Namespace+"/"+ds.Name)
		if until.IsZero() || end.Before(until) {
			until = end
		}
	}
	for uid := range r {
		if !present[uid] {
			delete(r, uid)
		}
	}
	slices.Sort(names)
	return names, until
}

// conditionFor returns OLM's condition for the rollouts that block an upgrade.
func conditionFor(names []string) metav1.Condition {
	if len(names) == 0 {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonIdle, Message: "no rollout of a DataService blocks an upgrade"}
	}
	listed := strings.Join(names[:min(len(names), namedAtMost)], ", ")
	if more := len(names) - namedAtMost; more > 0 {
		listed += fmt.Sprintf(" and %d more", more)
	}
	subject := "1 DataService is"
	if len(names) > 1 {
		subject = fmt.Sprintf("%d DataServices are", len(names))
	}
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonRollingOut, Message: subject + " being rolled out: " + listed}
}
