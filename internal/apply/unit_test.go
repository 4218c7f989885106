// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	validation "k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	assert.NilError(t, err)
	obj := &unstructured.Unstructured{}
	assert.NilError(t, obj.UnmarshalJSON(data), "%s", text)
	return obj
}

// contestant is an object that may be corrected.
func contestant(uid string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"kind": "Deployment"}}
	obj.SetName("proxy")
	obj.SetUID(types.UID(uid))
	return obj
}

// clock is a time that only the test moves.
type clock struct{ now time.Time }

func newClock() (*clock, *contests) {
	k := &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	c := newContests()
	c.now = func() time.Time { return k.now }
	return k, c
}

// waitOf is how long a correction has to wait; none when it is allowed.
func waitOf(t *testing.T, c *contests, uid string) time.Duration {
	t.Helper()
	err := c.admit(contestant(uid))
	if err == nil {
		return 0
	}
	var contested *ContestedError
	assert.Assert(t, errors.As(err, &contested))
	return contested.RetryAfter
}

func TestContestsBackOff(t *testing.T) {
	t.Parallel()
	k, c := newClock()
	for range contestFree + 1 {
		assert.Equal(t, waitOf(t, c, "a"), time.Duration(0))
	}
	// Each further correction waits twice as long as the one before, up to a limit.
	want := contestFirst
	for range 12 {
		assert.Equal(t, waitOf(t, c, "a"), want)
		k.now = k.now.Add(want - 1)
		assert.Equal(t, waitOf(t, c, "a"), time.Duration(1))
		assert.Equal(t, waitOf(t, c, "b"), time.Duration(0), "another object is another matter")
		k.now = k.now.Add(1)
		assert.Equal(t, waitOf(t, c, "a"), time.Duration(0))
		want = min(2*want, contestLongest)
	}
	assert.Equal(t, want, contestLongest)
}

func TestRareCorrectionsAreNoContest(t *testing.T) {
	t.Parallel()
	k, c := newClock()
	for range 100 {
		assert.Equal(t, waitOf(t, c, "a"), time.Duration(0))
		k.now = k.now.Add(contestWindow/contestFree + time.Second)
	}
}

func TestAContestEnds(t *testing.T) {
	t.Parallel()
	k, c := newClock()
	for range contestFree + 1 {
		waitOf(t, c, "a")
	}
	k.now = k.now.Add(contestWindow + 2*contestFirst + 1)
	for range contestFree + 1 {
		assert.Equal(t, waitOf(t, c, "a"), time.Duration(0))
	}
	assert.Equal(t, waitOf(t, c, "a"), contestFirst, "it starts from the beginning")
}

const deploymentHead = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, annotations: {d3os-product.com.d3os/digest: d}}\nspec:\n"

