// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build alerts

package alerts_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
)

type fields = harness.Fields

const name = "platform" // the name of every resource in these tests

// service returns a spec with one service, merged with more fields of the service.
func service(image string, more ...fields) fields {
	one := fields{"name": "reports", "image": image, "port": 8080}
	for _, m := range more {
		harness.Merge(one, m)
	}
	return fields{"additionalServices": []any{one}}
}

// service creates a DataService, and does not wait until it is ready.
func (w *world) service(namespace string, spec fields) {
	w.Helper()
	w.create("d3os-product.com.d3os/v1", "DataService", namespace, spec)
}

func (w *world) redis(namespace string, spec fields) {
	w.Helper()
	six := fields{"replicas": 6}
	harness.Merge(six, spec)
	w.create("redis.middleware.hc.cn/v1alpha1", "RedisCluster", namespace, six)
}

func (w *world) create(version, kind, namespace string, spec fields) {
	w.Helper()
	w.must(suite.API.Create(w.Context(), &unstructured.Unstructured{Object: fields{
		"apiVersion": version, "kind": kind, "metadata": fields{"name": name, "namespace": namespace}, "spec": spec,
	}}))
}

// patch changes an object (JSON merge patch in YAML).
func (w *world) patch(ctx context.Context, version, kind, namespace, name, change string) error {
	text, err := yaml.YAMLToJSON([]byte(change))
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: fields{"apiVersion": version, "kind": kind, "metadata": fields{"name": name, "namespace": namespace}}}
	return suite.API.Patch(ctx, object, client.RawPatch("application/merge-patch+json", text))
}

// becomes waits until the metrics show that a resource is in a phase.
func (w *world) becomes(kind, namespace, phase string) {
	w.Helper()
	w.until("it is "+phase, func() error { return w.has(fmt.Sprintf(`%s_phase{namespace=%q, phase=%q}`, kind, namespace, phase)) })
}

// keepChanging changes an object again and again until the test ends, as another controller would.
func (w *world) keepChanging(version, kind, namespace, name string, change func(n int) string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = w.patch(ctx, version, kind, namespace, name, change(n)) // fails if the object was deleted
			}
		}
	}()
	w.Cleanup(func() { cancel(); <-done })
}

// allFaults returns the faults for the alerts about resources, by the name of the alert.
func allFaults() map[string]func(*world, string) {
	all := clusterFaults("RedisCluster", name+"-0", "redis", fields{"pause": true}, (*world).redis)
	maps.Copy(all, clusterFaults("EtcdCluster", name, "etcd", fields{"paused": true}, (*world).etcd))
	maps.Copy(all, clusterFaults("MySQLCluster", name, "mysql", fields{"paused": true}, (*world).mysql))
	for _, more := range []map[string]func(*world, string){resourceFaults, etcdFaults, mysqlFaults} {
		maps.Copy(all, more)
	}
	return all
}

