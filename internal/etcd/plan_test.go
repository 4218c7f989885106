// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/databasetest"
)

var today = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testPlanner(t *testing.T) *planner {
	t.Helper()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	return newPlanner(renderer, Images{Agent: "example/operator:v1"}, func() time.Time { return today })
}

func read(t *testing.T, name string) *etcdv1.EtcdCluster {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	assert.NilError(t, err)
	ec := &etcdv1.EtcdCluster{}
	assert.NilError(t, yaml.UnmarshalStrict(data, ec))
	if ec.Namespace == "" {
		ec.Namespace, ec.UID, ec.Generation = "default", "1", 1
	}
	return ec
}

func ownerOf(ec *etcdv1.EtcdCluster) object.Owner {
	return object.Owner{GroupVersionKind: etcdv1.GroupVersion.WithKind(etcdv1.Kind), Namespace: ec.Namespace, Name: ec.Name, UID: ec.UID}
}

type there = databasetest.There

func withRecord(t *testing.T, ec *etcdv1.EtcdCluster, record membership.Record) there {
	t.Helper()
	return databasetest.WithRecord(t, there{}, records, ownerOf(ec), record)
}

func planOf(t *testing.T, ec *etcdv1.EtcdCluster, live there) *reconcile.Plan {
	t.Helper()
	plan, err := testPlanner(t).plan(ec, ownerOf(ec), live.Inputs())
	assert.NilError(t, err)
	return plan
}

// The files testdata/*.golden contain the objects of each resource. go test . -update writes them.
func TestManifests(t *testing.T) {
	t.Parallel()
	databasetest.Manifests(t, 4, func(t *testing.T, name string) []*unstructured.Unstructured {
		t.Helper()
		ec := read(t, name)
		return planOf(t, ec, withRecord(t, ec, membership.Record{Replicas: replicasOf(&ec.Spec)})).Parts[0].Objects
	})
}

// The record, which steps change, determines the number of pods and the version of etcd. A missing record never removes
// a live pod.
func TestThePlanFollowsTheRecord(t *testing.T) {
	t.Parallel()
	store := read(t, "minimal")
	const image = "gcr.io/etcd-development/etcd:v"
	for name, c := range map[string]struct {
		replicas int32
		live     there
		pods     int64
		image    string
		budget   bool
	}{
		"new":                                {3, there{}, 1, image + "3.6.16", true},
		"two pods so far":                    {3, withRecord(t, store, membership.Record{Replicas: 2}), 2, image + "3.6.16", true},
		"more pods than wanted":              {3, withRecord(t, store, membership.Record{Replicas: 5}), 5, image + "3.6.16", true},
		"an older version":                   {3, withRecord(t, store, membership.Record{Replicas: 3, Version: "3.5.35"}), 3, image + "3.5.35", true},
		"parked":                             {0, withRecord(t, store, membership.Record{Replicas: 3}), 0, image + "3.6.16", false},
		"one pod":                            {1, withRecord(t, store, membership.Record{Replicas: 1}), 1, image + "3.6.16", false},
		"the record is lost":                 {5, there{}.Set("store", 4, container, "other:v1"), 4, "other:v1", true},
		"the record has fewer pods than run": {3, withRecord(t, store, membership.Record{Replicas: 1, Version: "3.6.16"}).Set("store", 3, container, "other:v1"), 3, image + "3.6.16", true},
		"the record has fewer pods than have data":      {3, withClaims(withRecord(t, store, membership.Record{Replicas: 1}), 3, "3.6.16"), 3, image + "3.6.16", true},
		"the resource is created again over data":       {1, withClaims(there{}, 3, "3.5.35"), 3, image + "3.5.35", true},
		"the record has an older version than the data": {3, withClaims(withRecord(t, store, membership.Record{Replicas: 3, Version: "3.5.35"}), 3, "3.6.16"), 3, image + "3.6.16", true},
		"parked, claims are being deleted":              {0, leaving(withClaims(there{}.Set("store", 3, container, "other:v1"), 3, "3.6.16")), 3, "other:v1", true},
		"the record is lost, parked":                    {0, there{}.Set("store", 4, container, "other:v1"), 0, "other:v1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec := read(t, "minimal")
			ec.Spec.Replicas = &c.replicas
			plan := planOf(t, ec, c.live)
			set := databasetest.Find(plan, object.StatefulSetKind.Kind, "store")
			assert.Equal(t, int64(database.Replicas(set)), c.pods)
			assert.Equal(t, database.ImageOf(set, container), c.image)
			assert.Equal(t, databasetest.Find(plan, "PodDisruptionBudget", "store") != nil, c.budget)
		})
	}
}

