// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	assert.NilError(t, err)
	assert.NilError(t, o.UnmarshalJSON(data)) // numbers as the API server's answers have them
	return o
}

// digested is a ConfigMap with a digest.
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
		"the status knows it":           {"r", []*unstructured.Unstructured{two, nil}, false},
		"the status knows another":      {"q", []*unstructured.Unstructured{one, one}, true},
		"no status, all is as planned":  {"", []*unstructured.Unstructured{one, one}, false},
		"no status, one is gone":        {"", []*unstructured.Unstructured{nil, one}, false},
		"no status, one is another":     {"", []*unstructured.Unstructured{one, two}, true},
		"no status, and nothing exists": {"", []*unstructured.Unstructured{nil, nil}, true},
	} {
		assert.Equal(t, newRevision(&Part{Objects: planned, Revision: "r", Known: test.known}, test.live), test.want, name)
	}
}

func TestIsUnchangedPart(t *testing.T) {
	t.Parallel()
	one, two := digested(t, "1"), digested(t, "2")
	part := &Part{}
	assert.Assert(t, part.mayHeal(one, one, false))
	assert.Assert(t, !part.mayHeal(two, one, true))
	assert.Assert(t, part.mayHeal(one, nil, true))
	assert.Assert(t, !part.mayHeal(one, nil, false))
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

// While its new revision is not settled, or a caller still uses the old address, what a part had before
// stays, unless it would be in the way.
func TestReplaced(t *testing.T) {
	t.Parallel()
	old := parse(t, "{apiVersion: v1, kind: Service, metadata: {name: old}}")
	budget := parse(t, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: old}}")
	claim := parse(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}}")
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
		"all are settled":            {old, nil, settled(true, true), settled(true, true), true},
		"it is not settled":          {old, nil, settled(true, false), settled(true, true), false},
		"a caller is held back":      {old, nil, settled(true, true), settled(false, true), false},
		"a caller is not settled":    {old, nil, settled(true, true), settled(true, false), false},
		"its volume is for one":      {old, []*unstructured.Unstructured{claim}, settled(true, false), settled(true, false), true},
		"a budget over the same pod": {budget, nil, settled(true, false), settled(true, false), true},
	} {
		p := &pass{plan: &Plan{Parts: []Part{{Name: "eureka", CalledBy: []string{"auth", "absent"}, Objects: test.objects}, {Name: "auth"}}}}
		test.part.Name, test.caller.Name = "eureka", "auth"
		seen := &Seen{Parts: []PartSeen{test.part, test.caller}}
		assert.Equal(t, p.replaced(test.left, &seen.Parts[0], seen), test.want, name)
	}
}

// What the garbage collector takes of an owner that is gone is not made again, though the cache still shows the owner.
func TestOwnerThatIsGone(t *testing.T) {
	t.Parallel()
	owner := object.Owner{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"), Namespace: "ns", Name: "book", UID: "uid",
	}
	for name, test := range map[string]struct {
		known string
		live  types.UID // of the owner; none if it is gone
		want  error
	}{
		"it is gone":                   {"r", "", ErrOwnerGone},
		"it is another":                {"r", "other", ErrOwnerGone},
		"it is there":                  {"r", "uid", errSent},
		"it is new":                    {"", "", errSent},
		"it has not been applied, yet": {"q", "", errSent},
	} {
		scheme := runtime.NewScheme()
		assert.NilError(t, corev1.AddToScheme(scheme))
		b := fake.NewClientBuilder().WithScheme(scheme)
		if test.live != "" {
			b = b.WithObjects(&corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "book", UID: test.live, Generation: 1}})
		}
		c := interceptor.NewClient(b.Build(), interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return errSent
			},
		})
		types, err := apply.NewTypes(crd.Files)
		assert.NilError(t, err)
		config := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}}")
		plan := &Plan{Parts: []Part{{Name: "pages", Revision: "r", Known: test.known, Objects: []*unstructured.Unstructured{config}}}}
		_, err = New(c, apply.New(c, c, types, "1.2.3")).Carry(t.Context(), Order{Owner: owner, Plan: plan}, nil)
		assert.ErrorIs(t, err, test.want, name)
	}
}

var errSent = errors.New("the object was sent")

