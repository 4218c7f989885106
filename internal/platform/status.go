// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/reconcile"
)

// StatusInput holds the inputs of the status of a DataService.
type StatusInput struct {
	Generation int64
	Paused     bool
	Deleting   bool
	Pace       *reconcile.Pace // answer of the rollout queue; nil if no turn was needed
	Kept       bool            // the spec of this generation was added to the history
	Failure    *reconcile.Failure
	Components []reconcile.PartSeen // in the order of the graph; empty without a plan
	Backups    *mysql.Observed      // nil if they were not observed: the status keeps its values
	Members    *mysql.Members       // backups of several members; nil for none
	Switch     *mysql.Switch        // switch to another database; nil for none
	Import     *mysql.Import        // import of a running server; nil for none
	Restored   backup.Restored      // restore that created the database

	Hibernation *Hibernation // nil without spec.hibernate, or if it was not observed
}

// Compute returns the status after an observation. If nothing that users see has changed, it returns prev, including its times.
func Compute(prev dsv1.DataServiceStatus, seen StatusInput, now metav1.Time) dsv1.DataServiceStatus {
	next := dsv1.DataServiceStatus{ObservedGeneration: seen.Generation, Components: prev.Components, Ready: prev.Ready, Backup: prev.Backup}
	if seen.Components != nil {
		next.Components = components(prev.Components, seen.Components, seen.Import, now)
		next.Ready = fmt.Sprintf("%d/%d", count(next.Components, dsv1.PhaseRunning), len(next.Components))
	}
	next.Phase = phase(prev.Phase, seen, next.Components)
	next.Message = message(seen, next)
	next.Conditions = conditions(prev.Conditions, seen, next, now)
	if seen.Backups != nil {
		var healthy, recoverable *backup.Verdict
		next.Backup, healthy, recoverable = mysql.JudgeBackups(prev.Backup, *seen.Backups, now.Time)
		c := reconcile.Conditions{List: &next.Conditions, Generation: seen.Generation, Now: now}
		seen.Restored.Set(c)
		if m := seen.Members; m != nil {
			next.Backup, healthy, recoverable = m.Backup.DeepCopy(), m.Healthy, m.Recoverable
			m.Restored.Set(c, dsv1.ConditionRestored)
		}
		healthy.Set(c, dsv1.ConditionBackupHealthy)
		recoverable.Set(c, dsv1.ConditionRecoverable)
		if problem := backupProblem(next.Conditions); problem != "" && next.Message == Arrows(next.Components) {
			next.Message = problem + "; " + next.Message
		}
		seen.Import.Verdict().Set(c, dsv1.ConditionImported)
	}
	tellSwitch(&next.Conditions, prev, seen, now)
	next.History = history(prev, seen, meta.IsStatusConditionTrue(next.Conditions, dsv1.ConditionReady))
	return next
}

// history returns the history after an observation. The history begins with the first change of the spec. So an upgrade
// from an operator without histories writes nothing.
func history(prev dsv1.DataServiceStatus, seen StatusInput, ready bool) *dsv1.History {
	if prev.History == nil && prev.ObservedGeneration == seen.Generation {
		return nil
	}
	next := dsv1.History{}
	if prev.History != nil {
		next = *prev.History
	}
	if seen.Kept {
		next.Generation = seen.Generation
	}
	if ready && !seen.Paused {
		next.ReadyGeneration = seen.Generation
	}
	return &next
}

func components(prev []dsv1.ComponentStatus, seen []reconcile.PartSeen, i *mysql.Import, now metav1.Time) []dsv1.ComponentStatus {
	next := make([]dsv1.ComponentStatus, 0, len(seen))
	for _, c := range seen {
		before := &dsv1.ComponentStatus{}
		if n := slices.IndexFunc(prev, func(p dsv1.ComponentStatus) bool { return p.Name == c.Name }); n >= 0 {
			before = &prev[n]
		}
		after := componentStatus(c, before)
		unbound(&after, before, c, now)
		late(&after, before, c, now)
		request(&after, c, now)
		importing(&after, before, i)
		if len(after.WaitsFor) > 0 {
			after.Message = waiting(c, next)
		}
		after.LastTransitionTime = before.LastTransitionTime
		if after.Phase != before.Phase {
			after.LastTransitionTime = &now
		}
		if after.FirstReady = before.FirstReady; slices.Contains(withFirstReady, c.Name) && after.Phase != before.Phase {
			after.FirstReady = firstReady(before)
		}
		next = append(next, after)
	}
	return next
}

// importing sets the status of the database during the import of a running server's data. An import may take days.
func importing(next, prev *dsv1.ComponentStatus, i *mysql.Import) {
	if next.Name != mysql.Component || next.Phase == dsv1.PhaseFailed || next.Phase == dsv1.PhaseHibernating || next.Phase == dsv1.PhaseHibernated {
		return
	}
	if i.HasFailed() && next.Phase != dsv1.PhaseRunning {
		next.Message = i.Message()
	}
	if !i.IsRunning() {
		return
	}
	if !inWork(next.Phase) {
		next.Phase = dsv1.PhaseCreating
		if inWork(prev.Phase) {
			next.Phase = prev.Phase
		}
	}
	next.Message, next.Culprit = i.Message(), nil
}

