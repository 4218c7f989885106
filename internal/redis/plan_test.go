// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/databasetest"
)

func testPlanner(t *testing.T) *planner {
	t.Helper()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	return newPlanner(renderer, Images{Agent: "example/operator:v1"}, func() (string, error) { return "generated", nil })
}

func read(t *testing.T, name string) *redisv1.RedisCluster {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	assert.NilError(t, err)
	rc := &redisv1.RedisCluster{}
	assert.NilError(t, yaml.UnmarshalStrict(data, rc))
	return rc
}

func ownerOf(rc *redisv1.RedisCluster) object.Owner {
	return object.Owner{GroupVersionKind: redisv1.GroupVersion.WithKind(redisv1.Kind), Namespace: rc.Namespace, Name: rc.Name, UID: rc.UID}
}

type there = databasetest.There

func withRecord(t *testing.T, rc *redisv1.RedisCluster, record topology.Record) there {
	t.Helper()
	return databasetest.WithRecord(t, there{}, records, ownerOf(rc), record)
}

func withSet(l there, cluster string, shard int, pods int64) there {
	return l.Set(setName(cluster, shard), pods, "other", "")
}

func planOf(t *testing.T, rc *redisv1.RedisCluster, live there) *reconcile.Plan {
	t.Helper()
	plan, err := testPlanner(t).plan(rc, ownerOf(rc), live.Inputs())
	assert.NilError(t, err)
	return plan
}

// testdata/*.golden hold the objects of each resource (go test . -update). Scripts have separate tests.
func TestManifests(t *testing.T) {
	t.Parallel()
	databasetest.Manifests(t, 5, func(t *testing.T, name string) []*unstructured.Unstructured {
		t.Helper()
		plan := planOf(t, read(t, name), there{})
		objects := append(plan.Secrets, plan.Parts[0].Objects...)
		for i, o := range objects {
			if strings.HasSuffix(o.GetName(), "-scripts") {
				objects[i] = o.DeepCopy()
				objects[i].Object["data"] = map[string]any{"left": "out"}
				objects[i].SetAnnotations(nil)
			}
		}
		return objects
	})
}

// sets returns the number of pods of each StatefulSet of a plan.
func sets(plan *reconcile.Plan) map[string]int64 {
	found := map[string]int64{}
	for _, o := range plan.Parts[0].Objects {
		if o.GetKind() == object.StatefulSetKind.Kind {
			found[o.GetName()], _, _ = unstructured.NestedInt64(o.Object, "spec", "replicas")
		}
	}
	return found
}