// So it is when the owner goes while a pass is under way, which saw all objects when it began.
func TestOwnerThatGoesMeanwhile(t *testing.T) {
	t.Parallel()
	owner := object.Owner{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"), Namespace: "ns", Name: "book", UID: "uid",
	}
	scheme := runtime.NewScheme()
	assert.NilError(t, corev1.AddToScheme(scheme))
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
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(config.DeepCopy(), secret.DeepCopy()).Build(), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				if key.Name == test.goes.GetName() {
					if looks++; looks > 1 {
						return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
					}
				}
				return c.Get(ctx, key, into, options...)
			},
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return errSent
			},
		})
		types, err := apply.NewTypes(crd.Files)
		assert.NilError(t, err)
		plan := &Plan{Secrets: test.secrets, Parts: []Part{{Name: "pages", Revision: "r", Known: "r", Objects: []*unstructured.Unstructured{config}}}}
		_, err = New(c, apply.New(c, c, types, "1.2.3")).Carry(t.Context(), Order{Owner: owner, Plan: plan}, nil)
		assert.ErrorIs(t, err, ErrOwnerGone, name)
		assert.Assert(t, looks > 1, name)
	}
}

// Somebody who deletes a record gives the data up, and what somebody writes to it is consent, too: a plan that was made before does
// not bring back what was there.
func TestRecordThatSomebodyChanges(t *testing.T) {
	t.Parallel()
	owner := object.Owner{Namespace: "ns", Name: "book", UID: "uid"}
	for name, test := range map[string]struct {
		madeFrom, live string // resourceVersion
		want           error
	}{
		"it is the first":        {"", "", errSent},
		"it is there":            {"7", "7", errSent},
		"it is gone":             {"7", "", ErrPlanAgain},
		"it has changed, by now": {"7", "8", ErrPlanAgain},
	} {
		record := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}, data: {id: a}}")
		_, err := object.Finish(record, owner)
		assert.NilError(t, err)
		b := fake.NewClientBuilder()
		if test.live != "" {
			live := record.DeepCopy()
			live.SetUID("a")
			live.SetResourceVersion(test.live)
			live.SetAnnotations(map[string]string{object.AnnotationDigest: "of another content"})
			b = b.WithObjects(live)
		}
		c := interceptor.NewClient(b.Build(), interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return errSent
			},
		})
		types, err := apply.NewTypes(crd.Files)
		assert.NilError(t, err)
		plan := &Plan{Records: []Record{{Object: record, MadeFrom: test.madeFrom}}}
		_, err = New(c, apply.New(c, c, types, "1.2.3")).Carry(t.Context(), Order{Owner: owner, Plan: plan}, nil)
		assert.ErrorIs(t, err, test.want, name)
	}
}

// A refusal speaks of fields that the author of the part has.
func TestRefusals(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	refused := apierrors.NewInvalid(schema.GroupKind{Kind: "It"}, "a", field.ErrorList{field.Required(field.NewPath("spec"), "")})
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return refused
		},
	})
	types, err := apply.NewTypes(crd.Files)
	assert.NilError(t, err)
	for planned, want := range map[string]string{
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: ns}}":                          "spec.a: its podTemplate or another field of its pods is refused: ",
		"{apiVersion: redis.middleware.hc.cn/v1alpha1, kind: RedisCluster, metadata: {name: a, namespace: ns}}": "spec.a: it is refused as the spec of a RedisCluster: ",
	} {
		part := Part{Name: "a", Path: "spec.a", NeedsDryRun: true, Objects: []*unstructured.Unstructured{parse(t, planned)}}
		order := Order{Owner: object.Owner{Namespace: "ns", Name: "a", UID: "1"}, Plan: &Plan{Parts: []Part{part}}}
		_, err := New(c, apply.New(c, c, types, "1.2.3")).Carry(t.Context(), order, nil)
		var refusal *RefusedError
		assert.Assert(t, errors.As(err, &refusal) && apierrors.IsInvalid(err), "%v", err)
		assert.ErrorContains(t, err, want)
	}
}

// While the data of a part is in doubt, what runs is healed, but no volume is made and nothing that writes to one.
func TestMayHealInDoubt(t *testing.T) {
	t.Parallel()
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
