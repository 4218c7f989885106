// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

func (e *env) spec() dsv1.DataServiceSpec {
	e.Helper()
	ds := &dsv1.DataService{}
	e.Must(suite.API.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, ds))
	return ds.Spec
}

// A bad change is rolled back to the last spec that was ready, including its ConfigMaps. Fields about the present state, such as paused, do
// not change.
func TestRollback(t *testing.T) {
	e := newEditor(t)
	op := e.Start()
	e.CreateReady(harness.Small(fields{"auth": fields{"config": fields{"level": "info"}}}))
	e.ChangeReady(name, fields{"mysql": fields{"storage": fields{"size": "80Gi"}}})
	e.ChangeReady(name, fields{"proxy": fields{"replica": 2}})
	generation := e.Change(name, fields{"auth": fields{"image": "registry.example/auth:does-not-exist", "config": fields{"level": "debug"}}, "web": nil, "proxy": fields{"replica": 3}})
	e.Until("the change is seen", func() error { return harness.Observed(e.DataService(name), generation) })
	e.says(exitYes, []string{"4     ", "Current", "3     ", "Good", "auth.config.level, auth.image, proxy.replica, web", "proxy.replica", "mysql.storage.size"}, "history", name)
	e.says(exitYes, []string{`"number": 4`, `"state": "Good"`}, "history", name, "-o", "json")

	e.says(exitError, []string{"revision 3 (Good)", "Deployment auth  update", "+ web", "stays as it is now: proxy.replica", "Go back to revision 3? [y/N]", "nothing was changed"}, "rollback", name)
	e.says(exitYes, []string{"revision 1"}, "rollback", name, "--to", "1", "--dry-run")
	assert.Assert(t, e.spec().Web == nil, "nothing was asked for")
	e.says(exitError, []string{"has no revision 17"}, "rollback", name, "--to", "17", "--yes")

	e.says(exitYes, []string{"goes back to revision 3", "Your file still has the later spec"}, "rollback", name, "--yes")
	e.Ready(name)
	spec := e.spec()
	assert.Assert(t, spec.Web != nil)
	assert.Equal(t, *spec.Proxy.Replica, int32(3))
	config := &corev1.ConfigMap{}
	e.Must(suite.API.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "auth"}, config))
	assert.Assert(t, strings.Contains(strings.Join(contents(config.Data), ""), "info"))

	e.says(exitYes, []string{"goes back to revision 1"}, "rollback", name, "--to", "1", "--yes")
	e.Ready(name)
	assert.Equal(t, e.spec().MySQL.Storage.Size.String(), "80Gi", "storage does not shrink")
	op.Stop()
}

func contents(data map[string]string) (found []string) {
	for _, value := range data {
		found = append(found, value)
	}
	return found
}

// If a tool manages the DataService from a repository, the command prints the change for the repository and writes nothing.
func TestRollbackUnderGitOps(t *testing.T) {
	e := newEditor(t)
	e.Start()
	e.CreateReady(harness.Small(fields{"auth": fields{"annotations": fields{"team": "a\x7fb"}}})) // in YAML, this character must be escaped
	e.ChangeReady(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	e.Must(suite.API.Patch(e.Ctx, e.DataService(name).DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "data:d3os-product.com.d3os/DataService:a/b"}}}`))))
	e.says(exitYes, []string{"Argo CD application data manages this DataService, so nothing was written", "kind: DataService", "argocd app set data --sync-policy none"},
		"rollback", name, "--yes")
	assert.Equal(t, e.spec().Auth.Image, "registry.example/auth:v2")
	e.says(exitYes, []string{"goes back to revision 1", "warning: Argo CD application data"}, "rollback", name, "--yes", "--even-if-managed")
	assert.Assert(t, e.spec().Auth.Image != "registry.example/auth:v2")
}

func TestNoHistoryYet(t *testing.T) {
	e := newEnv(t, "view")
	e.Create(harness.Small()) // no operator runs
	e.says(exitYes, []string{"has no history yet"}, "history", name)
	e.says(exitError, []string{"has no history yet"}, "rollback", name, "--yes")
}
