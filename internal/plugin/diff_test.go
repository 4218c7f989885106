// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

const version = "1.2.3"

func planOf(t *testing.T, spec string) (*dsv1.DataService, *reconcile.Plan) {
	t.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "data-prod", Name: "platform", UID: "u"}}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	dsv1.SetDefaults(ds)
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	kind := platform.New(plan.NewPlanner(renderer, nil), plan.NewPreview(), nil, nil, nil)
	nothing := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
	planned, err := kind.Plan(ds, reconcile.Inputs{Lookup: nothing, LookupAny: nothing, LookupLive: nothing,
		List: func(string) ([]*unstructured.Unstructured, error) { return nil, nil },
		Pods: func(string) ([]*corev1.Pod, error) { return nil, nil }, PodsLive: func(string) ([]*corev1.Pod, error) { return nil, nil }}, &platform.Observation{})
	assert.NilError(t, err)
	return ds, planned
}

// cluster returns the cluster after a plan was applied: the objects with digests, and the claims.
func cluster(p *reconcile.Plan) Cluster {
	var c Cluster
	add := func(o *unstructured.Unstructured) {
		o = o.DeepCopy()
		o.SetUID("x")
		c.Objects = append(c.Objects, o)
	}
	for _, secret := range p.Secrets {
		add(secret)
	}
	for i := range p.Parts {
		for _, o := range p.Parts[i].Objects {
			add(o)
			if o.GetKind() == "StatefulSet" && o.GetName() == "mysql-dataservice" {
				claim := object.Empty(object.ClaimKind)
				claim.SetName("data-mysql-dataservice-0")
				claim.SetNamespace(o.GetNamespace())
				claim.SetLabels(o.GetLabels())
				_ = unstructured.SetNestedField(claim.Object, "10Gi", "spec", "resources", "requests", "storage")
				_ = unstructured.SetNestedField(claim.Object, "10Gi", "status", "capacity", "storage")
				c.Objects = append(c.Objects, claim)
			}
		}
	}
	return c
}

const base = `{mysql: {}, uuc: {thirdParty: {url: "https://id.example.com/duc"}}, eureka: {}, auth: {image: "r/auth:v1.4", replica: 3}, proxy: {}, web: {}}`

func compute(t *testing.T, before, after string, change func(*Cluster)) *Diff {
	t.Helper()
	_, was := planOf(t, before)
	ds, will := planOf(t, after)
	there := cluster(was)
	if change != nil {
		change(&there)
	}
	types, err := apply.NewTypes(crd.Files)
	assert.NilError(t, err)
	return Compute(plan.OwnerOf(ds), will, there, apply.NewJudge(types, version))
}

func find(kind, name string, change func(*unstructured.Unstructured)) func(*Cluster) {
	return func(c *Cluster) {
		for _, o := range c.Objects {
			if o.GetKind() == kind && o.GetName() == name {
				change(o)
			}
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	to := func(from, to string) string { return strings.Replace(base, from, to, 1) }
	for name, test := range map[string]struct {
		after  string
		change func(*Cluster)
	}{
		"nothing":         {base, nil},
		"image":           {to("r/auth:v1.4", "r/auth:v1.5"), nil},
		"scaled":          {to("replica: 3", "replica: 5"), nil},
		"component-goes":  {to(", proxy: {}", ""), nil},
		"component-comes": {to("proxy: {}", "proxy: {}, gateway-web: {replica: 2}"), nil},
		"volume-grows":    {to("mysql: {}", "mysql: {storage: {size: 20Gi}}"), nil},
		"volume-shrinks":  {to("mysql: {}", "mysql: {storage: {size: 5Gi}}"), nil},
		"kind":            {to("eureka: {}", "eureka: {kind: StatefulSet}"), nil},
		"secrets-unread": {base, func(c *Cluster) {
			c.SecretsUnread = true
			c.Objects = slices.DeleteFunc(c.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Secret" })
		}},
		"drift": {base, find("Service", "auth", func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, "LoadBalancer", "spec", "type")
		})},
		"deleted": {base, func(c *Cluster) {
			c.Objects = slices.DeleteFunc(c.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" && o.GetName() == "auth" })
		}},
		"somebody-elses": {base, find("Service", "web", func(o *unstructured.Unstructured) {
			o.SetOwnerReferences(nil)
			o.SetLabels(map[string]string{object.LabelManagedBy: "Helm"})
		})},
		"newer-operator": {base, find("Deployment", "web", func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{object.AnnotationWriter: "9.0.0"})
		})},
		"password-of-mysql": {base, find("Secret", "mysql-dataservice-credentials", func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, "b3RoZXI=", "data", "password")
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := compute(t, base, test.after, test.change)
			golden.Assert(t, d.Summary(Style{}), filepath.Join("summary", name+".txt"))
			text, err := d.Text(Style{})
			assert.NilError(t, err)
			golden.Assert(t, text, filepath.Join("text", name+".txt"))
			assert.Assert(t, !strings.Contains(text+d.Summary(Style{}), "b3RoZXI="), "the value of a Secret is shown")
			assert.Equal(t, d.Changed(), name != "nothing" && name != "secrets-unread")
		})
	}
}

