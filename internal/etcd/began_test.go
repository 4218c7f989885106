// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/reconcile"
)

// A cluster that was ready before does not begin again on empty volumes without a message. With the record, or with the marks on the claims,
// it waits for a user's consent. Without both, a cluster is formed again, and the status names the loss until a user accepts it.
func TestBeganEmpty(t *testing.T) {
	t.Parallel()
	record := membership.Record{Cluster: 1, Replicas: 1, Version: "3.6.16"}
	for name, c := range map[string]struct {
		record  membership.Record
		claims  []membership.Claim
		change  func(*etcdv1.EtcdCluster)
		verdict membership.Verdict
		says    string
		note    bool
	}{
		"the record is kept":         {record, nil, func(*etcdv1.EtcdCluster) {}, membership.QuorumLost, "the volumes of all 1 members are empty, but cluster 1 had data", false},
		"the claim's marks are kept": {membership.Record{}, []membership.Claim{{Cluster: 1, Member: 2}}, func(*etcdv1.EtcdCluster) {}, membership.QuorumLost, "the volumes of all 1 members are empty, but cluster 1 had data", false},
		"both are lost":              {membership.Record{}, nil, func(*etcdv1.EtcdCluster) {}, membership.Fresh, "", true},
		"a backup is restored": {membership.Record{}, nil, func(ec *etcdv1.EtcdCluster) {
			ec.Spec.RestoreFrom = &backupv1.ClusterRestore{}
		}, membership.Fresh, "", false},
		"the user has accepted the loss": {membership.Record{Tokens: "t", Replicas: 1, Version: "3.6.16"}, nil, func(*etcdv1.EtcdCluster) {}, membership.Fresh, "", false},
		"the resource is new":            {membership.Record{}, nil, func(ec *etcdv1.EtcdCluster) { ec.Status = etcdv1.EtcdClusterStatus{} }, membership.Fresh, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, ec := &Kind{planner: testPlanner(t)}, read(t, "minimal")
			answer := membership.Answer{Cluster: 1, Member: 2, Leader: 2, Version: "3.6.16", Linear: true, Members: []membership.Member{{ID: 2, PeerURLs: wanted(ec).PeerURLs[:1]}}}
			pod := membership.Pod{Name: ec.Name + "-0", UID: "u", IP: "192.0.2.1", Running: true, Ready: true, Answer: &answer}
			claim := membership.Claim{Name: "data-" + ec.Name + "-0", Cluster: 1, Member: 2, Version: "3.6.16"}
			runs := Observation{View: membership.View{Live: 1, Record: record, Pods: []membership.Pod{pod}, Claims: []membership.Claim{claim}}}
			now := metav1.NewTime(time.Unix(1000, 0))
			report(k, ec, &runs, now)
			assert.Assert(t, meta.IsStatusConditionTrue(ec.Status.Conditions, etcdv1.ConditionReady), "%s", ec.Status.Message)
			assert.Assert(t, ec.Status.FirstReady == nil, "a settled cluster stores nothing")

			assert.Assert(t, !strings.Contains(ec.Status.Message, "backup: "), "%s", ec.Status.Message)
			ec.Spec.Backup, runs.backups.Jobs = &backupv1.ClusterBackup{}, []backup.Unfinished{{Name: "b", Stuck: "m"}}
			report(k, ec, &runs, now)
			const failed = "backup: PodNotStarting: Job b does not start: m"
			assert.Assert(t, strings.HasPrefix(ec.Status.Message, failed+"; "), "%s", ec.Status.Message)

			c.change(ec)
			pod.Answer, pod.Ready, pod.Report = nil, false, &membership.Report{Volume: membership.VolumeEmpty}
			report(k, ec, &Observation{View: membership.View{Live: 1, Record: c.record, Claims: c.claims, Pods: []membership.Pod{pod}}}, now)
			assert.Equal(t, ec.Status.Verdict, string(c.verdict), ec.Status.Message)
			assert.Assert(t, strings.Contains(ec.Status.Message, c.says), "%s", ec.Status.Message)

			report(k, ec, &runs, now)
			began := meta.FindStatusCondition(ec.Status.Conditions, etcdv1.ConditionBeganEmpty)
			const note = " began empty: it was formed without data and without a record after it was ready (1970-01-01T00:16:40Z)"
			assert.Equal(t, strings.Contains(ec.Status.Message, "EtcdCluster "+ec.Name+note), c.note, "%s", ec.Status.Message)
			assert.Equal(t, strings.HasSuffix(ec.Status.Message, "; "+failed), c.note, "%s", ec.Status.Message)
			if !c.note {
				assert.Assert(t, began == nil, "%+v", began)
				return
			}
			assert.DeepEqual(t, k.Summary(ec).Warnings, []reconcile.Warning{{Reason: "DataLost", Field: "status.conditions", Text: began.Message}})
			ec.Status.FirstReady = nil
			report(k, ec, &runs, now)
			assert.Assert(t, meta.FindStatusCondition(ec.Status.Conditions, etcdv1.ConditionBeganEmpty) == nil)
		})
	}
}
