// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/etcd"
	mysqlcluster "d3os.com/d3os-operator/internal/mysql/cluster"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/cluster"
)

// pod is a pod of an object: its labels, its owner and its component.
type pod struct {
	owner, component string
	labels           map[string]string
}

// selection is one selector of an object.
type selection struct {
	pod
	where    string
	selector labels.Selector
	// isPeer reports whether the selector selects clients of the object's pods (a NetworkPolicy) instead of the object's own pods.
	isPeer bool
}

// A platform, a RedisCluster, an EtcdCluster and a MySQLCluster have the same name in the same namespace. Their objects select only their
// own pods, for any names of the user's services and cron jobs. No selector matches pods of another operator that have kubebuilder's
// labels. The test also covers the selectors of this operator's installation.
func TestSelectorsMeetNoOtherPods(t *testing.T) {
	t.Parallel()
	first := rendered(t, nil)
	names := map[string]bool{
		"controller-manager": true, "redis": true, "etcd": true, "redis-backup": true, "etcd-backup": true, "mysql-backup": true, "mysql-archive": true,
	}
	for _, o := range first {
		for _, p := range podsOf(t, o) {
			for _, value := range p.labels {
				names[value] = true
				names[strings.ReplaceAll(value, ".", "-")] = true
			}
		}
	}
	builtIn := []string{"mysql", "uuc", "eureka", "api-manager", "auth", "ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web", "proxy", "web", "platform", "mysql-dataservice"}
	hostile := slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool {
		return slices.Contains(builtIn, name) || len(name) > 50 || !isServiceName(name)
	})
	ours := installed(t)
	objects := append(rendered(t, hostile), ours...)
	pods := []pod{
		{owner: "another operator", labels: map[string]string{"control-plane": "controller-manager"}},
		{owner: "another operator", labels: map[string]string{"control-plane": "controller-manager", "app.kubernetes.io/name": "other", "app.kubernetes.io/managed-by": "kustomize"}},
	}
	var selections []selection
	for _, o := range objects {
		pods = append(pods, podsOf(t, o)...)
		selections = append(selections, selectionsOf(t, o)...)
	}
	assert.Assert(t, len(pods) > len(hostile) && len(selections) > len(hostile))
	for _, s := range selections {
		own := 0
		for _, p := range pods {
			isOwn := p.owner == s.owner && (p.component == s.component || s.isPeer)
			switch matches := s.selector.Matches(labels.Set(p.labels)); {
			case matches && isOwn:
				own++
			case matches:
				t.Errorf("%s of %s selects pods of %s of %s: %s, %v", s.where, s.component, p.component, p.owner, s.selector, p.labels)
			}
		}
		if s.owner == operator && own == 0 {
			t.Errorf("%s selects no pod of the operator: %s", s.where, s.selector)
		}
	}
	assert.Assert(t, len(ours) >= 7, "%d objects install the operator", len(ours))
}

// operator is the owner of the objects that install the operator. No resource owns these objects.
const operator = ""

// installed returns the objects that install the operator and have selectors: the objects below config, the objects of the bundle, and the
// Deployment of the ClusterServiceVersion. installed removes the selector of each Deployment: the selector cannot change, and Kubernetes counts
// only pods that the Deployment owns.
func installed(t *testing.T) (found []*unstructured.Unstructured) {
	t.Helper()
	for _, pattern := range []string{"config/manager/*.yaml", "config/prometheus/*.yaml", "config/default/*.yaml", "config/olmv1/*.yaml", "bundle/manifests/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(cluster.Root(), pattern))
		assert.NilError(t, err)
		assert.Assert(t, len(files) > 0, pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			assert.NilError(t, err)
			for _, document := range strings.Split("\n"+string(data), "\n---\n") {
				o := &unstructured.Unstructured{}
				assert.NilError(t, yaml.Unmarshal([]byte(document), &o.Object), file)
				deployments, _, _ := unstructured.NestedSlice(o.Object, "spec", "install", "spec", "deployments")
				for _, d := range deployments {
					deployment := &unstructured.Unstructured{Object: d.(map[string]any)}
					deployment.SetKind("Deployment")
					found = append(found, deployment)
				}
				if slices.Contains([]string{"Deployment", "Service", "ServiceMonitor", "PodMonitor", "PodDisruptionBudget", "NetworkPolicy"}, o.GetKind()) {
					found = append(found, o)
				}
			}
		}
	}
	for _, o := range found {
		o.SetLabels(nil) // the labels name no component of a resource
		if o.GetKind() == "Deployment" {
			unstructured.RemoveNestedField(o.Object, "spec", "selector")
		}
	}
	return found
}

func isServiceName(name string) bool {
	return name != "" && name[0] >= 'a' && name[0] <= 'z' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !strings.HasSuffix(name, "-")
}

