// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"bytes"
	"errors"
	"fmt"
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
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/certs"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/kinds/stateful/statefultest"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
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
	return object.Owner{
		GroupVersionKind: etcdv1.GroupVersion.WithKind(etcdv1.Kind), Namespace: ec.Namespace, Name: ec.Name, UID: ec.UID,
	}
}

type there = statefultest.There

func withRecord(t *testing.T, ec *etcdv1.EtcdCluster, record membership.Record) there {
	t.Helper()
	return statefultest.WithRecord(t, there{}, records, ownerOf(ec), record)
}

func planOf(t *testing.T, ec *etcdv1.EtcdCluster, live there) *engine.Plan {
	t.Helper()
	plan, err := testPlanner(t).plan(ec, ownerOf(ec), live.Inputs())
	assert.NilError(t, err)
	return plan
}

// What a resource becomes is in testdata/*.golden (go test . -update).
func TestManifests(t *testing.T) {
	t.Parallel()
	statefultest.Manifests(t, 4, func(t *testing.T, name string) []*unstructured.Unstructured {
		t.Helper()
		ec := read(t, name)
		return planOf(t, ec, withRecord(t, ec, membership.Record{Replicas: replicasOf(&ec.Spec)})).Parts[0].Objects
	})
}

// How many pods there are, and of which etcd, is decided in steps; what lives is never taken away because the record is gone.
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
		"new":                        {3, there{}, 1, image + "3.6.16", true},
		"two pods so far":            {3, withRecord(t, store, membership.Record{Replicas: 2}), 2, image + "3.6.16", true},
		"more than wanted":           {3, withRecord(t, store, membership.Record{Replicas: 5}), 5, image + "3.6.16", true},
		"an older version":           {3, withRecord(t, store, membership.Record{Replicas: 3, Version: "3.5.35"}), 3, image + "3.5.35", true},
		"parked":                     {0, withRecord(t, store, membership.Record{Replicas: 3}), 0, image + "3.6.16", false},
		"one":                        {1, withRecord(t, store, membership.Record{Replicas: 1}), 1, image + "3.6.16", false},
		"the record is lost":         {5, there{}.Set("store", 4, container, "other:v1"), 4, "other:v1", true},
		"fewer than run":             {3, withRecord(t, store, membership.Record{Replicas: 1, Version: "3.6.16"}).Set("store", 3, container, "other:v1"), 3, image + "3.6.16", true},
		"fewer than have data":       {3, withClaims(withRecord(t, store, membership.Record{Replicas: 1}), 3, "3.6.16"), 3, image + "3.6.16", true},
		"made again over data":       {1, withClaims(there{}, 3, "3.5.35"), 3, image + "3.5.35", true},
		"a version before the data":  {3, withClaims(withRecord(t, store, membership.Record{Replicas: 3, Version: "3.5.35"}), 3, "3.6.16"), 3, image + "3.6.16", true},
		"parked, claims are leaving": {0, leaving(withClaims(there{}.Set("store", 3, container, "other:v1"), 3, "3.6.16")), 3, "other:v1", true},
		"the record is lost, parked": {0, there{}.Set("store", 4, container, "other:v1"), 0, "other:v1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec := read(t, "minimal")
			ec.Spec.Replicas = &c.replicas
			budget := false
			for _, o := range planOf(t, ec, c.live).Parts[0].Objects {
				budget = budget || o.GetKind() == "PodDisruptionBudget"
				if o.GetKind() == object.StatefulSetKind.Kind {
					pods, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
					assert.Equal(t, pods, c.pods)
					assert.Equal(t, stateful.ImageOf(o, container), c.image)
				}
			}
			assert.Equal(t, budget, c.budget)
		})
	}
}