// withClaims adds claims with annotations for data of a version.
func withClaims(l there, n int, version string) there {
	for ordinal := range n {
		o := object.Empty(object.ClaimKind)
		o.SetName(database.ClaimName("store", ordinal))
		o.SetAnnotations(map[string]string{
			annotationCluster: "c1", annotationMember: fmt.Sprintf("%x", ordinal+1), annotationVersion: version, annotationPosition: "2 100 2026-01-02T03:04:05Z",
		})
		l["PersistentVolumeClaim/"+o.GetName()] = o
	}
	return l
}

func leaving(l there) there {
	for _, o := range l {
		if o.GetKind() == object.ClaimKind.Kind {
			o.SetDeletionTimestamp(&metav1.Time{Time: today})
		}
	}
	return l
}

// The agents read the positions of their members' data from the record's ConfigMap. The published position stays if a
// user creates a claim again from a snapshot.
func TestAgentsSeeHowFarTheDataWent(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	for name, c := range map[string]struct {
		change func(claim *unstructured.Unstructured) // changes store-1
		want   string
	}{
		"marked":                      {func(*unstructured.Unstructured) {}, "c1 2 2 100"},
		"the claim was created again": {func(claim *unstructured.Unstructured) { claim.SetAnnotations(nil) }, "c1 2 2 90"},
		"the claim was deleted":       {nil, "c1 2 2 90"},
		"prepared for a new member":   {func(claim *unstructured.Unstructured) { claim.SetAnnotations(map[string]string{annotationMember: "3"}) }, ""},
		"malformed":                   {edited(annotationPosition, "2 many 2026-01-02T03:04:05Z"), "c1 2 2 90"},
		"the member is malformed":     {edited(annotationMember, "not-an-id"), "c1 2 2 90"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := withClaims(withRecord(t, ec, membership.Record{Replicas: 2}), 2, "3.6.16")
			kept := live["ConfigMap/"+records.Name(ec.Name)]
			assert.NilError(t, unstructured.SetNestedStringMap(kept.Object, map[string]string{"about": "it", "store-0": "c1 1 2 90", "store-1": "c1 2 2 90"}, "data"))
			if c.change == nil {
				delete(live, "PersistentVolumeClaim/data-store-1")
			} else {
				c.change(live["PersistentVolumeClaim/data-store-1"])
			}
			record := databasetest.Find(planOf(t, ec, live), object.ConfigMapKind.Kind, records.Name(ec.Name))
			data, _, _ := unstructured.NestedStringMap(record.Object, "data")
			assert.Equal(t, data["store-0"]+", "+data["store-1"], "c1 1 2 100, "+c.want)
		})
	}
}

// edited returns a change of one annotation.
func edited(annotation, text string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		all := o.GetAnnotations()
		all[annotation] = text
		o.SetAnnotations(all)
	}
}

// If a user has edited an annotation of a claim, a note names the annotation and the claim. Of that claim's
// annotations, only the used tokens are still read.
func TestAnnotationsOfClaims(t *testing.T) {
	t.Parallel()
	for annotation, text := range map[string]string{annotationCluster: "c1x", annotationMember: "not-an-id", annotationPosition: "2 100 no-time"} {
		claim := withClaims(there{}, 2, "3.6.16")["PersistentVolumeClaim/data-store-1"]
		edited(annotationRecoveries, "t u")(claim)
		edited(annotation, text)(claim)
		read, ok := readClaim("store", claim, today)
		assert.Assert(t, ok)
		assert.Assert(t, strings.Contains(read.Malformed, annotation) && strings.Contains(read.Malformed, text), read.Malformed)
		read.Malformed = ""
		assert.DeepEqual(t, read, membership.Claim{Name: "data-store-1", Ordinal: 1, Tokens: "t u"})
	}
	assert.Assert(t, isFormed(membership.Record{}, []membership.Claim{{Malformed: "it may have data"}}))
	for name, used := range map[string]bool{"data-store-8": true, "data-store-9": false, "data-store-": false, "data-other-1": false} {
		claim := object.Empty(object.ClaimKind)
		claim.SetName(name)
		_, ok := readClaim("store", claim, today)
		assert.Equal(t, ok, used, name)
	}
}

