// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/halt"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
)

const restarting = `
rollout: {restartOnChange: true}
additionalServices:
- name: reports
  image: example/reports:v1
  envFrom: [{secretRef: {name: database}}, {configMapRef: {name: flags, optional: true}}, {secretRef: {name: own}}]
  envs: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: t}}}]
  imagePullSecrets: [{name: pull}]
  volumes: [{name: tls, secret: {secretName: certificate}}]
  volumeMounts: [{name: tls, mountPath: /tls}]
`

// restarter is a DataService whose Secrets and ConfigMaps change.
type restarter struct {
	*sleeper

	now    time.Time
	users  map[string]*unstructured.Unstructured // by kind and name
	broken map[string]bool                       // objects that cannot be read, by kind and name
	reads  int
	change func(*dsv1.DataService)
}

func newRestarter(t *testing.T) *restarter {
	t.Helper()
	s := &restarter{sleeper: newSleeper(t, restarting), now: time.Unix(1, 0), users: map[string]*unstructured.Unstructured{}, broken: map[string]bool{}}
	s.kind.contents = newContents()
	s.kind.contents.now = func() time.Time { return s.now }
	for _, name := range []string{"Secret database", "Secret token", "Secret certificate"} {
		s.write(name, "a")
	}
	s.own("a")
	return s
}

// own creates the operator's Secret "own", which the operator's cache does not show yet.
func (s *restarter) own(value string) {
	s.write("Secret own", value)
	s.users["Secret own"].SetLabels(map[string]string{object.LabelManagedBy: object.ManagedBy})
}

// write replaces a user's object by a new object with this content.
func (s *restarter) write(id, value string) {
	kind, name, _ := strings.Cut(id, " ")
	s.users[id] = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": "data"}, "data": map[string]any{"t": value},
	}}
}

// next advances the clock so that users' objects are read again, makes a plan, and applies it.
func (s *restarter) next() (*reconcile.Plan, *reconcile.Part) {
	s.Helper()
	s.now = s.now.Add(contentsKnown)
	ds := &dsv1.DataService{}
	ds.Namespace, ds.Name = "data", "platform"
	assert.NilError(s, yaml.UnmarshalStrict([]byte(s.spec), &ds.Spec))
	dsv1.SetDefaults(ds)
	if s.change != nil {
		s.change(ds)
	}
	in := s.inputs()
	in.LookupLive = func(kind, name string) (*unstructured.Unstructured, error) {
		if s.reads++; s.broken[kind+" "+name] {
			return nil, errors.New("forbidden")
		}
		if o := s.users[kind+" "+name]; o != nil {
			return o, nil
		}
		return s.objects[kind+" "+name], nil
	}
	planned, err := s.kind.Plan(ds, in, &Observation{})
	assert.NilError(s, err)
	s.apply(planned)
	for i := range planned.Parts {
		if planned.Parts[i].Name == "reports" {
			return planned, &planned.Parts[i]
		}
	}
	s.Fatal("no reports")
	return nil, nil
}

// template returns the pod template of the service named reports.
func (s *restarter) template() string {
	s.Helper()
	template, _, err := unstructured.NestedMap(s.objects["Deployment reports"].Object, "spec", "template")
	assert.NilError(s, err)
	text, err := yaml.Marshal(template)
	assert.NilError(s, err)
	return string(text)
}

// restarts makes the next plan, and returns the reason why the pods of the service named reports restart, or "". It checks that the
// pod template changes only with such a reason.
func (s *restarter) restarts() string {
	s.Helper()
	before := s.template()
	planned, part := s.next()
	assert.Equal(s, part.Restart != "", planned.IsRequested)
	assert.Equal(s, s.template() != before, planned.IsRequested)
	return part.Restart
}

