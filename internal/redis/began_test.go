// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// emptied replaces all nodes by nodes without data, as after the deletion of all claims.
func emptied(obs *Observation) {
	for i := range obs.Nodes {
		n := &obs.Nodes[i]
		n.ID = "e" + n.ID[1:]
		n.View = []topology.Entry{{ID: n.ID, Myself: true, Master: true, Connected: true}}
		n.Replication = topology.Replication{Master: true}
	}
}

// A cluster that was ready before does not begin again on empty volumes without a message. While the record exists, no slot is served before
// a user consents to the loss. Without the record, the cluster is formed again, and the status names the loss until a user accepts it.
func TestBeganEmpty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*redisv1.RedisCluster, *Observation)
		served bool
		note   bool
	}{
		"the record is kept": {func(*redisv1.RedisCluster, *Observation) {}, false, false},
		"the record is lost": {func(_ *redisv1.RedisCluster, obs *Observation) { obs.Record = topology.Record{} }, true, true},
		"the record is lost, and a backup is restored": {func(rc *redisv1.RedisCluster, obs *Observation) {
			obs.Record, rc.Spec.RestoreFrom = topology.Record{}, &backupv1.ClusterRestore{}
		}, true, false},
		"the resource is new": {func(rc *redisv1.RedisCluster, obs *Observation) {
			obs.Record, rc.Status = topology.Record{}, redisv1.RedisClusterStatus{}
		}, true, false},
		"a new resource of a DataService whose redis was ready": {func(rc *redisv1.RedisCluster, obs *Observation) {
			obs.Record, rc.Status = topology.Record{}, redisv1.RedisClusterStatus{}
			rc.Annotations = map[string]string{object.AnnotationReadyBefore: "1970-01-01T00:16:40Z"}
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, rc, obs := statusKind(t), read(t, "minimal"), running()
			report(k, rc, &obs, nil)
			assert.Assert(t, rc.Status.FirstReady == nil, "a settled cluster stores nothing")
			emptied(&obs)
			c.change(rc, &obs)
			report(k, rc, &obs, nil)
			if !c.served {
				assert.Assert(t, rc.Status.Phase == redisv1.PhaseFailed && !strings.Contains(rc.Status.Message, "could be reached"), "%s: %s", rc.Status.Phase, rc.Status.Message)
				assert.Assert(t, strings.Contains(rc.Status.Message, "no pod has the data of the recorded cluster"), rc.Status.Message)
			}
			served := running()
			report(k, rc, &served, nil)
			began := meta.FindStatusCondition(rc.Status.Conditions, redisv1.ConditionBeganEmpty)
			const note = "RedisCluster cache began empty: it was formed without data and without a record after it was ready (1970-01-01T00:16:40Z)"
			assert.Equal(t, began != nil && strings.HasPrefix(began.Message, note), c.note, "%+v", began)
			assert.Equal(t, strings.Contains(rc.Status.Message, note), c.note, rc.Status.Message)
			assert.Equal(t, len(k.Summary(rc).Warnings) == 1, c.note)
			if !c.note {
				return
			}
			assert.DeepEqual(t, k.Summary(rc).Warnings, []reconcile.Warning{{Reason: "DataLost", Field: "status.conditions", Text: began.Message}})
			rc.Status.FirstReady = (*metav1.Time)(nil)
			report(k, rc, &served, nil)
			assert.Assert(t, meta.FindStatusCondition(rc.Status.Conditions, redisv1.ConditionBeganEmpty) == nil)
		})
	}
}