// withClaims adds claims that say that they have data of a version.
func withClaims(l there, n int, version string) there {
	for ordinal := range n {
		o := object.Empty(object.ClaimKind)
		o.SetName(claimName("store", ordinal))
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

// The agents read from the record's ConfigMap how far the data of their members went.
func TestAgentsSeeHowFarTheDataWent(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	for _, o := range planOf(t, ec, withClaims(withRecord(t, ec, membership.Record{Replicas: 2}), 2, "3.6.16")).Parts[0].Objects {
		if o.GetKind() == object.ConfigMapKind.Kind {
			data, _, _ := unstructured.NestedStringMap(o.Object, "data")
			assert.Equal(t, data["store-0"]+", "+data["store-1"], "c1 1 2 100, c1 2 2 100")
		}
	}
}

// A container is crashing when etcd has ended by itself again and again since its pod became unready, and for nothing else.
func TestCrashing(t *testing.T) {
	t.Parallel()
	unready := today.Add(-10 * time.Minute)
	ended := func(change func(*corev1.ContainerStateTerminated)) corev1.ContainerState {
		end := &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 2, FinishedAt: metav1.NewTime(today.Add(-time.Minute))}
		change(end)
		return corev1.ContainerState{Terminated: end}
	}
	itself := ended(func(*corev1.ContainerStateTerminated) {})
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	for name, c := range map[string]struct {
		now, last corev1.ContainerState
		want      bool
	}{
		"it ends by itself":               {waits("CrashLoopBackOff"), itself, true},
		"its image cannot be had":         {waits("ImagePullBackOff"), itself, false},
		"it is being made":                {waits("ContainerCreating"), itself, false},
		"its settings are wrong":          {waits("CreateContainerConfigError"), itself, false},
		"it runs":                         {corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(today)}}, itself, false},
		"it never ended":                  {waits("CrashLoopBackOff"), corev1.ContainerState{}, false},
		"it ended while the pod was well": {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) { e.FinishedAt = metav1.NewTime(unready.Add(-time.Hour)) }), false},
		"it has no memory":                {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) { e.Reason, e.ExitCode = "OOMKilled", 137 }), false},
		"its probe fails":                 {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) { e.ExitCode = 137 }), false},
		"it cannot be started":            {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) { e.Reason, e.ExitCode = "StartError", 128 }), false},
		"the agent ends":                  {waits("CrashLoopBackOff"), ended(func(e *corev1.ContainerStateTerminated) { e.Message = "no certificate" }), false},
	} {
		assert.Equal(t, crashing(&corev1.ContainerStatus{RestartCount: 90, State: c.now, LastTerminationState: c.last}, unready), c.want, name)
	}
}

