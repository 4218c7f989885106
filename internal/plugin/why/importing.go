// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/platform"
)

// onImport maps the reason of the condition Imported to the user's next steps.
var onImport = map[string]string{
	dsv1.ReasonImporting:            "wait; the condition Imported shows the progress",
	dsv1.ReasonImportFollowing:      "stop everything that writes to the source, then set `mysql.importFrom.cutOver` to true: docs/mysql.md, Import",
	dsv1.ReasonImportWaiting:        "stop everything that writes to the source, then set `mysql.importFrom.cutOver` to true; a copy that is not equal is refused: docs/mysql.md, Import",
	string(contract.ReasonMismatch): "stop all writes to the source, then set `mysql.importFrom.cutOver` to false, which begins another copy",
	string(contract.ReasonBusy):     "stop the work at the source that the message names; the cut-over continues by itself",
}

// importing explains a database that is being copied from a running server. It returns nil if there is none.
func (f *Facts) importing(blamed *dsv1.ComponentStatus) *Diagnosis {
	c := meta.FindStatusCondition(f.DataService.Status.Conditions, dsv1.ConditionImported)
	if c == nil || blamed.Name != "mysql" || c.Status != metav1.ConditionFalse || c.Reason == dsv1.ReasonImportNotRunning {
		return nil
	}
	next, known := onImport[c.Reason]
	if !known {
		next = "correct what the message names; the import continues by itself: docs/mysql.md, Import"
	}
	if isCopy := c.Reason == dsv1.ReasonImportFollowing || c.Reason == dsv1.ReasonImportWaiting; isCopy && f.adoptsDatabase() {
		next = "cut over, or abandon the copy: `kubectl dataservice adopt " + f.DataService.Name + " --finish`, or `--undo`"
	}
	return &Diagnosis{
		Wrong: !slices.Contains([]string{dsv1.ReasonImporting, dsv1.ReasonImportFollowing, dsv1.ReasonImportWaiting}, c.Reason),
		Cause: fmt.Sprintf("mysql: %s: %s", c.Reason, c.Message), Object: f.Self(), Do: []string{next},
		about: platform.Problem{Component: blamed.Name},
	}
}

// adoptsDatabase reports whether `kubectl dataservice adopt` has started the copy of the database.
func (f *Facts) adoptsDatabase() bool {
	mysql := f.DataService.Spec.MySQL
	return mysql != nil && mysql.ImportFrom != nil && mysql.ImportFrom.Host == dsv1.OriginalMySQL &&
		mysql.ImportFrom.CredentialsSecret.Name == f.DataService.Name+dsv1.OriginalMySQLSecret
}
