// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// at returns a fixed time plus minutes.
func at(minutes int) metav1.Time {
	return metav1.NewTime(time.Unix(1_800_000_000, 0).Add(time.Duration(minutes) * time.Minute))
}

// job returns the ended pod of a Job. message is its report.
func job(label string, minute int, code int32, message string) *corev1.Pod {
	end := &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: at(minute)}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: map[string]string{object.LabelBackup: label}}, Status: corev1.PodStatus{
		ContainerStatuses: []corev1.ContainerStatus{{Name: "backup", State: corev1.ContainerState{Terminated: end}}}}}
}

func good(id string) string { return fmt.Sprintf(`{"ok":true,"id":%q}`, id) }

const full = `{"ok":false,"reason":"StoreFull","message":"the store is full"}`

// The reports of the Jobs' pods determine the times in the status and the condition BackupHealthy. The times never decrease.
func TestRuns(t *testing.T) {
	t.Parallel()
	plain, checked := &dsv1.Backup{}, &dsv1.Backup{Verify: &dsv1.BackupVerify{Schedule: "@weekly"}}
	later, earlier := at(100), at(-100)
	for name, test := range map[string]struct {
		declared *dsv1.Backup
		before   *dsv1.BackupStatus
		pods     []*corev1.Pod
		good     bool
		reason   string
		id       string
	}{
		"none":                          {plain, nil, nil, false, dsv1.ReasonNoBackup, ""},
		"one that runs":                 {plain, nil, []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{object.LabelBackup: "mysql"}}}}, false, dsv1.ReasonNoBackup, ""},
		"one":                           {plain, nil, []*corev1.Pod{job("mysql", 1, 0, good("a"))}, true, dsv1.ReasonBackupSucceeded, "a"},
		"the newest":                    {plain, nil, []*corev1.Pod{job("mysql", 2, 0, good("b")), job("mysql", 1, 0, good("a"))}, true, dsv1.ReasonBackupSucceeded, "b"},
		"a newer one is known":          {plain, &dsv1.BackupStatus{LastSuccessful: &later, LastID: "z"}, []*corev1.Pod{job("mysql", 1, 0, good("a"))}, true, dsv1.ReasonBackupSucceeded, "z"},
		"the pod was deleted":           {plain, &dsv1.BackupStatus{LastSuccessful: &earlier, LastID: "z"}, nil, true, dsv1.ReasonBackupSucceeded, "z"},
		"failed since":                  {plain, nil, []*corev1.Pod{job("mysql", 1, 0, good("a")), job("mysql", 2, 22, full)}, false, "StoreFull", "a"},
		"failed before":                 {plain, nil, []*corev1.Pod{job("mysql", 2, 0, good("a")), job("mysql", 1, 22, full)}, true, dsv1.ReasonBackupSucceeded, "a"},
		"failed, and nothing else":      {plain, nil, []*corev1.Pod{job("mysql", 1, 22, full)}, false, "StoreFull", ""},
		"killed":                        {plain, nil, []*corev1.Pod{job("mysql", 1, 137, "")}, false, dsv1.ReasonBackupFailed, ""},
		"a success report, exit code 1": {plain, nil, []*corev1.Pod{job("mysql", 1, 1, good("a"))}, false, dsv1.ReasonBackupFailed, ""},
		"an invalid reason":             {plain, nil, []*corev1.Pod{job("mysql", 1, 1, `{"reason":"not well","message":"m"}`)}, false, dsv1.ReasonBackupFailed, ""},
		"Jobs that make no backups":     {plain, nil, []*corev1.Pod{job("mysql-prune", 1, 0, good("a")), job("mysql-restore", 1, 43, full)}, false, dsv1.ReasonNoBackup, ""},
		"not checked yet":               {checked, nil, []*corev1.Pod{job("mysql", 1, 0, good("a"))}, false, dsv1.ReasonNotVerified, "a"},
		"checked":                       {checked, nil, []*corev1.Pod{job("mysql", 1, 0, good("a")), job("mysql-verify", 2, 0, good("a"))}, true, dsv1.ReasonVerified, "a"},
		"checked and refuted since":     {checked, nil, []*corev1.Pod{job("mysql", 1, 0, good("a")), job("mysql-verify", 2, 0, good("a")), job("mysql-verify", 3, 34, `{"reason":"Mismatch","message":"m"}`)}, false, "Mismatch", "a"},
		"refuted, and good since":       {checked, nil, []*corev1.Pod{job("mysql", 1, 0, good("a")), job("mysql-verify", 3, 0, good("a")), job("mysql-verify", 2, 137, "")}, true, dsv1.ReasonVerified, "a"},
		"refuted, checks not declared":  {plain, nil, []*corev1.Pod{job("mysql", 1, 0, good("a")), job("mysql-verify", 2, 137, "")}, true, dsv1.ReasonBackupSucceeded, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next, healthy, recoverable := JudgeBackups(test.before, Observed{Declared: test.declared, Component: "mysql", Jobs: test.pods}, at(5).Time)
			assert.Equal(t, healthy.Good, test.good)
			assert.Equal(t, healthy.Reason, test.reason)
			assert.Equal(t, next.LastID, test.id)
			assert.Assert(t, healthy.Message != "")
			assert.Assert(t, recoverable == nil)
			again, _, _ := JudgeBackups(next, Observed{Declared: test.declared, Component: "mysql", Jobs: test.pods}, at(500).Time)
			assert.DeepEqual(t, next, again)
		})
	}
	next, healthy, recoverable := JudgeBackups(&dsv1.BackupStatus{LastID: "a"}, Observed{}, at(1).Time)
	assert.Assert(t, next == nil && healthy == nil && recoverable == nil, "backups are not declared any more")
}

