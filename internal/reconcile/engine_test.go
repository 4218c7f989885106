// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	assert.NilError(t, err)
	assert.NilError(t, o.UnmarshalJSON(data)) // keeps integers
	return o
}

// digested returns a ConfigMap with a digest.
func digested(t *testing.T, digest string) *unstructured.Unstructured {
	t.Helper()
	o := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
	o.SetAnnotations(map[string]string{object.AnnotationDigest: digest})
	return o
}

func TestWaves(t *testing.T) {
	t.Parallel()
	parts := []Part{{Name: "a"}, {Name: "b"}, {Name: "c", After: []string{"a"}}, {Name: "d", After: []string{"b", "c"}}, {Name: "e", After: []string{"b"}}}
	assert.DeepEqual(t, waves(parts), [][]int{{0, 1}, {2, 4}, {3}})
	assert.Equal(t, len(waves(nil)), 0)
}

func TestNewRevision(t *testing.T) {
	t.Parallel()
	one, two := digested(t, "1"), digested(t, "2")
	planned := []*unstructured.Unstructured{one, one}
	for name, test := range map[string]struct {
		known string
		live  []*unstructured.Unstructured
		want  bool
	}{
		"the status has the revision":       {"r", []*unstructured.Unstructured{two, nil}, false},
		"the status has another revision":   {"q", []*unstructured.Unstructured{one, one}, true},
		"no status, all objects as planned": {"", []*unstructured.Unstructured{one, one}, false},
		"no status, one object is missing":  {"", []*unstructured.Unstructured{nil, one}, false},
		"no status, one object differs":     {"", []*unstructured.Unstructured{one, two}, true},
		"no status, no object exists":       {"", []*unstructured.Unstructured{nil, nil}, true},
	} {
		assert.Equal(t, newRevision(&Part{Objects: planned, Revision: "r", Known: test.known}, test.live), test.want, name)
	}
}

func TestHasVolume(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{apiVersion: v1, kind: PersistentVolumeClaim}":                                  true,
		"{apiVersion: apps/v1, kind: StatefulSet, spec: {volumeClaimTemplates: [{}]}}":   true,
		"{apiVersion: apps/v1, kind: StatefulSet, spec: {volumeClaimTemplates: []}}":     false,
		"{apiVersion: apps/v1, kind: Deployment, spec: {}}":                              false,
		"{apiVersion: example.com/v1, kind: PersistentVolumeClaim, metadata: {name: x}}": false,
	} {
		assert.Equal(t, hasVolume(&Part{Objects: []*unstructured.Unstructured{parse(t, text)}}), want, text)
	}
}

func TestNodePorts(t *testing.T) {
	t.Parallel()
	ports := "spec: {ports: [{port: 80, nodePort: 31000}, {port: 81}, {port: 82, nodePort: 31002}]}}"
	assert.DeepEqual(t, nodePorts(parse(t, "{apiVersion: v1, kind: Service, "+ports)), []int64{31000, 31002})
	assert.Equal(t, len(nodePorts(parse(t, "{apiVersion: v1, kind: ConfigMap, "+ports))), 0)
}

// The old objects of a part stay while its new revision is not settled, or while a caller still uses the old address.
// Old objects that would block the new objects are removed earlier.
func TestReplaced(t *testing.T) {
	t.Parallel()
	old := parse(t, "{apiVersion: v1, kind: Service, metadata: {name: old}}")
	budget := parse(t, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: old}}")
	claim := parse(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}}")
	account := parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: old-third-party}}")
	alias := parse(t, "{apiVersion: v1, kind: Service, metadata: {name: old}, spec: {type: ExternalName}}")
	settled := func(applied, settled bool) PartSeen {
		s := PartSeen{Applied: applied}
		s.Health.Settled = settled
		return s
	}
	for name, test := range map[string]struct {
		left         *unstructured.Unstructured
		objects      []*unstructured.Unstructured
		part, caller PartSeen
		want         bool
	}{
		"the part and its caller are settled": {old, nil, settled(true, true), settled(true, true), true},
		"the part is not settled":             {old, nil, settled(true, false), settled(true, true), false},
		"a caller is held back":               {old, nil, settled(true, true), settled(false, true), false},
		"a caller is not settled":             {old, nil, settled(true, true), settled(true, false), false},
		"the new workload needs the volume":   {old, []*unstructured.Unstructured{claim}, settled(true, false), settled(true, false), true},
		"an account that the callers use":     {account, []*unstructured.Unstructured{claim}, settled(true, false), settled(false, true), false},
		"an alias that the callers use":       {alias, []*unstructured.Unstructured{claim}, settled(true, true), settled(true, false), false},
		"an account that is no longer used":   {account, []*unstructured.Unstructured{claim}, settled(true, true), settled(true, true), true},
		"a budget for the same pods":          {budget, nil, settled(true, false), settled(true, false), true},
	} {
		p := &pass{plan: &Plan{Parts: []Part{{Name: "eureka", CalledBy: []string{"auth", "absent"}, Objects: test.objects}, {Name: "auth"}}}}
		test.part.Name, test.caller.Name = "eureka", "auth"
		seen := &PlanSeen{Parts: []PartSeen{test.part, test.caller}}
		assert.Equal(t, p.replaced(test.left, &seen.Parts[0], seen), test.want, name)
	}
}

