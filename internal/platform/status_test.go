// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/reconcile"
)

var (
	noon  = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	later = metav1.NewTime(noon.Add(time.Minute))
)

// Observations of a component.
var (
	up       = health.State{Settled: true, Ready: 1, Desired: 1}
	starting = health.State{Desired: 1, Hint: "Deployment: Available: 0/1"}
	lost     = health.State{Desired: 1, Problem: "PersistentVolumeClaim a: DataLost: m", Culprit: health.Culprit{Kind: "PersistentVolumeClaim", Name: "a", Reason: "DataLost", Message: "m"}}
	broken   = health.State{Desired: 1, Problem: "pod a: ImagePullBackOff: m", Hint: "h"}
)

func seenOf(name string, state health.State) reconcile.PartSeen {
	return reconcile.PartSeen{Name: name, Kind: "Deployment", Revision: "r1", Applied: true, Exists: true, Health: state}
}

func held(name string, by ...string) reconcile.PartSeen {
	return reconcile.PartSeen{Name: name, Kind: "Deployment", Revision: "r1", WaitsFor: by}
}

func was(phase dsv1.Phase) *dsv1.ComponentStatus {
	return &dsv1.ComponentStatus{Name: "auth", Kind: "Deployment", Phase: phase, Ready: 1, Desired: 1, Revision: "r1"}
}

func orNew(prev *dsv1.ComponentStatus) *dsv1.ComponentStatus {
	if prev == nil {
		return &dsv1.ComponentStatus{}
	}
	return prev
}

