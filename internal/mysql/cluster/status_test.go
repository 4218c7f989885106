// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/mysql/client"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

var began = time.Unix(1000, 0)

// scene is a database whose members give the answers that a test sets.
type scene struct {
	*Kind

	mc      *mysqlv1.MySQLCluster
	record  replication.Record
	answers map[int]*mysqlmember.Answer
	failed  map[int]error // queries without an answer
	past    memory
	pods    []pod
	now     time.Time
}

func newScene(replicas int32) *scene {
	s := &scene{Kind: &Kind{}, record: recorded, answers: map[int]*mysqlmember.Answer{0: answer(0), 1: answer(1), 2: answer(2)}, now: began}
	s.mc = &mysqlv1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "db", UID: "u", Generation: 1}}
	s.mc.Spec.Replicas = &replicas
	for i := range int(replicas) {
		s.pods = append(s.pods, pod{Pod: client.Pod{Ordinal: i, UID: database.PodName("db", i), Routed: i == 0}, readable: true, ready: true})
	}
	return s
}

// observed advances the clock, and then observes the members.
func (s *scene) observed(after time.Duration) Observation {
	s.now = s.now.Add(after)
	obs := Observation{Problems: map[string]string{}, record: s.record, pods: s.pods}
	for _, p := range s.pods {
		look := client.Look{Pod: p.Pod, Err: errors.New("no answer")}
		if p.UID != "" {
			obs.Pods++
		}
		if a := s.answers[p.Ordinal]; a != nil {
			look.Answer, look.Err = *a, nil
			if a.State != nil && a.State.Role == replication.RolePrimary {
				state := *a.State
				for absent := len(s.pods); absent < maxMembers; absent++ {
					state.Cut = append(slices.Clone(state.Cut), absent) // members without a pod
				}
				look.Answer.State = &state
			}
		}
		if err := s.failed[p.Ordinal]; err != nil {
			look.Answer, look.Err = mysqlmember.Answer{}, err
		}
		obs.Looks = append(obs.Looks, look)
	}
	s.past.MaxLag = maxLag(&s.mc.Spec)
	obs.Observation = s.past.Observe(s.record, obs.Looks, s.now)
	obs.explain("db")
	s.past.see(&obs, s.now)
	return obs
}

// pass runs one pass of the controller, without the side effect of its step.
func (s *scene) pass(after time.Duration) (reconcile.Decision, *mysqlv1.MySQLClusterStatus) {
	obs := s.observed(after)
	decided := s.Decide(s.mc, reconcile.PlanSeen{}, &obs)
	s.Status(s.mc, reconcile.Seen[Observation]{Generation: s.mc.Generation, Observed: &obs, Decision: decided}, metav1.NewTime(s.now))
	return decided, &s.mc.Status
}

func is(s *mysqlv1.MySQLClusterStatus, condition string) bool {
	return meta.IsStatusConditionTrue(s.Conditions, condition)
}

// If nothing needs to change, Decide returns no step, and the status stays the same although clients write transactions.
func TestRest(t *testing.T) {
	t.Parallel()
	s := newScene(3)
	d, status := s.pass(0)
	assert.Equal(t, len(d.Steps), 0)
	assert.Equal(t, d.LookAgain, atRest)
	assert.Equal(t, string(status.Phase)+" "+status.Reason+" "+status.Ready+": "+status.Message, "Running AllFollow 3/3: db-0 is the primary of 3 members")
	assert.Assert(t, is(status, mysqlv1.ConditionReady) && is(status, mysqlv1.ConditionAvailable) && is(status, mysqlv1.ConditionRedundant))
	assert.Assert(t, !is(status, mysqlv1.ConditionDegraded) && meta.FindStatusCondition(status.Conditions, mysqlv1.ConditionReconciling) == nil)
	assert.Equal(t, strings.Join(status.Voters, " "), "db-1 db-2")
	assert.Equal(t, status.Members[0].Role+status.Members[1].Role, "PrimaryVoter")
	assert.Equal(t, status.Members[0].Position, gtids)

	before := status.DeepCopy()
	for _, a := range s.answers {
		a.State.Executed, a.State.Received = gtids+"9", gtids+"9"
		a.State.End.Offset, a.State.ReadTo.Offset = 99, 99
	}
	_, status = s.pass(time.Hour)
	assert.DeepEqual(t, status, before)
	s.answers[2].Full = "no space left"
	_, status = s.pass(0)
	assert.Equal(t, status.Message, "db-0 is the primary of 3 members; db-2: no space left")
	s.answers[2].Full, s.answers[0].Accounts, s.answers[1].Accounts = "", "read the secret reporter: it is empty", "of the time as primary"
	_, status = s.pass(0)
	assert.Equal(t, status.Message, "db-0 is the primary of 3 members; accounts differ from the spec: read the secret reporter: it is empty")
	s.answers[0].Accounts, s.answers[1].Kept, s.answers[2].Kept = "", 12, 9
	_, status = s.pass(0)
	assert.Equal(t, status.Message, before.Message)
	assert.DeepEqual(t, status.Notes, []string{"the volume of db-1 keeps 12 MiB of former data (mysql.set-aside-*) (1 more volumes keep some): remove the unneeded files before they fill the volume"})
	s.answers[1].Kept, s.answers[2].Kept = 0, 0
	s.pass(0)
	assert.Equal(t, len(s.Summary(s.mc).Claims), 3)
	assert.Equal(t, s.Summary(s.mc).Members[stateWell], 3)
}