// A shard or replica stays until the record shows that it was drained and removed. Without a record, no live pod is removed.
func TestShardsStayUntilTheyAreDrained(t *testing.T) {
	t.Parallel()
	cache := read(t, "minimal")
	formed := func(shards ...int) topology.Record { return topology.Record{Formed: true, Shards: shards} }
	parked := func(shards ...int) topology.Record {
		return topology.Record{Formed: true, Parked: true, Shards: shards}
	}
	for name, c := range map[string]struct {
		replicas int32
		live     there
		want     map[string]int64
	}{
		"new":                   {6, there{}, map[string]int64{"cache-0": 2, "cache-1": 2, "cache-2": 2}},
		"odd":                   {7, there{}, map[string]int64{"cache-0": 3, "cache-1": 2, "cache-2": 2}},
		"grows":                 {8, withRecord(t, cache, formed(2, 2, 2)), map[string]int64{"cache-0": 2, "cache-1": 2, "cache-2": 2, "cache-3": 2}},
		"shrinks":               {6, withRecord(t, cache, formed(2, 2, 2, 2, 2)), map[string]int64{"cache-0": 2, "cache-1": 2, "cache-2": 2, "cache-3": 2, "cache-4": 2}},
		"one shard was drained": {6, withSet(withRecord(t, cache, formed(2, 2, 2, 2)), "cache", 4, 2), map[string]int64{"cache-0": 2, "cache-1": 2, "cache-2": 2, "cache-3": 2}},
		"parking":               {0, withRecord(t, cache, formed(2, 2, 2)), map[string]int64{"cache-0": 2, "cache-1": 2, "cache-2": 2}},
		"replicas stop":         {0, withRecord(t, cache, topology.Record{Formed: true, Shards: []int{3, 2, 2}, Pods: []int{1, 2, 1}}), map[string]int64{"cache-0": 1, "cache-1": 2, "cache-2": 1}},
		"parked":                {0, withRecord(t, cache, parked(2, 2, 2)), map[string]int64{"cache-0": 0, "cache-1": 0, "cache-2": 0}},
		"not yet unparked":      {8, withRecord(t, cache, parked(2, 2, 2)), map[string]int64{"cache-0": 0, "cache-1": 0, "cache-2": 0, "cache-3": 0}},
		"new and parked":        {0, there{}, map[string]int64{}},
		"one pod":               {1, there{}, map[string]int64{"cache-0": 1}},
		"odd to even":           {6, withRecord(t, cache, formed(3, 2, 2)), map[string]int64{"cache-0": 3, "cache-1": 2, "cache-2": 2}},
		"the record is empty":   {6, withRecord(t, cache, topology.Record{}), map[string]int64{"cache-0": 2, "cache-1": 2, "cache-2": 2}},
		"the record is lost": {
			6, withSet(withSet(withSet(withSet(there{}, "cache", 0, 3), "cache", 1, 2), "cache", 2, 2), "cache", 3, 2),
			map[string]int64{"cache-0": 3, "cache-1": 2, "cache-2": 2, "cache-3": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rc := read(t, "minimal")
			rc.Spec.Replicas = &c.replicas
			secret := object.Empty(object.ConfigMapKind)
			secret.Object["data"] = map[string]any{keyPassword: "c2VjcmV0"}
			c.live["Secret/cache-credentials"] = secret
			assert.DeepEqual(t, sets(planOf(t, rc, c.live)), c.want)
		})
	}
}

// A parked cluster whose record is lost keeps the shards that the record had: neither StatefulSets nor their claims are removed.
func TestAParkedClusterWithoutARecordKeepsItsShards(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	rc.Spec.Replicas, rc.Spec.Finalizers = ptr.To[int32](0), "foreground"
	secret := object.Empty(object.ConfigMapKind)
	secret.Object["data"] = map[string]any{keyPassword: "c2VjcmV0"}
	recorded := withRecord(t, rc, topology.Record{Formed: true, Parked: true, Shards: []int{3, 2, 2, 1}})
	recorded["Secret/cache-credentials"] = secret
	plan, live := planOf(t, rc, recorded), there{"Secret/cache-credentials": secret}
	for _, o := range plan.Parts[0].Objects {
		if o.GetKind() == object.StatefulSetKind.Kind {
			live["StatefulSet/"+o.GetName()] = o
		}
	}
	assert.DeepEqual(t, sets(planOf(t, rc, live)), map[string]int64{"cache-0": 3, "cache-1": 2, "cache-2": 2, "cache-3": 1})
	rc.Spec.Replicas = ptr.To[int32](6)
	assert.DeepEqual(t, sets(planOf(t, rc, live)), map[string]int64{"cache-0": 3, "cache-1": 2, "cache-2": 2, "cache-3": 1})
}

// Parking changes only the number of pods.
func TestParkingKeepsThePods(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	set := func(record topology.Record) map[string]any {
		live := withRecord(t, rc, record)
		secret := object.Empty(object.ConfigMapKind)
		secret.Object["data"] = map[string]any{keyPassword: "c2VjcmV0"}
		live["Secret/cache-credentials"] = secret
		return databasetest.Find(planOf(t, rc, live), object.StatefulSetKind.Kind, "cache-1").Object["spec"].(map[string]any)
	}
	runs, parked := set(topology.Record{Formed: true, Shards: []int{2, 2, 2}}), set(topology.Record{Formed: true, Parked: true, Shards: []int{2, 2, 2}})
	assert.DeepEqual(t, parked["template"], runs["template"])
	parked["replicas"] = runs["replicas"]
	assert.DeepEqual(t, parked, runs)
}