func TestComponent(t *testing.T) {
	t.Parallel()
	revised := func(p *dsv1.ComponentStatus) *dsv1.ComponentStatus { p.Revision = "r0"; return p }
	scaled := health.State{Ready: 1, Desired: 3, Hint: "Deployment: Available: 1/3"}
	rolled := starting
	rolled.Rolling = true
	for name, test := range map[string]struct {
		prev    *dsv1.ComponentStatus
		seen    reconcile.PartSeen
		phase   dsv1.Phase
		message string
		known   string
	}{
		"new, held back":                        {nil, held("auth", "mysql", "uuc"), dsv1.PhasePending, "waits for mysql, uuc", ""},
		"new, starting":                         {nil, seenOf("auth", starting), dsv1.PhaseCreating, "", "r1"},
		"new, up at once":                       {nil, seenOf("auth", up), dsv1.PhaseRunning, "", "r1"},
		"new, broken":                           {nil, seenOf("auth", broken), dsv1.PhaseDegraded, "pod a: ImagePullBackOff: m", "r1"},
		"held, then starting":                   {&dsv1.ComponentStatus{Phase: dsv1.PhasePending}, seenOf("auth", starting), dsv1.PhaseCreating, "", "r1"},
		"still starting":                        {was(dsv1.PhaseCreating), seenOf("auth", starting), dsv1.PhaseCreating, "", "r1"},
		"started":                               {was(dsv1.PhaseCreating), seenOf("auth", up), dsv1.PhaseRunning, "", "r1"},
		"healthy":                               {was(dsv1.PhaseRunning), seenOf("auth", up), dsv1.PhaseRunning, "", "r1"},
		"unhealthy without a change":            {was(dsv1.PhaseRunning), seenOf("auth", starting), dsv1.PhaseDegraded, "", "r1"},
		"rolled out by another writer":          {was(dsv1.PhaseRunning), seenOf("auth", rolled), dsv1.PhaseUpdating, "", "r1"},
		"rolled out by another writer, broken":  {was(dsv1.PhaseRunning), seenOf("auth", func() health.State { s := broken; s.Rolling = true; return s }()), dsv1.PhaseDegraded, "pod a: ImagePullBackOff: m", "r1"},
		"unhealthy, then rolled out by another": {was(dsv1.PhaseDegraded), seenOf("auth", rolled), dsv1.PhaseDegraded, "", "r1"},
		"broken":                                {was(dsv1.PhaseRunning), seenOf("auth", broken), dsv1.PhaseDegraded, "pod a: ImagePullBackOff: m", "r1"},
		"still unhealthy":                       {was(dsv1.PhaseDegraded), seenOf("auth", starting), dsv1.PhaseDegraded, "", "r1"},
		"recovered":                             {was(dsv1.PhaseDegraded), seenOf("auth", up), dsv1.PhaseRunning, "", "r1"},
		"a new revision":                        {revised(was(dsv1.PhaseRunning)), seenOf("auth", starting), dsv1.PhaseUpdating, "", "r1"},
		"a new revision of an unhealthy one":    {revised(was(dsv1.PhaseDegraded)), seenOf("auth", starting), dsv1.PhaseUpdating, "", "r1"},
		"a new revision, broken":                {revised(was(dsv1.PhaseRunning)), seenOf("auth", broken), dsv1.PhaseDegraded, "pod a: ImagePullBackOff: m", "r1"},
		"a new revision, up at once":            {revised(was(dsv1.PhaseRunning)), seenOf("auth", up), dsv1.PhaseRunning, "", "r1"},
		"still updating":                        {was(dsv1.PhaseUpdating), seenOf("auth", starting), dsv1.PhaseUpdating, "", "r1"},
		"updated":                               {was(dsv1.PhaseUpdating), seenOf("auth", up), dsv1.PhaseRunning, "", "r1"},
		"scaling":                               {was(dsv1.PhaseRunning), seenOf("auth", scaled), dsv1.PhaseScaling, "", "r1"},
		"still scaling":                         {&dsv1.ComponentStatus{Phase: dsv1.PhaseScaling, Desired: 3, Revision: "r1"}, seenOf("auth", scaled), dsv1.PhaseScaling, "", "r1"},
		"a new revision, and scaled":            {revised(was(dsv1.PhaseRunning)), seenOf("auth", scaled), dsv1.PhaseUpdating, "", "r1"},
		"a held revision of a running one":      {revised(was(dsv1.PhaseRunning)), reconcile.PartSeen{Name: "auth", Kind: "Deployment", Revision: "r1", Exists: true, WaitsFor: []string{"mysql"}, Health: up}, dsv1.PhasePending, "keeps running as it was; its new revision waits for mysql", "r0"},
		"a held revision is applied":            {revised(was(dsv1.PhasePending)), seenOf("auth", starting), dsv1.PhaseUpdating, "", "r1"},
		"not applied yet":                       {was(dsv1.PhaseRunning), reconcile.PartSeen{Name: "auth", Kind: "Deployment", Revision: "r2", Health: up}, dsv1.PhasePending, "", "r1"},
		"refused":                               {was(dsv1.PhaseRunning), reconcile.PartSeen{Name: "auth", Kind: "Deployment", Revision: "r2", Error: "update Deployment a/auth: no", Health: up}, dsv1.PhaseFailed, "Deployment auth: no", "r1"},
		"refused, and held":                     {nil, reconcile.PartSeen{Name: "auth", Kind: "Deployment", Error: "e", WaitsFor: []string{"mysql"}}, dsv1.PhaseFailed, "e", ""},
		"a note": {was(dsv1.PhaseRunning), func() reconcile.PartSeen {
			c := seenOf("auth", up)
			c.Notes = []health.Note{health.Info("n")}
			return c
		}(), dsv1.PhaseRunning, "n", "r1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := componentStatus(test.seen, orNew(test.prev))
			message := test.message
			if test.phase == dsv1.PhaseDegraded && message == "" {
				message = starting.Hint
			}
			assert.DeepEqual(t, got, dsv1.ComponentStatus{
				Name: "auth", Kind: "Deployment", Phase: test.phase, Message: message, Revision: test.known,
				Ready: test.seen.Health.Ready, Desired: test.seen.Health.Desired,
				WaitsFor: got.WaitsFor, FailedFrom: got.FailedFrom, // tested separately
			})
			assert.DeepEqual(t, componentStatus(test.seen, &got), got)
		})
	}
}

// conditionsOf prints the conditions, such as Ready=True(AllReady).
func conditionsOf(s dsv1.DataServiceStatus) []string {
	lines := []string{}
	for _, c := range s.Conditions {
		lines = append(lines, c.Type+"="+string(c.Status)+"("+c.Reason+")")
	}
	slices.Sort(lines)
	return lines
}

