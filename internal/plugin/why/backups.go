// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform"
)

// backedUp is a resource with conditions about its backups.
type backedUp struct {
	kind, name string
	conditions []metav1.Condition
}

// backedUp returns the resources whose backups are explained: the subject and the resources of its components.
func (f *Facts) backedUp() []backedUp {
	var found []backedUp
	if f.Resource == nil && f.concernsMySQL() {
		found = append(found, backedUp{dsv1.Kind, f.DataService.Name, f.DataService.Status.Conditions})
	}
	for _, o := range slices.Concat(f.resources, f.Objects) {
		if o != f.Resource && !object.IsResource(o) || f.Resource == nil && f.Component != "" && o.GetLabels()[object.LabelComponent] != f.Component {
			continue
		}
		var of struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &of); err == nil {
			found = append(found, backedUp{o.GetKind(), o.GetName(), of.Status.Conditions})
		}
	}
	return found
}

// concernsMySQL reports whether the diagnosis covers the database of a DataService, alone or with all components.
func (f *Facts) concernsMySQL() bool { return f.Component == "" || f.Component == "mysql" }

// backups explains a condition about backups that is False. It returns nil if there is none.
func (f *Facts) backups() *Diagnosis {
	for _, of := range f.backedUp() {
		c := health.BackupState(of.conditions)
		if c == nil {
			continue
		}
		if first := f.unfinished(of); first != nil && c.Reason == dsv1.ReasonNoBackup {
			return f.firstBackup(first)
		}
		d := &Diagnosis{Wrong: true, Cause: health.BackupText(c), Object: f.object(of.kind, of.name), Do: advice(c.Type), about: platform.OfBackups(of.kind, c)}
		if named := objectNamed.FindStringSubmatch(c.Message); named != nil {
			d.Object = f.object(named[1], named[2])
		}
		return d
	}
	return nil
}

// warned explains the warnings of the last backup, or of the restore that created the database. It returns nil if there are none. Warnings
// are no failure: the backup exists, and why exits with code 0.
func (f *Facts) warned() *Diagnosis {
	if f.Resource == nil && !f.concernsMySQL() {
		return nil
	}
	d := &Diagnosis{Ready: true, Object: f.Self(), Do: advice(dsv1.ReasonBackupWarned)}
	if known := f.DataService.Status.Backup; known != nil && len(known.Warnings) > 0 {
		d.Cause = health.Clip(fmt.Sprintf("backup: %s: %s", dsv1.ReasonBackupWarned, known.Warnings[0]), causeLength) // State has the whole text
		d.State = append([]string{"backup " + known.LastID + " was made, with warnings:"}, known.Warnings...)
		return d
	}
	if c := meta.FindStatusCondition(f.DataService.Status.Conditions, dsv1.ConditionRestored); c != nil {
		d.Cause = health.BackupText(c)
		return d
	}
	return nil
}

// AsksForBackups reports whether the cause depends on Facts.Backups. That is the case if a condition reports that no backup exists yet.
func (f *Facts) AsksForBackups() bool {
	return slices.ContainsFunc(f.backedUp(), func(of backedUp) bool {
		return slices.ContainsFunc(of.conditions, func(c metav1.Condition) bool {
			return c.Reason == dsv1.ReasonNoBackup && c.Status == metav1.ConditionFalse
		})
	})
}

// unfinished returns the oldest unfinished DataBackup of a resource, or nil.
func (f *Facts) unfinished(of backedUp) (first *backupv1.DataBackup) {
	for i := range f.Backups {
		b := &f.Backups[i]
		isFinal := b.Status.Phase == backupv1.PhaseSucceeded || b.Status.Phase == backupv1.PhaseFailed
		if isFinal || b.Spec.Of.Kind != of.kind || b.Spec.Of.Name != of.name {
			continue
		}
		if first == nil || cmp.Or(b.CreationTimestamp.Compare(first.CreationTimestamp.Time), cmp.Compare(b.Name, first.Name)) < 0 {
			first = b
		}
	}
	return first
}

// firstBackup explains why no backup exists while a DataBackup is unfinished. A DataBackup that makes progress is no fault.
func (f *Facts) firstBackup(b *backupv1.DataBackup) *Diagnosis {
	s, reason := &b.Status, ""
	if s.Reason != string(s.Phase) {
		reason = s.Reason + ": "
	}
	d := &Diagnosis{
		Wrong: !slices.Contains(progressReasons, s.Reason), Object: f.object("DataBackup", b.Name), Do: advice(s.Reason),
		Cause: fmt.Sprintf("backup: %s: DataBackup %s is %s: %s%s", dsv1.ReasonNoBackup, b.Name, cmp.Or(s.Phase, backupv1.PhasePending), reason, s.Message),
	}
	if !d.Wrong {
		d.Do = []string{"wait: kubectl -n " + f.DataService.Namespace + " get databackup " + b.Name + " --watch"}
	}
	return d
}

// others returns the further problems in the status of a whole DataService. status.message has the same number.
func (f *Facts) others(d *Diagnosis) []string {
	if f.Component != "" || f.Resource != nil || !d.Wrong {
		return nil
	}
	var found []string
	for _, p := range platform.Further(&f.DataService.Status, d.about) {
		found = append(found, p.Text)
	}
	return found
}
