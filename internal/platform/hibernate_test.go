// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// sleeper is a DataService with its existing objects.
type sleeper struct {
	*testing.T

	kind    *Kind
	spec    string
	objects map[string]*unstructured.Unstructured // by kind and name
	pods    map[string][]*corev1.Pod              // by part
}

func newSleeper(t *testing.T, spec string) *sleeper {
	t.Helper()
	renderer, err := render.New(plan.KubeVersion)
	assert.NilError(t, err)
	return &sleeper{
		T: t, spec: spec, objects: map[string]*unstructured.Unstructured{}, pods: map[string][]*corev1.Pod{},
		kind: New(plan.NewPlanner(renderer, map[string]string{"agent": "example/operator:v1"}), plan.NewPreview(), nil, nil, nil),
	}
}

// plan plans the DataService, with or without hibernation.
func (s *sleeper) plan(hibernate bool) (*reconcile.Plan, *Observation) {
	s.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "platform"}}
	assert.NilError(s, yaml.UnmarshalStrict([]byte(s.spec), &ds.Spec))
	ds.Spec.Hibernate = hibernate
	dsv1.SetDefaults(ds)
	obs := &Observation{}
	planned, err := s.kind.Plan(ds, s.inputs(), obs)
	assert.NilError(s, err)
	return planned, obs
}

func (s *sleeper) inputs() reconcile.Inputs {
	lookup := func(kind, name string) (*unstructured.Unstructured, error) {
		assert.Assert(s, !strings.HasSuffix(kind, "Cluster"), "a %s is looked up by its name, but must be read by List", kind)
		return s.objects[kind+" "+name], nil
	}
	pods := func(part string) ([]*corev1.Pod, error) { return s.pods[part], nil }
	return reconcile.Inputs{
		Lookup: lookup, LookupAny: lookup, LookupLive: lookup, Pods: pods, PodsLive: pods,
		PodsOf: func(of object.Owner, part string) ([]*corev1.Pod, error) { return s.pods[of.Name+" "+part], nil },
		List: func(kind string) (found []*unstructured.Unstructured, err error) {
			for _, name := range slices.Sorted(maps.Keys(s.objects)) {
				if o := s.objects[name]; o.GetKind() == kind {
					found = append(found, o)
				}
			}
			return found, nil
		},
		Generation: func() (int64, error) { return 1, nil },
	}
}

// apply replaces the existing objects by those of a plan. Like the operator, it does not write the objects of a part
// that keeps running, except its CronJobs.
func (s *sleeper) apply(planned *reconcile.Plan) {
	s.Helper()
	for i := range planned.Parts {
		part := &planned.Parts[i]
		for _, o := range part.Objects {
			if part.KeepsRunning && o.GetKind() != object.CronJobKind.Kind && s.objects[o.GetKind()+" "+o.GetName()] != nil {
				continue
			}
			o = o.DeepCopy()
			if n, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); found {
				assert.NilError(s, unstructured.SetNestedField(o.Object, n, "status", "replicas"))
			}
			s.objects[o.GetKind()+" "+o.GetName()] = o
		}
	}
}

// number returns the number of pods of a planned object; -1 if the object is not planned.
func number(planned *reconcile.Plan, kind, name string) int64 {
	for i := range planned.Parts {
		for _, o := range planned.Parts[i].Objects {
			if o.GetKind() == kind && o.GetName() == name {
				if n, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); found {
					return n
				}
			}
		}
	}
	return -1
}

// suspended returns the names of the suspended CronJobs of a plan.
func suspended(planned *reconcile.Plan) (names []string) {
	for i := range planned.Parts {
		for _, o := range planned.Parts[i].Objects {
			if is, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); is && o.GetKind() == object.CronJobKind.Kind {
				names = append(names, o.GetName())
			}
		}
	}
	slices.Sort(names)
	return names
}