// The status and the condition show the warnings of a scheduled backup until a newer backup reports no warnings.
func TestWarningsOfABackup(t *testing.T) {
	t.Parallel()
	const warned = `{"ok":true,"id":"a","warnings":["table a.b is MyISAM","resource groups are not in the backup"]}`
	for name, c := range map[string]struct {
		declared *dsv1.Backup
		pods     []*corev1.Pod
		warnings []string
		message  string
	}{
		"warned":      {&dsv1.Backup{}, []*corev1.Pod{job("mysql", 1, 0, warned)}, []string{"table a.b is MyISAM", "resource groups are not in the backup"}, "it has 2 warnings; the first: table a.b is MyISAM"},
		"not checked": {&dsv1.Backup{Verify: &dsv1.BackupVerify{Schedule: "@weekly"}}, []*corev1.Pod{job("mysql", 1, 0, warned)}, []string{"table a.b is MyISAM", "resource groups are not in the backup"}, "no backup was checked yet; it has 2 warnings; the first: table a.b is MyISAM"},
		"checked": {&dsv1.Backup{Verify: &dsv1.BackupVerify{Schedule: "@weekly"}}, []*corev1.Pod{job("mysql", 1, 0, warned), job("mysql-verify", 2, 0, good("a"))},
			[]string{"table a.b is MyISAM", "resource groups are not in the backup"}, "the last checked backup is a; it has 2 warnings; the first: table a.b is MyISAM"},
		"a newer one has none": {&dsv1.Backup{}, []*corev1.Pod{job("mysql", 1, 0, warned), job("mysql", 2, 0, good("b"))}, nil, "the last backup is b; backups are not checked"},
		"a newer one failed":   {&dsv1.Backup{}, []*corev1.Pod{job("mysql", 1, 0, warned), job("mysql", 2, 22, full)}, []string{"table a.b is MyISAM", "resource groups are not in the backup"}, "the store is full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next, healthy, _ := JudgeBackups(nil, Observed{Declared: c.declared, Component: "mysql", Jobs: c.pods}, at(5).Time)
			assert.DeepEqual(t, next.Warnings, c.warnings)
			var list []metav1.Condition
			healthy.Set(reconcile.Conditions{List: &list, Now: at(5)}, dsv1.ConditionBackupHealthy)
			assert.Assert(t, strings.HasSuffix(list[0].Message, c.message), "%s", list[0].Message)
			again, _, _ := JudgeBackups(next, Observed{Declared: c.declared, Component: "mysql"}, at(6).Time) // the pods were deleted
			assert.DeepEqual(t, again, next)
		})
	}
}