// resourceFaults are the faults for the alerts about DataServices, and for some alerts about RedisClusters.
var resourceFaults = map[string]func(w *world, namespace string){
	"DataServiceFailed": func(w *world, namespace string) { // the spec names a component that does not exist
		w.service(namespace, service("registry.example/app:v1", fields{"dependsOn": []any{"nobody"}}))
	},
	"DataServiceDegraded": func(w *world, namespace string) {
		w.service(namespace, service("registry.example/does-not-exist:v1"))
	},
	"DataServiceDataInDanger": func(w *world, namespace string) { // a user deletes the claim of a running database
		w.service(namespace, fields{"mysql": fields{"name": "db"}})
		w.becomes("dataservice", namespace, "Running")
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-db-0"}}
		w.must(suite.API.Delete(w.Context(), claim))
	},
	"DataServiceStuck": func(w *world, namespace string) {
		w.service(namespace, service("registry.example/never-ready:v1"))
	},
	"DataServiceNotObserved": func(w *world, namespace string) { // see refuseStatus
		w.service(namespace, service("registry.example/app:v1"))
	},
	"DataServicePaused": func(w *world, namespace string) {
		spec := service("registry.example/app:v1")
		spec["paused"] = true
		w.service(namespace, spec)
	},
	"DataServiceContested": func(w *world, namespace string) { // another controller wants another image
		w.service(namespace, service("registry.example/app:v1"))
		w.keepChanging("apps/v1", "Deployment", namespace, "reports", func(n int) string {
			return fmt.Sprintf("spec: {template: {spec: {containers: [{name: reports, image: 'registry.example/other:v%d'}]}}}", n)
		})
	},
	"DataServiceBackupFailing": func(w *world, namespace string) {
		w.ended(namespace, "mysql", time.Now(), 22, `{"reason":"StoreFull","message":"the store is full"}`)
		w.service(namespace, backedUp(nil))
	},
	"DataServiceBackupMissing": func(w *world, namespace string) {
		w.ended(namespace, "mysql", time.Now().Add(-48*time.Hour), 0, `{"ok":true,"id":"a"}`)
		w.service(namespace, backedUp(nil))
	},
	"DataServiceBackupNotVerified": func(w *world, namespace string) {
		w.ended(namespace, "mysql", time.Now(), 0, `{"ok":true,"id":"a"}`)
		w.ended(namespace, "mysql-verify", time.Now().Add(-30*24*time.Hour), 0, `{"ok":true,"id":"a"}`)
		w.service(namespace, backedUp(fields{"verify": fields{"schedule": "@weekly"}}))
	},
	"DataServiceNotRecoverable": func(w *world, namespace string) { // a quota refuses the pod that archives the binary log
		w.must(suite.API.Create(w.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}))
		w.service(namespace, backedUp(fields{"pointInTime": fields{}}))
	},
	"DataServiceVolumeFilling": func(w *world, namespace string) {
		w.service(namespace, fields{"mysql": fields{"name": "db"}})
		w.fills(namespace, "data-db-0")
	},
	"DataServiceSwitchWaits": func(w *world, namespace string) { // no DataRestore has prepared the database
		w.service(namespace, fields{"mysql": fields{"name": "db"}})
		w.becomes("dataservice", namespace, "Running")
		w.must(w.patch(w.Context(), "d3os-product.com.d3os/v1", "DataService", namespace, name, "spec: {mysql: {name: restored}}"))
	},
	"DataServiceSwitchStuck": func(w *world, namespace string) { // the restored database does not start, and a service waits for it
		spec := service("registry.example/app:v1")
		spec["mysql"] = fields{"name": "db"}
		w.service(namespace, spec)
		w.becomes("dataservice", namespace, "Running")
		w.must(suite.API.Create(w.Context(), harness.RestoredClaim(namespace, name, "db", "restored")))
		w.must(w.patch(w.Context(), "d3os-product.com.d3os/v1", "DataService", namespace, name,
			"spec: {mysql: {name: restored, acceptLoss: 'everything since "+harness.RestoredTo+"', image: 'registry.example/never-ready:5.7'}}"))
	},
	"RedisClusterFailed": func(w *world, namespace string) {
		w.redis(namespace, fields{"version": "5.0.0"})
	},
	"RedisClusterVolumeFilling": func(w *world, namespace string) {
		w.redis(namespace, fields{})
		w.fills(namespace, "data-"+name+"-0-0")
	},
	"RedisClusterDataInDanger": loseSlots,
}

// daily returns a spec with daily backups, merged with more fields of the backups.
func daily(more fields) fields {
	backup := fields{"destination": fields{"claim": fields{"name": "backups"}}, "schedule": "@daily"}
	harness.Merge(backup, more)
	return fields{"backup": backup}
}

// backedUp returns a spec with a database that has daily backups, merged with more fields of the backups.
func backedUp(more fields) fields {
	mysql := daily(more)
	mysql["name"] = "db"
	return fields{"mysql": mysql}
}

