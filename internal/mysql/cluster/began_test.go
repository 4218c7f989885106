// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/reconcile"
)

// A database that was ready before does not begin again on empty volumes without a message. With the record, it waits for a user's consent.
// Without the record, a new database is created, and the status names the loss until a user accepts it.
func TestBeganEmpty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		record replication.Record
		change func(*mysqlv1.MySQLCluster)
		phase  mysqlv1.Phase
		note   bool
	}{
		"the record is kept":   {recorded, func(*mysqlv1.MySQLCluster) {}, mysqlv1.PhaseLost, false},
		"the record is lost":   {replication.Record{}, func(*mysqlv1.MySQLCluster) {}, mysqlv1.PhaseCreating, true},
		"a backup is restored": {replication.Record{}, func(mc *mysqlv1.MySQLCluster) { mc.Spec.RestoreFrom = &mysqlv1.RestoreFrom{} }, mysqlv1.PhaseCreating, false},
		"the resource is new":  {replication.Record{}, func(mc *mysqlv1.MySQLCluster) { mc.Status = mysqlv1.MySQLClusterStatus{} }, mysqlv1.PhaseCreating, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(3)
			_, status := s.pass(0)
			assert.Assert(t, is(status, mysqlv1.ConditionReady) && status.FirstReady == nil)
			answers := s.answers
			s.answers, s.record = map[int]*mysqlmember.Answer{}, c.record
			for i := range 3 {
				s.answers[i] = &mysqlmember.Answer{Report: mysqlmember.Report{Instance: "new", Volume: replication.VolumeEmpty}}
			}
			c.change(s.mc)
			_, status = s.pass(0)
			assert.Equal(t, status.Phase, c.phase, status.Message)
			if c.phase == mysqlv1.PhaseLost {
				assert.Equal(t, status.Reason, mysqlv1.ReasonWaitingForConsent, status.Message)
			}
			s.answers, s.record = answers, recorded
			_, status = s.pass(0)
			began := meta.FindStatusCondition(status.Conditions, mysqlv1.ConditionBeganEmpty)
			const note = "MySQLCluster db began empty: it was formed without data and without a record after it was ready (1970-01-01T00:16:40Z)"
			assert.Equal(t, strings.Contains(status.Message, note), c.note, status.Message)
			if !c.note {
				assert.Assert(t, began == nil, "%+v", began)
				return
			}
			assert.DeepEqual(t, s.Summary(s.mc).Warnings, []reconcile.Warning{{Reason: "DataLost", Field: "status.conditions", Text: began.Message}})
			s.mc.Status.FirstReady = nil
			_, status = s.pass(0)
			assert.Assert(t, meta.FindStatusCondition(status.Conditions, mysqlv1.ConditionBeganEmpty) == nil)
		})
	}
}
