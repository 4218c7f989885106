// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/cli/screen"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/dataservice"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

const version = "1.2.3"

func planOf(t *testing.T, spec string) (*dsv1.DataService, *engine.Plan) {
	t.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "data-prod", Name: "platform", UID: "u"}}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	dsv1.SetDefaults(ds)
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	kind := dataservice.New(plan.NewPlanner(renderer, nil), credentials.NewPreview(), nil, nil, nil)
	nothing := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
	planned, err := kind.Plan(ds, kinds.Inputs{Lookup: nothing, LookupLive: nothing,
		List: func(string) ([]*unstructured.Unstructured, error) { return nil, nil },
		Pods: func(string) ([]*corev1.Pod, error) { return nil, nil }, PodsLive: func(string) ([]*corev1.Pod, error) { return nil, nil }})
	assert.NilError(t, err)
	return ds, planned
}

// cluster is what is there when a plan was carried out: its objects, as the operator applied them, and the claims.
func cluster(p *engine.Plan) Cluster {
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
			golden.Assert(t, d.Summary(screen.Style{}), filepath.Join("summary", name+".txt"))
			text, err := d.Text(screen.Style{})
			assert.NilError(t, err)
			golden.Assert(t, text, filepath.Join("text", name+".txt"))
			assert.Assert(t, !strings.Contains(text+d.Summary(screen.Style{}), "b3RoZXI="), "the value of a Secret is shown")
			assert.Equal(t, d.Changed(), name != "nothing" && name != "secrets-unread")
		})
	}
}

// The database's volume goes with the component only where that is asked for, and then it is said aloud.
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
	assert.Assert(t, strings.Contains(d.Summary(screen.Style{}), "1 VOLUME IS DELETED"), d.Summary(screen.Style{}))
	d = compute(t, base, without, claim(false))
	assert.Assert(t, strings.Contains(d.Summary(screen.Style{}), "no volume is deleted"))
}