// ended creates a terminated pod, like the pod of a backup's Job.
func (w *world) ended(namespace, label string, at time.Time, code int32, message string) {
	w.Helper()
	component, _, _ := strings.Cut(label, "-")
	of := map[string]schema.GroupVersionKind{
		"mysql": dsv1.GroupVersion.WithKind("DataService"), "etcd.cluster": etcdv1.GroupVersion.WithKind("EtcdCluster"), "redis.cluster": redisv1.GroupVersion.WithKind("RedisCluster"),
		"mysql.cluster": mysqlv1.GroupVersion.WithKind("MySQLCluster"),
	}[component]
	labels := object.Owner{GroupVersionKind: of, Name: name}.Labels(component + ".backup")
	labels[object.LabelBackup] = label
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: label, Labels: labels}}
	pod.Spec = corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "backup", Image: "registry.example/mysql:v1"}}}
	w.until("the namespace has its service account", func() error { return suite.API.Create(w.Context(), pod) })
	end := &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.NewTime(at)}
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "backup", State: corev1.ContainerState{Terminated: end}}}
	w.must(suite.API.Status().Update(w.Context(), pod))
}

// loseSlots runs a Redis Cluster and deletes both volumes of a shard.
func loseSlots(w *world, namespace string) {
	server, err := redistest.Program("redis-server")
	w.must(err)
	cli, err := redistest.Program("redis-cli")
	w.must(err)
	pods, err := emulator.Start(context.WithoutCancel(w.Context()), suite.Config, emulator.Options{
		Namespace: namespace, Nodes: 3,
		Images: map[string]emulator.Image{"redis": {Executables: map[string]string{"redis-server": server, "redis-cli": cli}}},
	})
	w.must(err)
	w.Cleanup(func() { w.must(pods.Stop()) })
	w.redis(namespace, fields{"repository": "redis"})
	w.becomes("rediscluster", namespace, "Running")
	for _, pod := range []string{name + "-0-0", name + "-0-1"} {
		w.must(pods.WipeVolume(w.Context(), "data-"+pod))
		w.must(pods.Kill(pod, syscall.SIGKILL, "redis"))
	}
}

// refuseStatus makes the API server refuse writes of the status in namespaces with the label refuse=status.
func refuseStatus(w *world) {
	w.Helper()
	const text = `
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: refuse-status}
  spec:
    matchConstraints:
      resourceRules:
      - apiGroups: [d3os-product.com.d3os, redis.middleware.hc.cn, etcd.database.coreos.com]
        apiVersions: ["*"]
        operations: [UPDATE]
        resources: [dataservices/status, redisclusters/status, etcdclusters/status, mysqlclusters/status]
    validations: [{expression: "false", message: nobody writes a status here}]
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: refuse-status}
  spec:
    policyName: refuse-status
    validationActions: [Deny]
    matchResources: {namespaceSelector: {matchLabels: {refuse: status}}}
`
	var objects []unstructured.Unstructured
	var raw []map[string]any
	w.must(yaml.Unmarshal([]byte(text), &raw))
	for _, o := range raw {
		objects = append(objects, unstructured.Unstructured{Object: o})
	}
	for i := range objects {
		w.must(suite.API.Create(w.Context(), &objects[i]))
	}
	probe := w.namespace(map[string]string{"refuse": "status"})
	w.service(probe, fields{"paused": true})
	w.until("the policy holds", func() error {
		object := &unstructured.Unstructured{Object: fields{"apiVersion": "d3os-product.com.d3os/v1", "kind": "DataService", "metadata": fields{"name": name, "namespace": probe}}}
		if suite.API.Status().Patch(w.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"message":"x"}}`)), client.DryRunAll) == nil {
			return fmt.Errorf("the API server accepts a status")
		}
		return nil
	})
	w.must(suite.API.Delete(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: probe}}))
}
