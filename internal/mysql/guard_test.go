// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql_test

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
)

func claim(uid string) *unstructured.Unstructured {
	o := object.Empty(object.ClaimKind)
	o.SetName("data-db-0")
	o.SetUID(types.UID(uid))
	return o
}

func deleted(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	return o
}

// lost returns a claim whose volume was deleted.
func lost(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.Object["status"] = map[string]any{"phase": "Lost"}
	o.Object["spec"] = map[string]any{"volumeName": "pvc-1"}
	return o
}

// record returns a record with pairs of key and value.
func record(pairs ...string) *unstructured.Unstructured {
	o := object.Empty(object.ConfigMapKind)
	data := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = pairs[i+1]
	}
	o.Object["data"] = data
	return o
}

func pod(ready bool, words string) []*corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return []*corev1.Pod{{Status: corev1.PodStatus{
		Conditions:            []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "d3os-guard", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: words}}}},
	}}}
}

// made returns a claim that was created at a time, with annotations of pairs of key and value.
func made(at time.Time, pairs ...string) *unstructured.Unstructured {
	o := claim("a")
	o.SetCreationTimestamp(metav1.NewTime(at))
	annotations := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		annotations[pairs[i]] = pairs[i+1]
	}
	o.SetAnnotations(annotations)
	return o
}

// broken returns one pod, whose server has ended n times in its first start.
func broken(words string, n int32) []*corev1.Pod {
	pods := pod(false, words)
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	pods[0].Name, pods[0].Status.ContainerStatuses = "db-0", []corev1.ContainerStatus{{Name: "accounts", RestartCount: 9, LastTerminationState: ended},
		{Name: "db", RestartCount: n, LastTerminationState: ended}}
	return pods
}

func going(pods []*corev1.Pod) []*corev1.Pod {
	pods[0].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return pods
}

const (
	mark    = "0123456789abcdef"
	another = "fedcba9876543210"
	silent  = ""
)

func says(id string) string { return `{"id":"` + id + `"}` }

const first = `{"id":"` + mark + `","firstStart":true}`