// While the cluster is parked, no backup is scheduled, because each would fail. No old backup is removed.
func TestNoBackupWhileParked(t *testing.T) {
	t.Parallel()
	rc := read(t, "backup")
	rc.Spec.Backup.Schedule = "30 2 * * *"
	for replicas, want := range map[int32]bool{6: false, 0: true} {
		rc.Spec.Replicas = &replicas
		for _, of := range []string{"-backup", "-prune"} {
			suspended, _, _ := unstructured.NestedBool(databasetest.Find(planOf(t, rc, there{}), object.CronJobKind.Kind, rc.Name+of).Object, "spec", "suspend")
			assert.Equal(t, suspended, want, "%s with %d pods", of, replicas)
		}
	}
	assert.Assert(t, rc.Spec.Backup.Schedule != "")
}

// A resource written for the earlier operator gives the same objects as the sample, after its unsupported version is
// replaced.
func TestTheSeedIsTheSample(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../test/testdata/seeds/rediscluster.yaml")
	assert.NilError(t, err)
	seed, sample := &redisv1.RedisCluster{}, read(t, "sample")
	assert.NilError(t, yaml.Unmarshal(data, seed))
	assert.Equal(t, seed.Spec.Version, "3.2.8")
	_, err = testPlanner(t).plan(seed, ownerOf(seed), there{}.Inputs())
	assert.ErrorContains(t, err, "the oldest supported version is 6.2")
	assert.Assert(t, len(notes(&seed.Spec)) == 1 && strings.Contains(notes(&seed.Spec)[0], "is used as the field of that name in nodeAffinity"), "%v", notes(&seed.Spec))
	seed.Spec.Version, seed.UID, seed.Generation = "7.0.15", sample.UID, sample.Generation
	assert.DeepEqual(t, planOf(t, seed, there{}).Parts[0].Objects, planOf(t, sample, there{}).Parts[0].Objects)
}

func TestARecordThatCannotBeReadStopsThePlan(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	live := withRecord(t, rc, topology.Record{})
	live["ConfigMap/cache-topology"].SetAnnotations(map[string]string{records.Annotation: "{", object.AnnotationDigest: "digest"})
	_, err := testPlanner(t).plan(rc, ownerOf(rc), live.Inputs())
	assert.ErrorContains(t, err, "ConfigMap cache-topology: restore the annotation from a backup")
}

// A new generation is planned again. The same generation is planned again only if the shards differ.
func TestPlansAreRemembered(t *testing.T) {
	t.Parallel()
	rc, p := read(t, "minimal"), testPlanner(t)
	plan := func(live there) *unstructured.Unstructured {
		made, err := p.plan(rc, ownerOf(rc), live.Inputs())
		assert.NilError(t, err)
		assert.Assert(t, made.Parts[0].HasEqualSets) // one dry run for all shards
		return made.Parts[0].Objects[0]
	}
	first := plan(there{})
	assert.Equal(t, plan(there{}), first)
	assert.Assert(t, plan(withSet(there{}, "cache", 3, 2)) != first)
	rc.Generation++
	assert.Assert(t, plan(there{}) != first)
	p.forget(rc.Namespace, rc.Name)
	assert.Equal(t, len(p.passwords.known), 0)
	assert.Assert(t, plan(there{}) != first)
}

// An operator that has just started takes the password from a Secret that lost the operator's label. If the Secret has
// lost all labels, the plan fails.
func TestUnlabelledPassword(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	live := withRecord(t, rc, topology.Record{Formed: true})
	secret, err := newPasswords(func() (string, error) { return "live", nil }).plan(rc, ownerOf(rc), nil, topology.Record{}, "")
	assert.NilError(t, err)
	live["Secret/cache-credentials"] = secret
	plan, err := testPlanner(t).plan(rc, ownerOf(rc), live.Unlabelled("cache-credentials"))
	assert.NilError(t, err)
	assert.Equal(t, passwordIn(plan.Secrets[0]), "live")
	secret.SetLabels(nil)
	_, err = testPlanner(t).plan(rc, ownerOf(rc), live.Unlabelled("cache-credentials"))
	assert.ErrorContains(t, err, "Secret cache-credentials exists, but its labels do not name RedisCluster cache")
}

