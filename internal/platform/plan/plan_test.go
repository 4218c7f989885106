// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/render"
)

const base = "{mysql: {}, eureka: {kind: StatefulSet}, proxy: {}, web: {}}"

func platform(t *testing.T, spec string) *dsv1.DataService {
	t.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Name: "platform", Namespace: "data", UID: "uid", Generation: 1}}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	dsv1.SetDefaults(ds)
	return ds
}

func newPlanner(t *testing.T, images map[string]string) *plan.Planner {
	t.Helper()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	return plan.NewPlanner(renderer, images)
}

var credentials = values.Credentials{MySQLSecret: "mysql", PlatformSecret: "platform"}

func try(t *testing.T, p *plan.Planner, ds *dsv1.DataService, c values.Credentials) (*plan.Plan, error) {
	t.Helper()
	graph, err := component.NewGraph(&ds.Spec)
	assert.NilError(t, err)
	return p.Make(ds, graph, c)
}

func planOf(t *testing.T, spec string) *plan.Plan {
	t.Helper()
	made, err := try(t, newPlanner(t, nil), platform(t, spec), credentials)
	assert.NilError(t, err)
	return made
}

// difference lists the differences between two plans: components by revision, objects by content.
func difference(t *testing.T, before, after *plan.Plan) (revisions, objects []string) {
	t.Helper()
	assert.Equal(t, len(before.Components), len(after.Components))
	revisions, objects = []string{}, []string{}
	for i, b := range before.Components {
		a := after.Components[i]
		assert.Equal(t, b.Name, a.Name)
		if a.Revision != b.Revision {
			revisions = append(revisions, string(a.Name))
		}
		was := map[string]*unstructured.Unstructured{}
		for _, obj := range b.Objects {
			was[obj.GetKind()+"/"+obj.GetName()] = obj
		}
		for _, obj := range a.Objects {
			id := obj.GetKind() + "/" + obj.GetName()
			if !cmp.Equal(was[id], obj) {
				objects = append(objects, id)
			}
			delete(was, id)
		}
		assert.Equal(t, len(was), 0, "%v are gone", was)
	}
	return revisions, objects
}

// A change affects only the objects that depend on it. A new number of pods does not change the revision.
func TestWhatAChangeReaches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec               string
		revisions, objects []string
	}{
		"nothing":         {base, []string{}, []string{}},
		"order":           {"{mysql: {}, eureka: {kind: StatefulSet}, proxy: {}, web: {dependsOn: [mysql]}, rollout: {order: Sequential}}", []string{}, []string{}},
		"replicas":        {"{mysql: {}, eureka: {kind: StatefulSet}, proxy: {replica: 5}, web: {}}", []string{}, []string{"Deployment/proxy", "PodDisruptionBudget/proxy"}},
		"no replicas":     {"{mysql: {replica: 0}, eureka: {kind: StatefulSet}, proxy: {}, web: {}}", []string{}, []string{"StatefulSet/mysql-dataservice"}},
		"more registries": {"{mysql: {}, eureka: {kind: StatefulSet, replica: 2}, proxy: {}, web: {}}", []string{"eureka"}, []string{"StatefulSet/eureka", "PodDisruptionBudget/eureka"}},
		"image":           {"{mysql: {}, eureka: {kind: StatefulSet}, proxy: {image: new}, web: {}}", []string{"proxy"}, []string{"Deployment/proxy"}},
		"env":             {"{mysql: {}, eureka: {kind: StatefulSet}, proxy: {env: {A: b}}, web: {}}", []string{"proxy"}, []string{"Deployment/proxy"}},
		"resources":       {"{mysql: {}, eureka: {kind: StatefulSet}, proxy: {}, web: {resources: {requests: {cpu: 1}}}}", []string{"web"}, []string{"Deployment/web"}},
		"node port":       {"{mysql: {}, eureka: {kind: StatefulSet}, proxy: {}, web: {nodePort: 30180}}", []string{"web"}, []string{"Service/web"}},
		"port that other components use": {"{mysql: {}, eureka: {kind: StatefulSet}, proxy: {port: 1234}, web: {}}", []string{"proxy", "web"},
			[]string{"ConfigMap/proxy", "Service/proxy", "Deployment/proxy", "ConfigMap/web-template", "Deployment/web"}},
		"size":      {"{mysql: {storage: {size: 20Gi}}, eureka: {kind: StatefulSet}, proxy: {}, web: {}}", []string{"mysql"}, []string{"StatefulSet/mysql-dataservice"}},
		"retention": {"{mysql: {storage: {retention: Delete}}, eureka: {kind: StatefulSet}, proxy: {}, web: {}}", []string{"mysql"}, []string{"StatefulSet/mysql-dataservice"}},
		"paused":    {"{mysql: {}, eureka: {kind: StatefulSet}, proxy: {}, web: {}, paused: true}", []string{}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			revisions, objects := difference(t, planOf(t, base), planOf(t, test.spec))
			assert.DeepEqual(t, revisions, test.revisions)
			assert.DeepEqual(t, objects, test.objects)
		})
	}
}

// Different objects have different digests: otherwise the operator would miss a change.
func TestDigestsTellObjectsApart(t *testing.T) {
	t.Parallel()
	seen := map[string]*unstructured.Unstructured{}
	for _, spec := range []string{base, "{mysql: {}, eureka: {kind: StatefulSet, replica: 2}, proxy: {replica: 2, env: {A: b}}, web: {image: new}}"} {
		for _, c := range planOf(t, spec).Components {
			for _, obj := range c.Objects {
				digest := obj.GetAnnotations()[object.AnnotationDigest]
				assert.Equal(t, len(digest), 24)
				if other, ok := seen[digest]; ok {
					assert.DeepEqual(t, other, obj)
				}
				seen[digest] = obj
			}
		}
	}
	assert.Assert(t, len(seen) > 12)
}