var errSent = errors.New("the object was sent")

// answering returns the functions of a client that answers every apply with err.
func answering(err error) interceptor.Funcs {
	return interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return err
	}}
}

// carry applies a plan to an API server with some objects.
func carry(t *testing.T, owner object.Owner, plan *Plan, answers interceptor.Funcs, live ...client.Object) error {
	t.Helper()
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(live...).Build(), answers)
	types, err := apply.NewTypes(crd.Files)
	assert.NilError(t, err)
	_, err = NewEngine(c, apply.New(c, c, types, "1.2.3")).Apply(t.Context(), Request{Owner: owner, Plan: plan}, nil)
	return err
}

var book = object.Owner{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"), Namespace: "ns", Name: "book", UID: "uid"}

// If the owner was deleted, its missing objects are not created again, even if the cache still shows the owner. (The
// garbage collector has deleted these objects.)
func TestDeletedOwner(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		known string
		live  types.UID // UID of the live owner; empty if the owner was deleted
		want  error
	}{
		"the owner was deleted":            {"r", "", ErrOwnerGone},
		"another owner has the name":       {"r", "other", ErrOwnerGone},
		"the owner exists":                 {"r", "uid", errSent},
		"the part was never applied":       {"", "", errSent},
		"the revision was not applied yet": {"q", "", errSent},
	} {
		var live []client.Object
		if test.live != "" {
			live = []client.Object{&corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "book", UID: test.live, Generation: 1}}}
		}
		config := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}}")
		plan := &Plan{Parts: []Part{{Name: "pages", Revision: "r", Known: test.known, Objects: []*unstructured.Unstructured{config}}}}
		assert.ErrorIs(t, carry(t, book, plan, answering(errSent), live...), test.want, name)
	}
}

// If the owner is deleted after the start of Apply, objects that are deleted during the call are not created again
// either.
func TestOwnerDeletedDuringAPass(t *testing.T) {
	t.Parallel()
	config := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}}")
	secret := parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ns}}")
	for name, test := range map[string]struct {
		goes    *unstructured.Unstructured
		secrets []*unstructured.Unstructured
	}{
		"an object of a part": {config, nil},
		"a Secret":            {secret, []*unstructured.Unstructured{secret}},
	} {
		looks := 0
		answers := answering(errSent)
		answers.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if key.Name == test.goes.GetName() {
				if looks++; looks > 1 {
					return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
				}
			}
			return c.Get(ctx, key, into, options...)
		}
		plan := &Plan{Secrets: test.secrets, Parts: []Part{{Name: "pages", Revision: "r", Known: "r", Objects: []*unstructured.Unstructured{config}}}}
		assert.ErrorIs(t, carry(t, book, plan, answers, config.DeepCopy(), secret.DeepCopy()), ErrOwnerGone, name)
		assert.Assert(t, looks > 1, name)
	}
}

// If a user has deleted or changed a record since the plan was made, Apply does not write the record, and returns
// ErrPlanAgain. A user may delete a record because the data is no longer needed, or change the record to consent to an
// action.
func TestRecordChangedByAUser(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		madeFrom, live string // resourceVersion
		want           error
	}{
		"the record is new":       {"", "", errSent},
		"the record is unchanged": {"7", "7", errSent},
		"the record was deleted":  {"7", "", ErrPlanAgain},
		"the record was changed":  {"7", "8", ErrPlanAgain},
	} {
		record := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}, data: {id: a}}")
		_, err := object.Finish(record, book)
		assert.NilError(t, err)
		var live []client.Object
		if test.live != "" {
			other := record.DeepCopy()
			other.SetUID("a")
			other.SetResourceVersion(test.live)
			other.SetAnnotations(map[string]string{object.AnnotationDigest: "of another content"})
			live = append(live, other)
		}
		plan := &Plan{Records: []Record{{Object: record, MadeFrom: test.madeFrom}}}
		answers := answering(errSent)
		answers.Apply = func(_ context.Context, _ client.WithWatch, sent runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			version := sent.(interface{ GetResourceVersion() string }).GetResourceVersion() // the API server compares this version with the live one
			assert.Assert(t, test.madeFrom == "" || version == test.madeFrom, "%s: %s", name, version)
			return errSent
		}
		assert.ErrorIs(t, carry(t, book, plan, answers, live...), test.want, name)
	}
}

