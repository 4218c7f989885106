// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/plugin"
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
