// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
)

// argo acts like Argo CD with an Application that has the name of a resource and nothing in Git. It finds the
// Application's objects by the label app.kubernetes.io/instance, the default of Argo CD up to 2.x, among all kinds that
// the API server serves. It prunes no object with an owner, and treats Endpoints as owned by their Service.
type argo struct {
	*env

	kinds []schema.GroupVersionKind
}

func newArgo(e *env) *argo {
	e.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	e.Must(err)
	lists, err := d.ServerPreferredNamespacedResources()
	e.Must(err)
	a := &argo{env: e}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		e.Must(err)
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && r.Kind != "Event" && r.Kind != "Endpoints" {
				a.kinds = append(a.kinds, gv.WithKind(r.Kind))
			}
		}
	}
	return a
}

// tracked returns the objects that an Application with one of the names tracks.
func (a *argo) tracked(names ...string) []*unstructured.Unstructured {
	a.Helper()
	var found []*unstructured.Unstructured
	for _, gvk := range a.kinds {
		list := object.EmptyList(gvk)
		a.Must(api.List(a.Ctx, list, client.InNamespace(a.Namespace)))
		for i := range list.Items {
			o := &list.Items[i]
			if slices.Contains(names, o.GetLabels()["app.kubernetes.io/instance"]) && len(o.GetOwnerReferences()) == 0 {
				found = append(found, o)
			}
		}
	}
	return found
}

// prune deletes and returns the objects that Argo CD would delete in a sync with prune or after the deletion of the Application.
func (a *argo) prune(names ...string) (deleted []string) {
	a.Helper()
	for _, o := range a.tracked(names...) {
		options := strings.Split(o.GetAnnotations()["argocd.argoproj.io/sync-options"], ",")
		if slices.Contains(options, "Prune=false") && slices.Contains(options, "Delete=false") {
			continue
		}
		deleted = append(deleted, o.GetKind()+"/"+o.GetName())
		a.Must(client.IgnoreNotFound(api.Delete(a.Ctx, o)))
	}
	return deleted
}

// An Application with the name of a resource prunes no object with data or credentials, both while the resource
// exists and after its deletion. The next operator adds missing annotations to each such object of an earlier
// version in one write, and writes no other object. `make test` omits this test, because internal/apply tests the
// annotations.
func TestNothingThatHoldsDataIsPruned(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	withAgent := func(_ *rest.Config, o *manager.Options) { o.Images = map[string]string{"agent": "example/agent:v1"} }
	op := e.Start(withAgent)
	backups := fields{"backup": fields{"destination": fields{"claim": fields{"name": "store"}}}}
	platform := e.CreateReady(small(databaseOnly, fields{"mysql": backups}))
	names := []string{platform}
	for _, manifest := range []string{
		"apiVersion: redis.middleware.hc.cn/v1alpha1\nkind: RedisCluster\nmetadata: {name: cache}\nspec: {replicas: 6, storage: {size: 1Gi}}",
		"apiVersion: etcd.database.coreos.com/v1alpha1\nkind: EtcdCluster\nmetadata: {name: store}\nspec: {replicas: 3, storage: 1Gi, tls: {mode: Auto}}",
		"apiVersion: d3os-product.com.d3os/v1alpha1\nkind: DataBackup\nmetadata: {name: now}\nspec: {of: {kind: DataService, name: " + platform + ", component: mysql}}",
		"apiVersion: d3os-product.com.d3os/v1alpha1\nkind: DataRestore\nmetadata: {name: beside}\nspec: {of: {kind: DataService, name: " + platform +
			", component: mysql}, databaseName: restored}",
		"apiVersion: d3os-product.com.d3os/v1alpha1\nkind: DataRestore\nmetadata: {name: rehearsal}\nspec: {of: {kind: DataService, name: " + platform + ", component: mysql}}",
	} {
		o := &unstructured.Unstructured{}
		e.Must(yaml.Unmarshal([]byte(manifest), &o.Object))
		names = append(names, e.Create(o))
	}
	a := newArgo(e)
	var retained []*unstructured.Unstructured
	e.Until("all that is retained is there", func() error {
		retained = a.tracked(names...)
		for _, id := range []string{
			"Secret/" + credentials, "PersistentVolumeClaim/" + dataClaim, "ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/data-restored-0",
			"Secret/cache-credentials", "ConfigMap/cache-topology", "PersistentVolumeClaim/data-cache-2-1", "Secret/store-ca", "PersistentVolumeClaim/data-store-0",
		} {
			if !slices.ContainsFunc(retained, func(o *unstructured.Unstructured) bool { return o.GetKind()+"/"+o.GetName() == id }) {
				return fmt.Errorf("%s is not among %v", id, ids(retained))
			}
		}
		return nil
	})
	e.equal("pruned", a.prune(names...), nil)

	op.Stop() // the next lines restore the form that earlier versions wrote
	for _, o := range retained {
		e.Must(api.Patch(e.Ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"argocd.argoproj.io/sync-options":null,`+
			`"argocd.argoproj.io/compare-options":null,"kustomize.toolkit.fluxcd.io/prune":null}}}`))))
	}
	op = e.Start(withAgent)
	e.Until("all are annotated again", func() error {
		for _, o := range a.tracked(names...) {
			if object.LacksNoPrune(o) {
				return fmt.Errorf("%s %s has %v", o.GetKind(), o.GetName(), o.GetAnnotations())
			}
		}
		return nil
	})
	e.equal("written", harness.Objects(op.Since(0, func(r harness.Sent) bool { return r.WritesObject() && r.Name != platform })), ids(retained))

	op.Stop()
	for _, manifest := range e.resources() {
		e.Must(client.IgnoreNotFound(api.Delete(e.Ctx, manifest, client.PropagationPolicy(metav1.DeletePropagationBackground))))
	}
	e.Until("what is owned goes", func() error {
		return saying(harness.Difference(ids(a.tracked(names...)), ids(retained)))
	})
	e.equal("pruned", a.prune(names...), nil)
}

func ids(objects []*unstructured.Unstructured) []string {
	var found []string
	for _, o := range objects {
		found = append(found, o.GetKind()+"/"+o.GetName())
	}
	slices.Sort(found)
	return found
}

// resources returns all of the operator's resources in the namespace.
func (e *env) resources() []client.Object {
	e.Helper()
	var found []client.Object
	for _, kind := range []schema.GroupVersionKind{
		{Group: "d3os-product.com.d3os", Version: "v1", Kind: "DataService"}, {Group: "redis.middleware.hc.cn", Version: "v1alpha1", Kind: "RedisCluster"},
		{Group: "etcd.database.coreos.com", Version: "v1alpha1", Kind: "EtcdCluster"}, {Group: "d3os-product.com.d3os", Version: "v1alpha1", Kind: "DataBackup"},
		{Group: "d3os-product.com.d3os", Version: "v1alpha1", Kind: "DataRestore"},
	} {
		list := object.EmptyList(kind)
		e.Must(api.List(e.Ctx, list, client.InNamespace(e.Namespace)))
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}
	return found
}