// The spec may request that Kubernetes deletes the claims with their StatefulSet. The claims are deleted if the part is
// removed. They stay if the part only gets another workload.
func TestClaimsOfAReplacedStatefulSet(t *testing.T) {
	t.Parallel()
	for declared, controller := range map[bool]types.UID{true: book.UID, false: "set"} {
		set := parse(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: ns, uid: set}, spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}}}")
		claim := parse(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-a-0, namespace: ns, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: a, uid: set}]}}")
		claim.SetLabels(book.Labels("pages"))
		c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(set, claim).Build()
		types, err := apply.NewTypes(crd.Files)
		assert.NilError(t, err)
		p := &pass{Engine: NewEngine(c, apply.New(c, c, types, "1.2.3")), owner: book, plan: &Plan{}, recorder: quiet{}}
		assert.NilError(t, p.remove(t.Context(), set, declared))
		assert.NilError(t, c.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
		assert.Equal(t, claim.GetOwnerReferences()[0].UID, controller)
	}
}

// If another writer keeps changing an Ingress, the part gets a note about this, and does not fail. For other kinds,
// the part fails.
func TestContestedIngressIsANote(t *testing.T) {
	t.Parallel()
	for kind, spec := range map[string]string{
		"Ingress":       "{ingressClassName: %s}",
		"NetworkPolicy": "{podSelector: {matchLabels: {app: %s}}}",
	} {
		of := func(value string) *unstructured.Unstructured {
			return parse(t, "{apiVersion: networking.k8s.io/v1, kind: "+kind+", metadata: {name: a, namespace: ns}, spec: "+fmt.Sprintf(spec, value)+"}")
		}
		planned := of("planned")
		_, err := object.Finish(planned, book)
		assert.NilError(t, err)
		edited := planned.DeepCopy()
		edited.Object["spec"] = of("edited").Object["spec"]
		edited.SetUID("a")
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(edited).Build(), answering(nil)) // each correction is undone
		types, err := apply.NewTypes(crd.Files)
		assert.NilError(t, err)
		engine := NewEngine(c, apply.New(c, c, types, "1.2.3"))
		plan := &Plan{Parts: []Part{{Name: "pages", Revision: "r", Known: "r", Objects: []*unstructured.Unstructured{planned}}}}
		var contested *apply.ContestedError
		var seen PlanSeen
		for range 20 {
			if seen, err = engine.Apply(t.Context(), Request{Owner: book, Plan: plan}, quiet{}); err != nil || len(seen.Parts[0].Notes) > 0 {
				break
			}
		}
		if kind != "Ingress" {
			assert.Assert(t, errors.As(err, &contested), "%v", err)
			continue
		}
		assert.NilError(t, err)
		assert.Equal(t, len(seen.Parts[0].Notes), 1)
		assert.Assert(t, strings.Contains(seen.Parts[0].Notes[0].Text, "Ingress a: another writer keeps changing"), seen.Parts[0].Notes[0].Text)
		assert.Assert(t, seen.Parts[0].Applied && seen.Parts[0].Error == "" && seen.Parts[0].LookAgain > 0)
	}
}