// A position that a user has edited is dropped.
func TestPositionsAreParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"c1 2 2 90": true, "": false, "c1 2 2": false, "c1 2 2 90 5": false, "c1 2 two 90": false} {
		assert.Equal(t, isPosition(text), want, text)
	}
}

// A container is crashing only if etcd has kept exiting since its pod became unready.
func TestCrashing(t *testing.T) {
	t.Parallel()
	unready := today.Add(-10 * time.Minute)
	ended := func(change func(*corev1.ContainerStateTerminated)) corev1.ContainerState {
		end := &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 2, FinishedAt: metav1.NewTime(today.Add(-time.Minute))}
		change(end)
		return corev1.ContainerState{Terminated: end}
	}
	saying := func(lines ...string) corev1.ContainerState {
		return ended(func(e *corev1.ContainerStateTerminated) { e.Message = strings.Join(lines, "\n") })
	}
	itself := saying(`{"level":"panic","msg":"tocommit(9) is out of range"}`)
	// The last lines that etcd 3.6.16 prints.
	starts := `{"level":"info","caller":"embed/etcd.go:312","msg":"starting an etcd server","data-dir":"/data/etcd","wal-dir":"","snapshot-count":10000,"discovery-url":""}`
	closes := `{"level":"info","caller":"embed/etcd.go:428","msg":"closed etcd server","name":"a","data-dir":"/data/etcd"}`
	fatal := func(text string) string {
		return `{"level":"fatal","caller":"etcdmain/etcd.go:183","msg":"discovery failed","error":"` + text + `","stacktrace":"go.etcd.io/etcd/server/v3/etcdmain.Main\n\tmain.go:40"}`
	}
	trace := "\n\ngoroutine 1 [running]:\ngo.uber.org/zap/zapcore.CheckWriteAction.OnWrite(0x1?, 0x12db72a?)\n\tgo.uber.org/zap@v1.27.1/zapcore/entry.go:196 +0x54"
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	for name, c := range map[string]struct {
		now, last corev1.ContainerState
		want      bool
	}{
		"it ends by itself":                {waits("CrashLoopBackOff"), itself, true},
		"its image cannot be pulled":       {waits("ImagePullBackOff"), itself, false},
		"it is being created":              {waits("ContainerCreating"), itself, false},
		"its settings are wrong":           {waits("CreateContainerConfigError"), itself, false},
		"it runs":                          {corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(today)}}, itself, false},
		"it never ended":                   {waits("CrashLoopBackOff"), corev1.ContainerState{}, false},
		"it ended while the pod was well":  {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) { e.FinishedAt = metav1.NewTime(unready.Add(-time.Hour)) }), false},
		"it was killed for lack of memory": {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) { e.Reason, e.ExitCode = "OOMKilled", 137 }), false},
		"its probe fails":                  {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) { e.ExitCode = 137 }), false},
		"it cannot be started":             {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) { e.Reason, e.ExitCode = "StartError", 128 }), false},
		"the agent wrote the last message": {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) {
			e.Message = `{"reason":"NoCertificate","message":"there is none"}`
		}), false},
		"it leaves no message":               {waits("CrashLoopBackOff"), saying(), false},
		"its disk is full":                   {waits("CrashLoopBackOff"), saying(starts, `{"level":"fatal","msg":"failed to commit tx","error":"write /data/etcd/member/snap/db: no space left on device"}`), false},
		"its volume is read-only":            {waits("CrashLoopBackOff"), saying(starts, fatal("cannot access data directory: open /data/etcd/.touch: read-only file system")), false},
		"its volume has bad blocks":          {waits("CrashLoopBackOff"), saying(starts, `{"level":"fatal","msg":"failed to commit tx","error":"write /data/etcd/member/snap/db: input/output error"}`), true},
		"its key is of another certificate":  {waits("CrashLoopBackOff"), saying(starts, `{"level":"fatal","caller":"etcdmain/etcd.go:198","msg":"listener failed","error":"tls: private key does not match public key"}`), false},
		"its authority is not a certificate": {waits("CrashLoopBackOff"), saying(starts, `{"level":"fatal","caller":"etcdmain/etcd.go:198","msg":"listener failed","error":"x509: malformed tbs certificate"}`), false},
		"a certificate is missing":           {waits("CrashLoopBackOff"), saying(starts, closes, fatal("open /certs/peer/ca.crt: no such file or directory")), false},
		"a flag is wrong":                    {waits("CrashLoopBackOff"), saying(`invalid value "abc" for flag -snapshot-count: parse error`, "Usage:", "  etcd [flags]"), false},
		"a member is not expected":           {waits("CrashLoopBackOff"), saying(starts, closes, fatal("member count is unequal")), false},
		"a checksum is wrong":                {waits("CrashLoopBackOff"), saying(starts, closes, fatal("walpb: crc mismatch")), true},
		"its snapshot is missing":            {waits("CrashLoopBackOff"), saying(`main.main\n\tmain.go:31"}`, "panic: failed to recover v3 backend from snapshot"+trace), true},
		"its database is garbage": {waits("CrashLoopBackOff"), saying(`{"level":"panic","msg":"failed to open database","path":"/data/etcd/member/snap/db","error":"invalid database","stacktrace":"a"}`,
			"panic: failed to open database"+trace), true},
		"its database cannot be opened, and the cause is cut off": {waits("CrashLoopBackOff"), saying(`backend.go:16"}`, "panic: failed to open database"+trace), false},
		"its database cannot be read, and the cause is cut off": {waits("CrashLoopBackOff"), saying("ck(...)\n\truntime/proc.go:468", "",
			"goroutine 118 gp=0x2e59662a6960 m=nil [runnable]:", "go.etcd.io/bbolt.(*DB).freepages.func2()"), true},
	} {
		assert.Equal(t, crashing(&corev1.ContainerStatus{RestartCount: 90, State: c.now, LastTerminationState: c.last}, unready), c.want, name)
	}
}