// The metrics report the backups of a MySQLCluster only once: if the MySQLCluster belongs to a DataService, only the
// metrics of the DataService report them.
func TestBackupsInMetrics(t *testing.T) {
	t.Parallel()
	mc := &mysqlv1.MySQLCluster{Spec: mysqlv1.MySQLClusterSpec{Backup: &mysqlv1.Backup{}}, Status: mysqlv1.MySQLClusterStatus{Backup: &mysqlv1.BackupStatus{}}}
	for _, of := range []string{mysqlv1.ConditionReady, dsv1.ConditionBackupHealthy, mysqlv1.ConditionRecoverable} {
		mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{Type: of})
	}
	s := (&Kind{}).Summary(mc)
	assert.Equal(t, s.Backups != nil, true)
	assert.Equal(t, len(s.Conditions), 3)
	mc.OwnerReferences = []metav1.OwnerReference{{Kind: dsv1.Kind, Controller: ptr.To(true)}}
	s = (&Kind{}).Summary(mc)
	assert.Equal(t, s.Backups != nil, false)
	assert.Equal(t, len(s.Conditions), 1)
	assert.Equal(t, len(mc.Status.Conditions), 3)
}

// The message of a healthy database begins with a failed backup. A first backup that is not due yet is not named.
func TestFailedBackupIsNamed(t *testing.T) {
	t.Parallel()
	const well = "db-0 is the primary of 3 members"
	for _, c := range []struct {
		jobs []backup.Unfinished
		want string
	}{{nil, well}, {[]backup.Unfinished{{Name: "b", Stuck: "m"}}, "backup: PodNotStarting: Job b does not start: m; " + well}} {
		s := newScene(3)
		s.mc.Spec.Backup = &mysqlv1.Backup{Verify: &mysqlv1.BackupVerify{Schedule: "@weekly"}}
		obs := s.observed(0)
		obs.backups.Jobs = c.jobs
		s.Status(s.mc, reconcile.Seen[Observation]{Generation: s.mc.Generation, Observed: &obs, Decision: s.Decide(s.mc, reconcile.PlanSeen{}, &obs)}, metav1.NewTime(s.now))
		assert.Equal(t, s.mc.Status.Message, c.want)
	}
}

// The schedules of a MySQLCluster and their time zone determine whether its backups are overdue.
func TestSchedulesOfBackups(t *testing.T) {
	t.Parallel()
	mc := &mysqlv1.MySQLCluster{Spec: mysqlv1.MySQLClusterSpec{Backup: &mysqlv1.Backup{
		ClusterBackup: backupv1.ClusterBackup{Schedule: "30 2 * * *", TimeZone: "Europe/Berlin"}, Verify: &mysqlv1.BackupVerify{Schedule: "@weekly"},
	}}}
	declared := observed(mc, backupsSeen{}).Declared
	assert.Equal(t, declared.Schedule+" "+declared.TimeZone+" "+declared.Verify.Schedule, "30 2 * * * Europe/Berlin @weekly")
}