// scenario is a sequence of observations; the test checks the last one.
type scenario struct {
	history    []StatusInput
	phase      dsv1.Phase
	ready      string
	message    string
	conditions string
}

const (
	allWell = "Degraded=False(Healthy) Paused=False(NotPaused) Progressing=False(Settled) Ready=True(AllReady)"
	working = "Degraded=False(Healthy) Paused=False(NotPaused) Progressing=True(RollingOut) Ready=False(ComponentsNotReady) Reconciling=True(RollingOut)"
	failing = "Degraded=True(ComponentFailing) Paused=False(NotPaused) Progressing=False(Settled) Ready=False(ComponentFailing)"
	both    = "Degraded=True(ComponentFailing) Paused=False(NotPaused) Progressing=True(RollingOut) Ready=False(ComponentFailing) Reconciling=True(RollingOut)"
)

func scenarios() map[string]scenario {
	see := func(components ...reconcile.PartSeen) StatusInput {
		return StatusInput{Generation: 1, Components: components}
	}
	revised := func(c reconcile.PartSeen) reconcile.PartSeen { c.Revision = "r2"; return c }
	well := see(seenOf("mysql", up), seenOf("auth", up))
	failed := func(stalled bool) StatusInput {
		return StatusInput{Generation: 2, Failure: &reconcile.Failure{Reason: dsv1.ReasonInvalidSpec, Message: "spec.auth.name: m", Stalled: stalled}}
	}
	paused := func(o StatusInput) StatusInput { o.Paused = true; return o }
	return map[string]scenario{
		"nothing declared": {[]StatusInput{{Generation: 1, Components: []reconcile.PartSeen{}}}, dsv1.PhaseRunning, "0/0", "no component is declared", allWell},
		"nothing started":  {[]StatusInput{see(held("mysql", "eureka"), held("auth", "mysql"))}, dsv1.PhasePending, "0/2", "mysql->auth", working},
		"creating":         {[]StatusInput{see(seenOf("mysql", starting), held("auth", "mysql"))}, dsv1.PhaseCreating, "0/2", "[mysql]->auth", working},
		"half created":     {[]StatusInput{see(seenOf("mysql", starting), held("auth", "mysql")), see(seenOf("mysql", up), seenOf("auth", starting))}, dsv1.PhaseCreating, "1/2", "mysql->[auth]", working},
		// If a running platform has lost its status, its new phase is Running, not Creating.
		"running":                       {[]StatusInput{well}, dsv1.PhaseRunning, "2/2", "mysql->auth", allWell},
		"updating":                      {[]StatusInput{well, see(seenOf("mysql", up), revised(seenOf("auth", starting)))}, dsv1.PhaseUpdating, "1/2", "mysql->[auth]", working},
		"updating, held back":           {[]StatusInput{well, see(revised(seenOf("mysql", starting)), reconcile.PartSeen{Name: "auth", Revision: "r2", Exists: true, Health: up, WaitsFor: []string{"mysql"}})}, dsv1.PhaseUpdating, "0/2", "[mysql]->auth", working},
		"an added component":            {[]StatusInput{well, see(seenOf("mysql", up), seenOf("auth", up), seenOf("web", starting))}, dsv1.PhaseUpdating, "2/3", "mysql->auth->[web]", working},
		"an added component, held back": {[]StatusInput{well, see(seenOf("mysql", up), seenOf("auth", up), held("web", "proxy"))}, dsv1.PhaseUpdating, "2/3", "mysql->auth->web", working},
		"a removed component":           {[]StatusInput{well, see(seenOf("mysql", up))}, dsv1.PhaseRunning, "1/1", "mysql", allWell},
		"scaling":                       {[]StatusInput{well, see(seenOf("mysql", up), seenOf("auth", health.State{Ready: 1, Desired: 2}))}, dsv1.PhaseScaling, "1/2", "mysql->[auth]", working},
		"degraded":                      {[]StatusInput{well, see(seenOf("mysql", up), seenOf("auth", broken))}, dsv1.PhaseDegraded, "1/2", "auth: pod a: ImagePullBackOff: m", failing},
		"data lost": {[]StatusInput{well, see(seenOf("mysql", lost), seenOf("auth", broken))}, dsv1.PhaseDegraded, "0/2", "mysql: PersistentVolumeClaim a: DataLost: m (and 1 more)",
			strings.ReplaceAll(failing, "ComponentFailing", "DataLost")},
		"degraded while creating":    {[]StatusInput{see(seenOf("mysql", broken), held("auth", "mysql"))}, dsv1.PhaseDegraded, "0/2", "mysql: pod a: ImagePullBackOff: m", both},
		"two degraded":               {[]StatusInput{see(seenOf("mysql", broken), seenOf("auth", broken), seenOf("web", broken))}, dsv1.PhaseDegraded, "0/3", "mysql: pod a: ImagePullBackOff: m (and 2 more)", failing},
		"unhealthy without a change": {[]StatusInput{well, see(seenOf("mysql", up), seenOf("auth", starting))}, dsv1.PhaseDegraded, "1/2", "auth: Deployment: Available: 0/1", failing},
		"recovered":                  {[]StatusInput{well, see(seenOf("mysql", up), seenOf("auth", broken)), well}, dsv1.PhaseRunning, "2/2", "mysql->auth", allWell},
		"a component refused":        {[]StatusInput{well, see(seenOf("mysql", up), reconcile.PartSeen{Name: "auth", Revision: "r2", Error: "no"})}, dsv1.PhaseFailed, "1/2", "auth: no", failing},
		"invalid": {[]StatusInput{failed(true)}, dsv1.PhaseFailed, "", "spec.auth.name: m",
			"Degraded=True(InvalidSpec) Paused=False(NotPaused) Progressing=False(Settled) Ready=False(InvalidSpec) Stalled=True(InvalidSpec)"},
		"invalid after healthy": {[]StatusInput{well, failed(true)}, dsv1.PhaseFailed, "2/2", "spec.auth.name: m",
			"Degraded=True(InvalidSpec) Paused=False(NotPaused) Progressing=False(Settled) Ready=False(InvalidSpec) Stalled=True(InvalidSpec)"},
		"failed, retried": {[]StatusInput{well, failed(false)}, dsv1.PhaseFailed, "2/2", "spec.auth.name: m",
			"Degraded=True(InvalidSpec) Paused=False(NotPaused) Progressing=False(Settled) Ready=False(InvalidSpec)"},
		"valid again": {[]StatusInput{well, failed(true), well}, dsv1.PhaseRunning, "2/2", "mysql->auth", allWell},
		"paused": {[]StatusInput{well, paused(well)}, dsv1.PhasePaused, "2/2", "paused: nothing is changed until spec.paused is false",
			"Degraded=False(Healthy) Paused=True(Paused) Progressing=False(Settled) Ready=True(AllReady)"},
		"paused midway": {[]StatusInput{paused(see(seenOf("mysql", starting), held("auth", "mysql")))}, dsv1.PhasePaused, "0/2", "paused: nothing is changed until spec.paused is false",
			"Degraded=False(Healthy) Paused=True(Paused) Progressing=False(Settled) Ready=False(ComponentsNotReady)"},
		"paused while unhealthy": {[]StatusInput{well, paused(see(seenOf("mysql", up), seenOf("auth", broken)))}, dsv1.PhasePaused, "1/2", "auth: pod a: ImagePullBackOff: m; paused: nothing is changed until spec.paused is false",
			"Degraded=True(ComponentFailing) Paused=True(Paused) Progressing=False(Settled) Ready=False(ComponentFailing)"},
		"a cron job that failed": {[]StatusInput{see(reconcile.PartSeen{Name: "report", Kind: cronJob, Revision: "r", Applied: true, Exists: true,
			Health: health.State{Settled: true, Note: health.Info("runs at 0 0 1 1 *; last run 2026-01-01 00:00 UTC, did not succeed: `kubectl logs job/report-1` shows why")}})}, dsv1.PhaseRunning, "1/1",
			"report: CronJob report: RunFailed: runs at 0 0 1 1 *; last run 2026-01-01 00:00 UTC, did not succeed: `kubectl logs job/report-1` shows why; report", allWell},
		"resumed": {[]StatusInput{well, paused(well), well}, dsv1.PhaseRunning, "2/2", "mysql->auth", allWell},
		"deleted": {[]StatusInput{well, {Generation: 2, Deleting: true}}, dsv1.PhaseTerminating, "2/2", "being deleted; volumes with data and the Secrets that this data needs stay, unless spec.mysql.storage.retention is Delete",
			"Degraded=False(Healthy) Paused=False(NotPaused) Progressing=False(Settled) Ready=False(Deleting)"},
		"deleted while paused": {[]StatusInput{paused(well), {Generation: 2, Deleting: true, Paused: true}}, dsv1.PhaseTerminating, "2/2", "being deleted; volumes with data and the Secrets that this data needs stay, unless spec.mysql.storage.retention is Delete",
			"Degraded=False(Healthy) Paused=True(Paused) Progressing=False(Settled) Ready=False(Deleting)"},
	}
}