// The password stays, is restored if its Secret is deleted, and always equals the password of the servers.
func TestPasswords(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	n := 0
	p := newPasswords(func() (string, error) { n++; return strings.Repeat("x", n), nil })
	plan := func(live *unstructured.Unstructured, record topology.Record) (string, error) {
		secret, err := p.plan(rc, ownerOf(rc), live, record, "")
		return passwordIn(secret), err
	}
	first, err := plan(nil, topology.Record{})
	assert.NilError(t, err)
	assert.Equal(t, first, "x")
	again, err := plan(nil, topology.Record{Formed: true})
	assert.NilError(t, err)
	assert.Equal(t, again, "x", "a deleted Secret comes back")
	live := object.Empty(object.ConfigMapKind)
	live.SetName("cache-credentials")
	live.Object["data"] = map[string]any{keyPassword: "bGl2ZQ=="}
	assert.Assert(t, p.adopt(rc, live) && !p.adopt(rc, live))
	again, err = plan(nil, topology.Record{})
	assert.NilError(t, err)
	assert.Equal(t, again, "live")
	p.forget(rc.Namespace, rc.Name)
	_, err = plan(nil, topology.Record{Formed: true})
	var lost *LostError
	assert.Assert(t, errors.As(err, &lost))
	rc.Spec.CredentialsSecret = "account"
	secret, err := p.plan(rc, ownerOf(rc), nil, topology.Record{}, "")
	assert.NilError(t, err)
	assert.Assert(t, secret == nil)
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec, reason, message string
	}{
		"old version":  {"version: 3.2.8", redisv1.ReasonUnsupportedVersion, "spec.version: Redis 3.2.8 is not supported: the oldest supported version is 6.2. Set this field to a supported version, such as 7.0.15"},
		"own variable": {"pod: [{env: [{name: POD_IP, value: a}]}]", reconcile.ReasonInvalidSpec, "spec.pod[0].env: POD_IP is set by the operator"},
		"many large pods": {"replicas: 300\npodTemplate: {metadata: {annotations: {a: " + strings.Repeat("x", 4000) + "}}}", reconcile.ReasonInvalidSpec,
			"bytes together with spec.pod, but may have at most 3495 for 150 shards: shorten both fields, or lower spec.replicas"},
		"unknown field":  {"podTemplate: {spec: {hostnames: a}}", reconcile.ReasonInvalidSpec, `spec.podTemplate.spec.hostnames: unknown field: there is no such field; did you mean 'hostname'?`},
		"own annotation": {"pod: [{annotations: {d3os-product.com.d3os/ticket: a}}]", reconcile.ReasonInvalidSpec, "spec.pod[0].annotations: annotations of d3os-product.com.d3os"},
		"unknown field of backups": {
			"backup: {destination: {claim: {name: b}}, podTemplate: {spec: {hostnames: a}}}", reconcile.ReasonInvalidSpec, "spec.backup.podTemplate.spec.hostnames: unknown field",
		},
		"schedule of backups":  {"backup: {destination: {claim: {name: b}}, schedule: '0 3 * * 7'}", reconcile.ReasonInvalidSpec, "spec.backup.schedule: the day of the week '7' is refused"},
		"time zone of backups": {"backup: {destination: {claim: {name: b}}, timeZone: Europe/Nowhere}", reconcile.ReasonInvalidSpec, "spec.backup.timeZone: 'Europe/Nowhere' is not known"},
		"own label":            {"podTemplate: {metadata: {labels: {app.kubernetes.io/instance: a}}}", reconcile.ReasonInvalidSpec, "spec.podTemplate.metadata.labels: label app.kubernetes.io/instance"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rc := read(t, "minimal")
			assert.NilError(t, yaml.Unmarshal([]byte(c.spec), &rc.Spec))
			_, err := testPlanner(t).plan(rc, ownerOf(rc), there{}.Inputs())
			var mistake *reconcile.SpecError
			assert.Assert(t, errors.As(err, &mistake), "%v", err)
			assert.Equal(t, mistake.Reason, c.reason)
			assert.ErrorContains(t, err, c.message)
		})
	}
}