// The message about a database with a problem is short and begins with the cause.
func TestTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*scene)
		looks   int
		want    string // phase, reason, message
		stalled bool
	}{
		"a replica is gone":        {func(s *scene) { delete(s.answers, 2) }, 3, "Degraded MembersNotWell: member 2 is Down: its agent does not answer", false},
		"a voter is gone for long": {func(s *scene) { delete(s.answers, 2) }, 30, "Degraded Serve: the primary refuses connections of voters [2], which are not well or are being removed", false},
		"a voter was not connected for long, and is refused": {func(s *scene) {
			s.answers[2].State.Connected = false
			for range 30 {
				s.pass(500 * time.Millisecond)
			}
			s.answers[0].State.Cut, s.answers[0].State.CutEnd = []int{2}, replication.Position{File: "b", Offset: 9}
			for range 30 { // the voter must be bad for ten seconds before it is removed
				s.answers[1].State.ReadTo.Offset = 8
				s.pass(500 * time.Millisecond)
			}
			s.answers[1].State.ReadTo.Offset = 9
		}, 1, "Degraded Record: voters [2] are removed: the other voters have all transactions", false},
		"the primary is gone, and replicas still receive from it": {func(s *scene) { delete(s.answers, 0) }, 3,
			"Unavailable PrimaryUnseen: member 0 does not answer the operator, but member 1 still receives from it", false},
		"the primary is gone": {func(s *scene) { s.loses(0) }, 3, "Recovering Promise: members [1 2] promise epoch 4", false},
		"failover is manual": {func(s *scene) {
			s.loses(0)
			s.mc.Spec.Replication.Failover = mysqlv1.FailoverManual
		}, 3, "Unavailable PrimaryLost: member 0 is lost, but spec.replication.failover is Manual: to promote another member, set that field to Automatic", true},
		"failover is manual, and another is named": {func(s *scene) {
			s.loses(0)
			s.mc.Spec.Replication.Failover, s.mc.Spec.Replication.Primary = mysqlv1.FailoverManual, ptr.To(int32(2))
		}, 3, "Recovering Promise: members [1 2] promise epoch 4", false},
		"two are gone": {func(s *scene) {
			s.loses(0)
			delete(s.answers, 1)
		}, 3, "Unavailable QuorumLost: member 0 is lost, and of 2 voters 2 must answer: waiting for 1", false},
		"two volumes are lost": {func(s *scene) {
			s.loses(0)
			for _, i := range []int{0, 1} {
				s.answers[i] = &mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeLost}}
			}
		}, 3, "Lost WaitingForConsent: the data of members 0 and 1 is lost, with transactions that possibly no other member has: " +
			"to continue without the lost transactions, set spec.replication.acceptLoss to 3-7-00000000", true},
		"the record is lost": {func(s *scene) { s.record = replication.Record{} }, 3,
			"Failed RecordLost: member 1 has data, but there is no record of a primary: restore the ConfigMap with the record, or restore a backup", true},
		"both copies are gone": {func(s *scene) {
			s.record.Voters, s.record.Acknowledgements, s.answers = nil, 0, map[int]*mysqlmember.Answer{0: answer(0)}
			s.answers[0].State.Demands, s.answers[0].State.Cut = 0, []int{1, 2}
		}, 3, "Degraded MembersNotWell: member 0 is alone, without a copy of its data: member 1 is Down: its agent does not answer", false},
		"a volume of another database": {func(s *scene) {
			s.answers[2] = &mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeForeign, Problem: "no server is started"}}
		}, 3,
			"Degraded Serve: pod db-2: no server is started; member 0 demands 1 acknowledgements", false},
		"a full volume": {func(s *scene) {
			s.answers[2].State, s.answers[2].Problem, s.answers[2].Full = nil, "the server ended", "no space left"
		}, 3,
			"Degraded MembersNotWell: member 2 is Down: no space left", false},
	} {
		s := newScene(3)
		s.pass(0)
		c.change(s)
		var status *mysqlv1.MySQLClusterStatus
		for range c.looks {
			_, status = s.pass(500 * time.Millisecond)
		}
		if got := string(status.Phase) + " " + status.Reason + ": " + status.Message; got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if is(status, mysqlv1.ConditionStalled) != c.stalled || is(status, mysqlv1.ConditionReady) {
			t.Errorf("%s: %+v", name, status.Conditions)
		}
		assert.Equal(t, status.LossToken != "", status.Phase == mysqlv1.PhaseLost, name)
	}
}

// loses simulates the loss of the primary: it does not answer, and no other member is connected.
func (s *scene) loses(ordinal int) {
	delete(s.answers, ordinal)
	for _, a := range s.answers {
		a.State.Connected = false
	}
}

