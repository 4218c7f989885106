// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	validation "k8s.io/apimachinery/pkg/util/validation/field"
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

// newContest returns a clock that only the test changes, and a function that returns the wait before a correction: 0 if the correction is allowed
// now.
func newContest(t *testing.T) (*time.Time, func(uid types.UID) time.Duration) {
	t.Helper()
	now, c := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), newContests()
	c.now = func() time.Time { return now }
	return &now, func(uid types.UID) time.Duration {
		live := &unstructured.Unstructured{}
		live.SetUID(uid)
		var contested *ContestedError
		if err := c.admit(live); !errors.As(err, &contested) {
			assert.NilError(t, err)
			return 0
		}
		return contested.RetryAfter
	}
}

func TestContestsBackOff(t *testing.T) {
	t.Parallel()
	now, wait := newContest(t)
	for range ofObjects.free + 1 {
		assert.Equal(t, wait("a"), time.Duration(0))
	}
	// Each further correction waits twice as long as the previous one, up to a limit.
	want := ofObjects.first
	for range 12 {
		assert.Equal(t, wait("a"), want)
		*now = now.Add(want - 1)
		assert.Equal(t, wait("a"), time.Duration(1))
		assert.Equal(t, wait("b"), time.Duration(0), "the contest of one object does not delay another object")
		*now = now.Add(1)
		assert.Equal(t, wait("a"), time.Duration(0))
		want = min(2*want, ofObjects.longest)
	}
	assert.Equal(t, want, ofObjects.longest)

	*now = now.Add(ofObjects.window + 2*ofObjects.longest + 1)
	for range ofObjects.free + 1 {
		assert.Equal(t, wait("a"), time.Duration(0))
	}
	assert.Equal(t, wait("a"), ofObjects.first, "after a quiet time, the waits begin with the shortest")
}

func TestRareCorrectionsAreNoContest(t *testing.T) {
	t.Parallel()
	now, wait := newContest(t)
	for range 100 {
		assert.Equal(t, wait("a"), time.Duration(0))
		*now = now.Add(ofObjects.window/time.Duration(ofObjects.free) + time.Second)
	}
}

const deploymentHead = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, annotations: {d3os-product.com.d3os/digest: d}}\nspec:\n"