func TestRestartOnChange(t *testing.T) {
	t.Parallel()
	const because = "restarts because of a change of "
	for name, test := range map[string]struct {
		change func(s *restarter)
		want   string
	}{
		"nothing":                             {func(*restarter) {}, ""},
		"all variables of a Secret":           {func(s *restarter) { s.write("Secret database", "b") }, because + "Secret database"},
		"one variable":                        {func(s *restarter) { s.write("Secret token", "b") }, because + "Secret token"},
		"a volume":                            {func(s *restarter) { s.write("Secret certificate", "b") }, because + "Secret certificate"},
		"two Secrets":                         {func(s *restarter) { s.write("Secret token", "b"); s.write("Secret database", "b") }, because + "Secret database, Secret token"},
		"a new Secret with equal content":     {func(s *restarter) { s.write("Secret database", "a") }, ""},
		"a deleted Secret":                    {func(s *restarter) { delete(s.users, "Secret database") }, ""},
		"an optional ConfigMap appears":       {func(s *restarter) { s.write("ConfigMap flags", "a") }, because + "ConfigMap flags"},
		"a Secret for pulling images":         {func(s *restarter) { s.write("Secret pull", "b") }, ""},
		"a Secret cannot be read":             {func(s *restarter) { s.broken["Secret database"] = true }, ""},
		"unreadable, and another one changes": {func(s *restarter) { s.broken["Secret database"] = true; s.write("Secret token", "b") }, because + "Secret token"},
		"an unreadable Secret changes":        {func(s *restarter) { s.broken["Secret database"] = true; s.write("Secret database", "b") }, ""},
		"a Secret of the operator":            {func(s *restarter) { s.own("b") }, ""},
		"while the workload has no pods":      {func(s *restarter) { s.scale(0); s.write("Secret database", "b") }, ""},
		"while the DataService is paused": {func(s *restarter) {
			s.change = func(ds *dsv1.DataService) { ds.Spec.Paused = true }
			s.write("Secret token", "b")
		}, ""},
		"after the field was removed":       {func(s *restarter) { s.change = off; s.write("Secret token", "b") }, ""},
		"a Secret that the pods do not use": {func(s *restarter) { s.write("Secret elsewhere", "b") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRestarter(t)
			_, part := s.next()
			assert.Equal(t, part.Restart, "")
			assert.Equal(t, s.restarts(), "", "new pods have the contents")
			test.change(s)
			assert.Equal(t, s.restarts(), test.want)
			assert.Equal(t, s.restarts(), "", "the pods restart only once")
			assert.Assert(t, !strings.Contains(s.template(), `"b"`))
		})
	}
}

func off(ds *dsv1.DataService) { ds.Spec.Rollout.RestartOnChange = false }

// scale sets the number of pods of the service named reports.
func (s *restarter) scale(n int64) {
	s.Helper()
	o := s.objects["Deployment reports"].DeepCopy()
	assert.NilError(s, unstructured.SetNestedField(o.Object, n, "spec", "replicas"))
	s.objects["Deployment reports"] = o
}

// Pods do not restart when the operator computes a digest for the first time: when restartOnChange is set, when a
// Secret becomes readable, or when a Secret is created.
func TestRestartNeedsAKnownContent(t *testing.T) {
	t.Parallel()
	s := newRestarter(t)
	s.change = off
	s.next()
	plain := s.objects["Deployment reports"]
	assert.Equal(t, s.reads, 0)
	s.change = nil
	s.broken["Secret database"] = true
	delete(s.users, "Secret token")
	assert.Equal(t, s.restarts(), "")
	_, part := s.next()
	assert.DeepEqual(t, part.Notes, []health.Note{health.Info("Secret database cannot be read, so changes of it restart no pod: forbidden")})
	s.broken["Secret database"] = false
	s.write("Secret token", "a")
	assert.Equal(t, s.restarts(), "")
	s.write("Secret database", "b")
	assert.Equal(t, s.restarts(), "restarts because of a change of Secret database")

	s.change = off
	assert.Equal(t, s.restarts(), "", "the last restart stays")
	assert.Assert(t, strings.Contains(s.template(), object.AnnotationRestart))
	assert.Equal(t, s.objects["Deployment reports"].GetAnnotations()[object.AnnotationContents], "")
	assert.Equal(t, plain.GetAnnotations()[object.AnnotationContents], "")
}

// If a Secret was deleted, and was created again with other content, the pods restart.
func TestRestartAfterAReplacement(t *testing.T) {
	t.Parallel()
	s := newRestarter(t)
	s.next()
	delete(s.users, "Secret database")
	assert.Equal(t, s.restarts(), "")
	s.write("Secret database", "b")
	assert.Equal(t, s.restarts(), "restarts because of a change of Secret database")

	s.write("ConfigMap flags", "a")
	assert.Equal(t, s.restarts(), "restarts because of a change of ConfigMap flags")
	delete(s.users, "ConfigMap flags")
	assert.Equal(t, s.restarts(), "")
	s.write("ConfigMap flags", "a")
	assert.Equal(t, s.restarts(), "")
}

