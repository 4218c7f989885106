// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The operator has exactly the rights that it uses. The test compares the operator's roles with the API server's audit log of the whole
// life of a DataService with every kind: created, changed by hand, changed by its author, and removed piece by piece. make test runs
// TestSomeNamespaces instead, which fails if the API server refuses a request.
func TestRightsAreThoseUsed(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	inCluster := append(e.role("metrics_auth_role.yaml"), e.role("ingressclass_role.yaml")...)
	token := e.account("operator", inCluster...)
	inNamespace := append(e.role("role.yaml"), e.role("leader_election_role.yaml")...)
	e.grant(inNamespace, e.subject("operator"))
	metrics := freeAddress(t)
	op := e.Start(func(cfg *rest.Config, o *manager.Options) {
		as(cfg, token)
		cfg.Wrap(withoutStreams)
		elects(o, e.Namespace)
		o.MetricsBindAddress, o.MetricsSecure = metrics, true
	})
	e.liveThroughEverything()
	e.reportOfOtherKinds()
	reader := e.account("reader", e.role("metrics_reader_role.yaml")...)
	e.Until("metrics are served", func() error { // the authorizer reads new roles by a watch, so the first requests may fail
		code, body := fetch(t, "https://"+metrics+"/metrics", reader)
		return stage.Unless(code == http.StatusOK, body)
	})
	op.Stop()

	used, refused := e.used("operator")
	for _, kind := range []right{
		{group: dsv1.GroupVersion.Group, resource: "dataservices"},
		{group: redisv1.GroupVersion.Group, resource: "redisclusters"}, {group: etcdv1.GroupVersion.Group, resource: "etcdclusters"},
		{group: mysqlv1.GroupVersion.Group, resource: "mysqlclusters"},
		{group: backupv1.GroupVersion.Group, resource: "databackups"}, {group: backupv1.GroupVersion.Group, resource: "datarestores"},
	} {
		used[right{kind.group, kind.resource + "/finalizers", "update"}] = true // see TestOwnersNeedARight
		used[right{kind.group, kind.resource, "get"}] = true                    // used when the cache lags: test/chaos, dataservice-unseen
	}
	for _, verb := range []string{"create", "update", "patch", "delete"} { // used for spec.redis, spec.etcd and spec.mysql: test/rediscluster, test/etcdcluster, test/mysqlcluster
		used[right{redisv1.GroupVersion.Group, "redisclusters", verb}] = true
		used[right{etcdv1.GroupVersion.Group, "etcdclusters", verb}] = true
		used[right{mysqlv1.GroupVersion.Group, "mysqlclusters", verb}] = true
	}
	for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} { // used for spec.mongodb: TestMongoDB
		used[right{object.Foreign.Group, "mongodbcommunity", verb}] = true
		used[right{object.Route.Group, "httproutes", verb}] = true // used for httpRoute: TestHTTPRoute
	}
	for _, kind := range []string{"databackups", "datarestores"} { // used to record the UID before the first object is created: test/backup
		used[right{backupv1.GroupVersion.Group, kind, "patch"}] = true
	}
	used[right{"", "pods", "delete"}] = true      // used to replace a pod of Redis or etcd: test/rediscluster, test/etcdcluster
	used[right{"", "pods", "patch"}] = true       // used to give a ticket to a member of etcd or MySQL: test/etcdcluster, test/mysqlcluster
	used[right{"", "pods", "get"}] = true         // used before a step on a member: test/rediscluster, test/etcdcluster
	used[right{"batch", "jobs", "create"}] = true // used for a backup: test/backup
	used[right{"batch", "jobs", "delete"}] = true // used for a backup that a sidecar keeps from ending: test/backup
	used[right{"", "events", "list"}] = true      // used to report why the Job of a backup has no pod: test/backup
	// Kubernetes grants every account the right to review its own rights.
	delete(used, right{"authorization.k8s.io", "selfsubjectaccessreviews", "create"})
	granted := map[right]bool{}
	for _, rule := range append(inNamespace, inCluster...) {
		for _, r := range rightsOf(rule) {
			granted[r] = true
		}
	}
	e.equal("refused", refused, nil)
	e.equal("rights in config/rbac, against those used", texts(granted), texts(used))
}