// The same observation yields the same status, including times, so that an unchanged status is not written.
func TestCompute(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := dsv1.DataServiceStatus{}
			for _, seen := range s.history {
				got = Compute(got, seen, noon)
			}
			assert.Equal(t, got.Phase, s.phase)
			assert.Equal(t, got.Ready, s.ready)
			assert.Equal(t, got.Message, s.message)
			assert.DeepEqual(t, strings.Join(conditionsOf(got), " "), s.conditions)
			last := s.history[len(s.history)-1]
			assert.Equal(t, got.ObservedGeneration, last.Generation)
			for _, c := range got.Conditions {
				assert.Equal(t, c.ObservedGeneration, last.Generation, c.Type)
				assert.Assert(t, c.Message != "" || s.message == "" || c.Type == dsv1.ConditionProgressing, c.Type)
				if c.Status == metav1.ConditionTrue && (c.Type == dsv1.ConditionDegraded || c.Type == dsv1.ConditionStalled) {
					want := s.message
					if s.phase == dsv1.PhasePaused {
						want = firstBroken(&got) // the pause has a separate condition
					}
					assert.Equal(t, c.Message, want, c.Type)
				}
			}

			before := got.DeepCopy()
			assert.DeepEqual(t, Compute(got, last, later), *before)
			assert.DeepEqual(t, got, *before) // the input is not modified
		})
	}
}