// A new version of the operator restarts no member: the pods get the new version's agent at their next change.
func TestANewAgentRestartsNothing(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	set := func(p *planner, live there) *unstructured.Unstructured {
		plan, err := p.plan(ec, ownerOf(ec), live.Inputs())
		assert.NilError(t, err)
		return databasetest.Find(plan, object.StatefulSetKind.Kind, "store")
	}
	old := set(testPlanner(t), there{})
	upgraded := testPlanner(t)
	upgraded.images.Agent = "example/operator:v2"
	assert.Equal(t, object.Digest(set(upgraded, there{"StatefulSet/store": old})), object.Digest(old))
	assert.Equal(t, agentPods.Pods(set(upgraded, there{})).Image, "example/operator:v2")
	ec.Spec.Config = map[string]etcdv1.Flag{"log-level": "debug"}
	ec.Generation++
	assert.Equal(t, agentPods.Pods(set(upgraded, there{"StatefulSet/store": old})).Image, "example/operator:v2")
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec, reason, message string
	}{
		"old version":   {"version: 3.3.27", etcdv1.ReasonUnsupportedVersion, "spec.version: etcd 3.3.27 is not supported: use 3.4.0 or newer"},
		"unknown major": {"version: 4.0.0", etcdv1.ReasonUnsupportedVersion, "not supported"},
		"another tag":   {"{image: 'registry:5000/etcd:v3.4.44', version: 3.6.16}", reconcile.ReasonInvalidSpec, "the tag of spec.image names etcd 3.4.44, but spec.version is 3.6.16"},
		"unknown field": {"podTemplate: {spec: {hostnames: a}}", reconcile.ReasonInvalidSpec, "spec.podTemplate.spec.hostnames: unknown field"},
		"unknown field of backups": {
			"backup: {destination: {claim: {name: b}}, podTemplate: {spec: {hostnames: a}}}", reconcile.ReasonInvalidSpec, "spec.backup.podTemplate.spec.hostnames: unknown field",
		},
		"schedule of backups":  {"backup: {destination: {claim: {name: b}}, schedule: '0 24 * * *'}", reconcile.ReasonInvalidSpec, "spec.backup.schedule: the hour '24' is refused"},
		"time zone of backups": {"backup: {destination: {claim: {name: b}}, timeZone: Europe/Nowhere}", reconcile.ReasonInvalidSpec, "spec.backup.timeZone: 'Europe/Nowhere' is not known"},
		"own label":            {"podTemplate: {metadata: {labels: {app.kubernetes.io/instance: a}}}", reconcile.ReasonInvalidSpec, "label app.kubernetes.io/instance is the operator's own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec := read(t, "minimal")
			assert.NilError(t, yaml.Unmarshal([]byte(c.spec), &ec.Spec))
			_, err := testPlanner(t).plan(ec, ownerOf(ec), there{}.Inputs())
			var mistake *reconcile.SpecError
			assert.Assert(t, errors.As(err, &mistake), "%v", err)
			assert.Equal(t, mistake.Reason, c.reason)
			assert.ErrorContains(t, err, c.message)
		})
	}
	formed := membership.Record{Cluster: 1, Replicas: 3, Version: "3.4.44", Scheme: "http"}
	for spec, message := range map[string]string{
		"{tls: {mode: Auto}}":    "spec.tls.mode cannot change to Auto: the cluster was formed with http addresses: set spec.tls.mode back",
		"{image: 'etcd:latest'}": "spec.image names one fixed image, of etcd 3.6.16, but the members run etcd 3.4.44",
	} {
		ec := read(t, "minimal")
		assert.NilError(t, yaml.Unmarshal([]byte(spec), &ec.Spec))
		_, err := testPlanner(t).plan(ec, ownerOf(ec), withRecord(t, ec, formed).Inputs())
		assert.ErrorContains(t, err, message)
	}
	ec := read(t, "minimal")
	p := testPlanner(t)
	p.images.Agent = ""
	_, err := p.plan(ec, ownerOf(ec), there{}.Inputs())
	assert.ErrorContains(t, err, "RELATED_IMAGE_AGENT")
	live := withRecord(t, ec, membership.Record{})
	live["ConfigMap/store-membership"].SetAnnotations(map[string]string{records.Annotation: "{", object.AnnotationDigest: "digest"})
	_, err = testPlanner(t).plan(ec, ownerOf(ec), live.Inputs())
	assert.ErrorContains(t, err, "ConfigMap store-membership: remove the annotation")
}

