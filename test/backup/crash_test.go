// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"errors"
	"strings"
	"testing"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
)

// The operator crashes at every write of a backup: before it is sent, after it took effect, and with its answer lost. There
// is one Job, one run and the same status in the end.
func TestCrash(t *testing.T) {
	harness.Long(t)
	base := newScene(t)
	op := base.start()
	base.declare()
	base.back(name)
	want := base.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded).Status
	points := fault.Points(op.Since(0, ofBackup))
	if len(points) < 3 {
		t.Fatalf("only %v was written", points)
	}
	t.Logf("%d writes: %v", len(points), points)
	for action, do := range map[string]fault.Action{"before": fault.CrashBefore, "after": fault.CrashAfter, "lost": fault.CrashLost} {
		for _, p := range points {
			t.Run(action+"/"+p.String(), func(t *testing.T) {
				s := newScene(t)
				op := s.start()
				s.declare()
				rule := p.Rule(do)
				op.Rule(rule)
				s.back(name)
				s.Until("the end, or a crash", func() error {
					b := harness.Lookup[*backupv1.DataBackup](s.Journal, name)
					if crashed(op) || b != nil && b.Status.Phase == backupv1.PhaseSucceeded {
						return nil
					}
					return errors.New("neither")
				})
				if crashed(op) {
					s.stop(op)
					s.start()
				} else if p.Nth == 1 {
					t.Errorf("the write did not happen; these did: %v", op.Since(0, ofBackup))
				}
				got := s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded).Status
				if got.ID != want.ID || got.Bytes != want.Bytes || got.Message != want.Message {
					t.Errorf("want %+v\ngot %+v", want, got)
				}
				if runs := s.runs(); len(runs) != 1 {
					t.Errorf("runs %v", runs)
				}
			})
		}
	}
}

// ofBackup are the writes that a DataBackup causes.
func ofBackup(r harness.Sent) bool {
	return r.Writes() && (strings.HasPrefix(r.Resource, "databackups") || r.Resource == "jobs")
}

func crashed(op *operator) bool {
	select {
	case <-op.Crashed():
		return true
	default:
		return false
	}
}