// BackupHealthy is false if no backup or no check has completed in the interval of its schedule.
func TestOverdue(t *testing.T) {
	t.Parallel()
	now := at(0)
	ago := func(hours int) *metav1.Time { past := at(-60 * hours); return &past }
	for reason, c := range map[string]struct{ backup, check int }{dsv1.ReasonVerified: {25, 24 * 7}, dsv1.ReasonBackupOverdue: {27, 1}, dsv1.ReasonCheckOverdue: {1, 24 * 8}} {
		known := &dsv1.BackupStatus{LastSuccessful: ago(c.backup), LastID: "a", LastVerified: ago(c.check), VerifiedID: "a"}
		_, healthy, _ := JudgeBackups(known, Observed{Declared: &dsv1.Backup{Schedule: "@daily", Verify: &dsv1.BackupVerify{Schedule: "@weekly"}}, Component: "mysql"}, now.Time)
		assert.Equal(t, healthy.Reason, reason)
		assert.Equal(t, healthy.Good, reason == dsv1.ReasonVerified)
	}
	// The time 02:30 does not exist in the night in which summer time begins.
	zone := &dsv1.Backup{Schedule: "30 2 * * *", TimeZone: "Europe/Berlin", Verify: &dsv1.BackupVerify{Schedule: "30 2 * * *"}}
	known := &dsv1.BackupStatus{LastSuccessful: ago(48), LastID: "a", LastVerified: ago(48), VerifiedID: "a"}
	_, healthy, _ := JudgeBackups(known, Observed{Declared: zone, Component: "mysql"}, now.Time)
	assert.Equal(t, healthy.Reason, dsv1.ReasonVerified)
}

// A check finds the backup good, but cannot replay the archive. BackupHealthy is true. Recoverable is false until a newer check or a newer
// backup exists.
func TestArchiveThatCannotBeReplayed(t *testing.T) {
	t.Parallel()
	declared := &dsv1.Backup{Verify: &dsv1.BackupVerify{Schedule: "@weekly"}, PointInTime: &dsv1.PointInTime{}}
	ready := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	const broken = `{"reason":"Damaged","message":"a segment is missing","id":"a","verified":true}`
	for name, c := range map[string]struct {
		pods        []*corev1.Pod
		recoverable bool
	}{
		"the last check":   {[]*corev1.Pod{job("mysql", 1, 0, good("a")), job("mysql-verify", 2, 33, broken)}, false},
		"a newer check":    {[]*corev1.Pod{job("mysql", 1, 0, good("a")), job("mysql-verify", 2, 33, broken), job("mysql-verify", 3, 0, good("a"))}, true},
		"an older check":   {[]*corev1.Pod{job("mysql", 1, 0, good("a")), job("mysql-verify", 2, 0, good("a")), job("mysql-verify", 3, 33, broken)}, false},
		"a newer backup":   {[]*corev1.Pod{job("mysql", 4, 0, good("b")), job("mysql-verify", 2, 33, broken)}, true},
		"nothing is wrong": {[]*corev1.Pod{job("mysql", 1, 0, good("a")), job("mysql-verify", 3, 0, good("a"))}, true},
	} {
		next, healthy, recoverable := JudgeBackups(nil, Observed{Declared: declared, Component: "mysql", Jobs: c.pods, Archive: []*corev1.Pod{ready}}, at(5).Time)
		assert.Assert(t, healthy.Good, "%s: %s", name, healthy.Message)
		assert.Equal(t, recoverable.Good, c.recoverable, name)
		assert.Equal(t, next.VerifiedID, "a", name)
	}
}

// A failed check sets one of two conditions: Recoverable for a fault of the archive, BackupHealthy for any other fault.
// The reports come from the agent's TestChecksThatFail, in which checks fail in all known ways.
func TestBrokenChecks(t *testing.T) {
	t.Parallel()
	declared := &dsv1.Backup{Verify: &dsv1.BackupVerify{Schedule: "@weekly"}, PointInTime: &dsv1.PointInTime{}}
	ready := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	failed := func(reason string, verified bool) string {
		return fmt.Sprintf(`{"ok":false,"reason":%q,"message":"m","id":"a","verified":%t}`, reason, verified)
	}
	for name, c := range map[string]struct {
		code                 int32
		report               string
		healthy, recoverable string
	}{
		"nothing is wrong":                    {0, good("a"), dsv1.ReasonVerified, dsv1.ReasonArchived},
		"the scratch volume is full":          {1, failed("LoadFailed", false), "LoadFailed", dsv1.ReasonArchived},
		"the server is killed":                {1, failed("Failed", false), "Failed", dsv1.ReasonArchived},
		"the agent is killed (out of memory)": {137, "", dsv1.ReasonVerificationFailed, dsv1.ReasonArchived},
		"a segment is missing or damaged":     {33, failed("Damaged", true), dsv1.ReasonVerified, "Damaged"},
		"the replay fails":                    {35, failed("LoadFailed", true), dsv1.ReasonVerified, "LoadFailed"},
		"the key is wrong":                    {31, failed("WrongKey", false), "WrongKey", dsv1.ReasonArchived},
		"the image is of another kind":        {3, failed("Refused", false), "Refused", dsv1.ReasonArchived},
		"the store does not answer":           {20, failed("StoreUnreachable", false), "StoreUnreachable", dsv1.ReasonArchived},
		"an object of the backup is damaged":  {33, failed("Damaged", false), "Damaged", dsv1.ReasonArchived},
	} {
		for _, before := range []*corev1.Pod{job("mysql-verify", 2, 0, good("z")), job("mysql", 1, 0, good("z"))} {
			pods := []*corev1.Pod{before, job("mysql", 3, 0, good("a")), job("mysql-verify", 4, c.code, c.report)}
			next, healthy, recoverable := JudgeBackups(nil, Observed{Declared: declared, Component: "mysql", Jobs: pods, Archive: []*corev1.Pod{ready}}, at(5).Time)
			assert.Equal(t, healthy.Reason, c.healthy, name)
			assert.Equal(t, healthy.Good, c.healthy == dsv1.ReasonVerified, name)
			assert.Equal(t, recoverable.Reason, c.recoverable, name)
			assert.Equal(t, recoverable.Good, c.recoverable == dsv1.ReasonArchived, name)
			assert.Equal(t, next.LastID, "a", name)
		}
	}
}