func TestImages(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"{}":                                    "gcr.io/etcd-development/etcd:v3.6.16",
		"{registry: 'registry:5000/m/'}":        "registry:5000/m/etcd-development/etcd:v3.6.16",
		"{image: 'registry:5000/etcd'}":         "registry:5000/etcd:v3.6.16",
		"{image: 'registry:5000/etcd:own'}":     "registry:5000/etcd:own",
		"{image: 'etcd@sha256:0', registry: r}": "etcd@sha256:0",
	} {
		ec := &etcdv1.EtcdCluster{}
		assert.NilError(t, yaml.Unmarshal([]byte(spec), &ec.Spec))
		assert.Equal(t, imageOf(&ec.Spec, defaultVersion, ""), want, spec)
	}
	for _, c := range []struct{ image, version, planned, want string }{ // images while an upgrade passes through a minor version
		{"registry:5000/etcd", "3.6.16", "3.5.35", "registry:5000/etcd:v3.5.35"},
		{"registry:5000/etcd:v3.6.16", "", "3.4.44", "registry:5000/etcd:v3.4.44"},
		{"registry:5000/etcd:v3.6.16", "", "3.6.16", "registry:5000/etcd:v3.6.16"},
		{"etcd:3.6.16-amd64", "3.6.16", "3.5.35", "etcd:3.5.35-amd64"},
		{"etcd:v3.5.35", "", "3.6.16", "etcd:v3.6.16"}, // a downgrade, which the operator refuses later
		{"etcd:latest", "3.6.16", "3.5.35", ""},
		{"etcd@sha256:0", "3.6.16", "3.4.44", ""},
		{"etcd:v3.6.16@sha256:0", "", "3.5.35", ""},
		{"etcd:v3.6.16@sha256:0", "", "3.6.16", "etcd:v3.6.16@sha256:0"},
	} {
		spec := &etcdv1.EtcdClusterSpec{Image: c.image, Version: c.version}
		assert.Equal(t, imageOf(spec, c.planned, ""), c.want, "%+v", c)
	}
	none := &etcdv1.EtcdClusterSpec{}
	assert.Equal(t, imageOf(none, defaultVersion, "mirror/etcd@sha256:0"), "mirror/etcd@sha256:0")
	assert.Equal(t, imageOf(none, defaultVersion, "mirror/etcd:x"), "mirror/etcd:x")
	assert.Equal(t, imageOf(none, "3.5.35", "mirror/etcd:x"), "mirror/etcd:v3.5.35")
	assert.Equal(t, imageOf(none, "3.5.35", "mirror/etcd@sha256:0"), "gcr.io/etcd-development/etcd:v3.5.35")
	for version, legacy := range map[string]bool{"3.4.23": true, "3.4.29": false, "3.5.10": true, "3.5.11": false, "3.6.0": false} {
		assert.Equal(t, hasLegacyHealth(version), legacy, version)
	}
}