// If the spec requests that the database's volume is deleted with the component, the diff reports that a volume is deleted. Otherwise it
// reports that no volume is deleted.
func TestDataThatGoesIsNamed(t *testing.T) {
	t.Parallel()
	const without = `{uuc: {thirdParty: {url: "https://id.example.com/duc"}}}`
	claim := func(controlled bool) func(*Cluster) {
		return find("PersistentVolumeClaim", "data-mysql-dataservice-0", func(o *unstructured.Unstructured) {
			ds, _ := planOf(t, base)
			if controlled {
				o.SetOwnerReferences([]metav1.OwnerReference{plan.OwnerOf(ds).Reference()})
			}
		})
	}
	d := compute(t, base, without, claim(true))
	assert.Assert(t, strings.Contains(d.Summary(Style{}), "1 VOLUME IS DELETED"), d.Summary(Style{}))
	d = compute(t, base, without, claim(false))
	assert.Assert(t, strings.Contains(d.Summary(Style{}), "no volume is deleted"))
}

// The diff lists no deletion of a Secret that a volume may need, even if no database uses that volume now.
func TestSecretsOfAVolumeStay(t *testing.T) {
	t.Parallel()
	const before = `{mysql: {storage: {retention: Delete}}, eureka: {}, auth: {image: "r/auth:v1"}}`
	const after = `{mysql: {kind: ThirdParty, thirdParty: {url: "mysql://db:3306", secretRef: {name: mine}}, storage: {retention: Delete}}, eureka: {}, auth: {image: "r/auth:v1"}}`
	deleted := func(change func(*Cluster)) bool {
		return slices.ContainsFunc(compute(t, before, after, change).Changes, func(c Change) bool {
			return c.Kind == "Secret" && c.Name == "mysql-dataservice-credentials" && c.Action == apply.Deleted
		})
	}
	assert.Assert(t, !deleted(nil))
	assert.Assert(t, deleted(func(c *Cluster) {
		c.Objects = slices.DeleteFunc(c.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == object.ClaimKind.Kind })
	}))
}

var historyNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func of(t *testing.T, text string) (spec map[string]any) {
	t.Helper()
	assert.NilError(t, yaml.Unmarshal([]byte(text), &spec))
	return spec
}

func revised(t *testing.T, spec string) *dsv1.DataService {
	t.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Name: "platform", Generation: 9}}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	return ds
}

func revisions(t *testing.T) []*reconcile.Revision {
	t.Helper()
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(historyNow.Add(-ago)) }
	return []*reconcile.Revision{
		{Number: 9, Ready: 6, Time: at(time.Minute), Version: "0.3.0", Spec: of(t, "{auth: {image: 'a:3', replica: 2}, web: {}}")},
		{Number: 6, Ready: 5, Time: at(time.Hour), Version: "0.3.0", Spec: of(t, "{auth: {image: 'a:2', replica: 2}, web: {}}")},
		{Number: 5, Ready: 4, Time: at(48 * time.Hour), Spec: of(t, "{auth: {image: 'a:1', replica: 2}, web: {config: {a: {b: c}}}, proxy: {}}")},
		{Number: 7, Ready: 6, Time: at(30 * time.Minute), Version: "0.3.0", Spec: of(t, "{auth: {image: 'a:bad', replica: 2}, web: {}, paused: true}")},
	}
}