func TestRecordAndDoubt(t *testing.T) {
	t.Parallel()
	type database = mysql.Database
	for name, test := range map[string]struct {
		is     database
		record string // key=value pairs, sorted; - for none
		doubt  string // reason of the doubt; - for none, empty for a doubt without a message
		hold   bool
	}{
		"new":                                  {database{}, "-", "", false},
		"new, stopped":                         {database{Stopped: true}, "-", "-", false},
		"the claim is there":                   {database{Claim: claim("a")}, "-", "", false},
		"starting":                             {database{Claim: claim("a"), Pods: pod(false, says(mark))}, "-", "", false},
		"ready":                                {database{Claim: claim("a"), Pods: pod(true, says(mark))}, "claim=a id=" + mark, "-", false},
		"ready, without a guard":               {database{Claim: claim("a"), Pods: pod(true, silent)}, "claim=a", "-", false},
		"ready, the claim has no labels":       {database{Pods: pod(true, says(mark))}, "id=" + mark, "-", false},
		"ready, neither claim nor guard":       {database{Pods: pod(true, silent)}, "-", "-", false},
		"ready, words that are no ID":          {database{Claim: claim("a"), Pods: pod(true, `{"id":"../../x"}`)}, "claim=a", "-", false},
		"ready, being deleted":                 {database{Claim: claim("a"), Pods: going(pod(true, says(mark)))}, "-", "", false},
		"recorded":                             {database{Claim: claim("a"), Record: record("claim", "a", "id", mark), Pods: pod(true, says(mark))}, "claim=a id=" + mark, "-", false},
		"recorded, starting":                   {database{Claim: claim("a"), Record: record("claim", "a", "id", mark), Pods: pod(false, silent)}, "claim=a id=" + mark, "-", false},
		"recorded, stopped":                    {database{Claim: claim("a"), Record: record("claim", "a"), Stopped: true}, "claim=a", "-", false},
		"the guard is added":                   {database{Claim: claim("a"), Record: record("claim", "a"), Pods: pod(true, says(mark))}, "claim=a id=" + mark, "-", false},
		"a user's key stays":                   {database{Claim: claim("a"), Record: record("claim", "a", "allowServer", "8.0"), Pods: pod(true, says(mark))}, "allowServer=8.0 claim=a id=" + mark, "-", false},
		"the claim is gone":                    {database{Record: record("claim", "a", "id", mark)}, "claim=a id=" + mark, mysql.ReasonDataLost, true},
		"the claim is gone, stopped":           {database{Record: record("claim", "a"), Stopped: true}, "claim=a", mysql.ReasonDataLost, true},
		"the claim is gone, pod pending":       {database{Record: record("claim", "a", "id", mark), Pods: pod(false, silent)}, "claim=a id=" + mark, mysql.ReasonDataLost, true},
		"another claim":                        {database{Claim: claim("b"), Record: record("claim", "a", "id", mark)}, "claim=a id=" + mark, mysql.ReasonDataLost, false},
		"another claim, ready without guard":   {database{Claim: claim("b"), Record: record("claim", "a"), Pods: pod(true, silent)}, "claim=a", mysql.ReasonDataLost, false},
		"another claim, guard without record":  {database{Claim: claim("b"), Record: record("claim", "a"), Pods: pod(true, says(mark))}, "claim=a", mysql.ReasonDataLost, false},
		"another claim with the same volume":   {database{Claim: claim("b"), Record: record("claim", "a", "id", mark), Pods: pod(true, says(mark))}, "claim=b id=" + mark, "-", false},
		"another claim with another's volume":  {database{Claim: claim("b"), Record: record("claim", "a", "id", mark), Pods: pod(true, says(another))}, "claim=a id=" + mark, mysql.ReasonDataLost, false},
		"the claim lost its labels":            {database{Record: record("claim", "a", "id", mark), Pods: pod(true, says(mark))}, "claim=a id=" + mark, "-", false},
		"the claim is being deleted":           {database{Claim: deleted(claim("a")), Record: record("claim", "a", "id", mark), Pods: pod(true, says(mark))}, "claim=a id=" + mark, mysql.ReasonVolumeBeingDeleted, true},
		"the claim is deleted, not recorded":   {database{Claim: deleted(claim("a")), Pods: pod(true, silent)}, "-", mysql.ReasonVolumeBeingDeleted, true},
		"an unused claim is being deleted":     {database{Claim: deleted(claim("a"))}, "-", "", false},
		"the record was deleted, pod refused":  {database{Claim: claim("b"), Pods: pod(false, silent)}, "-", "", false},
		"killed in its first start":            {database{Claim: claim("a"), Pods: broken(first, 1)}, "-", mysql.ReasonFirstStart, false},
		"killed, but not in its first start":   {database{Claim: claim("a"), Pods: broken(says(mark), 1)}, "-", "", false},
		"killed in first start, being deleted": {database{Claim: claim("a"), Pods: going(broken(first, 1))}, "-", "", false},
		"killed after it was recorded":         {database{Claim: claim("a"), Record: record("claim", "a", "id", mark), Pods: broken(first, 1)}, "claim=a id=" + mark, "-", false},
		"its first start":                      {database{Claim: claim("a"), Pods: broken(first, 0)}, "-", "", false},
		"an empty record is none":              {database{Claim: claim("a"), Record: record(), Pods: pod(true, says(mark))}, "claim=a id=" + mark, "-", false},
		"another mark, the same claim":         {database{Claim: claim("a"), Record: record("claim", "a", "id", mark), Pods: pod(true, says(another))}, "claim=a id=" + mark, "-", false},
		"the volume is gone":                   {database{Claim: lost(claim("a")), Record: record("claim", "a", "id", mark), Pods: pod(true, says(mark))}, "claim=a id=" + mark, mysql.ReasonDataLost, true},
		"the volume is gone, not recorded":     {database{Claim: lost(claim("a")), Pods: pod(true, silent)}, "claim=a", mysql.ReasonDataLost, true},
		"the volume is gone, never used":       {database{Claim: lost(claim("a"))}, "-", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := test.is
			d.Name, d.HasVolume = "db", true
			content := d.Recorded()
			got := "-"
			if content != nil {
				var pairs []string
				for _, key := range []string{"allowServer", "claim", "id"} {
					if content[key] != "" {
						pairs = append(pairs, key+"="+content[key])
					}
				}
				got = strings.Join(pairs, " ")
			}
			assert.Equal(t, got, test.record)
			reason, hold := "-", false
			if doubt := d.Doubt(); doubt != nil {
				reason, hold = doubt.Culprit.Reason, doubt.Hold
				assert.Equal(t, doubt.IsCause, hold || reason == mysql.ReasonFirstStart)
				switch reason {
				case "":
				case mysql.ReasonFirstStart:
					assert.Equal(t, doubt.Culprit.Kind+"/"+doubt.Culprit.Name, "Pod/db-0")
					assert.Assert(t, strings.HasPrefix(doubt.Culprit.Message, "container db ended with exit code 1 "), doubt.Culprit.Message)
				default:
					assert.Equal(t, doubt.Culprit.Kind+"/"+doubt.Culprit.Name, "PersistentVolumeClaim/data-db-0")
				}
				if reason == mysql.ReasonDataLost {
					assert.Assert(t, strings.Contains(doubt.Culprit.Message, "ConfigMap db-data"), doubt.Culprit.Message)
				}
			}
			assert.Equal(t, reason, test.doubt)
			assert.Equal(t, hold, test.hold)

			d.HasVolume = false
			assert.Assert(t, d.Doubt() == nil)
			assert.Equal(t, d.Recorded() == nil, d.Record == nil, "without a volume nothing is recorded, and nothing forgotten")
		})
	}
}