func TestArrows(t *testing.T) {
	t.Parallel()
	var all []dsv1.ComponentStatus
	for _, phase := range []dsv1.Phase{
		dsv1.PhasePending, dsv1.PhaseCreating, dsv1.PhaseRunning, dsv1.PhaseUpdating, dsv1.PhaseScaling, dsv1.PhaseDegraded, dsv1.PhaseFailed,
	} {
		all = append(all, dsv1.ComponentStatus{Name: strings.ToLower(string(phase)), Phase: phase})
	}
	assert.Equal(t, Arrows(all), "pending->[creating]->running->[updating]->[scaling]->[degraded]->failed")
	assert.Equal(t, Arrows(nil), "")
}

// The history contains the generation of the last stored spec, and the last generation that was ready. If an older operator
// created the DataService, the history is nil until the next change, so that an upgrade writes no status.
func TestHistory(t *testing.T) {
	t.Parallel()
	well, ill := []reconcile.PartSeen{seenOf("auth", up)}, []reconcile.PartSeen{seenOf("auth", starting)}
	old := &dsv1.History{Generation: 3, ReadyGeneration: 2}
	for name, test := range map[string]struct {
		was      *dsv1.History
		observed int64 // before the observation
		seen     StatusInput
		want     *dsv1.History
	}{
		"new":                            {nil, 0, StatusInput{Generation: 1, Kept: true, Components: ill}, &dsv1.History{Generation: 1}},
		"new, refused at first":          {nil, 0, StatusInput{Generation: 1, Components: ill}, &dsv1.History{}},
		"new, accepted in the end":       {&dsv1.History{}, 1, StatusInput{Generation: 1, Kept: true, Components: ill}, &dsv1.History{Generation: 1}},
		"ready":                          {&dsv1.History{Generation: 1}, 1, StatusInput{Generation: 1, Components: well}, &dsv1.History{Generation: 1, ReadyGeneration: 1}},
		"changed":                        {old, 3, StatusInput{Generation: 4, Kept: true, Components: ill}, &dsv1.History{Generation: 4, ReadyGeneration: 2}},
		"changed, and ready at once":     {old, 3, StatusInput{Generation: 4, Kept: true, Components: well}, &dsv1.History{Generation: 4, ReadyGeneration: 4}},
		"changed, and refused":           {old, 3, StatusInput{Generation: 4, Failure: &reconcile.Failure{Reason: "InvalidSpec"}}, old},
		"paused":                         {old, 3, StatusInput{Generation: 4, Paused: true, Components: well}, old},
		"of an older operator, at rest":  {nil, 3, StatusInput{Generation: 3, Components: well}, nil},
		"of an older operator, changed":  {nil, 3, StatusInput{Generation: 4, Kept: true, Components: ill}, &dsv1.History{Generation: 4}},
		"of an older operator, degraded": {nil, 3, StatusInput{Generation: 3, Components: ill}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prev := dsv1.DataServiceStatus{ObservedGeneration: test.observed, History: test.was}
			assert.DeepEqual(t, Compute(prev, test.seen, metav1.Now()).History, test.want)
		})
	}
	assert.DeepEqual(t, old, &dsv1.History{Generation: 3, ReadyGeneration: 2})
}