// The operator reads an object at most once a minute, even if it reconciles more often.
func TestRestartReadsOnceAMinute(t *testing.T) {
	t.Parallel()
	s := newRestarter(t)
	s.next()
	reads := s.reads
	s.write("Secret token", "b")
	s.now = s.now.Add(-contentsKnown)
	assert.Equal(t, s.restarts(), "")
	assert.Equal(t, s.reads, reads)
	assert.Equal(t, s.restarts(), "restarts because of a change of Secret token")
	assert.Equal(t, s.reads, 2*reads)
}

// If a Secret changes while the platform hibernates, the pods start with the new content, and do not restart after
// that.
func TestRestartAfterHibernation(t *testing.T) {
	t.Parallel()
	s := newRestarter(t)
	s.next()
	s.change = func(ds *dsv1.DataService) { ds.Spec.Hibernate = true }
	s.next()
	reads := s.reads
	s.write("Secret database", "b")
	s.next()
	assert.Equal(t, s.reads, reads)
	assert.Assert(t, !halt.MayRun(s.objects["Deployment reports"]))
	s.change = nil
	assert.Equal(t, s.restarts(), "")
	s.write("Secret database", "c")
	assert.Equal(t, s.restarts(), "restarts because of a change of Secret database")
}

// The digests do not help to guess a password, because they depend on a secret key.
func TestRestartDigestsHaveAKey(t *testing.T) {
	t.Parallel()
	digests := func() string {
		s := newRestarter(t)
		s.kind.keeper = plan.NewKeeper()
		s.next()
		known := s.objects["Deployment reports"].GetAnnotations()[object.AnnotationContents]
		assert.Assert(t, strings.Contains(known, `"Secret database":"`), known)
		return known
	}
	first, second := digests(), digests()
	assert.Assert(t, first != second)
}

// For one DataService, the operator reads at most maxContents objects within a minute, whatever the spec is.
func TestRestartReadsABoundedNumber(t *testing.T) {
	t.Parallel()
	s := newRestarter(t)
	names := make([]string, 0, 2*maxContents)
	for i := range cap(names) {
		names = append(names, "{secretRef: {name: s"+strings.Repeat("x", i)+"}}")
	}
	s.spec = "rollout: {restartOnChange: true}\nadditionalServices: [{name: reports, image: example/reports:v1, envFrom: [" + strings.Join(names, ", ") + "]}]"
	_, part := s.next()
	assert.Equal(t, s.reads, maxContents)
	assert.Assert(t, len(part.Notes) > 0)
	s.now = s.now.Add(-contentsKnown)
	s.next()
	assert.Equal(t, s.reads, maxContents, "within a minute")
}

// With restartOnChange, the operator reconciles again after contentsKnown, because it does not watch users' objects.
func TestRestartLooksAgain(t *testing.T) {
	t.Parallel()
	ds := &dsv1.DataService{}
	assert.Equal(t, (&Kind{}).Decide(ds, reconcile.PlanSeen{}, &Observation{}).LookAgain, time.Duration(0))
	ds.Spec.Rollout.RestartOnChange = true
	assert.Equal(t, (&Kind{}).Decide(ds, reconcile.PlanSeen{}, &Observation{}).LookAgain, contentsKnown)
	assert.Equal(t, (&Kind{}).Decide(ds, reconcile.PlanSeen{}, &Observation{Hibernation: &Hibernation{}}).LookAgain, podsShown)
}

// The status names the reason of a restart until the pods are ready.
func TestRestartShowsItsReason(t *testing.T) {
	t.Parallel()
	const reason = "restarts because of a change of Secret database"
	s := newRestarter(t)
	s.next()
	s.write("Secret database", "b")
	_, part := s.next()
	seen := reconcile.PartSeen{Name: part.Name, Kind: part.Kind, Revision: part.Revision, Applied: true, Exists: true, Restart: part.Restart}
	got := componentStatus(seen, &dsv1.ComponentStatus{Name: "reports", Kind: part.Kind, Phase: dsv1.PhaseRunning, Revision: "r0"})
	assert.Equal(t, got.Phase, dsv1.PhaseUpdating)
	assert.Equal(t, got.Message, reason)

	s.change = func(ds *dsv1.DataService) { ds.Status.Components = []dsv1.ComponentStatus{got} }
	planned, part := s.next()
	assert.Equal(t, part.Restart, reason)
	assert.Assert(t, !planned.IsRequested)
	got.Phase, got.Message = dsv1.PhaseRunning, ""
	s.change = func(ds *dsv1.DataService) { ds.Status.Components = []dsv1.ComponentStatus{got} }
	_, part = s.next()
	assert.Equal(t, part.Restart, "")
	assert.Equal(t, object.Digest(part.Objects[0]) != "", true)
}
