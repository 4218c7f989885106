// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradeable

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

func TestInProgress(t *testing.T) {
	progressing := dataService("a", dsv1.ConditionProgressing)
	unseen := with(dataService("a"), func(ds *dsv1.DataService) { ds.Generation++ })
	for name, c := range map[string]struct {
		ds   dsv1.DataService
		want bool
	}{
		"at rest":                         {dataService("a", dsv1.ConditionReady), false},
		"not ready, but nothing to do":    {dataService("a"), false},
		"progressing":                     {progressing, true},
		"scaling":                         {with(progressing, func(ds *dsv1.DataService) { ds.Status.Phase = dsv1.PhaseScaling }), false},
		"updating":                        {with(progressing, func(ds *dsv1.DataService) { ds.Status.Phase = dsv1.PhaseUpdating }), true},
		"not looked at":                   {unseen, true},
		"new":                             {with(unseen, func(ds *dsv1.DataService) { ds.Status = dsv1.DataServiceStatus{} }), true},
		"stuck":                           {dataService("a", dsv1.ConditionProgressing, dsv1.ConditionDegraded), false},
		"cannot be carried out":           {dataService("a", dsv1.ConditionStalled, dsv1.ConditionDegraded), false},
		"changed again while stuck":       {with(unseen, func(ds *dsv1.DataService) { ds.Status = dataService("a", dsv1.ConditionDegraded).Status }), true},
		"paused":                          {dataService("a", dsv1.ConditionPaused), false},
		"paused in the middle of it":      {with(progressing, func(ds *dsv1.DataService) { ds.Spec.Paused = true }), false},
		"paused before it was looked at":  {with(unseen, func(ds *dsv1.DataService) { ds.Spec.Paused = true }), false},
		"deleted in the middle of it":     {with(progressing, func(ds *dsv1.DataService) { ds.DeletionTimestamp = &metav1.Time{} }), false},
		"deleted before it was looked at": {with(unseen, func(ds *dsv1.DataService) { ds.DeletionTimestamp = &metav1.Time{} }), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, inProgress(&c.ds), c.want) })
	}
}

func TestMessageNamesAFew(t *testing.T) {
	var names []string
	for i, want := range []string{
		"no rollout of a DataService stands in the way",
		"1 DataService is being rolled out: data/a0",
		"2 DataServices are being rolled out: data/a0, data/a1",
		"3 DataServices are being rolled out: data/a0, data/a1, data/a2",
		"4 DataServices are being rolled out: data/a0, data/a1, data/a2 and 1 more",
		"5 DataServices are being rolled out: data/a0, data/a1, data/a2 and 2 more",
	} {
		c := conditionFor(names)
		assert.Equal(t, c.Message, want)
		assert.Equal(t, c.Status == metav1.ConditionTrue, i == 0)
		names = append(names, fmt.Sprintf("data/a%d", i))
	}
}