// promotes records member 1 as the primary of the next epoch. serves makes member 1 serve in that epoch.
func (s *scene) promotes() {
	s.record.Epoch, s.record.Revision, s.record.Primary, s.record.Voters = 4, 8, identity(1), []replication.Identity{identity(2)}
	s.answers[1].State.Role = replication.RoleNone
}

func (s *scene) serves() {
	a := answer(0)
	a.Server, a.Instance, a.Promised, a.Revision, a.State.Epoch, a.State.Cut = server(1), "i1", 4, 8, 4, []int{0}
	s.answers[1] = a
	s.pods[1].Routed = true
}

// A failover is reported with its time. A planned change of the primary is not reported as a failover.
func TestLastFailover(t *testing.T) {
	t.Parallel()
	for _, isPlanned := range []bool{false, true} {
		s := newScene(3)
		s.pass(0)
		if isPlanned {
			s.mc.Status.Phase = mysqlv1.PhaseSwitching
		}
		s.loses(0)
		for range 4 {
			s.pass(500 * time.Millisecond)
			if isPlanned {
				s.mc.Status.Phase = mysqlv1.PhaseSwitching
			}
		}
		s.promotes()
		_, status := s.pass(time.Second)
		if isPlanned {
			assert.Assert(t, status.LastFailover == nil)
			continue
		}
		assert.Equal(t, status.LastFailover.From+status.LastFailover.To, "db-0db-1")
		assert.Assert(t, status.LastFailover.Time == nil)
		s.serves()
		_, status = s.pass(300 * time.Millisecond)
		assert.Equal(t, status.LastFailover.Took, "2.8s") // since the first failed query
		assert.Equal(t, status.LastFailover.Time.Time, s.now)
		last := *status.LastFailover
		s.pass(time.Hour)
		assert.DeepEqual(t, *s.mc.Status.LastFailover, last)
	}
}

// The Service for reads selects the healthy members.
func TestReadable(t *testing.T) {
	t.Parallel()
	s := newScene(3)
	s.pods[2].readable = false
	d, _ := s.pass(0)
	assert.Equal(t, d.Steps[0].Message, "pod db-2 joins Service db-read")
	s.answers[2].State.Lag = 5
	d, _ = s.pass(0)
	assert.Equal(t, len(d.Steps), 0)

	b := newBench(t, recorded)
	ctx := reconcile.WithLease(t.Context(), leaseFunc(func() bool { return true }))
	assert.NilError(t, b.label(ctx, database.PodName("db", 1), "p1", "true"))
	assert.Equal(t, b.pod(t, 1).Labels[labelReadable], "true")
	assert.NilError(t, b.label(ctx, database.PodName("db", 1), "p1", nil))
	_, has := b.pod(t, 1).Labels[labelReadable]
	assert.Assert(t, !has)
}

// A pod that is being deleted is not deleted again, and a pod that has its ticket does not get it again. While the
// StatefulSet is being replaced, Decide returns no step.
func TestWaits(t *testing.T) {
	t.Parallel()
	s := newScene(3)
	s.record.Voters = s.record.Voters[:1]
	s.answers[2].State.Acknowledges = false
	s.pods[2].Outdated = true
	d, status := s.pass(0)
	assert.Equal(t, d.Steps[0].Name+" "+string(status.Phase), "DeletePod Upgrading")
	s.pods[2].terminating = true
	d, _ = s.pass(0)
	assert.Equal(t, len(d.Steps), 0)
	s = newScene(3)
	s.record, s.answers = replication.Record{}, map[int]*mysqlmember.Answer{}
	for i := range s.pods {
		s.pods[i].readable, s.answers[i] = false, &mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeEmpty}}
	}
	d, _ = s.pass(0)
	assert.Equal(t, d.Steps[0].Message, "member 0 creates the first data: no volume has data")
	s.pods[0].Ticket = replication.SeedTicket
	d, status = s.pass(0)
	assert.Equal(t, len(d.Steps), 0)
	assert.Equal(t, status.Message, "member 0 creates the first data: no volume has data")
	obs := s.observed(0)
	obs.Replacing = true
	assert.Equal(t, len(s.Decide(s.mc, reconcile.PlanSeen{}, &obs).Steps), 0)
}