func TestARevisionKnowsNotWhoOwnsIt(t *testing.T) {
	t.Parallel()
	p := newPlanner(t, nil)
	ds := platform(t, base)
	first, err := try(t, p, ds, credentials)
	assert.NilError(t, err)
	ds.UID = "another"
	second, err := try(t, p, ds, credentials)
	assert.NilError(t, err)
	revisions, _ := difference(t, first, second)
	assert.Equal(t, len(revisions), 0)
	assert.Equal(t, string(metav1.GetControllerOf(second.Components[1].Objects[0]).UID), "another")
}

// The user's image overrides the image of the release, which overrides the chart's image. A component and its probe
// have different images.
func TestImagesOfTheRelease(t *testing.T) {
	t.Parallel()
	p := newPlanner(t, map[string]string{
		"proxy": "mirror/proxy:v1", "eureka": "mirror/eureka:v1", "probe": "mirror/probe:v1", "uuc": "of one in the cluster",
	})
	made, err := try(t, p, platform(t, "{mysql: {}, eureka: {image: mine}, uuc: {thirdParty: {url: 'http://a'}}, proxy: {}}"), credentials)
	assert.NilError(t, err)
	var images []string
	for _, c := range made.Components {
		containers, _, err := unstructured.NestedSlice(c.Objects[len(c.Objects)-1].Object, "spec", "template", "spec", "containers")
		assert.NilError(t, err)
		images = append(images, containers[0].(map[string]any)["image"].(string))
	}
	assert.Equal(t, len(images), 4)
	assert.DeepEqual(t, images[1:], []string{"mirror/probe:v1", "mine", "mirror/proxy:v1"})
}

// A plan is computed once for each pair of generation and credentials. The latest plan of a DataService is cached.
func TestPlansAreRemembered(t *testing.T) {
	t.Parallel()
	p := newPlanner(t, nil)
	ds := platform(t, base)
	make1 := func(c values.Credentials) *plan.Plan {
		made, err := try(t, p, ds, c)
		assert.NilError(t, err)
		return made
	}
	first := make1(credentials)
	assert.Assert(t, make1(credentials) == first)
	other := values.Credentials{MySQLSecret: "other", PlatformSecret: "platform"}
	again := make1(other)
	assert.Assert(t, again != first)
	assert.Assert(t, make1(other) == again)
	assert.Assert(t, make1(credentials) != first)
	ds.Generation = 2
	second := make1(credentials)
	assert.Assert(t, second != first)
	p.Forget(ds.Namespace, ds.Name)
	assert.Assert(t, make1(credentials) != second)
	second = make1(credentials)
	ds.UID = "another"
	assert.Assert(t, make1(credentials) != second)
	ds.UID = "" // not from a cluster: DataServices cannot be distinguished
	third := make1(credentials)
	assert.Assert(t, make1(credentials) != third)
}

// Two components must not render the same object: each would revert the other's changes.
func TestTheSameObjectTwiceIsRefused(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]render.Error{
		"{mysql: {}, eureka: {}, proxy: {name: web-template}, web: {}}": {
			Field: "spec.web.name", Message: "ConfigMap web-template is already an object of spec.proxy; choose another name",
		},
		"{mysql: {kind: Deployment}, eureka: {}, proxy: {name: mysql-dataservice-init}}": {
			Field: "spec.proxy.name", Message: "ConfigMap mysql-dataservice-init is already an object of spec.mysql; choose another name",
		},
		"{eureka: {name: uuc-probe}, uuc: {thirdParty: {url: 'http://a.example.com'}}}": {
			Field: "spec.eureka.name", Message: "Deployment uuc-probe is already an object of spec.uuc; choose another name",
		},
	} {
		_, err := try(t, newPlanner(t, nil), platform(t, spec), credentials)
		var field *render.Error
		assert.Assert(t, errors.As(err, &field), "%v", err)
		assert.Equal(t, *field, want)
	}
}

func TestAFailureNamesTheComponent(t *testing.T) {
	t.Parallel()
	_, err := try(t, newPlanner(t, nil), platform(t, "{proxy: {}}"), credentials)
	assert.ErrorContains(t, err, "proxy")
	assert.ErrorContains(t, err, "must be given for proxy")
}

// If an object is too large for the API server, planning returns an error in the field that fills the object.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spec, field string // %s is replaced by a text
		fits, over  int    // lengths of texts
	}{
		{"{eureka: {config: {a: '%s'}}}", "spec.eureka.config", 1<<20 - 1000, 1 << 20},
		{"{eureka: {configFiles: [{path: /a, content: '%s'}]}}", "spec.eureka.configFiles", 1 << 20, 1<<20 + 1}, // the key does not count
		{"{eureka: {annotations: {a: '%s'}}}", "spec.eureka.annotations", 256<<10 - 1000, 256 << 10},
		{"{eureka: {serviceAnnotations: {a: '%s'}}}", "spec.eureka.serviceAnnotations", 256<<10 - 1000, 256 << 10},
		{"{web: {ingress: {host: a, annotations: {a: '%s'}}}}", "spec.web.ingress.annotations", 256<<10 - 1000, 256 << 10},
	} {
		p := newPlanner(t, nil)
		_, err := try(t, p, platform(t, fmt.Sprintf(test.spec, strings.Repeat("a", test.over))), credentials)
		var mistake *render.Error
		assert.Assert(t, errors.As(err, &mistake), "%s: %v", test.spec, err)
		assert.Equal(t, mistake.Field, test.field)
		_, err = try(t, newPlanner(t, nil), platform(t, fmt.Sprintf(test.spec, strings.Repeat("a", test.fits))), credentials)
		assert.NilError(t, err)
	}
}