// The condition Recoverable follows from the state of the archive's pod. If the agent has reported a cause, the condition
// has the agent's reason.
func TestArchive(t *testing.T) {
	t.Parallel()
	running := func(since int) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(since)}}
	}
	ended := func(message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}}
	}
	crashed := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	const denied, gap = `{"reason":"AccessDenied","message":"m"}`, `{"reason":"Gap","message":"m"}`
	pod := func(ready bool, state, last corev1.ContainerState) []*corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: containerArchive, State: state, LastTerminationState: last}}}}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
		return []*corev1.Pod{old, p}
	}
	nothing := corev1.ContainerState{}
	earlier := at(-100)
	known := &dsv1.BackupStatus{LastSuccessful: &earlier, LastID: "a"}
	for name, test := range map[string]struct {
		before  *dsv1.BackupStatus
		pods    []*corev1.Pod
		stopped bool
		reason  string
	}{
		"no pod":                             {known, nil, false, dsv1.ReasonArchiveNotReady},
		"stopped":                            {known, nil, true, dsv1.ReasonArchiveStopped},
		"ready":                              {known, pod(true, running(0), nothing), false, dsv1.ReasonArchived},
		"starts":                             {known, pod(false, running(9), nothing), false, dsv1.ReasonArchiveNotReady},
		"starts, and there is no backup":     {nil, pod(false, running(9), nothing), false, dsv1.ReasonNoBackup},
		"works, but no backup belongs to it": {known, pod(false, running(0), nothing), false, dsv1.ReasonNoBackup},
		"waits to start again":               {known, pod(false, crashed, ended(denied)), false, "AccessDenied"},
		"tries again":                        {known, pod(false, running(9), ended(denied)), false, "AccessDenied"},
		"its last failure is over":           {known, pod(false, running(0), ended(denied)), false, dsv1.ReasonNoBackup},
		"has just ended":                     {known, pod(false, ended(gap), nothing), false, "Gap"},
		"a gap that no backup has filled":    {known, pod(false, running(0), ended(gap)), false, "Gap"},
		"a gap that a backup has filled":     {known, pod(true, running(0), ended(gap)), false, dsv1.ReasonArchived},
		"ended without a report":             {known, pod(false, crashed, ended("")), false, dsv1.ReasonArchiveNotReady},
		"an image that cannot be pulled":     {known, pod(false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}, nothing), false, dsv1.ReasonArchiveNotReady},
		"stopped, after a failure":           {known, pod(false, crashed, ended(denied)), true, dsv1.ReasonArchiveStopped},
		"stopped, after a gap":               {known, pod(false, crashed, ended(gap)), true, dsv1.ReasonArchiveStopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Observed{Declared: &dsv1.Backup{PointInTime: &dsv1.PointInTime{}}, Component: "mysql", Archive: test.pods, IsStopped: test.stopped}
			_, _, recoverable := JudgeBackups(test.before, o, at(10).Time)
			assert.Equal(t, recoverable.Reason, test.reason)
			assert.Equal(t, recoverable.Good, test.reason == dsv1.ReasonArchived)
			assert.Equal(t, o.Gap() != nil, test.reason == string(contract.ReasonGap))
			assert.Assert(t, recoverable.Message != "")
		})
	}
}