// A change of the number of members is not reported as a fault.
func TestScaling(t *testing.T) {
	t.Parallel()
	s := newScene(1)
	s.record.Voters, s.record.Acknowledgements = nil, 0
	s.answers = map[int]*mysqlmember.Answer{0: answer(0)}
	s.answers[0].State.Demands = 0
	_, status := s.pass(0)
	assert.Equal(t, string(status.Phase)+" "+status.Ready, "Running 1/1")
	s.mc.Spec.Replicas, s.mc.Generation = ptr.To(int32(3)), 2
	for i := 1; i < 3; i++ {
		s.pods = append(s.pods, pod{Pod: client.Pod{Ordinal: i}})
	}
	s.answers[0].State.Cut = []int{1, 2}
	for range 30 {
		_, status = s.pass(time.Second)
		assert.Equal(t, string(status.Phase)+" "+status.Ready, "Scaling 1/3")
		assert.Assert(t, !strings.Contains(status.Message, "alone"), status.Message)
	}
}

// Voters reconnect during a change, and commits wait for the voters. If commits wait for at most half a minute, the phase
// still names the change.
func TestCommitsWaitInAChange(t *testing.T) {
	t.Parallel()
	s := newScene(3)
	s.answers[0].State.Waiting = 1
	for second := range 40 {
		if s.mc.Status.Phase == mysqlv1.PhaseRunning {
			s.mc.Status.Phase = mysqlv1.PhaseScaling
		}
		_, status := s.pass(time.Second)
		want := mysqlv1.PhaseScaling
		switch {
		case second < 5:
			continue
		case second >= 35:
			want = mysqlv1.PhaseUnavailable
		}
		assert.Equal(t, status.Phase, want, "after %d s: %s", second, status.Message)
	}
}

// A failed step is repeated without a growing delay. The status reports the failure only if it lasts. Without the
// lease, the pass fails.
func TestFailingSteps(t *testing.T) {
	t.Parallel()
	s := newScene(3)
	s.answers[2].State.Role = replication.RoleNone
	s.pass(0)
	fails := func() error { return s.past.note(errors.New("order member 2 to follow: busy"), s.now) }
	for range 6 {
		assert.NilError(t, fails())
		d, status := s.pass(500 * time.Millisecond)
		assert.Equal(t, d.LookAgain, whileWaiting)
		assert.Equal(t, status.Reason == reconcile.ReasonStepFailed, s.now.Sub(began) >= failureLasts)
	}
	_, status := s.pass(0)
	assert.Equal(t, status.Message, "order member 2 to follow: busy; member 2 follows member 0")
	assert.Assert(t, is(status, mysqlv1.ConditionDegraded))
	assert.NilError(t, s.past.note(nil, s.now))
	_, status = s.pass(0)
	assert.Equal(t, status.Reason, "Follow")
	assert.ErrorIs(t, s.past.note(reconcile.ErrNotHeld, s.now), reconcile.ErrNotHeld)
}

// After a single server has become several members, the operator makes a first backup once all members are healthy. The
// status shows the time of that backup.
func TestFirstBackup(t *testing.T) {
	t.Parallel()
	s := newScene(3)
	s.mc.Spec.Backup = &mysqlv1.Backup{PointInTime: &mysqlv1.PointInTime{}}
	s.mc.Annotations = map[string]string{object.AnnotationAdopt: "m"}
	makes := func() bool {
		obs := s.observed(time.Second)
		obs.backups.first = &batchv1.Job{}
		return slices.ContainsFunc(s.Decide(s.mc, reconcile.PlanSeen{}, &obs).Steps, func(step reconcile.Step) bool { return step.Name == "BackUpFirst" })
	}
	assert.Assert(t, makes())
	s.answers[2].State.Connected = false
	assert.Assert(t, !makes())
	s.answers[2].State.Connected = true
	_, status := s.pass(time.Second)
	assert.Assert(t, status.Backup.Since == nil)
	first, later := metav1.NewTime(began), metav1.NewTime(began.Add(time.Hour))
	status.Backup.LastSuccessful = &first
	_, status = s.pass(time.Second)
	status.Backup.LastSuccessful = &later
	_, status = s.pass(time.Second)
	assert.Assert(t, status.Backup.Since.Equal(&first), "%v", status.Backup)
	s.mc.Annotations, status.Backup.Since = nil, nil
	_, status = s.pass(time.Second)
	assert.Assert(t, status.Backup.Since == nil)
}