// A valid certificate is kept until it is due to be renewed. If a Secret is deleted, it is restored with the same
// certificate. While members trust an authority, no other authority signs their certificates.
func TestCertificates(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	now := today
	k := newKeeper(func() time.Time { return now })
	plan := func(live there, record membership.Record) (there, error) {
		return secretsIn(k.plan(ec, ownerOf(ec), live.Inputs(), record, record.Cluster != 0))
	}
	pair := func(l there, name string) database.Pair { return pairIn(l["Secret/store"+name], keyCert, keyKey) }
	first, err := plan(there{}, membership.Record{})
	assert.NilError(t, err)
	assert.Equal(t, len(first), 4)
	assert.Assert(t, object.OutlivesOwner(first["Secret/store-ca"]) && !object.OutlivesOwner(first["Secret/store-server-tls"]))
	assert.Assert(t, !bytes.Equal(dataIn(first["Secret/store-server-tls"], keyCA), dataIn(first["Secret/store-peer-tls"], keyCA)),
		"a client's certificate must not open the port of members")
	again, err := plan(there{}, membership.Record{Cluster: 1})
	assert.NilError(t, err)
	assert.Assert(t, pair(again, suffixServer).Equal(pair(first, suffixServer)), "a deleted Secret comes back as it was")

	now = today.Add(database.LeafLife * 2 / 3)
	renewed, err := plan(first, membership.Record{Cluster: 1})
	assert.NilError(t, err)
	for _, suffix := range []string{suffixServer, suffixPeer, suffixClient} {
		assert.Assert(t, !pair(renewed, suffix).Equal(pair(first, suffix)), suffix)
	}
	assert.Assert(t, authoritiesIn(renewed["Secret/store-ca"]).Clients.Equal(authoritiesIn(first["Secret/store-ca"]).Clients))
	still, err := plan(first, membership.Record{Cluster: 1})
	assert.NilError(t, err)
	assert.Assert(t, pair(still, suffixPeer).Equal(pair(renewed, suffixPeer)), "the certificate is issued only once, although the cache does not show it yet")
	for _, suffix := range []string{suffixServer, suffixPeer, suffixClient} {
		assert.Assert(t, !k.adopt(ec, first["Secret/store"+suffix]), "%s: a certificate that is due would stay planned forever", suffix)
	}

	// A new operator adopts the live Secrets, even if it observes them only after its first plan.
	k = newKeeper(func() time.Time { return today })
	fresh, err := plan(there{}, membership.Record{})
	assert.NilError(t, err)
	first["Secret/store-ca"].SetNamespace(ec.Namespace)
	assert.Assert(t, k.adopt(ec, first["Secret/store-ca"]) && !k.adopt(ec, first["Secret/store-ca"]))
	assert.Assert(t, k.adopt(ec, first["Secret/store-peer-tls"]) && !k.adopt(ec, first["Secret/store-peer-tls"]))
	adopted, err := plan(there{}, membership.Record{})
	assert.NilError(t, err)
	assert.Assert(t, pair(adopted, suffixPeer).Equal(pair(first, suffixPeer)) && !pair(fresh, suffixPeer).Equal(pair(first, suffixPeer)))

	k.forget(ec.Namespace, ec.Name)
	assert.Equal(t, len(k.authorities)+len(k.leaves), 0)
	own := maps.Clone(first)
	delete(first, "Secret/store-ca")
	_, err = plan(first, membership.Record{})
	var lost *LostError
	assert.Assert(t, errors.As(err, &lost))
	assert.ErrorContains(t, err, "Secret store-ca with the certificate authorities of EtcdCluster store is missing")

	// A new operator finds the authorities in a Secret that has lost the operator's label.
	_, err = k.plan(ec, ownerOf(ec), own.Unlabelled("store-ca"), membership.Record{Cluster: 1}, true)
	assert.NilError(t, err)
	assert.DeepEqual(t, k.authorities[ec.Namespace+"/store-ca"].data(), authoritiesIn(own["Secret/store-ca"]).data())
	k.forget(ec.Namespace, ec.Name)
	own["Secret/store-ca"].SetLabels(nil)
	_, err = k.plan(ec, ownerOf(ec), own.Unlabelled("store-ca"), membership.Record{Cluster: 1}, true)
	assert.ErrorContains(t, err, "Secret store-ca exists, but its labels do not name EtcdCluster store")
	ec.Spec.TLS.Mode = etcdv1.TLSOff
	none, err := plan(there{}, membership.Record{Cluster: 1})
	assert.NilError(t, err)
	assert.Equal(t, len(none), 0)
}

