// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/contract"
)

const someMark = "0123456789abcdef01234567"

// serving returns a takeover of a ready server, before a Job has judged its data.
func serving() *Takeover {
	return &Takeover{
		Database: "db", Mark: someMark, Image: "mysql:8.4.9", Job: "db-members-3",
		Record:   &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{contract.RecordClaim: "c1", contract.RecordID: someMark}}},
		Claim:    &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "c1"}, "spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}}}},
		Workload: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "accounts", "image": "x"}, map[string]any{"name": "db", "image": "mysql:8.4.9"}}}}}}},
		Pods: []*corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Name: "db-0", OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: ptr.To(true)}}},
			Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				InitContainerStatuses: []corev1.ContainerStatus{{Name: containerGuard, State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{Message: `{"id":"` + someMark + `"}`},
				}}},
			},
		}},
	}
}

// looked adds a pod of the Job with a report. If the report is empty, the pod has not ended.
func (t *Takeover) looked(job, report string, code int32) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: job + "-x", Labels: map[string]string{labelJobName: job}}}
	if report != "" {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerMembers, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: report}}}}
	}
	t.Checks = append(t.Checks, pod)
}

// A single server that is about to become several members keeps the backups that it already makes. Other declared backups are not added to
// it.
func TestServerBeginsNoBackups(t *testing.T) {
	t.Parallel()
	declared := &dsv1.DataService{Spec: dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{Backup: &dsv1.Backup{PointInTime: &dsv1.PointInTime{}}}}}
	form := Form{Name: "db", IsReplicated: true, Records: []Record{{Database: "db", HasData: true}}, Claim: ClaimOfServer}
	for _, c := range []struct {
		left                []string
		isBackedUp, archive bool
	}{{}, {left: []string{"CronJob db-backup"}, isBackedUp: true}, {left: []string{"CronJob db-backup", "Deployment db-archive"}, isBackedUp: true, archive: true}} {
		form.Left = c.left
		m := form.As(declared).Spec.MySQL
		assert.Equal(t, *m.Replica, int32(1))
		assert.Equal(t, m.Backup != nil, c.isBackedUp)
		assert.Equal(t, m.Backup != nil && m.Backup.PointInTime != nil, c.archive)
	}
	assert.Assert(t, declared.Spec.MySQL.Backup.PointInTime != nil)
}

// The single server's claim is handed over only if every known fact proves that its data can become the first member's data.
func TestTakeover(t *testing.T) {
	t.Parallel()
	const good = `{"id":"` + someMark + `"}`
	for name, c := range map[string]struct {
		change func(*Takeover)
		act    string
		says   string
	}{
		"no Job has checked the data":          {func(*Takeover) {}, takeoverCheck, "db-members-3"},
		"a Job checks":                         {func(o *Takeover) { o.looked("db-members-3", "", 0) }, takeoverWaits, "db-members-3"},
		"a Job of an earlier spec has checked": {func(o *Takeover) { o.looked("db-members-2", good, 0) }, takeoverCheck, ""},
		"a Job has checked":                    {func(o *Takeover) { o.looked("db-members-3", good, 0) }, takeoverHand, "restarts once"},
		"a Job found tables": {func(o *Takeover) {
			o.looked("db-members-3", `{"reason":"NoMember","message":"d.t is not of InnoDB"}`, 3)
		}, takeoverRefused, "d.t is not of InnoDB. Then delete Job db-members-3"},
		"a Job found another volume": {func(o *Takeover) { o.looked("db-members-3", `{"id":"ffffffff"}`, 0) }, takeoverRefused, "ffffffff"},
		"a report that is none":      {func(o *Takeover) { o.looked("db-members-3", "killed", 137) }, takeoverRefused, "cannot be read"},
		"the server is not ready":    {func(o *Takeover) { o.Pods[0].Status.Conditions = nil }, takeoverWaits, "ready"},
		"the server's volume":        {func(o *Takeover) { o.Mark = "ffffffff" }, takeoverRefused, "ffffffff"},
		"no mark":                    {func(o *Takeover) { o.Mark = "" }, takeoverRefused, "no mark"},
		"no StatefulSet":             {func(o *Takeover) { o.Workload = nil }, takeoverRefused, "StatefulSet"},
		"another image":              {func(o *Takeover) { o.Image = "mysql:9.7" }, takeoverRefused, "mysql:9.7"},
		"the default image":          {func(o *Takeover) { o.Image = "" }, takeoverRefused, "set image to mysql:8.4.9"},
		"no claim":                   {func(o *Takeover) { o.Claim = nil }, takeoverRefused, "data-db-0"},
		"another claim":              {func(o *Takeover) { o.Claim.SetUID("c2") }, takeoverRefused, "not the claim in the record of the database"},
		"a claim that the server owns": {func(o *Takeover) {
			o.Claim.SetOwnerReferences([]metav1.OwnerReference{{Name: "db", Controller: ptr.To(true)}})
		}, takeoverRefused, "must outlive the server"},
		"ReadWriteOncePod": {func(o *Takeover) {
			o.Claim.Object["spec"] = map[string]any{"accessModes": []any{"ReadWriteOncePod"}}
		}, takeoverRefused, "ReadWriteOnce"},
		"no agent": {func(o *Takeover) { o.IsUnknown = true }, takeoverRefused, "RELATED_IMAGE_AGENT"},
	} {
		o := serving()
		c.change(o)
		act, message := o.Decide()
		assert.Equal(t, act, c.act, "%s: %s", name, message)
		assert.Assert(t, strings.Contains(message, c.says), "%s: %s", name, message)
	}
}