// A database was ready before and has no record. If it becomes ready on a claim that is younger than the first
// readiness, its record gets the key readyBefore. The record keeps the key until a user removes it.
func TestClaimIsYoungerThanTheFirstReadiness(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	later := at.Add(time.Hour)
	const ready = "2026-01-02T15:04:05Z"
	for name, test := range map[string]struct {
		is   mysql.Database
		want string
	}{
		"younger":                       {mysql.Database{FirstReady: at, Claim: made(later), Pods: pod(true, first)}, ready},
		"younger, an empty record":      {mysql.Database{FirstReady: at, Claim: made(later), Record: record(), Pods: pod(true, first)}, ready},
		"younger, not ready yet":        {mysql.Database{FirstReady: at, Claim: made(later), Pods: pod(false, first)}, ""},
		"younger, without a guard":      {mysql.Database{FirstReady: at, Claim: made(later), Pods: pod(true, silent)}, ready},
		"younger, with an earlier mark": {mysql.Database{FirstReady: at, Claim: made(later), Pods: pod(true, says(mark))}, ""},
		"older":                         {mysql.Database{FirstReady: at, Claim: made(at.Add(-time.Minute)), Pods: pod(true, first)}, ""},
		"of the same second":            {mysql.Database{FirstReady: at, Claim: made(at), Pods: pod(true, first)}, ""},
		"never ready before":            {mysql.Database{Claim: made(later), Pods: pod(true, first)}, ""},
		"no claim is seen":              {mysql.Database{FirstReady: at, Pods: pod(true, first)}, ""},
		"a DataRestore filled it":       {mysql.Database{FirstReady: at, Claim: made(later, object.AnnotationRestoredTo, "2026"), Pods: pod(true, first)}, ""},
		"the record has other data":     {mysql.Database{FirstReady: at, Claim: made(later), Record: record("claim", "a", "id", mark), Pods: pod(true, says(mark))}, ""},
		"stored":                        {mysql.Database{Claim: made(later), Record: record("claim", "a", "readyBefore", ready), Pods: pod(true, first)}, ready},
		"stored, the server is stopped": {mysql.Database{Stopped: true, Record: record("claim", "a", "readyBefore", ready)}, ready},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := test.is
			d.Name, d.HasVolume = "db", true
			assert.Equal(t, d.Recorded()["readyBefore"], test.want)
			if note := d.Younger(); test.want == "" {
				assert.Equal(t, note, health.Note{})
			} else {
				assert.Assert(t, strings.HasPrefix(note.Text, "PersistentVolumeClaim data-db-0 began empty: it was created after the database was ready ("+ready+")"), note)
				assert.Assert(t, strings.Contains(note.Text, "ConfigMap db-data"), note)
			}
		})
	}
}