// Other cases are in the drift tests, with an API server. For a resource of the operator's own kinds, contains uses the
// schema in the CustomResourceDefinition: that schema also treats lists with keys as maps.
func TestContains(t *testing.T) {
	t.Parallel()
	const own = "apiVersion: d3os-product.com.d3os/v1\nkind: DataService\n"
	const services = own + "metadata: {name: a}\nspec: {mysql: {databases: [a, b]}, additionalServices: [{name: x, image: i:1, port: 80}, {name: z, image: i:1}]}"
	const pod = deploymentHead + "  selector: {matchLabels: {a: b}}\n  template:\n    spec:\n      containers: "
	const claims = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {volumeClaimTemplates: "
	const policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {ingress: [{from: ["
	const spec = deploymentHead + "  template:\n    spec: "
	const affinity = "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
	for name, test := range map[string]struct {
		live, planned string
		same          bool
	}{
		"defaults":                           {pod + "[{name: a, image: b, imagePullPolicy: Always, terminationMessagePath: c}]", pod + "[{name: a, image: b}]", true},
		"a planned value is missing":         {pod + "[{name: a}]", pod + "[{name: a, image: b}]", false},
		"ports by number":                    {pod + "[{name: a, ports: [{containerPort: 1, protocol: TCP}]}]", pod + "[{name: a, ports: [{containerPort: 1}]}]", true},
		"another port":                       {pod + "[{name: a, ports: [{containerPort: 2, protocol: TCP}]}]", pod + "[{name: a, ports: [{containerPort: 1}]}]", false},
		"an additional variable":             {pod + "[{name: a, env: [{name: A, value: b}, {name: C, value: d}]}]", pod + "[{name: a, env: [{name: A, value: b}]}]", true},
		"a variable set twice":               {pod + "[{name: a, env: [{name: A, value: b}, {name: A, value: c}]}]", pod + "[{name: a, env: [{name: A, value: b}]}]", false},
		"a longer command":                   {pod + "[{name: a, command: [sh, run]}]", pod + "[{name: a, command: [sh]}]", false},
		"a command reordered":                {pod + "[{name: a, command: [run, sh]}]", pod + "[{name: a, command: [sh, run]}]", false},
		"a field reference":                  {pod + "[{name: a, env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: p}}}]}]", pod + "[{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: p}}}]}]", true},
		"another field in a field reference": {pod + "[{name: a, env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: q}}}]}]", pod + "[{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: p}}}]}]", false},
		"another key of a Secret":            {pod + "[{name: a, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: j}}}]}]", pod + "[{name: a, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]", false},
		"claims, defaulted":                  {claims + "[{metadata: {name: data}, spec: {accessModes: [RWO], volumeMode: Filesystem}, status: {phase: Pending}}]}", claims + "[{metadata: {name: data}, spec: {accessModes: [RWO]}}]}", true},
		"claims, another size":               {claims + "[{spec: {resources: {requests: {storage: 1Gi}}}}]}", claims + "[{spec: {resources: {requests: {storage: 2Gi}}}}]}", false},
		"own resource: defaults, another order, additions": {own + `metadata: {name: a, uid: u, labels: {more: x}}
status: {phase: Running}
spec: {rollout: {order: Dependency}, mysql: {databases: [b, a], storage: {size: 10Gi}},
  additionalServices: [{name: z, image: i:1, kind: Deployment}, {name: x, image: i:1, port: 80}]}`, services, true},
		"own resource: another image":    {strings.Replace(services, "i:1", "i:2", 1), services, false},
		"own resource: one item less":    {strings.Replace(services, "[a, b]", "[a]", 1), services, false},
		"an additional class of a claim": {claims + "[{metadata: {name: data}, spec: {storageClassName: fast}}]}", claims + "[{metadata: {name: data}, spec: {}}]}", false},
		"policy, defaulted":              {policy + "{podSelector: {}}], ports: [{port: 1, protocol: TCP}]}]}", policy + "{podSelector: {}}], ports: [{port: 1}]}]}", true},
		"peer of every namespace":        {policy + "{podSelector: {}, namespaceSelector: {}}]}]}", policy + "{podSelector: {}}]}]}", false},
		"peer of every namespace alone":  {policy + "{namespaceSelector: {}}]}]}", policy + "{podSelector: {matchLabels: {a: b}}}]}]}", false},
		"peer's selector widened":        {policy + "{podSelector: {}}]}]}", policy + "{podSelector: {matchLabels: {a: b}}}]}]}", false},
		"peer's selector narrowed":       {policy + "{podSelector: {matchLabels: {a: b}}}]}]}", policy + "{podSelector: {}}]}]}", false},
		"range of ports":                 {policy + "{podSelector: {}}], ports: [{port: 1, protocol: TCP, endPort: 9}]}]}", policy + "{podSelector: {}}], ports: [{port: 1}]}]}", false},
		"rule narrowed":                  {policy + "{podSelector: {}}], ports: [{port: 1}]}]}", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {ingress: [{ports: [{port: 1}]}]}", false},
		"toleration's seconds":           {spec + "{tolerations: [{key: x, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]}", spec + "{tolerations: [{key: x, operator: Exists}]}", false},
		"affinity narrowed":              {spec + affinity + "[{matchExpressions: [{key: x, operator: Exists}], matchFields: [{key: metadata.name, operator: In, values: [z]}]}]}}}}", spec + affinity + "[{matchExpressions: [{key: x, operator: Exists}]}]}}}}", false},
		"source of a projected volume":   {spec + "{volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}}, {downwardAPI: {items: [{path: p, fieldRef: {apiVersion: v1, fieldPath: q}}]}}]}}]}", spec + "{volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}, {downwardAPI: {items: [{path: p, fieldRef: {fieldPath: q}}]}}]}}]}", true},
		"token of another audience":      {spec + "{volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600, audience: x}}]}}]}", spec + "{volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}", false},
		"an additional claim":            {claims + "[{metadata: {name: data}}, {metadata: {name: more}}]}", claims + "[{metadata: {name: data}}]}", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newComparer(ownTypes)
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

// An object is written if its digest or its content differs. It is compared again only after it has changed.
func TestSame(t *testing.T) {
	t.Parallel()
	c := newComparer(ownTypes)
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

// The plan owns all fields of the operator's own resources: an added field in the spec is found at any depth.
func TestUnplannedFieldsOfAResource(t *testing.T) {
	t.Parallel()
	const head = "{apiVersion: redis.middleware.hc.cn/v1alpha1, kind: RedisCluster, metadata: {name: a}, spec: "
	planned := parse(t, head+"{pod: [{env: [{name: A, value: b}]}]}}")
	assert.Assert(t, !hasUnplanned(planned, planned.DeepCopy()))
	for _, spec := range []string{
		"{pod: [{env: [{name: A, value: b}]}], size: small}",
		"{pod: [{env: [{name: A, value: b}], labels: {c: d}}]}",
		"{pod: [{env: [{name: A, value: b}]}, {}]}",
	} {
		live := parse(t, head+spec+"}")
		assert.Assert(t, hasUnplanned(planned, live), spec)
		assert.DeepEqual(t, withPlannedLists(planned, live).Object["spec"], planned.Object["spec"])
	}
}

// If a user adds a field to an item of an atomic list, Judge names the list. This includes the operator's own resources.
func TestAdditionsToItemsOfListsAreNamed(t *testing.T) {
	t.Parallel()
	const meta = "metadata: {name: a, annotations: {d3os-product.com.d3os/digest: d}}, spec: "
	for name, test := range map[string]struct{ head, planned, live, field string }{
		"resource": {"apiVersion: redis.middleware.hc.cn/v1alpha1, kind: RedisCluster, ", "{pod: [{}]}", "{pod: [{labels: {c: d}}]}", "spec.pod"},
		"policy": {"apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, ", "{ingress: [{from: [{podSelector: {}}]}]}",
			"{ingress: [{from: [{podSelector: {}, namespaceSelector: {}}]}]}", "spec.ingress"},
	} {
		planned, live := parse(t, "{"+test.head+meta+test.planned+"}"), parse(t, "{"+test.head+meta+test.live+"}")
		verdict, err := newComparer(ownTypes).outcome(planned, live, hasUnplanned(planned, live))
		assert.NilError(t, err)
		assert.Equal(t, len(verdict.Fields), 1, name)
		assert.Equal(t, verdict.Fields[0].Path, test.field)
		assert.DeepEqual(t, verdict.Result.Object["spec"], planned.Object["spec"])
	}
}

// An object is replaced only for a change that Kubernetes refuses to make in place.
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
		"selector":                            {invalid("Deployment", selector), true},
		"wrapped":                             {fmt.Errorf("update: %w", invalid("Deployment", selector)), true},
		"claim templates":                     {invalid("StatefulSet", set), true},
		"StatefulSet's text for another kind": {invalid("DaemonSet", set), false},
		"an invalid value":                    {invalid("Deployment", image), false},
		"immutable field and invalid value":   {invalid("Deployment", selector, image), false},
		"the same, of a StatefulSet":          {invalid("StatefulSet", set, image), false},
		"a claim":                             {invalid("PersistentVolumeClaim", validation.Forbidden(validation.NewPath("spec"), "spec is immutable after creation except resources.requests")), false},
		"no cause":                            {invalid("Deployment"), false},
		"forbidden":                           {apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("field is immutable")), false},
		"conflict":                            {apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("field is immutable")), false},
		"not from the API server":             {errors.New("field is immutable"), false},
		"nothing":                             {nil, false},
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
		"controlled by the owner":                {digested, digested + ", " + reference("uid"), ""},
		"controlled, without a digest":           {digested, labelled + ", " + reference("uid"), ""},
		"controlled, from the original operator": {digested, "labels: {dataservice: platform, app: a}, " + reference("uid"), notAdopted},
		"controlled, without labels or digest":   {digested, reference("uid"), notAdopted},
		"from the original operator":             {digested, "labels: {dataservice: platform, app: a}", notAdopted},
		"another owner's, from the original":     {digested, "labels: {dataservice: platform, app: a}, " + reference("other"), "DataService other"},
		"original's object of another owner":     {digested, "labels: {dataservice: other, app: a}", "another owner"},
		"another owner's":                        {digested, labelled + ", " + digested + ", " + reference("other"), "DataService other"},
		"another owner's, to be kept":            {kept, labelled + ", " + kept + ", " + reference("other"), "DataService other"},
		"without a reference, with a digest":     {digested, labelled + ", " + digested, ""},
		"retained":                               {kept, labelled + ", " + kept, ""},
		"claim of a StatefulSet":                 {kept, labelled, ""},
		"labelled by a user":                     {digested, labelled, "another owner"},
		"left behind by another owner":           {digested, "labels: {app.kubernetes.io/instance: other, app.kubernetes.io/managed-by: d3os-operator}, " + digested, "DataService other"},
		"retained data of another owner":         {kept, "labels: {app.kubernetes.io/instance: other, app.kubernetes.io/managed-by: d3os-operator}, " + kept, "DataService other"},
		"managed by Helm":                        {kept, "labels: {app.kubernetes.io/instance: platform, app.kubernetes.io/managed-by: Helm}, " + digested, "Helm"},
		"without owner or labels":                {kept, "name: a", "another owner"},
		"an owner that does not control":         {digested, "ownerReferences: [{kind: DataService, name: other, uid: uid}]", "another owner"},
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