// Metrics report the longest interval between two backups, and between two checks, in the time zone of the schedule.
func TestPausesOfBackups(t *testing.T) {
	t.Parallel()
	ds := &dsv1.DataService{Spec: dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{Backup: &dsv1.Backup{
		Schedule: "30 2 * * *", TimeZone: "Europe/Berlin", Verify: &dsv1.BackupVerify{Schedule: "30 4 * * *"},
	}}}}
	ds.Status.Backup = &dsv1.BackupStatus{}
	ds.Status.Conditions = []metav1.Condition{{Type: dsv1.ConditionBackupHealthy}}
	shown := backupsOf(ds)
	assert.Equal(t, shown.Every, 47*time.Hour)
	assert.Equal(t, shown.VerifyEvery, 25*time.Hour)
}

// When the database leaves the phase Running, the status stores and keeps the time at which the database first became
// ready. While the phase stays Running, nothing is stored, because an unchanged status must not be written.
func TestFirstReady(t *testing.T) {
	t.Parallel()
	first, later := metav1.Unix(100, 0), metav1.Unix(200, 0)
	up, starting := health.State{Settled: true, Ready: 1, Desired: 1}, health.State{Desired: 1, Hint: "h"}
	seen := func(name, kind string, state health.State) reconcile.PartSeen {
		return reconcile.PartSeen{Name: name, Kind: kind, Revision: "r1", Applied: true, Exists: true, Health: state}
	}
	was := func(phase dsv1.Phase, ready int32, since, known *metav1.Time) dsv1.ComponentStatus {
		return dsv1.ComponentStatus{Name: "mysql", Kind: "StatefulSet", Phase: phase, Ready: ready, Desired: 1, Revision: "r1", LastTransitionTime: since, FirstReady: known}
	}
	for name, test := range map[string]struct {
		prev dsv1.ComponentStatus
		seen reconcile.PartSeen
		want *metav1.Time
	}{
		"new":                        {dsv1.ComponentStatus{}, seen("mysql", "StatefulSet", up), nil},
		"starts":                     {was(dsv1.PhaseCreating, 0, &first, nil), seen("mysql", "StatefulSet", up), nil},
		"keeps running":              {was(dsv1.PhaseRunning, 1, &first, nil), seen("mysql", "StatefulSet", up), nil},
		"fails":                      {was(dsv1.PhaseRunning, 1, &first, nil), seen("mysql", "StatefulSet", starting), &first},
		"fails, as a Deployment":     {was(dsv1.PhaseRunning, 1, &first, nil), seen("mysql", "Deployment", starting), &first},
		"is ready again":             {was(dsv1.PhaseDegraded, 0, &later, &first), seen("mysql", "StatefulSet", up), &first},
		"fails again":                {was(dsv1.PhaseRunning, 1, &later, &first), seen("mysql", "StatefulSet", starting), &first},
		"had no pod":                 {was(dsv1.PhaseRunning, 0, &first, nil), seen("mysql", "StatefulSet", starting), nil},
		"an older operator wrote it": {was(dsv1.PhaseRunning, 1, nil, nil), seen("mysql", "StatefulSet", starting), nil},
		"a redis fails": {func() dsv1.ComponentStatus {
			c := was(dsv1.PhaseRunning, 6, &first, nil)
			c.Kind = managed
			return c
		}(), seen("redis", managed, starting), &first},
		"another component": {was(dsv1.PhaseRunning, 1, &first, nil), seen("eureka", "StatefulSet", starting), nil},
		"was a third party": {func() dsv1.ComponentStatus {
			c := was(dsv1.PhaseRunning, 1, &first, nil)
			c.Kind = thirdParty
			return c
		}(), seen("mysql", "StatefulSet", starting), nil},
		"was a database of several pods": {func() dsv1.ComponentStatus { c := was(dsv1.PhaseRunning, 3, &first, nil); c.Kind = managed; return c }(), seen("mysql", "StatefulSet", starting), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.prev.Name = test.seen.Name
			got := components([]dsv1.ComponentStatus{test.prev}, []reconcile.PartSeen{test.seen}, nil, metav1.Unix(300, 0))
			assert.DeepEqual(t, got[0].FirstReady, test.want)
			assert.DeepEqual(t, components(got, []reconcile.PartSeen{test.seen}, nil, metav1.Unix(400, 0)), got)
		})
	}
}

