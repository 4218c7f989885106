// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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
	next.Conditions = slices.Clone(prev.Conditions)
	if seen.Backups != nil {
		next.Backup = backups(prev.Backup, seen, reconcile.Conditions{List: &next.Conditions, Generation: seen.Generation, Now: now})
	}
	next.Message = message(seen, next)
	next.Conditions = conditions(next.Conditions, seen, next, now)
	tellSwitch(&next.Conditions, prev, seen, now)
	next.History = history(prev, seen, meta.IsStatusConditionTrue(next.Conditions, dsv1.ConditionReady))
	return next
}

// backups returns the next status of the backups, and sets the conditions about backups, a restore and an import.
func backups(prev *dsv1.BackupStatus, seen StatusInput, c reconcile.Conditions) *dsv1.BackupStatus {
	next, healthy, recoverable := mysql.JudgeBackups(prev, *seen.Backups, c.Now.Time)
	seen.Restored.Set(c)
	if m := seen.Members; m != nil {
		next, healthy, recoverable = m.Backup.DeepCopy(), m.Healthy, m.Recoverable
		m.Restored.Set(c, dsv1.ConditionRestored)
	}
	healthy.Set(c, dsv1.ConditionBackupHealthy)
	recoverable.Set(c, dsv1.ConditionRecoverable)
	seen.Import.Verdict().Set(c, dsv1.ConditionImported)
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
		return andMore(Problem{Component: seen.Failure.Part, Text: seen.Failure.Message}, &next)
	case seen.Paused:
		const paused = "paused: nothing is changed until spec.paused is false"
		if problem := firstBroken(&next); problem != "" {
			return problem + "; " + paused
		}
		return andMore(Problem{Text: paused}, &next)
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
	if problem := firstBroken(&next); problem != "" {
		return problem
	}
	if seen.Hibernation.IsActive() {
		return seen.Hibernation.message()
	}
	if first := foremost(seen, &next); first.Text != "" {
		return andMore(first, &next) + "; " + Arrows(next.Components)
	}
	return Arrows(next.Components)
}

// foremost returns the cause before the arrows; its text may be "". The cause is the message of a component that is being changed, because
// other components may wait for it, or else the first problem, or else a note.
func foremost(seen StatusInput, next *dsv1.DataServiceStatus) Problem {
	for _, c := range next.Components {
		if inWork(c.Phase) && c.Message != "" {
			return Problem{Component: c.Name, Text: c.Name + ": " + c.Message}
		}
	}
	if all := Reports(next); len(all) > 0 {
		return all[0]
	}
	for _, c := range seen.Components {
		if c.Rewritten != "" {
			return Problem{Component: c.Name, Text: c.Name + ": " + c.Rewritten}
		}
	}
	return Problem{}
}

// Problem is a problem that the status of a DataService reports, or another cause in its message.
type Problem struct {
	// Component is the component with the problem; "" for the backups of the database, and for a cause of no single component.
	Component string
	// Culprit is the object with the problem. It has no name if it is the DataService, whose conditions report the backups.
	Culprit dsv1.Culprit
	Text    string
}

// is reports whether two problems are the same. A component has one problem at most.
func (p Problem) is(other Problem) bool {
	return p.Component == other.Component && (p.Component != "" || p.Culprit == other.Culprit)
}

// Problems returns the problems that a status reports: unhealthy components, then running components that require an action or whose last
// run failed, then a failed or late backup. A service at its maximum number of pods is no problem.
func Problems(s *dsv1.DataServiceStatus) []Problem {
	problems, _ := reports(s)
	return problems
}

// Reports returns the problems that a status reports, and then the services at their maximum number of pods.
func Reports(s *dsv1.DataServiceStatus) []Problem { return slices.Concat(reports(s)) }

// reports returns both parts of Reports.
func reports(s *dsv1.DataServiceStatus) (problems, limits []Problem) {
	var others []Problem
	for i := range s.Components {
		c := &s.Components[i]
		p := Problem{c.Name, ptr.Deref(c.Culprit, dsv1.Culprit{}), c.Name + ": " + cmp.Or(c.Message, string(c.Phase))}
		switch {
		case isBroken(c):
			problems = append(problems, p)
		case requires(c) && p.Culprit.Reason == health.ReasonTooManyReplicas:
			limits = append(limits, p)
		case requires(c):
			others = append(others, p)
		case c.Kind == cronJob && strings.Contains(c.Message, health.RunFailed):
			p.Culprit = dsv1.Culprit{Kind: cronJob, Name: c.Name, Reason: "RunFailed"}
			p.Text = fmt.Sprintf("%s: CronJob %s: RunFailed: %s", c.Name, c.Name, c.Message)
			others = append(others, p)
		}
	}
	problems = append(problems, others...)
	if c := health.BackupProblem(s.Conditions); c != nil {
		isKnown := func(p Problem) bool { return p.Component == mysql.Component && p.Culprit.Reason == c.Reason } // a MySQLCluster reports it, too
		if !slices.ContainsFunc(problems, isKnown) {
			problems = append(problems, OfBackups(dsv1.Kind, c))
		}
	}
	return problems, limits
}

// OfBackups returns the problem that a condition about backups reports in a resource of a kind.
func OfBackups(kind string, c *metav1.Condition) Problem {
	return Problem{Culprit: dsv1.Culprit{Kind: kind, Reason: c.Reason}, Text: health.BackupText(c)}
}

// Further returns the problems in a status without the problem that a cause is about.
func Further(s *dsv1.DataServiceStatus, cause Problem) []Problem {
	return slices.DeleteFunc(Problems(s), cause.is)
}

// andMore returns the text of a cause with the number of further problems.
func andMore(cause Problem, s *dsv1.DataServiceStatus) string {
	if n := len(Further(s, cause)); n > 0 {
		return fmt.Sprintf("%s (and %d more)", cause.Text, n)
	}
	return cause.Text
}

// firstBroken names the first unhealthy component and the number of further problems. It returns "" if all components are healthy.
func firstBroken(s *dsv1.DataServiceStatus) string {
	if !slices.ContainsFunc(s.Components, func(c dsv1.ComponentStatus) bool { return isBroken(&c) }) {
		return ""
	}
	return andMore(Problems(s)[0], s)
}

func isBroken(c *dsv1.ComponentStatus) bool {
	return c.Phase == dsv1.PhaseDegraded || c.Phase == dsv1.PhaseFailed
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