// rendered returns the objects of a platform with services and cron jobs of these names, and of clusters with the platform's name.
func rendered(t *testing.T, names []string) []*unstructured.Unstructured {
	t.Helper()
	backup := map[string]any{"destination": map[string]any{"claim": map[string]any{"name": "store"}}, "schedule": "@daily"}
	mysqlBackup := maps.Clone(backup)
	mysqlBackup["pointInTime"], mysqlBackup["verify"] = map[string]any{}, map[string]any{"schedule": "@daily"}
	policy := map[string]any{"enabled": true}
	service := map[string]any{"image": "a", "port": 80, "replica": 3, "networkPolicy": map[string]any{"from": []any{"auth"}}}
	var services []any
	for i, name := range names {
		one := maps.Clone(service)
		one["name"], one["kind"] = name, []string{"Deployment", "StatefulSet", "DaemonSet"}[i%3]
		delete(one, "networkPolicy")
		services = append(services, one)
	}
	renderer, err := render.New(plan.KubeVersion)
	assert.NilError(t, err)
	ds := &dsv1.DataService{}
	into(t, map[string]any{"metadata": map[string]any{"name": "platform", "namespace": "data", "uid": "1"}, "spec": map[string]any{
		"networkPolicy": policy, "additionalServices": services, "mysql": map[string]any{"backup": mysqlBackup}, "eureka": map[string]any{"replica": 2},
		"auth": map[string]any{}, "uuc": map[string]any{"thirdParty": map[string]any{"url": "http://a"}},
	}}, ds)
	dsv1.SetDefaults(ds)
	none := reconcile.Inputs{
		Lookup:     func(string, string) (*unstructured.Unstructured, error) { return nil, nil },
		LookupLive: func(string, string) (*unstructured.Unstructured, error) { return nil, nil },
		List:       func(string) ([]*unstructured.Unstructured, error) { return nil, nil },
	}
	objects, err := plan.Planned(ds, plan.NewPlanner(renderer, nil), plan.NewPreview(), none.Lookup)
	assert.NilError(t, err)
	cluster := func(more map[string]any) map[string]any {
		spec := map[string]any{"networkPolicy": policy, "backup": backup}
		maps.Copy(spec, more)
		return map[string]any{"metadata": map[string]any{"name": "platform", "namespace": "data", "uid": "2"}, "spec": spec}
	}
	images := "example.com/operator:v1"
	rc, ec, mysql := &redisv1.RedisCluster{}, &etcdv1.EtcdCluster{}, &mysqlv1.MySQLCluster{}
	into(t, cluster(map[string]any{"replicas": 6, "storage": map[string]any{"size": "1Gi"}}), rc)
	into(t, cluster(map[string]any{"replicas": 3, "storage": "1Gi"}), ec)
	ofRedis, err := redis.New(renderer, redis.Images{Agent: images}, nil, nil, nil, 0).Plan(rc, none, &redis.Observation{})
	assert.NilError(t, err)
	ofEtcd, err := etcd.New(renderer, etcd.Images{Agent: images}, nil, nil, nil, 0).Plan(ec, none, &etcd.Observation{})
	assert.NilError(t, err)
	into(t, map[string]any{"metadata": map[string]any{"name": "platform", "namespace": "data", "uid": "3"}, "spec": map[string]any{"networkPolicy": policy, "replicas": 3}}, mysql)
	ofMySQL, err := mysqlcluster.New(renderer, mysqlcluster.Images{Agent: images}, mysqlcluster.Options{}, nil, nil).Plan(mysql, none, &mysqlcluster.Observation{})
	assert.NilError(t, err)
	for _, part := range slices.Concat(ofRedis.Parts, ofEtcd.Parts, ofMySQL.Parts) {
		objects = append(objects, part.Objects...)
	}
	return objects
}

// of returns the owner and the component of an object.
func of(o *unstructured.Unstructured) pod {
	return pod{owner: object.OwnerKey(o), component: o.GetLabels()[object.LabelComponent] + "/" + o.GetLabels()[object.LabelBackup]}
}

// podsOf returns the pods that an object creates.
func podsOf(t *testing.T, o *unstructured.Unstructured) []pod {
	t.Helper()
	path := []string{"spec", "template", "metadata", "labels"}
	if o.GetKind() == "CronJob" {
		path = append([]string{"spec", "jobTemplate"}, path...)
	}
	found, has, err := unstructured.NestedStringMap(o.Object, path...)
	assert.NilError(t, err)
	if !has {
		return nil
	}
	p := of(o)
	p.labels = found
	return []pod{p}
}

// selectionsOf returns all selectors of an object.
func selectionsOf(t *testing.T, o *unstructured.Unstructured) (found []selection) {
	t.Helper()
	add := func(value any, isPeer bool, path string) {
		one := &metav1.LabelSelector{}
		data, err := json.Marshal(value)
		assert.NilError(t, err)
		assert.NilError(t, json.Unmarshal(data, one))
		selector, err := metav1.LabelSelectorAsSelector(one)
		assert.NilError(t, err)
		found = append(found, selection{of(o), fmt.Sprintf("%s %s%s", o.GetKind(), o.GetName(), path), selector, isPeer})
	}
	if o.GetKind() == "Service" {
		if selector, has, _ := unstructured.NestedMap(o.Object, "spec", "selector"); has {
			add(map[string]any{"matchLabels": selector}, false, ".spec.selector")
		}
		return found
	}
	var walk func(value any, path string)
	walk = func(value any, path string) {
		switch x := value.(type) {
		case []any:
			for i := range x {
				walk(x[i], fmt.Sprint(path, "[", i, "]"))
			}
		case map[string]any:
			for key, below := range x {
				if key == "podAffinity" { // it may select pods of any owner that mount the same backup store
					continue
				}
				peer := strings.Contains(path, ".ingress[")
				if _, elsewhere := x["namespaceSelector"]; slices.Contains([]string{"selector", "podSelector", "labelSelector"}, key) && !elsewhere && !strings.Contains(path, "volumeClaimTemplates") {
					add(below, peer, path+"."+key)
					continue
				}
				walk(below, path+"."+key)
			}
		}
	}
	walk(o.Object["spec"], ".spec")
	return found
}