func phase(prev dsv1.Phase, seen StatusInput, components []dsv1.ComponentStatus) dsv1.Phase {
	has := func(p dsv1.Phase) bool { return count(components, p) > 0 }
	switch {
	case seen.Deleting:
		return dsv1.PhaseTerminating
	case seen.Paused:
		return dsv1.PhasePaused
	case seen.Failure != nil || has(dsv1.PhaseFailed):
		return dsv1.PhaseFailed
	case has(dsv1.PhaseDegraded):
		return dsv1.PhaseDegraded
	case seen.Hibernation.IsDone():
		return dsv1.PhaseHibernated
	case seen.Hibernation.IsActive():
		return dsv1.PhaseHibernating
	case has(dsv1.PhaseUpdating):
		return dsv1.PhaseUpdating
	case has(dsv1.PhaseCreating) || has(dsv1.PhasePending):
		// Adding a component to a running platform is an update.
		if slices.Contains([]dsv1.Phase{dsv1.PhaseRunning, dsv1.PhaseUpdating, dsv1.PhaseScaling, dsv1.PhaseHibernating, dsv1.PhaseHibernated}, prev) {
			return dsv1.PhaseUpdating
		}
		if count(components, dsv1.PhasePending) == len(components) {
			return dsv1.PhasePending
		}
		return dsv1.PhaseCreating
	case has(dsv1.PhaseScaling):
		return dsv1.PhaseScaling
	default:
		return dsv1.PhaseRunning
	}
}

func message(seen StatusInput, next dsv1.DataServiceStatus) string {
	switch {
	case seen.Deleting:
		return "being deleted; volumes with data and the Secrets that this data needs stay, unless spec.mysql.storage.retention is Delete"
	case seen.Failure != nil:
		return seen.Failure.Message
	case seen.Paused:
		const paused = "paused: nothing is changed until spec.paused is false"
		if problem := problems(next.Components); problem != "" {
			return problem + "; " + paused
		}
		return paused
	case len(next.Components) == 0:
		return "no component is declared"
	case seen.Hibernation != nil && seen.Hibernation.Waits != "":
		return seen.Hibernation.Waits + "; " + progress(seen, next)
	}
	return progress(seen, next)
}

// progress names the first problem. If there is none, it names the changes in progress.
func progress(seen StatusInput, next dsv1.DataServiceStatus) string {
	if seen.Switch != nil {
		return seen.Switch.Message
	}
	if problem := problems(next.Components); problem != "" {
		return problem
	}
	if seen.Hibernation.IsActive() {
		return seen.Hibernation.message()
	}
	for i := range next.Components {
		c := &next.Components[i]
		// Two sorts of messages come first, in any component: messages of a component that is being changed, because
		// other components may wait for it, and messages that ask for an action.
		if inWork(c.Phase) && c.Message != "" || requires(c) {
			return c.Name + ": " + c.Message + "; " + Arrows(next.Components)
		}
	}
	for _, c := range next.Components {
		if c.Kind == cronJob && strings.Contains(c.Message, health.RunFailed) {
			return fmt.Sprintf("%s: CronJob %s: RunFailed: %s; %s", c.Name, c.Name, c.Message, Arrows(next.Components))
		}
	}
	for _, c := range seen.Components {
		if c.Rewritten != "" {
			return c.Name + ": " + c.Rewritten + "; " + Arrows(next.Components)
		}
	}
	return Arrows(next.Components)
}

// backupProblem returns the first problem with the backups of the database, or "". A first backup or check that is not due yet, and an
// archive that is stopped or starts, are no problems.
func backupProblem(conditions []metav1.Condition) string {
	for _, kind := range []string{dsv1.ConditionBackupHealthy, dsv1.ConditionRecoverable} {
		c := meta.FindStatusCondition(conditions, kind)
		if c != nil && c.Status == metav1.ConditionFalse &&
			!slices.Contains([]string{dsv1.ReasonNoBackup, dsv1.ReasonNotVerified, dsv1.ReasonArchiveStopped, dsv1.ReasonArchiveNotReady}, c.Reason) {
			return fmt.Sprintf("backup: %s: %s", c.Reason, c.Message)
		}
	}
	return ""
}

// problems names the first unhealthy component, and the number of further unhealthy components.
func problems(components []dsv1.ComponentStatus) string {
	var first string
	more := 0
	for _, c := range components {
		if c.Phase != dsv1.PhaseDegraded && c.Phase != dsv1.PhaseFailed {
			continue
		}
		if first != "" {
			more++
			continue
		}
		first = c.Name + ": " + c.Message
	}
	if more > 0 {
		return fmt.Sprintf("%s (and %d more: see status.components)", first, more)
	}
	return first
}

// Arrows returns the components in order. Components with a change in progress are in brackets.
func Arrows(components []dsv1.ComponentStatus) string {
	names := make([]string, 0, len(components))
	for _, c := range components {
		if inWork(c.Phase) || c.Phase == dsv1.PhaseDegraded {
			names = append(names, "["+c.Name+"]")
			continue
		}
		names = append(names, c.Name)
	}
	return strings.Join(names, "->")
}

func count(components []dsv1.ComponentStatus, phase dsv1.Phase) int {
	n := 0
	for _, c := range components {
		if c.Phase == phase {
			n++
		}
	}
	return n
}
