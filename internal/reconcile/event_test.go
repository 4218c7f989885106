// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
)

// notes keeps the reasons and notes of events.
type notes []string

func (n *notes) Record(_ context.Context, e Event) { *n = append(*n, e.Reason+": "+e.Note) }

// An object that is missing was deleted by another writer, unless the operator deleted it to replace it.
func TestTheEventOfACreation(t *testing.T) {
	t.Parallel()
	part := Part{Name: "auth", Revision: "r", Known: "r", IsOfThisSpec: true}
	isNew := part
	isNew.Known = ""
	config, workload := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: auth}}"), parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: auth}}")
	for _, test := range map[string]struct {
		part         *Part
		planned      *unstructured.Unstructured
		afterReplace bool
		want         notes
	}{
		"deleted by another writer": {&part, config, false, notes{"DriftCorrected: ConfigMap auth had been deleted by another writer, and was created again"}},
		"a new revision":            {&isNew, config, false, nil},
		"replaced":                  {&part, config, true, nil},
		"a replaced workload":       {&part, workload, true, notes{"ComponentCreated: auth: created Deployment auth"}},
	} {
		var got notes
		recordApplied(t.Context(), &got, test.part, test.planned, apply.Result{Action: apply.Created, AfterReplace: test.afterReplace})
		assert.DeepEqual(t, got, test.want)
	}
}

// The event of a correction names the removed variables. For variables of Reloader, it also names the setting with
// which Reloader's changes stay.
func TestTheEventOfACorrection(t *testing.T) {
	t.Parallel()
	workload := parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: auth}}")
	const restored = "DriftCorrected: Deployment auth had been changed by another writer, and was restored"
	for _, test := range []struct {
		variables []string
		want      string
	}{
		{nil, restored},
		{[]string{"JAVA_OPTS", "MORE"}, restored + "; removed variables that the spec does not declare: JAVA_OPTS, MORE"},
		{[]string{"STAKATER_DB_SECRET"}, restored + "; removed variables that the spec does not declare: STAKATER_DB_SECRET; " +
			"run Reloader with --reload-strategy=annotations, because the operator keeps annotations of pods"},
	} {
		var got notes
		recordApplied(t.Context(), &got, &Part{Name: "auth"}, workload, apply.Result{Action: apply.Corrected, Variables: test.variables})
		assert.DeepEqual(t, got, notes{test.want})
	}
}
