// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// crashes stops the operator at every write that a backup or a restore causes: before the request is sent, after the
// write, and after the write with its answer lost. begin creates the resource, isMade reports whether the resource is
// complete, and holds checks the end state.
func crashes(t *testing.T, least int, causes func(harness.Sent) bool, begin func(*scene), isMade func(*scene) bool, holds func(*scene)) {
	t.Helper()
	base := newScene(t)
	op := base.start()
	base.declare()
	begin(base)
	holds(base)
	points := fault.Points(op.Since(0, causes))
	if len(points) < least {
		t.Fatalf("the run without a crash wrote only %v", points)
	}
	t.Logf("%d writes: %v", len(points), points)
	for action, do := range stage.Crashes {
		for _, p := range points {
			t.Run(action+"/"+p.String(), func(t *testing.T) {
				s, process := newScene(t), fault.New()
				op := s.through(process)
				s.declare()
				process.Rule(p.Rule(do))
				begin(s)
				s.Eventually("the run ends, or the operator crashes", func() bool { return stage.IsDead(process) || isMade(s) })
				if stage.IsDead(process) {
					op.Stop()
					s.start()
				} else if p.Nth == 1 {
					t.Errorf("the write did not happen; the writes were: %v", op.Since(0, causes))
				}
				holds(s)
				if runs := s.runs(); len(runs) != 1 {
					t.Errorf("runs %v", runs)
				}
			})
		}
	}
}

// After a crash of the operator at any write, a backup ends with one Job, one run and the same status.
func TestCrash(t *testing.T) {
	harness.Long(t)
	ofBackup := func(r harness.Sent) bool {
		return r.Writes() && (strings.HasPrefix(r.Resource, "databackups") || r.Resource == "jobs")
	}
	var want *backupv1.DataBackupStatus // the status after the first run, in which the operator does not crash
	crashes(t, 3, ofBackup, func(s *scene) { s.back(name) }, func(s *scene) bool {
		b := harness.Lookup[*backupv1.DataBackup](s.Journal, name)
		return b != nil && b.Status.Phase == backupv1.PhaseSucceeded
	}, func(s *scene) {
		got := s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded).Status
		if want == nil {
			want = &got
		}
		if got.ID != want.ID || got.Bytes != want.Bytes || got.Message != want.Message {
			s.Errorf("want %+v\ngot %+v", want, got)
		}
	})
}

// After a crash of the operator at any write, a restore ends with one claim, one Job, one run and the same status.
func TestARestoreThroughCrashes(t *testing.T) {
	harness.Long(t)
	ofRestore := func(r harness.Sent) bool {
		return r.Writes() && (strings.HasPrefix(r.Resource, "datarestores") || r.Resource == "jobs" || r.Resource == "persistentvolumeclaims")
	}
	var want *backupv1.DataRestoreStatus
	crashes(t, 4, ofRestore, func(s *scene) {
		s.restore(rehearsal, func(spec *backupv1.DataRestoreSpec) { spec.DatabaseName = "other" })
	}, func(s *scene) bool {
		r := harness.Lookup[*backupv1.DataRestore](s.Journal, rehearsal)
		return r != nil && r.Status.Phase == backupv1.PhasePrepared
	}, func(s *scene) {
		got := s.comes(rehearsal, backupv1.PhasePrepared, backupv1.ReasonPrepared).Status
		if want == nil {
			want = &got
		}
		if got.ID != want.ID || got.Message != want.Message || got.Claim != want.Claim || got.Loses.Summary != want.Loses.Summary {
			s.Errorf("want %+v\ngot %+v", want, got)
		}
		claims := &corev1.PersistentVolumeClaimList{}
		s.Must(suite.API.List(s.Ctx, claims, client.InNamespace(s.Namespace)))
		if len(claims.Items) != 2 { // the claims of the restore and of the store
			s.Errorf("claims %v", claims.Items)
		}
	})
}
