// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/platform"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/reconcile"
)

// now is the time of all cases.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fault is a file in testdata/cases: the objects and events of a cluster with a fault, with texts of a real kubelet, scheduler or
// controller.
type fault struct {
	// Names must occur in the first two lines of the output: the cause, and the object to examine.
	Names []string `json:"names"`
	// Well: the case has no fault, so the exit code is 0.
	Well      bool   `json:"well"`
	Component string `json:"component"`
	// Resource is the subject if it is not a DataService.
	Resource *unstructured.Unstructured  `json:"resource"`
	Status   dsv1.DataServiceStatus      `json:"status"`
	Spec     dsv1.DataServiceSpec        `json:"spec"`
	Metadata map[string]any              `json:"metadata"`
	Objects  []unstructured.Unstructured `json:"objects"`
	Pods     []corev1.Pod                `json:"pods"`
	Events   []corev1.Event              `json:"events"`
	Log      []string                    `json:"log"`
	LogError string                      `json:"logError"`
	Backups  []backupv1.DataBackup       `json:"backups"`
	Operator *struct {
		Deployment *unstructured.Unstructured `json:"deployment"`
		Pods       []*corev1.Pod              `json:"pods"`
		Events     []corev1.Event             `json:"events"`
	} `json:"operator"`
}

func read(t *testing.T, file string) (*fault, *Facts) {
	t.Helper()
	text, err := os.ReadFile(file)
	assert.NilError(t, err)
	c := &fault{}
	assert.NilError(t, yaml.UnmarshalStrict(text, c))
	ds := &dsv1.DataService{Spec: c.Spec, Status: c.Status}
	metadata, err := yaml.Marshal(map[string]any{"metadata": c.Metadata})
	assert.NilError(t, err)
	assert.NilError(t, yaml.Unmarshal(metadata, ds))
	ds.Name, ds.Namespace = "platform", "data-prod"
	f := &Facts{DataService: ds, Component: c.Component, Events: c.Events, Log: c.Log, LogError: c.LogError, Backups: c.Backups, Now: now}
	if o := c.Operator; o != nil {
		f.Operator = &Operator{Deployment: o.Deployment, Pods: o.Pods, Events: o.Events}
	}
	if c.Resource != nil {
		c.Resource.SetNamespace("data-prod")
		alone, err := Alone(c.Resource)
		assert.NilError(t, err)
		f.DataService, f.Resource, f.Component = alone.DataService, alone.Resource, alone.Component
		c.Objects = append(c.Objects, *c.Resource)
	}
	for i := range c.Objects {
		f.Objects = append(f.Objects, &c.Objects[i])
	}
	for i := range c.Pods {
		f.Pods = append(f.Pods, &c.Pods[i])
	}
	return c, f
}

// For each fault, the first two lines name the cause and the object to examine.
func TestTheCauseIsNamedFirst(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) >= 20, "only %d faults are tried", len(files))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, f := read(t, file)
			if blamed, _ := Blamed(f.DataService, f.Component); blamed == nil {
				f.Objects = f.Contradict(f.Objects)
			}
			d := Explain(f)
			assert.Equal(t, d.Wrong, !c.Well)
			text := d.Print(plugin.Style{}, now)
			lines := strings.SplitN(text, "\n", 3)
			assert.Assert(t, utf8.RuneCountInString(lines[0]) <= causeLength, "the first line is longer than %d characters:\n%s", causeLength, text)
			for _, word := range c.Names {
				assert.Assert(t, strings.Contains(lines[0]+"\n"+lines[1], word), "%q is not in the first two lines of\n%s", word, text)
			}
			assert.Assert(t, len(c.Names) > 0)
			golden.Assert(t, text, filepath.Join("golden", name+".txt"))
		})
	}
}