// If another writer keeps changing the number of pods, the part gets a note about this, and does not fail. The note names the field that a user
// may remove, if there is one.
func TestContestedNumberOfPodsIsANote(t *testing.T) {
	t.Parallel()
	noPods := func(client.Object) []string { return nil }
	for field, remedy := range map[string]string{"spec.pages.replica": "remove `spec.pages.replica`, or stop that writer", "": "stop that writer"} {
		of := func(replicas int) *unstructured.Unstructured {
			return parse(t, fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: ns}, spec: {replicas: %d, template: {spec: {}}}}", replicas))
		}
		planned := of(2)
		_, err := object.Finish(planned, book)
		assert.NilError(t, err)
		edited := planned.DeepCopy()
		edited.Object["spec"] = of(3).Object["spec"]
		edited.SetUID("a")
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithIndex(&corev1.Pod{}, object.IndexPart, noPods).WithObjects(edited).Build(), answering(nil)) // each correction is undone
		types, err := apply.NewTypes(crd.Files)
		assert.NilError(t, err)
		engine := NewEngine(c, apply.New(c, c, types, "1.2.3"))
		plan := &Plan{Parts: []Part{{Name: "pages", NumberField: field, Revision: "r", Known: "r", Objects: []*unstructured.Unstructured{planned}}}}
		var seen PlanSeen
		for range 4 { // two corrections; the note stays while the number differs
			seen, err = engine.Apply(t.Context(), Request{Owner: book, Plan: plan}, quiet{})
			assert.NilError(t, err)
		}
		assert.DeepEqual(t, seen.Parts[0].Notes, []health.Note{{
			Text:    "Deployment a: another writer, such as an autoscaler, keeps changing the number of pods, so the operator sets it to 2 again at growing intervals: " + remedy,
			Culprit: health.Culprit{Kind: "Deployment", Name: "a", Reason: ReasonContested},
		}})
		assert.Assert(t, seen.Parts[0].Applied && seen.Parts[0].Error == "" && seen.Parts[0].LookAgain > 0)
	}
}

// If the API server refuses an object, the error names the part of the owner's spec that may be the cause.
func TestRefusals(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewInvalid(schema.GroupKind{Kind: "It"}, "a", field.ErrorList{field.Required(field.NewPath("spec"), "")})
	for planned, want := range map[string]string{
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: ns}}":                          "spec: Required value (its podTemplate or another field of its pods is refused)",
		"{apiVersion: redis.middleware.hc.cn/v1alpha1, kind: RedisCluster, metadata: {name: a, namespace: ns}}": "spec: Required value (it is refused as the spec of a RedisCluster)",
	} {
		part := Part{Name: "a", Path: "spec.a", NeedsDryRun: true, Objects: []*unstructured.Unstructured{parse(t, planned)}}
		err := carry(t, book, &Plan{Parts: []Part{part}}, answering(refused))
		var refusal *RefusedError
		assert.Assert(t, errors.As(err, &refusal) && apierrors.IsInvalid(err), "%v", err)
		assert.ErrorContains(t, err, want)
	}
}

// StatefulSets that differ only in names and numbers need one dry run.
func TestOneDryRunForEqualSets(t *testing.T) {
	t.Parallel()
	for hasEqualSets, want := range map[bool]int{true: 2, false: 4} {
		part := Part{Name: "a", Path: "spec", NeedsDryRun: true, HasEqualSets: hasEqualSets}
		for _, name := range []string{"a-0", "a-1", "a-2"} {
			part.Objects = append(part.Objects, parse(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: "+name+", namespace: ns}}"))
		}
		part.Objects = append(part.Objects, parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: ns}}"))
		dryRuns := 0
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				dryRuns++
				return nil
			},
		})
		types, err := apply.NewTypes(crd.Files)
		assert.NilError(t, err)
		p := &pass{Engine: NewEngine(c, apply.New(c, c, types, "1.2.3")), plan: &Plan{Parts: []Part{part}}}
		assert.NilError(t, p.dryRun(t.Context()))
		assert.Equal(t, dryRuns, want)
	}
}

// While a part's new revision is held back, edited objects are corrected, and missing objects are created if the part
// runs. While the part's data is in doubt, no missing volume and no missing workload is created.
func TestMayHeal(t *testing.T) {
	t.Parallel()
	one, two := digested(t, "1"), digested(t, "2")
	part := &Part{}
	assert.Assert(t, part.mayHeal(one, one, false))
	assert.Assert(t, !part.mayHeal(two, one, true))
	assert.Assert(t, !part.mayHeal(one, nil, false))
	for kind, made := range map[string]bool{"Service": true, "ConfigMap": true, "StatefulSet": false, "Deployment": false, "PersistentVolumeClaim": false} {
		planned := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
		if kind == "StatefulSet" || kind == "Deployment" {
			planned.SetAPIVersion("apps/v1")
		}
		for _, doubt := range []*Doubt{nil, {}, {Hold: true}} {
			part := &Part{Doubt: doubt}
			assert.Equal(t, part.mayHeal(planned, nil, true), made || !part.isDoubted(), "%s %v", kind, doubt)
			assert.Assert(t, part.mayHeal(planned, planned, true), "%s %v", kind, doubt)
		}
	}
}