// A new version of the operator restarts no member: its agent comes with the next change of the pods.
func TestANewAgentRestartsNothing(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	set := func(p *planner, live there) *unstructured.Unstructured {
		plan, err := p.plan(ec, ownerOf(ec), live.Inputs())
		assert.NilError(t, err)
		for _, o := range plan.Parts[0].Objects {
			if o.GetKind() == object.StatefulSetKind.Kind {
				return o
			}
		}
		return nil
	}
	old := set(testPlanner(t), there{})
	upgraded := testPlanner(t)
	upgraded.images.Agent = "example/operator:v2"
	assert.Equal(t, object.Digest(set(upgraded, there{"StatefulSet/store": old})), object.Digest(old))
	assert.Equal(t, podsOf(set(upgraded, there{})).Agent, "example/operator:v2")
	ec.Spec.Config = map[string]etcdv1.Flag{"log-level": "debug"}
	ec.Generation++
	assert.Equal(t, podsOf(set(upgraded, there{"StatefulSet/store": old})).Agent, "example/operator:v2")
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec, reason, message string
	}{
		"old version":   {"version: 3.3.27", etcdv1.ReasonUnsupportedVersion, "spec.version: etcd 3.3.27 is not supported: use 3.4.0 or newer"},
		"unknown major": {"version: 4.0.0", etcdv1.ReasonUnsupportedVersion, "not supported"},
		"another tag":   {"{image: 'registry:5000/etcd:v3.4.44', version: 3.6.16}", kinds.ReasonInvalidSpec, "spec.image is of etcd 3.4.44 by its tag, and spec.version is 3.6.16"},
		"unknown field": {"podTemplate: {spec: {hostnames: a}}", kinds.ReasonInvalidSpec, "spec.podTemplate.spec.hostnames: unknown field"},
		"unknown field of backups": {
			"backup: {destination: {claim: {name: b}}, podTemplate: {spec: {hostnames: a}}}", kinds.ReasonInvalidSpec, "spec.backup.podTemplate.spec.hostnames: unknown field",
		},
		"own label": {"podTemplate: {metadata: {labels: {app.kubernetes.io/instance: a}}}", kinds.ReasonInvalidSpec, "label app.kubernetes.io/instance is the operator's own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec := read(t, "minimal")
			assert.NilError(t, yaml.Unmarshal([]byte(c.spec), &ec.Spec))
			_, err := testPlanner(t).plan(ec, ownerOf(ec), there{}.Inputs())
			var mistake *kinds.Mistake
			assert.Assert(t, errors.As(err, &mistake), "%v", err)
			assert.Equal(t, mistake.Reason, c.reason)
			assert.ErrorContains(t, err, c.message)
		})
	}
	formed := membership.Record{Cluster: 1, Replicas: 3, Version: "3.4.44", Scheme: "http"}
	for spec, message := range map[string]string{
		"{tls: {mode: Auto}}":    "spec.tls.mode cannot change to Auto: the cluster was formed with http addresses: set it back",
		"{image: 'etcd:latest'}": "spec.image names one image, of etcd 3.6.16, and the members are of 3.4.44",
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
	for _, c := range []struct{ image, version, planned, want string }{ // of the members on their way to what is wanted
		{"registry:5000/etcd", "3.6.16", "3.5.35", "registry:5000/etcd:v3.5.35"},
		{"registry:5000/etcd:v3.6.16", "", "3.4.44", "registry:5000/etcd:v3.4.44"},
		{"registry:5000/etcd:v3.6.16", "", "3.6.16", "registry:5000/etcd:v3.6.16"},
		{"etcd:3.6.16-amd64", "3.6.16", "3.5.35", "etcd:3.5.35-amd64"},
		{"etcd:v3.5.35", "", "3.6.16", "etcd:v3.6.16"}, // until the way back is refused
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

// Certificates stay while they are good, come back when somebody deletes their Secret, are renewed in time, and are never
// signed by another authority beside members that know the old one.
func TestCertificates(t *testing.T) {
	t.Parallel()
	ec := read(t, "minimal")
	ec.Spec.TLS.Mode = etcdv1.TLSAuto
	now := today
	k := newKeeper(func() time.Time { return now })
	plan := func(live there, record membership.Record) (there, error) {
		secrets, err := k.plan(ec, ownerOf(ec), live.Inputs(), record, record.Cluster != 0)
		found := there{}
		for _, s := range secrets {
			found["Secret/"+s.GetName()] = s
		}
		return found, err
	}
	pair := func(l there, name string) certs.Pair { return pairIn(l["Secret/store"+name], keyCert, keyKey) }
	first, err := plan(there{}, membership.Record{})
	assert.NilError(t, err)
	assert.Equal(t, len(first), 4)
	assert.Assert(t, object.OutlivesOwner(first["Secret/store-ca"]) && !object.OutlivesOwner(first["Secret/store-server-tls"]))
	assert.Assert(t, !bytes.Equal(dataIn(first["Secret/store-server-tls"], keyCA), dataIn(first["Secret/store-peer-tls"], keyCA)),
		"a client's certificate must not open the port of members")
	again, err := plan(there{}, membership.Record{Cluster: 1})
	assert.NilError(t, err)
	assert.Assert(t, pair(again, suffixServer).Equal(pair(first, suffixServer)), "a deleted Secret comes back as it was")

	now = today.Add(certs.LeafLife * 2 / 3)
	renewed, err := plan(first, membership.Record{Cluster: 1})
	assert.NilError(t, err)
	for _, suffix := range []string{suffixServer, suffixPeer, suffixClient} {
		assert.Assert(t, !pair(renewed, suffix).Equal(pair(first, suffix)), suffix)
	}
	assert.Assert(t, authoritiesIn(renewed["Secret/store-ca"]).Clients.Equal(authoritiesIn(first["Secret/store-ca"]).Clients))
	still, err := plan(first, membership.Record{Cluster: 1})
	assert.NilError(t, err)
	assert.Assert(t, pair(still, suffixPeer).Equal(pair(renewed, suffixPeer)), "it is made once, until the cache shows it")
	for _, suffix := range []string{suffixServer, suffixPeer, suffixClient} {
		assert.Assert(t, !k.adopt(ec, first["Secret/store"+suffix]), "%s: what is to be renewed would be planned for ever", suffix)
	}

	// An operator that starts takes what is there; one that had not seen it learns of it.
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
	delete(first, "Secret/store-ca")
	_, err = plan(first, membership.Record{})
	var lost *LostError
	assert.Assert(t, errors.As(err, &lost))
	assert.ErrorContains(t, err, "Secret store-ca")
	ec.Spec.TLS.Mode = etcdv1.TLSOff
	none, err := plan(there{}, membership.Record{Cluster: 1})
	assert.NilError(t, err)
	assert.Equal(t, len(none), 0)
}

// A cluster that is made of a backup tells its pods by a file when it was formed. Its pods need the store until then and no longer: they are
// those of a cluster without restoreFrom, which a new agent does not replace; also when the record is lost, and claims have data.
func TestStoreIsMountedUntilTheClusterIsFormed(t *testing.T) {
	t.Parallel()
	ec := read(t, "backup")
	ec.Spec.TLS = etcdv1.TLS{Mode: etcdv1.TLSOff} // whose authorities would have to live
	formed := func(plan *engine.Plan) (set *unstructured.Unstructured, file string) {
		for _, o := range plan.Parts[0].Objects {
			switch {
			case o.GetKind() == object.StatefulSetKind.Kind:
				set = o
			case o.GetName() == records.Name(ec.Name):
				file, _, _ = unstructured.NestedString(o.Object, "data", "formed")
			}
		}
		return set, file
	}
	before, file := formed(planOf(t, ec, withRecord(t, ec, membership.Record{Replicas: 1})))
	assert.Equal(t, file, "")
	assert.Assert(t, strings.Contains(fmt.Sprint(before.Object["spec"]), "claimName:backups"))
	claim := statefultest.Kept("data-store-0", ownerOf(ec))
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