// Every golden file has a case: otherwise unused files would remain.
func TestGoldenFilesHaveCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/golden/*.txt")
	assert.NilError(t, err)
	for _, file := range files {
		_, err := os.Stat(filepath.Join("testdata/cases", strings.TrimSuffix(filepath.Base(file), ".txt")+".yaml"))
		assert.NilError(t, err)
	}
}

// status.message and the first line of why begin with the same cause, and have the same number of further problems.
func TestMessageAgrees(t *testing.T) {
	t.Parallel()
	part := func(name, kind string, state health.State) reconcile.PartSeen {
		return reconcile.PartSeen{Name: name, Kind: kind, Revision: "r", Applied: true, Exists: true, Health: state}
	}
	requests := func(kind, name, reason string) health.State {
		culprit := health.Culprit{Kind: kind, Name: name, Reason: reason, Message: "m"}
		return health.State{Settled: true, Note: health.Note{Text: kind + " " + name + ": " + reason + ": m", Culprit: culprit}}
	}
	up, starts := health.State{Settled: true, Ready: 1, Desired: 1}, health.State{Desired: 1}
	broken := func(pod string) health.State {
		return health.State{Problem: "pod " + pod + ": ErrImagePull: m", Culprit: health.Culprit{Kind: "Pod", Name: pod, Reason: "ErrImagePull", Message: "m"}}
	}
	lost := health.State{Problem: "PersistentVolumeClaim a: DataLost: m", Culprit: health.Culprit{Kind: "PersistentVolumeClaim", Name: "a", Reason: dsv1.ReasonDataLost, Message: "m"}}
	ingress, maximum := requests("Ingress", "web", health.ReasonNoIngressClass), requests("HorizontalPodAutoscaler", "auth", health.ReasonTooManyReplicas)
	cache := health.State{Settled: true, Note: health.Note{Text: "backup: StoreFull: m", Culprit: health.Culprit{Kind: "RedisCluster", Name: "redis", Reason: "StoreFull", Message: "m"}}}
	nightly := part("report", "CronJob", health.State{Settled: true, Note: health.Info("runs at 0 2 * * *; last run 2026-02-28 02:00 UTC, " + health.RunFailed)})
	const failed = "backup: PodNotStarting: Job b does not start: m"
	sameFailure := func(kind, name string) health.State {
		return health.State{Settled: true, Note: health.Note{Text: failed, Culprit: health.Culprit{Kind: kind, Name: name, Reason: "PodNotStarting", Message: "Job b does not start: m"}}}
	}
	stuck := []backup.Unfinished{{Name: "b", Stuck: "m"}}
	archive := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "archive", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"reason": "Gap", "message": "m"}`}},
	}}}}
	refused := &reconcile.Failure{Reason: dsv1.ReasonInvalidSpec, Message: "spec.auth.image: required", Stalled: true}
	for name, test := range map[string]struct {
		seen  platform.StatusInput
		cause string
		more  int
		well  bool
	}{
		"nothing":                 {platform.StatusInput{Components: []reconcile.PartSeen{part("auth", "Deployment", up)}}, "", 0, true},
		"two, and a backup":       {platform.StatusInput{Components: []reconcile.PartSeen{part("auth", "Deployment", broken("a")), part("web", "Deployment", broken("w"))}, Backups: &mysql.Observed{Unfinished: stuck}}, "auth: pod a: ErrImagePull: m", 2, false},
		"two with the same text":  {platform.StatusInput{Components: []reconcile.PartSeen{part("auth", "Deployment", broken("a")), part("web", "Deployment", broken("a"))}}, "auth: pod a: ErrImagePull: m", 1, false},
		"the data of the second":  {platform.StatusInput{Components: []reconcile.PartSeen{part("auth", "Deployment", broken("a")), part("mysql", "StatefulSet", lost)}}, "auth: pod a: ErrImagePull: m", 1, false},
		"an action is required":   {platform.StatusInput{Components: []reconcile.PartSeen{part("web", "Deployment", ingress), part("auth", "Deployment", broken("a"))}}, "auth: pod a: ErrImagePull: m", 1, false},
		"two actions, no failure": {platform.StatusInput{Components: []reconcile.PartSeen{part("web", "Deployment", ingress), nightly}, Backups: &mysql.Observed{Unfinished: stuck}}, "web: Ingress web: NoIngressClass: m", 2, false},
		"a cron job first":        {platform.StatusInput{Components: []reconcile.PartSeen{nightly, part("web", "Deployment", ingress)}}, "report: CronJob report: RunFailed: runs at", 1, false},
		"the maximum of pods":     {platform.StatusInput{Components: []reconcile.PartSeen{part("auth", "Deployment", maximum)}}, "auth: HorizontalPodAutoscaler auth: TooManyReplicas: m", 0, true},
		"the maximum, a backup":   {platform.StatusInput{Components: []reconcile.PartSeen{part("auth", "Deployment", maximum)}, Backups: &mysql.Observed{Unfinished: stuck}}, failed, 0, false},
		"a backup of redis":       {platform.StatusInput{Components: []reconcile.PartSeen{part("redis", "Managed", cache)}, Backups: &mysql.Observed{Unfinished: stuck}}, "redis: backup: StoreFull: m", 1, false},
		"two equal backup texts":  {platform.StatusInput{Components: []reconcile.PartSeen{part("redis", "Managed", sameFailure("RedisCluster", "redis"))}, Backups: &mysql.Observed{Unfinished: stuck}}, "redis: " + failed, 1, false},
		"a backup of the members": {platform.StatusInput{Components: []reconcile.PartSeen{part("mysql", "Managed", sameFailure("MySQLCluster", "mysql"))}, Backups: &mysql.Observed{Unfinished: stuck}}, "mysql: " + failed, 0, false},
		"no backup, and a gap":    {platform.StatusInput{Components: []reconcile.PartSeen{part("auth", "Deployment", up)}, Backups: &mysql.Observed{Archive: []*corev1.Pod{archive}}}, "backup: Gap: m", 0, false},
		"in progress, same text":  {platform.StatusInput{Components: []reconcile.PartSeen{{Name: "auth", Kind: "Deployment", Applied: true, Notes: []health.Note{health.Info(ingress.Note.Text)}}, part("web", "Deployment", ingress)}}, "auth", 1, false},
		"a job named paused":      {platform.StatusInput{Paused: true, Components: []reconcile.PartSeen{part("paused", "CronJob", nightly.Health)}}, "paused", 1, false},
		"not read, and broken":    {platform.StatusInput{Failure: &reconcile.Failure{Reason: dsv1.ReasonApplyFailed, Message: "web: m", Part: "web"}, Components: []reconcile.PartSeen{part("auth", "Deployment", broken("a")), {Name: "web", Kind: "Deployment", Error: "m"}}}, "web: m", 1, false},
		"in progress":             {platform.StatusInput{Components: []reconcile.PartSeen{part("auth", "Deployment", starts)}, Backups: &mysql.Observed{Unfinished: stuck}}, failed, 0, false},
		"paused":                  {platform.StatusInput{Paused: true, Components: []reconcile.PartSeen{part("web", "Deployment", ingress)}, Backups: &mysql.Observed{Unfinished: stuck}}, "paused", 2, false},
		"paused, and broken":      {platform.StatusInput{Paused: true, Components: []reconcile.PartSeen{part("auth", "Deployment", broken("a"))}, Backups: &mysql.Observed{Unfinished: stuck}}, "auth: pod a: ErrImagePull: m", 1, false},
		"refused, and broken":     {platform.StatusInput{Failure: refused, Components: []reconcile.PartSeen{part("auth", "Deployment", broken("a"))}, Backups: &mysql.Observed{Unfinished: stuck}}, refused.Message, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.seen.Backups != nil {
				test.seen.Backups.Declared = &dsv1.Backup{Schedule: "0 2 * * *", PointInTime: &dsv1.PointInTime{}}
			}
			ds := &dsv1.DataService{Spec: dsv1.DataServiceSpec{Paused: test.seen.Paused}}
			ds.Generation, test.seen.Generation = 1, 1
			ds.Status = platform.Compute(ds.Status, test.seen, metav1.NewTime(now))
			d := Explain(&Facts{DataService: ds, Now: now})
			message := ds.Status.Message
			assert.Assert(t, strings.HasPrefix(message, test.cause) && strings.Contains(d.Cause, test.cause), "%s\n%s", message, d.Cause)
			assert.Equal(t, d.Wrong, !test.well, d.Cause)
			assert.Equal(t, len(d.Others), test.more, "%q", d.Others)
			more := fmt.Sprintf(" (and %d more)", test.more)
			assert.Equal(t, strings.Contains(message, more), test.more > 0, message)
			assert.Equal(t, strings.HasSuffix(d.Cause, more), test.more > 0, d.Cause)
		})
	}
}

func TestTheWayToTheCause(t *testing.T) {
	t.Parallel()
	ds := &dsv1.DataService{Status: dsv1.DataServiceStatus{Components: []dsv1.ComponentStatus{
		{Name: "mysql", Phase: dsv1.PhaseRunning},
		{Name: "auth", Phase: dsv1.PhaseCreating},
		{Name: "proxy", Phase: dsv1.PhasePending, WaitsFor: []string{"auth"}},
		{Name: "web", Phase: dsv1.PhasePending, WaitsFor: []string{"proxy"}},
		{Name: "a", Phase: dsv1.PhasePending, WaitsFor: []string{"b"}},
		{Name: "b", Phase: dsv1.PhasePending, WaitsFor: []string{"a"}},
		{Name: "c", Phase: dsv1.PhasePending, WaitsFor: []string{"gone"}},
	}}}
	for asked, want := range map[string][]string{
		"":      {"web", "proxy", "auth"},
		"web":   {"web", "proxy", "auth"},
		"proxy": {"proxy", "auth"},
		"mysql": {"mysql"},
		"a":     {"a", "b"},
		"c":     {"c"},
	} {
		_, way := Blamed(ds, asked)
		assert.DeepEqual(t, way, want)
	}
	blamed, way := Blamed(ds, "nothing")
	assert.Assert(t, blamed == nil && way == nil)
	assert.DeepEqual(t, waiting(ds, "auth"), []string{"proxy", "web"})
	ds.Status.Components[1].Phase = dsv1.PhaseRunning
	ds.Status.Components[0].Phase = dsv1.PhaseDegraded
	blamed, _ = Blamed(ds, "")
	assert.Equal(t, blamed.Name, "mysql", "a broken component is named before a waiting component")
}

// The plugin has advice for each reason of a failure.
func TestReasonsHaveAdvice(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		dsv1.ReasonInvalidSpec, dsv1.ReasonRenderFailed, dsv1.ReasonObjectConflict, dsv1.ReasonNotAdopted, dsv1.ReasonApplyFailed, dsv1.ReasonCredentialsFailed,
		dsv1.ReasonPruneFailed, dsv1.ReasonContested, dsv1.ReasonVolumeNotResized, dsv1.ReasonNewerOperator, dsv1.ReasonPaused,
		dsv1.ReasonDataLost, dsv1.ReasonVolumeReplaced, dsv1.ReasonVolumeUnreadable, dsv1.ReasonVolumeBeingDeleted, dsv1.ReasonServerVersionRefused,
	} {
		assert.Assert(t, len(advice(reason)) > 0, "%s", reason)
	}
	for _, event := range health.DecisiveReasons {
		culprit, _ := health.CulpritOf("Pod", "a", &corev1.Event{Reason: event})
		reason := culprit.Reason
		if reason != "TaintManagerEviction" && reason != "FailedCreatePodSandBox" && reason != "NetworkNotReady" {
			assert.Assert(t, len(advice(reason)) > 0, "%s", reason)
		}
	}
}