func TestContains(t *testing.T) {
	t.Parallel()
	const pod = deploymentHead + "  selector: {matchLabels: {a: b}}\n  template:\n    spec:\n      containers: "
	const claims = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {volumeClaimTemplates: "
	for name, test := range map[string]struct {
		live, planned string
		same          bool
	}{
		"the same":             {pod + "[{name: a, image: b}]", pod + "[{name: a, image: b}]", true},
		"defaults":             {pod + "[{name: a, image: b, imagePullPolicy: Always, terminationMessagePath: c}]", pod + "[{name: a, image: b}]", true},
		"another value":        {pod + "[{name: a, image: c}]", pod + "[{name: a, image: b}]", false},
		"a value less":         {pod + "[{name: a}]", pod + "[{name: a, image: b}]", false},
		"a container more":     {pod + "[{name: mesh, image: m}, {name: a, image: b}]", pod + "[{name: a, image: b}]", true},
		"a container less":     {pod + "[{name: mesh, image: m}]", pod + "[{name: a, image: b}]", false},
		"ports by number":      {pod + "[{name: a, ports: [{containerPort: 1, protocol: TCP}]}]", pod + "[{name: a, ports: [{containerPort: 1}]}]", true},
		"another port":         {pod + "[{name: a, ports: [{containerPort: 2, protocol: TCP}]}]", pod + "[{name: a, ports: [{containerPort: 1}]}]", false},
		"a variable more":      {pod + "[{name: a, env: [{name: A, value: b}, {name: C, value: d}]}]", pod + "[{name: a, env: [{name: A, value: b}]}]", true},
		"a variable of twice":  {pod + "[{name: a, env: [{name: A, value: b}, {name: A, value: c}]}]", pod + "[{name: a, env: [{name: A, value: b}]}]", false},
		"a command":            {pod + "[{name: a, command: [sh, run]}]", pod + "[{name: a, command: [sh]}]", false},
		"a command reordered":  {pod + "[{name: a, command: [run, sh]}]", pod + "[{name: a, command: [sh, run]}]", false},
		"a field reference":    {pod + "[{name: a, env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: p}}}]}]", pod + "[{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: p}}}]}]", true},
		"another field":        {pod + "[{name: a, env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: q}}}]}]", pod + "[{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: p}}}]}]", false},
		"another key":          {pod + "[{name: a, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: j}}}]}]", pod + "[{name: a, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]", false},
		"a selector narrowed":  {"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {a: b, c: d}}", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {a: b}}", false},
		"a selector widened":   {"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {}}", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {a: b}}", false},
		"claims, defaulted":    {claims + "[{metadata: {name: data}, spec: {accessModes: [RWO], volumeMode: Filesystem}, status: {phase: Pending}}]}", claims + "[{metadata: {name: data}, spec: {accessModes: [RWO]}}]}", true},
		"claims, another size": {claims + "[{spec: {resources: {requests: {storage: 1Gi}}}}]}", claims + "[{spec: {resources: {requests: {storage: 2Gi}}}}]}", false},
		"a claim more":         {claims + "[{metadata: {name: data}}, {metadata: {name: more}}]}", claims + "[{metadata: {name: data}}]}", false},
		"annotations":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {a: b}, labels: {c: d}}\ndata: {e: f}", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {e: f}", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newComparer(applyconfigurations.NewTypeConverter(scheme.Scheme))
			live, planned := parse(t, test.live), parse(t, test.planned)
			same, err := c.contains(live, planned)
			assert.NilError(t, err)
			assert.Equal(t, same, test.same)
			if test.same {
				assert.DeepEqual(t, []any{live, planned}, []any{parse(t, test.live), parse(t, test.planned)})
			}
		})
	}
}

// Digests differ, or the content does: either is a reason to write. What was compared once is
// compared again only when it changed.
func TestSame(t *testing.T) {
	t.Parallel()
	c := newComparer(applyconfigurations.NewTypeConverter(scheme.Scheme))
	live := parse(t, deploymentHead+"  replicas: 1\n")
	live.SetUID("uid")
	live.SetResourceVersion("1")
	same := func(planned string) bool {
		ok, err := c.same(parse(t, planned), live)
		assert.NilError(t, err)
		return ok
	}
	planned := deploymentHead + "  replicas: 1\n"
	assert.Assert(t, same(planned))
	assert.Assert(t, same(planned))
	assert.Assert(t, !same("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, annotations: {d3os-product.com.d3os/digest: e}}\nspec: {replicas: 1}"))
	assert.NilError(t, unstructured.SetNestedField(live.Object, int64(2), "spec", "replicas"))
	live.SetResourceVersion("2")
	assert.Assert(t, !same(planned))
	assert.NilError(t, unstructured.SetNestedField(live.Object, int64(1), "spec", "replicas"))
	live.SetResourceVersion("3")
	assert.Assert(t, same(planned))
	_, err := c.same(parse(t, planned), parse(t, deploymentHead+"  replicas: many\n"))
	assert.ErrorContains(t, err, "compare Deployment")
}