// status.message begins with a problem of the backups if no component has a problem, and counts it otherwise. A first backup that is not
// due yet is no problem.
func TestBackupProblemIsNamed(t *testing.T) {
	t.Parallel()
	stuck := backup.Unfinished{Name: "b", Stuck: "its claim does not exist"}
	for name, test := range map[string]struct {
		auth health.State
		jobs []backup.Unfinished
		want string
	}{
		"no backup yet":                 {up, nil, "mysql->auth"},
		"it does not start":             {up, []backup.Unfinished{stuck}, "backup: PodNotStarting: Job b does not start: its claim does not exist; mysql->auth"},
		"a component has a problem too": {health.State{Desired: 1, Problem: "problem"}, []backup.Unfinished{stuck}, "auth: problem (and 1 more)"},
	} {
		backups := &mysql.Observed{Declared: &dsv1.Backup{Schedule: "0 1 * * *"}, Unfinished: test.jobs}
		seen := StatusInput{Generation: 1, Components: []reconcile.PartSeen{seenOf("mysql", up), seenOf("auth", test.auth)}, Backups: backups}
		status := Compute(dsv1.DataServiceStatus{}, seen, noon)
		assert.Equal(t, status.Message, test.want, name)
		assert.DeepEqual(t, Compute(status, seen, noon), status) // nothing is written
	}
}

// If a database has begun again on an empty claim, the summary contains one warning.
func TestBeganEmptyIsAWarning(t *testing.T) {
	t.Parallel()
	ds := &dsv1.DataService{}
	ds.Status.Components = []dsv1.ComponentStatus{{Name: "mysql", Phase: dsv1.PhaseRunning, Message: "m", Culprit: &dsv1.Culprit{Reason: health.BeganEmpty}}}
	assert.DeepEqual(t, (&Kind{}).Summary(ds).Warnings, []reconcile.Warning{
		{Reason: dsv1.ReasonDataLost, Field: "status.components[mysql]", Text: "mysql: m"},
	})
	ds.Status.Components[0].Culprit = nil
	assert.Equal(t, len((&Kind{}).Summary(ds).Warnings), 0)
}