// reportOfOtherKinds creates paused clusters, and a DataBackup and a DataRestore without a source, and waits for their statuses.
func (e *env) reportOfOtherKinds() {
	e.Helper()
	meta := metav1.ObjectMeta{Name: "other"}
	redis, etcd, mysql := &redisv1.RedisCluster{ObjectMeta: meta}, &etcdv1.EtcdCluster{ObjectMeta: meta}, &mysqlv1.MySQLCluster{ObjectMeta: meta}
	backup, restore := &backupv1.DataBackup{ObjectMeta: meta}, &backupv1.DataRestore{ObjectMeta: meta}
	e.CreateWith(redis, &redis.Spec, "{pause: true}")
	e.CreateWith(etcd, &etcd.Spec, "{paused: true}")
	e.CreateWith(mysql, &mysql.Spec, "{paused: true}")
	e.CreateWith(backup, &backup.Spec, "{of: {name: nobody}}")
	e.CreateWith(restore, &restore.Spec, "{of: {name: nobody}}")
	e.Until("they are reported on", func() error {
		for _, object := range []client.Object{redis, etcd, mysql, backup, restore} {
			e.Read(object)
		}
		return stage.Unless(redis.Status.ObservedGeneration == redis.Generation && etcd.Status.ObservedGeneration == etcd.Generation && mysql.Status.ObservedGeneration == mysql.Generation &&
			backup.Status.Reason == backupv1.ReasonSourceNotFound && restore.Status.Reason == backupv1.ReasonSourceNotFound, "not all are")
	})
}

// withoutStreams makes the API server refuse streamed lists, like older API servers. Then the operator lists and watches; with
// streamed lists, it only watches.
func withoutStreams(next http.RoundTripper) http.RoundTripper {
	return harness.Transport(func(r *http.Request) (*http.Response, error) {
		if query := r.URL.Query(); query.Has("sendInitialEvents") {
			query.Del("resourceVersionMatch") // the API server refuses sendInitialEvents without this parameter
			r = r.Clone(r.Context())
			r.URL.RawQuery = query.Encode()
		}
		return next.RoundTrip(r)
	})
}

// everyKind returns a DataService with objects of every kind.
func everyKind() *unstructured.Unstructured {
	return small(
		fields{"mysql": fields{"kind": "Deployment", "storage": fields{"size": "5Gi", "retention": "Delete"}}},
		fields{
			"networkPolicy":      fields{"enabled": true},
			"eureka":             fields{"kind": "StatefulSet"},
			"auth":               fields{"replica": 2, "disruptionBudget": fields{"maxUnavailable": 1}},
			"proxy":              fields{"autoscaling": fields{"min": 1, "max": 2, "cpu": 50}},
			"web":                fields{"ingress": fields{"host": "rights.example.com"}},
			"additionalServices": []any{fields{"name": "collector", "kind": "DaemonSet", "image": "registry.example/collector:v1", "port": 80}},
			"cronJobs":           []any{fields{"name": "report", "schedule": "0 0 1 1 *", "image": "registry.example/report:v1"}},
		})
}