func podNamed(name string) []*corev1.Pod {
	return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

const wholePlatform = `{
mysql: {name: db, backup: {destination: {claim: {name: store}}, schedule: "30 4 * * *"}}, eureka: {}, redis: {replicas: 6}, etcd: {}, uuc: {thirdParty: {url: "https://a.example"}},
auth: {replica: 2}, web: {autoscaling: {max: 5}},
additionalServices: [{name: each, image: example/each:v1, kind: DaemonSet}],
cronJobs: [{name: clean-up, schedule: "30 2 * * *", image: example/clean-up:v1}]}`

// Services stop first, and backups are suspended. Middleware stops when no pod of a service and no backup remains. When the platform wakes,
// each workload has its earlier number of pods.
func TestHibernation(t *testing.T) {
	t.Parallel()
	s := newSleeper(t, wholePlatform)
	running, obs := s.plan(false)
	assert.Assert(t, obs.Hibernation == nil && len(suspended(running)) == 1, "%v", suspended(running)) // db-restore, which is only a template of Jobs
	s.apply(running)
	web := s.objects["Deployment web"]
	assert.NilError(t, unstructured.SetNestedField(web.Object, int64(4), "spec", "replicas")) // set by its autoscaler
	s.pods["auth"] = podNamed("auth-1")

	first, obs := s.plan(true)
	assert.Assert(t, obs.Hibernation.IsActive() && !obs.Hibernation.IsLast)
	for _, name := range []string{"auth", "web"} {
		assert.Equal(t, number(first, "Deployment", name), int64(0), name)
	}
	assert.DeepEqual(t, suspended(first), []string{"clean-up", "db-backup", "db-prune", "db-restore"})
	assert.Equal(t, number(first, "StatefulSet", "db"), int64(1))
	assert.Equal(t, number(first, "RedisCluster", "redis"), int64(6))
	for i := range first.Parts {
		part := &first.Parts[i]
		isMiddleware := slices.Contains([]string{"mysql", "eureka", "redis", "etcd", "uuc"}, part.Name)
		assert.Equal(t, part.KeepsRunning, isMiddleware, part.Name)
		assert.Equal(t, part.Stopped == nil, isMiddleware, part.Name)
		assert.Assert(t, len(part.After) == 0 && (isMiddleware || part.Revision != running.Parts[i].Revision), part.Name)
	}
	s.apply(first)

	for what, part := range map[string]string{"a pod": "auth", "a backup": "mysql.backup", "a backup of redis": "redis redis.cluster.backup"} {
		s.pods = map[string][]*corev1.Pod{part: podNamed("some-pod")}
		again, obs := s.plan(true)
		assert.Assert(t, !obs.Hibernation.IsLast && number(again, "StatefulSet", "db") == 1, what)
		assert.DeepEqual(t, obs.Hibernation.Remains, []string{"Pod some-pod"})
		assert.Assert(t, strings.Contains(obs.Hibernation.message(), "the services stop, and backups end. Still there: Pod some-pod"), obs.Hibernation.message())
	}

	s.pods = map[string][]*corev1.Pod{"mysql": podNamed("db-0"), "redis redis.cluster": podNamed("redis-0-0")}
	last, obs := s.plan(true)
	assert.Assert(t, obs.Hibernation.IsLast && !obs.Hibernation.IsDone())
	for name, kind := range map[string]string{"db": "StatefulSet", "eureka": "Deployment", "redis": "RedisCluster", "etcd": "EtcdCluster", "uuc-probe": "Deployment"} {
		assert.Equal(t, number(last, kind, name), int64(0), name)
	}
	s.apply(last)

	s.pods = map[string][]*corev1.Pod{"auth": podNamed("auth-2")} // another writer has started this pod
	still, obs := s.plan(true)
	assert.Assert(t, obs.Hibernation.IsLast && number(still, "StatefulSet", "db") == 0)
	s.pods = nil
	_, obs = s.plan(true)
	assert.Assert(t, obs.Hibernation.IsDone())
	assert.Equal(t, obs.Hibernation.message(), "hibernated: no pod runs, data and addresses stay; set spec.hibernate to false to wake it")

	woken, obs := s.plan(false)
	assert.Assert(t, obs.Hibernation == nil)
	assert.Equal(t, number(woken, "Deployment", "web"), int64(4))
	assert.Equal(t, number(woken, "RedisCluster", "redis"), int64(6))
	for i := range woken.Parts {
		assert.Equal(t, woken.Parts[i].Revision, running.Parts[i].Revision, woken.Parts[i].Name)
		assert.DeepEqual(t, woken.Parts[i].After, running.Parts[i].After)
	}
	s.apply(woken)
	rest, _ := s.plan(false)
	assert.Equal(t, number(rest, "Deployment", "web"), int64(-1), "the autoscaler sets the number of pods again")
}

// A DataService that is created with hibernate never has a pod.
func TestBornHibernated(t *testing.T) {
	t.Parallel()
	s := newSleeper(t, wholePlatform)
	planned, obs := s.plan(true)
	assert.Assert(t, obs.Hibernation.IsDone())
	for name, kind := range map[string]string{"db": "StatefulSet", "redis": "RedisCluster", "auth": "Deployment", "web": "Deployment"} {
		assert.Equal(t, number(planned, kind, name), int64(0), name)
	}
}

// Hibernation begins only after work on the data (a switch, an import, a restore) has ended. Once it has stopped pods,
// it does not wait for such work any more.
func TestHibernationWaits(t *testing.T) {
	t.Parallel()
	halted := func(s *sleeper) {
		auth := s.objects["Deployment auth"]
		auth.SetAnnotations(map[string]string{"d3os-product.com.d3os/halted": "2"})
	}
	works := func(container string) func(*sleeper) {
		return func(s *sleeper) {
			pods := podNamed("db-0")
			pods[0].Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			s.pods["mysql"] = pods
		}
	}
	for name, c := range map[string]struct {
		there func(*sleeper)
		waits string
	}{
		"a switch":  {halted, "hibernation waits until mysql has been switched to another database"},
		"an import": {works("d3os-restore-import"), "hibernation waits until Pod db-0 has restored or imported the data of mysql"},
		"a restore": {works("d3os-restore"), "hibernation waits until Pod db-0 has restored or imported the data of mysql"},
		"a guard":   {works("d3os-guard"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSleeper(t, wholePlatform)
			running, _ := s.plan(false)
			s.apply(running)
			c.there(s)
			planned, obs := s.plan(true)
			assert.Equal(t, obs.Hibernation.Waits, c.waits)
			assert.Equal(t, number(planned, "Deployment", "auth") == 0, c.waits == "" || name == "a switch")
			if c.waits != "" {
				s.objects["Deployment web"].SetAnnotations(map[string]string{"d3os-product.com.d3os/hibernated": "1"})
				_, obs = s.plan(true)
				assert.Assert(t, obs.Hibernation.IsActive(), "the hibernation has begun")
			}
		})
	}
}

// A database keeps running if it would lose its data with its pod.
func TestHibernationKeepsDataInDanger(t *testing.T) {
	t.Parallel()
	s := newSleeper(t, "{mysql: {name: db, kind: DaemonSet}, auth: {}, eureka: {}}")
	planned, obs := s.plan(true)
	assert.Assert(t, obs.Hibernation.IsLast)
	assert.DeepEqual(t, obs.Hibernation.Stays, []string{"mysql"})
	assert.Assert(t, planned.Parts[0].KeepsRunning && strings.Contains(planned.Parts[0].Notes[0].Text, "has no volume"), planned.Parts[0].Notes)

	s = newSleeper(t, "{mysql: {name: db}, auth: {}, eureka: {}}")
	running, _ := s.plan(false)
	s.apply(running)
	s.pods["mysql"] = podNamed("db-0")
	claim := object.Empty(object.ClaimKind)
	claim.SetName("data-db-0")
	claim.SetDeletionTimestamp(&noon)
	s.objects["PersistentVolumeClaim data-db-0"] = claim
	s.apply(func() *reconcile.Plan { first, _ := s.plan(true); return first }())
	planned, obs = s.plan(true)
	assert.DeepEqual(t, obs.Hibernation.Stays, []string{"mysql"})
	assert.Equal(t, number(planned, "StatefulSet", "db"), int64(1))
	assert.Equal(t, planned.Parts[0].Doubt.Culprit.Reason, mysql.ReasonVolumeBeingDeleted)
}

// The status shows the stage of the hibernation, and a problem with data.
func TestStatusOfHibernation(t *testing.T) {
	t.Parallel()
	asleep := func(name string, remains ...string) reconcile.PartSeen {
		c := seenOf(name, up)
		c.Health.Ready, c.Health.Desired, c.Revision, c.Stopped = 0, 0, "hibernated", &reconcile.Stopped{Remains: remains}
		return c
	}
	running := StatusInput{Generation: 1, Components: []reconcile.PartSeen{seenOf("mysql", up), seenOf("auth", up)}}
	in := func(h *Hibernation, components ...reconcile.PartSeen) StatusInput {
		return StatusInput{Generation: 2, Components: components, Hibernation: h}
	}
	stopping := in(&Hibernation{Remains: []string{"Pod auth-1"}}, seenOf("mysql", up), asleep("auth", "Pod auth-1"))
	done := in(&Hibernation{IsLast: true}, asleep("mysql"), asleep("auth"))
	danger := asleep("mysql")
	danger.Health = lost
	woken := in(nil, seenOf("mysql", starting), held("auth", "mysql"))
	woken.Components[0].Revision, woken.Components[1].Exists = "r2", true
	for name, c := range map[string]struct {
		history                   []StatusInput
		phase                     dsv1.Phase
		ready, message, component string
		conditions                string
	}{
		"waits": {[]StatusInput{running, in(&Hibernation{Waits: "hibernation waits"}, seenOf("mysql", up), seenOf("auth", up))}, dsv1.PhaseRunning, "2/2",
			"hibernation waits; mysql->auth", "", allWell},
		"services stop": {[]StatusInput{running, stopping}, dsv1.PhaseHibernating, "1/2",
			"hibernating: the services stop, and backups end. Still there: Pod auth-1; set spec.hibernate to false to wake it", "stops: there still is Pod auth-1",
			"Degraded=False(Healthy) Paused=False(NotPaused) Progressing=True(Hibernating) Ready=False(Hibernating) Reconciling=True(Hibernating)"},
		"hibernated": {[]StatusInput{running, stopping, done}, dsv1.PhaseHibernated, "0/2",
			"hibernated: no pod runs, data and addresses stay; set spec.hibernate to false to wake it", "has no pods",
			"Degraded=False(Healthy) Paused=False(NotPaused) Progressing=False(Settled) Ready=False(Hibernated)"},
		"a database keeps running": {[]StatusInput{running, in(&Hibernation{IsLast: true, Stays: []string{"mysql"}}, seenOf("mysql", up), asleep("auth"))}, dsv1.PhaseHibernated, "1/2",
			"hibernated, except mysql: data and addresses stay; set spec.hibernate to false to wake it", "has no pods",
			"Degraded=False(Healthy) Paused=False(NotPaused) Progressing=False(Settled) Ready=False(Hibernated)"},
		"data in danger": {[]StatusInput{running, done, in(&Hibernation{IsLast: true}, danger, asleep("auth"))}, dsv1.PhaseDegraded, "0/2",
			"mysql: PersistentVolumeClaim a: DataLost: m", "has no pods", strings.ReplaceAll(failing, "ComponentFailing", "DataLost")},
		"refused": {[]StatusInput{running, done, {Generation: 2, Components: done.Components, Failure: &reconcile.Failure{Reason: dsv1.ReasonApplyFailed, Message: "m"}}}, dsv1.PhaseFailed, "0/2",
			"m", "has no pods", strings.ReplaceAll(failing, "ComponentFailing", "ApplyFailed")},
		"woken": {[]StatusInput{running, done, woken}, dsv1.PhaseUpdating, "0/2", "[mysql]->auth", "has no pods; its new revision waits for mysql", working},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := dsv1.DataServiceStatus{}
			for _, seen := range c.history {
				got = Compute(got, seen, noon)
			}
			assert.Equal(t, got.Phase, c.phase)
			assert.Equal(t, got.Ready, c.ready)
			assert.Equal(t, got.Message, c.message)
			assert.Equal(t, got.Components[1].Message, c.component)
			assert.Equal(t, strings.Join(conditionsOf(got), " "), c.conditions)
			assert.DeepEqual(t, Compute(got, c.history[len(c.history)-1], later), got)
		})
	}
}
