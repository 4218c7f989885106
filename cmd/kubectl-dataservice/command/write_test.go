// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// newEditor creates a namespace for a test, and a user who may only change DataServices in it.
func newEditor(t *testing.T) *env {
	e := newEnv(t, "view")
	e.mayWrite()
	return e
}

// mayWrite gives the user the right to change DataServices.
func (e *env) mayWrite() {
	e.Helper()
	e.Must(suite.API.Create(e.Ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "author"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{dsv1.GroupVersion.Group}, Resources: []string{"dataservices"}, Verbs: []string{"patch", "update"}}}}))
	e.Must(suite.API.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "author"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "author"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: e.user}},
	}))
}

func TestPauseAndResume(t *testing.T) {
	e := newEditor(t)
	e.Start()
	e.CreateReady(harness.Small())
	e.says(exitYes, []string{"paused: the operator heals and updates nothing until 'kubectl dataservice resume " + name}, "pause", name)
	assert.Equal(t, e.paused(), true)
	e.says(exitYes, []string{"nothing to do"}, "pause", name)
	e.says(exitNo, []string{"is paused", "by kubectl-dataservice"}, "why", name)
	e.says(exitYes, []string{"resumed"}, "resume", name)
	e.Ready(name)
	// A tool manages the DataService from a repository, and would revert the change.
	e.Must(suite.API.Patch(e.Ctx, e.DataService(name).DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux"}}}`))))
	e.says(exitYes, []string{"warning: Flux Kustomization flux/apps manages this DataService", "flux suspend kustomization apps -n flux"}, "pause", name)
}

func (e *env) paused() bool {
	ds := &dsv1.DataService{}
	e.Must(suite.API.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, ds))
	return ds.Spec.Paused
}

// A user with the role view cannot change anything.
func TestViewersChangeNothing(t *testing.T) {
	e := newEnv(t, "view")
	e.Start()
	e.CreateReady(harness.Small())
	for _, command := range [][]string{{"pause", name}, {"restart", name, "auth"}} {
		e.says(exitError, []string{"forbidden"}, command...)
	}
	assert.Equal(t, e.paused(), false)
}

// A restart changes the spec. The rollout replaces only the pods of this component.
func TestRestart(t *testing.T) {
	e := newEditor(t)
	e.Start()
	e.CreateReady(harness.Small(fields{"additionalServices": []any{
		fields{"name": "a", "image": "r/a:1", "port": 80}, fields{"name": "reports", "image": "r/b:1", "port": 80, "annotations": fields{"team": "x"}},
	}}))
	for _, component := range []string{"auth", "reports"} {
		e.says(exitYes, []string{component + " restarts"}, "restart", name, component)
		e.Ready(name)
		for _, workload := range []string{"auth", "reports", "a", "web"} {
			deployment := &appsv1.Deployment{}
			e.Must(suite.API.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: workload}, deployment))
			restarted := deployment.Spec.Template.Annotations[annotationRestarted] != ""
			assert.Equal(t, restarted, workload == component || workload == "auth", "%s after the restart of %s", workload, component)
		}
	}
	e.says(exitError, []string{"declares no component rollout"}, "restart", name, "rollout")
	e.says(exitError, []string{"declares no component nothing"}, "restart", name, "nothing")
}

func TestRestartPatch(t *testing.T) {
	t.Parallel()
	ds := &dsv1.DataService{}
	assert.NilError(t, yaml.Unmarshal([]byte(`{metadata: {resourceVersion: "7"}, spec: {auth: {}, web: {annotations: {a: b}},
		additionalServices: [{name: x}, {name: z, annotations: {a: b}}]}}`), ds))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for component, path := range map[string]string{
		"auth": "/spec/auth/annotations",
		"web":  "/spec/web/annotations/kubectl.kubernetes.io~1restartedAt",
		"x":    "/spec/additionalServices/0/annotations",
		"z":    "/spec/additionalServices/1/annotations/kubectl.kubernetes.io~1restartedAt",
	} {
		patch, err := restartPatch(ds, component, now)
		assert.NilError(t, err)
		assert.DeepEqual(t, patch[0], operation{Op: "test", Path: "/metadata/resourceVersion", Value: "7"})
		assert.Equal(t, patch[1].Path, path)
		if strings.HasSuffix(path, "At") {
			assert.Equal(t, patch[1].Value, "2026-01-02T03:04:05Z")
		}
	}
	for _, component := range []string{"proxy", "rollout", "paused", "additionalServices", ""} {
		_, err := restartPatch(ds, component, now)
		assert.ErrorContains(t, err, "declares no component")
	}
}