func TestEntries(t *testing.T) {
	t.Parallel()
	ds := revised(t, "{}")
	ds.Status.History = &dsv1.History{Generation: 9, ReadyGeneration: 6}
	entries := Entries(ds, revisions(t))
	golden.Assert(t, Print(entries, historyNow), "history.txt")
	e, err := Pick(ds, entries, 0)
	assert.NilError(t, err)
	assert.Equal(t, e.Number, int64(6), "the last good one")
	e, err = Pick(ds, entries, 7)
	assert.NilError(t, err)
	assert.Equal(t, e.State, Unknown)
	_, err = Pick(ds, entries, 3)
	assert.ErrorContains(t, err, "has no revision 3")
	_, err = Pick(ds, nil, 0)
	assert.ErrorContains(t, err, "has no history yet")
	_, err = Pick(ds, entries[:1], 0)
	assert.ErrorContains(t, err, "known to have been ready")
}

// Spec keeps the present values of some fields, such as paused, and shrinks no volume. If the history contains a
// password only in masked form, and the present spec lacks the password, Spec returns an error.
func TestSpec(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		present, past, want string
		kept                []string
		err                 string
	}{
		"image":                  {"{auth: {image: 'a:2'}}", "{auth: {image: 'a:1'}}", "{auth: {image: 'a:1'}}", nil, ""},
		"a component is added":   {"{auth: {}}", "{auth: {}, web: {}}", "{auth: {}, web: {}}", nil, ""},
		"a component is removed": {"{auth: {}, web: {}}", "{auth: {}}", "{auth: {}}", nil, ""},
		"pods and pauses": {"{paused: true, auth: {replica: 5, image: 'a:2'}, rollout: {order: Sequential}}", "{auth: {replica: 2, image: 'a:1'}, rollout: {order: Dependency}}",
			"{paused: true, auth: {replica: 5, image: 'a:1'}, rollout: {order: Sequential}}", []string{"paused", "rollout", "auth.replica"}, ""},
		"autoscaling": {"{auth: {autoscaling: {max: 3}}}", "{auth: {replica: 2}}", "{auth: {autoscaling: {max: 3}}}", []string{"auth.replica", "auth.autoscaling"}, ""},
		"storage": {"{mysql: {storage: {size: 50Gi, storageClassName: fast}}}", "{mysql: {storage: {size: 10Gi}, databases: [a]}}",
			"{mysql: {storage: {size: 50Gi, storageClassName: fast}, databases: [a]}}", []string{"mysql.storage.size", "mysql.storage.storageClassName"}, ""},
		"a password": {"{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://b', username: u, password: now}}}", "{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a', username: u, password: (masked)}}}",
			"{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a', username: u, password: now}}}", []string{"mysql.thirdParty.password"}, ""},
		"a password without a Secret": {"{mysql: {}}", "{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a', username: u, password: (masked)}}}", "", nil, "does not keep the password of mysql"},
		"a component with a password": {"{auth: {}}", "{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a', username: u, password: (masked)}}}", "", nil, "does not keep the password of mysql"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ds := revised(t, test.present)
			spec, kept, err := Spec(ds, &Entry{spec: normal(t, test.past)})
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, spec, normal(t, test.want))
			assert.DeepEqual(t, kept, test.kept)
		})
	}
}

// normal decodes a spec into the API's Go type and encodes it again, so that two specs can be compared.
func normal(t *testing.T, text string) (spec map[string]any) {
	t.Helper()
	data, err := json.Marshal(&revised(t, text).Spec)
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(data, &spec))
	return spec
}

func TestDowngrade(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ from, to, want string }{
		{"8.4.0", "8.0.36", "8.4.0 8.0.36"}, {"8.0.36", "8.4.0", " "}, {"8.4", "8.4.0", " "}, {"", "8.0", " "}, {"8.10", "8.9", "8.10 8.9"},
	} {
		ds := &dsv1.DataService{Spec: dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{}}}
		ds.Spec.MySQL.Version = test.from
		from, to := Downgrade(ds, map[string]any{"mysql": map[string]any{"version": test.to}})
		assert.Equal(t, from+" "+to, test.want)
	}
	from, _ := Downgrade(&dsv1.DataService{}, map[string]any{})
	assert.Equal(t, from, "")
}