// Until a restored cluster is formed, its pods mount the backup store (as in a golden file). After that, the pods equal those
// of a cluster without restoreFrom, and a new agent does not replace them. That also holds if the record is lost but
// claims have data.
func TestStoreIsMountedUntilTheClusterIsFormed(t *testing.T) {
	t.Parallel()
	ec := read(t, "backup")
	ec.Spec.TLS = etcdv1.TLS{Mode: etcdv1.TLSOff} // otherwise the authorities would have to exist
	formed := func(plan *reconcile.Plan) (set *unstructured.Unstructured, file string) {
		file, _, _ = unstructured.NestedString(databasetest.Find(plan, object.ConfigMapKind.Kind, records.Name(ec.Name)).Object, "data", "formed")
		return databasetest.Find(plan, object.StatefulSetKind.Kind, ec.Name), file
	}
	before, file := formed(planOf(t, ec, withRecord(t, ec, membership.Record{Replicas: 1})))
	assert.Equal(t, file, "")
	assert.Assert(t, strings.Contains(fmt.Sprint(before.Object["spec"]), "claimName:backups"))
	claim := databasetest.Kept("data-store-0", ownerOf(ec))
	claim.SetAnnotations(map[string]string{annotationCluster: "7", annotationMember: "1", object.AnnotationDigest: "digest"})
	withData, _ := formed(planOf(t, ec, there{"PersistentVolumeClaim/data-store-0": claim}))
	live := withRecord(t, ec, membership.Record{Replicas: 1, Cluster: 7})
	before, _ = formed(planOf(t, ec, live))
	assert.Assert(t, !strings.Contains(fmt.Sprint(before.Object["spec"]), "claimName:backups"))
	assert.DeepEqual(t, before.Object["spec"].(map[string]any)["template"], withData.Object["spec"].(map[string]any)["template"])
	taken := ec.DeepCopy()
	taken.Spec.RestoreFrom = nil
	without, _ := formed(planOf(t, taken, live))
	assert.DeepEqual(t, without.Object["spec"], before.Object["spec"])
	live["StatefulSet/"+before.GetName()] = before
	p := testPlanner(t)
	p.images.Agent = "example/operator:v2"
	plan, err := p.plan(ec, ownerOf(ec), live.Inputs())
	assert.NilError(t, err)
	after, file := formed(plan)
	assert.Equal(t, file, "true")
	assert.DeepEqual(t, after.Object["spec"], before.Object["spec"])
}

// While the cluster is parked, no backup is scheduled, because it would fail. No old backup is removed.
func TestNoBackupWhileParked(t *testing.T) {
	t.Parallel()
	ec := read(t, "backup")
	ec.Spec.TLS = etcdv1.TLS{Mode: etcdv1.TLSOff}
	ec.Spec.Backup.Schedule = "30 2 * * *"
	for replicas, want := range map[int32]bool{3: false, 0: true} {
		ec.Spec.Replicas = &replicas
		for _, of := range []string{"-backup", "-prune"} {
			suspended, _, _ := unstructured.NestedBool(databasetest.Find(planOf(t, ec, there{}), object.CronJobKind.Kind, ec.Name+of).Object, "spec", "suspend")
			assert.Equal(t, suspended, want, "%s with %d pods", of, replicas)
		}
	}
}