// Only what Kubernetes refuses to change in place is a reason to replace an object.
func TestImmutable(t *testing.T) {
	t.Parallel()
	invalid := func(kind string, errs ...*validation.Error) error {
		return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: kind}, "a", errs)
	}
	selector := validation.Invalid(validation.NewPath("spec", "selector"), "x", "field is immutable")
	set := validation.Forbidden(validation.NewPath("spec"), "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template' are forbidden")
	image := validation.Required(validation.NewPath("spec", "template", "spec", "containers").Index(0).Child("image"), "")
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"selector":                  {invalid("Deployment", selector), true},
		"wrapped":                   {fmt.Errorf("update: %w", invalid("Deployment", selector)), true},
		"claim templates":           {invalid("StatefulSet", set), true},
		"of another kind":           {invalid("DaemonSet", set), false},
		"an invalid value":          {invalid("Deployment", image), false},
		"both":                      {invalid("Deployment", selector, image), false},
		"both, of a set":            {invalid("StatefulSet", set, image), false},
		"a claim":                   {invalid("PersistentVolumeClaim", validation.Forbidden(validation.NewPath("spec"), "spec is immutable after creation except resources.requests")), false},
		"no cause":                  {invalid("Deployment"), false},
		"forbidden":                 {apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("field is immutable")), false},
		"conflict":                  {apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("field is immutable")), false},
		"no answer of the server's": {errors.New("field is immutable"), false},
		"nothing":                   {nil, false},
	} {
		assert.Equal(t, immutable(test.err), test.want, name)
	}
}

func TestCheckOwner(t *testing.T) {
	t.Parallel()
	owner := object.Owner{GroupVersionKind: dsv1.GroupVersion.WithKind(dsv1.Kind), Namespace: "default", Name: "platform", UID: "uid"}
	const labelled = "labels: {app.kubernetes.io/instance: platform, app.kubernetes.io/managed-by: d3os-operator}"
	const digested = "annotations: {d3os-product.com.d3os/digest: d}"
	const notAdopted = "(not adopted)"
	const kept = "annotations: {helm.sh/resource-policy: keep}"
	reference := func(uid string) string {
		return "ownerReferences: [{apiVersion: d3os-product.com.d3os/v1, kind: DataService, name: other, uid: " + uid + ", controller: true}]"
	}
	for name, test := range map[string]struct{ planned, live, holder string }{
		"its own":                        {digested, digested + ", " + reference("uid"), ""},
		"its own, without a digest":      {digested, labelled + ", " + reference("uid"), ""},
		"its own, of another operator":   {digested, "labels: {dataservice: platform, app: a}, " + reference("uid"), notAdopted},
		"its own, without a mark":        {digested, reference("uid"), notAdopted},
		"of another operator's":          {digested, "labels: {dataservice: platform, app: a}", notAdopted},
		"another's, of another operator": {digested, "labels: {dataservice: platform, app: a}, " + reference("other"), "DataService other"},
		"an original's of another name":  {digested, "labels: {dataservice: other, app: a}", "somebody else"},
		"another's":                      {digested, labelled + ", " + digested + ", " + reference("other"), "DataService other"},
		"another's, to be kept":          {kept, labelled + ", " + kept + ", " + reference("other"), "DataService other"},
		"lost its owner":                 {digested, labelled + ", " + digested, ""},
		"retained":                       {kept, labelled + ", " + kept, ""},
		"a claim of a set's":             {kept, labelled, ""},
		"labelled by hand":               {digested, labelled, "somebody else"},
		"of another instance":            {kept, "labels: {app.kubernetes.io/instance: other, app.kubernetes.io/managed-by: d3os-operator}, " + kept, "DataService other"},
		"managed by another":             {kept, "labels: {app.kubernetes.io/instance: platform, app.kubernetes.io/managed-by: Helm}, " + digested, "Helm"},
		"nobody's":                       {kept, "name: a", "somebody else"},
		"an owner that does not control": {digested, "ownerReferences: [{kind: DataService, name: other, uid: uid}]", "somebody else"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned, live := parse(t, "kind: Secret\nmetadata: {name: a, "+test.planned+"}"), parse(t, "kind: Secret\nmetadata: {"+test.live+"}")
			err := checkOwner(owner, planned, live)
			switch test.holder {
			case "":
				assert.NilError(t, err)
				return
			case notAdopted:
				assert.DeepEqual(t, err, &NotAdoptedError{Kind: "Secret", Name: "a"})
				return
			}
			assert.DeepEqual(t, err, &ConflictError{Kind: "Secret", Name: "a", Holder: test.holder})
		})
	}
}