// liveThroughEverything creates, edits and deletes a DataService with every kind of object.
func (e *env) liveThroughEverything() {
	e.Helper()
	name := e.CreateReady(everyKind())

	// The cache does not show an object that lost the operator's label, so the operator finds it by name. The second time, the operator's
	// event about the object exists already.
	for range 2 {
		e.edit(name, func(object client.Object) bool {
			object.GetLabels()[managedBy] = ""
			return true
		}, func(object client.Object) bool { return object.GetLabels()[managedBy] == "" })
	}
	e.edit(name, addMore, func(object client.Object) bool {
		if budget, ok := object.(*policyv1.PodDisruptionBudget); ok {
			return budget.Spec.MinAvailable != nil
		}
		text, err := json.Marshal(object)
		return err != nil || strings.Contains(string(text), `"name":"more"`) || strings.Contains(string(text), `"more":`)
	})

	e.ChangeReady(name, fields{"mysql": fields{"storage": fields{"size": "6Gi"}}})
	for i := range reconcile.Limit { // more specs than the history keeps
		generation := e.Change(name, fields{"web": fields{"labels": fields{"change": fmt.Sprint(i)}}})
		e.Until("the change is seen", func() error { return harness.Observed(e.DataService(name), generation) })
	}
	e.ChangeReady(name, fields{"mysql": fields{"kind": "StatefulSet"}, "eureka": fields{"kind": "Deployment"}})
	e.ChangeReady(name, fields{
		"networkPolicy": nil, "mysql": nil, "uuc": nil, "eureka": nil, "auth": nil, "proxy": nil, "web": nil, "cronJobs": nil,
		"additionalServices": []any{fields{"name": "last", "image": "registry.example/last:v1", "port": 80}},
	})
	e.Until("all else goes", func() error {
		for _, object := range e.owned(name) {
			if object.GetLabels()["app.kubernetes.io/name"] != "last" {
				return fmt.Errorf("%s is still there", harness.IDOf(object))
			}
		}
		return nil
	})
	e.remove(name)
}

// edit changes the objects of a DataService, and waits until all changes are reverted.
func (e *env) edit(name string, change, has func(client.Object) bool) {
	e.Helper()
	edited := map[string]string{} // object -> resource version after the edit
	for _, before := range e.owned(name) {
		after := before.DeepCopyObject().(client.Object)
		if change(after) {
			e.Must(api.Patch(e.Ctx, after, client.MergeFrom(before)))
			edited[harness.IDOf(after)] = after.GetResourceVersion()
		}
	}
	e.Until("it is as declared", func() error {
		for id, version := range edited {
			if now := e.Object(id); now == nil || now.GetResourceVersion() == version || has(now) {
				return fmt.Errorf("%s is not", id)
			}
		}
		return nil
	})
	e.Ready(name)
}

// addMore adds fields to an object. Only the plan may set these fields.
func addMore(object client.Object) bool {
	var pods *corev1.PodSpec
	switch o := object.(type) {
	case *corev1.ConfigMap:
		o.Data["more"] = "more"
		return true
	case *corev1.Secret:
		o.Data["more"] = []byte("more")
		return true
	case *corev1.Service:
		o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Name: "more", Port: 9999})
		return true
	case *policyv1.PodDisruptionBudget: // like kubectl edit: replaces one limit by the other
		o.Spec.MinAvailable, o.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1)), nil
		return true
	case *appsv1.Deployment:
		pods = &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		pods = &o.Spec.Template.Spec
	case *appsv1.DaemonSet:
		pods = &o.Spec.Template.Spec
	case *batchv1.CronJob:
		pods = &o.Spec.JobTemplate.Spec.Template.Spec
	default:
		return false
	}
	pods.Containers[0].Env = append(pods.Containers[0].Env, corev1.EnvVar{Name: "more", Value: "more"})
	return true
}

// If the API server restricts owners that block deletion, as on OpenShift, the operator needs one right that no request shows: to update
// the owner's finalizers.
func TestOwnersNeedARight(t *testing.T) {
	e := parallel(t)
	ds := e.Create(small(fields{"paused": true}))
	rules := e.role("role.yaml")
	without := slices.DeleteFunc(slices.Clone(rules), func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "dataservices/finalizers")
	})
	if len(without) != len(rules)-1 {
		t.Fatal("the operator's role has no rule for dataservices/finalizers")
	}
	e.Until("the DataService is seen", func() error { return stage.Unless(e.DataService(ds) != nil, "it is not") })
	try := func(account string, rules []rbacv1.PolicyRule) error {
		owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: account,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e.DataService(ds), dsv1.GroupVersion.WithKind(dsv1.Kind))},
		}}
		return e.client(account, rules...).Create(e.Ctx, owned)
	}
	e.Must(try("with", rules))
	if err := try("without", without); !apierrors.IsForbidden(err) {
		t.Errorf("an owner was set without that right: %v", err)
	}
}