// A setting that Redis can change at run time does not change the pods.
func TestLiveSettingsLeaveThePods(t *testing.T) {
	t.Parallel()
	pods := func(config map[string]redisv1.Setting) string {
		rc := read(t, "minimal")
		rc.Spec.Config = config
		return object.Digest(databasetest.Find(planOf(t, rc, there{}), object.StatefulSetKind.Kind, "cache-0"))
	}
	none := pods(nil)
	assert.Equal(t, pods(map[string]redisv1.Setting{"maxmemory-policy": "allkeys-lru", "maxmemory": "1gb"}), none)
	assert.Assert(t, pods(map[string]redisv1.Setting{"io-threads": "4"}) != none)
}

// No pod, ConfigMap or input of a digest contains a password.
func TestPasswordsAreInTheSecretAlone(t *testing.T) {
	t.Parallel()
	plan := planOf(t, read(t, "sample"), there{})
	data, err := json.Marshal(plan.Parts[0].Objects)
	assert.NilError(t, err)
	assert.Assert(t, !bytes.Contains(data, []byte("generated")) && !bytes.Contains(data, []byte("Z2VuZXJhdGVk")))
	assert.Equal(t, passwordIn(plan.Secrets[0]), "generated")
}

// The pods of a restored cluster read from a file whether the cluster has begun. A change of that file, more shards,
// and a new agent leave the pods unchanged. Once the cluster is formed, its pods equal those of a cluster without
// restoreFrom: they start even if the backup store was deleted.
func TestPodsStayWhenTheirClusterHasBegun(t *testing.T) {
	t.Parallel()
	rc := read(t, "backup")
	look := func(plan *reconcile.Plan) (set *unstructured.Unstructured, files map[string]string) {
		files, _, _ = unstructured.NestedStringMap(databasetest.Find(plan, object.ConfigMapKind.Kind, records.Name(rc.Name)).Object, "data")
		delete(files, "about")
		return databasetest.Find(plan, object.StatefulSetKind.Kind, setName(rc.Name, 0)), files
	}
	before, files := look(planOf(t, rc, withRecord(t, rc, topology.Record{})))
	assert.DeepEqual(t, files, map[string]string{"shards": "3"})
	live := withRecord(t, rc, topology.Record{Shards: []int{2, 2, 2}, Nodes: map[string]string{"cache-0-0": "a"}})
	live["StatefulSet/"+before.GetName()] = before
	p := testPlanner(t)
	p.images.Agent = "example/operator:v2"
	rc.Spec.Replicas = ptr.To[int32](8)
	plan, err := p.plan(rc, ownerOf(rc), live.Inputs())
	assert.NilError(t, err)
	after, files := look(plan)
	assert.DeepEqual(t, files, map[string]string{"formed": "true"})
	assert.DeepEqual(t, after.Object["spec"], before.Object["spec"])
	for _, o := range plan.Parts[0].Objects {
		if o.GetKind() == object.CronJobKind.Kind {
			text, err := o.MarshalJSON()
			assert.NilError(t, err)
			assert.Assert(t, strings.Contains(string(text), "example/operator:v2"), "backups are made by an old agent")
		}
	}

	live = withRecord(t, rc, topology.Record{Shards: []int{2, 2, 2}, Nodes: map[string]string{"cache-0-0": "a"}, Formed: true})
	live["Secret/"+secretOf(rc)] = plan.Secrets[0]
	formed, files := look(planOf(t, rc, live))
	assert.DeepEqual(t, files, map[string]string{"formed": "true"})
	taken := rc.DeepCopy()
	taken.Spec.RestoreFrom = nil
	without, _ := look(planOf(t, taken, live))
	assert.DeepEqual(t, formed.Object["spec"], without.Object["spec"])
}

// Without the agent's image, the operator plans no backups. It does not plan a cluster to restore either, because that cluster would be
// empty.
func TestNoRestoreWithoutTheAgent(t *testing.T) {
	t.Parallel()
	p := testPlanner(t)
	p.images.Agent = ""
	_, err := p.plan(read(t, "minimal"), ownerOf(read(t, "minimal")), there{}.Inputs())
	assert.NilError(t, err)
	_, err = p.plan(read(t, "backup"), ownerOf(read(t, "backup")), there{}.Inputs())
	mistake := &reconcile.SpecError{}
	assert.Assert(t, errors.As(err, &mistake) && mistake.Reason == redisv1.ReasonAgentMissing, "%v", err)
}
