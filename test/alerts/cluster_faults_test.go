// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build alerts

package alerts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/process"
)

func (w *world) etcd(namespace string, spec fields) {
	w.Helper()
	w.create("etcd.database.coreos.com/v1alpha1", "EtcdCluster", namespace, spec)
}

// clusterFaults returns the faults for the alerts that exist for every kind of cluster. set is the name of a
// StatefulSet of the cluster, and container is the name of its container.
func clusterFaults(kind, set, container string, paused fields, create func(w *world, namespace string, spec fields)) map[string]func(*world, string) {
	label := container + ".cluster"
	nothing := func(w *world, namespace string) { create(w, namespace, fields{}) }
	return map[string]func(*world, string){
		kind + "BackupFailing": func(w *world, namespace string) {
			w.ended(namespace, label, time.Now(), 22, `{"reason":"StoreFull","message":"the store is full"}`)
			create(w, namespace, daily(fields{}))
		},
		kind + "BackupMissing": func(w *world, namespace string) {
			w.ended(namespace, label, time.Now().Add(-48*time.Hour), 0, `{"ok":true,"id":"a"}`)
			create(w, namespace, daily(fields{}))
		},
		kind + "Stuck":       nothing, // no server runs in the pods
		kind + "NotObserved": nothing, // see refuseStatus
		kind + "Paused":      func(w *world, namespace string) { create(w, namespace, paused) },
		kind + "Contested": func(w *world, namespace string) {
			create(w, namespace, fields{})
			w.keepChanging("apps/v1", "StatefulSet", namespace, set, func(n int) string {
				return fmt.Sprintf("spec: {template: {spec: {containers: [{name: %s, image: 'registry.example/other:v%d'}]}}}", container, n)
			})
		},
	}
}

// etcdFaults are the faults for the other alerts about EtcdClusters.
var etcdFaults = map[string]func(w *world, namespace string){
	"EtcdClusterFailed": func(w *world, namespace string) { // the CRD accepts any field in a pod template; Kubernetes refuses this one
		w.etcd(namespace, fields{"podTemplate": fields{"spec": fields{"hostnames": "a"}}})
	},
	"EtcdClusterVolumeFilling": func(w *world, namespace string) {
		w.members(namespace, 3)
		w.fills(namespace, "data-"+name+"-1")
	},
	"EtcdClusterDegraded": func(w *world, namespace string) { // the node of one of three members stops
		w.stopNodeOf(w.members(namespace, 3), namespace, 1)
	},
	"EtcdClusterQuorumLost": func(w *world, namespace string) { // the node of the only member stops
		w.stopNodeOf(w.members(namespace, 1), namespace, 0)
	},
	"EtcdClusterDataInDanger": func(w *world, namespace string) { // the only volume is emptied
		pods := w.members(namespace, 1)
		w.must(pods.WipeVolume(w.Context(), "data-"+name+"-0"))
		w.must(pods.Kill(name+"-0", syscall.SIGKILL, "etcd"))
	},
	"EtcdClusterCertificateExpiring": func(w *world, namespace string) { // nothing renews the certificates
		now := time.Now()
		authority, err := database.NewAuthority("clients", now)
		w.must(err)
		for _, secret := range []string{"server", "peer", "client"} {
			pair, err := authority.Issue(database.Leaf{Name: secret, Client: true}, now.Add(24*time.Hour-database.LeafLife))
			w.must(err)
			w.must(suite.API.Create(w.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}, Data: map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": authority.Cert},
			}))
		}
		w.etcd(namespace, fields{"tls": fields{"mode": "Secrets", "serverSecret": "server", "peerSecret": "peer", "clientSecret": "client"}})
	},
}

// members runs an etcd cluster with real members, and waits until all vote.
func (w *world) members(namespace string, n int) *emulator.Emulator {
	w.Helper()
	pods, err := emulator.Start(context.WithoutCancel(w.Context()), suite.Config, emulator.Options{
		Namespace: namespace, Nodes: n, Names: true,
		Images: map[string]emulator.Image{
			"gcr.io/etcd-development/etcd": {Executables: map[string]string{"etcd": filepath.Join(os.Getenv("TOOLS"), "etcd")}},
			"example/agent":                {Executables: map[string]string{"/agent": programs.agent}},
		},
	})
	w.must(err)
	w.Cleanup(func() { w.must(pods.Stop()) })
	w.etcd(namespace, fields{"replicas": n})
	w.becomes("etcdcluster", namespace, "Running")
	return pods
}

// stopNodeOf stops the node of a member.
func (w *world) stopNodeOf(pods *emulator.Emulator, namespace string, ordinal int) {
	w.Helper()
	pod := &corev1.Pod{}
	w.must(suite.API.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, ordinal)}, pod))
	w.must(pods.StopNode(w.Context(), pod.Spec.NodeName))
}

func (w *world) mysql(namespace string, spec fields) {
	w.Helper()
	small := fields{"image": "docker.io/library/mysql:9.7.4", "config": fields{
		"innodb_buffer_pool_size": "16M", "innodb_redo_log_capacity": "8M", "performance_schema_max_table_instances": "200", "max_connections": "60",
	}}
	harness.Merge(small, spec)
	w.create("d3os-product.com.d3os/v1alpha1", "MySQLCluster", namespace, small)
}

// mysqlFaults are the faults for the other alerts about MySQLClusters.
var mysqlFaults = map[string]func(w *world, namespace string){
	"MySQLClusterFailed": func(w *world, namespace string) { // a field that pods do not have
		w.mysql(namespace, fields{"podTemplate": fields{"spec": fields{"nodeSelecter": fields{"a": "b"}}}})
	},
	"MySQLClusterVolumeFilling": func(w *world, namespace string) {
		w.mysqlMembers(namespace, 1)
		w.fills(namespace, "data-"+name+"-0")
	},
	"MySQLClusterDegraded": func(w *world, namespace string) { // the node of one of three members stops
		w.stopNodeOf(w.mysqlMembers(namespace, 3), namespace, 1)
	},
	"MySQLClusterUnavailable": func(w *world, namespace string) { // the node of the only member stops
		w.stopNodeOf(w.mysqlMembers(namespace, 1), namespace, 0)
	},
	"MySQLClusterWithoutCopy": func(w *world, namespace string) { // the node of the only replica stops
		w.stopNodeOf(w.mysqlMembers(namespace, 2), namespace, 1)
	},
	"MySQLClusterDataInDanger": func(w *world, namespace string) { // the only volume is emptied
		pods := w.mysqlMembers(namespace, 1)
		w.must(pods.WipeVolume(w.Context(), "data-"+name+"-0"))
		w.must(pods.Kill(name+"-0", syscall.SIGKILL, "mysql"))
	},
}

// mysqlMembers runs a MySQL database with real servers, and waits until it is healthy.
func (w *world) mysqlMembers(namespace string, n int) *emulator.Emulator {
	w.Helper()
	server, err := process.Program("MYSQL", "mysql", "mysqld")
	w.must(err)
	run, err := os.MkdirTemp("", "my-")
	w.must(err)
	w.Cleanup(func() { w.must(os.RemoveAll(run)) })
	pods, err := emulator.Start(context.WithoutCancel(w.Context()), suite.Config, emulator.Options{
		Namespace: namespace, Nodes: n, Names: true,
		Images: map[string]emulator.Image{
			"docker.io/library/mysql": emulator.MySQL(server, run), "example/agent": {Executables: map[string]string{"/agent": programs.agent}},
		},
	})
	w.must(err)
	w.Cleanup(func() { w.must(pods.Stop()) })
	w.mysql(namespace, fields{"replicas": n})
	w.becomes("mysqlcluster", namespace, "Running")
	return pods
}

// operatorFaults are the faults for the alerts about the operator.
var operatorFaults = map[string]func(w *world){
	"D3OSOperatorDown": func(w *world) {
		r := w.start(programs.older, nil)
		w.end(r, func() { _ = r.Signal(syscall.SIGKILL) })
	},
	"D3OSOperatorWithoutLeader": func(w *world) { // a holder of the Lease that does nothing
		namespace := w.namespace(nil)
		now := metav1.NewMicroTime(time.Now())
		w.must(suite.API.Create(w.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "d3os-operator.d3os-product.com.d3os"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("nobody"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now, RenewTime: &now},
		}))
		args := []string{"--leader-elect", "--leader-elect-namespace=" + namespace}
		w.start(programs.older, args)
		w.start(programs.older, args)
	},
	"D3OSOperatorMemoryNearLimit": func(w *world) { w.start(programs.older, []string{}, "GOMEMLIMIT=20MiB") },
	"D3OSOperatorRolloutStopped": func(w *world) { // a version whose Eureka does not become ready
		namespace := w.namespace(nil)
		for _, name := range []string{"a", "b"} {
			w.must(suite.API.Create(w.Context(), &unstructured.Unstructured{Object: fields{
				"apiVersion": "d3os-product.com.d3os/v1", "kind": "DataService", "metadata": fields{"name": name, "namespace": namespace},
				"spec": fields{"eureka": fields{"name": "eureka-" + name, "kind": "Deployment"}},
			}}))
		}
		args := []string{"--watch-namespaces=" + namespace, "--max-rollouts=1"}
		older := w.start(programs.older, args, "RELATED_IMAGE_EUREKA=registry.example/eureka:v1")
		w.until("both run", func() error { return w.has(`count(dataservice_phase{phase="Running"}) == 2`) })
		w.end(older, func() { _ = older.Signal(syscall.SIGTERM) })
		w.start(programs.newer, args, "RELATED_IMAGE_EUREKA=registry.example/does-not-exist:v1")
	},
	"D3OSOperatorVersions": func(w *world) {
		w.start(programs.older, nil)
		w.start(programs.newer, nil)
	},
	"D3OSOperatorSlow": func(w *world) {
		line, kubeconfig := w.line()
		namespace := w.namespace(nil)
		w.start(programs.older, []string{"--watch-namespaces=" + namespace}, "KUBECONFIG="+kubeconfig)
		line.Store(int64(3 * time.Second))
		w.service(namespace, service("registry.example/app:v1"))
	},
	"D3OSOperatorQueueGrows": func(w *world) { // an API server that is slow, and many resources at the same time
		line, kubeconfig := w.line()
		namespace := w.namespace(nil)
		w.start(programs.older, []string{"--watch-namespaces=" + namespace, "--max-concurrent-reconciles=1"}, "KUBECONFIG="+kubeconfig)
		line.Store(int64(time.Second))
		for i := range 130 {
			spec := service("registry.example/app:v1", fields{"name": fmt.Sprintf("app-%d", i)})
			w.must(suite.API.Create(w.Context(), &unstructured.Unstructured{Object: fields{
				"apiVersion": "d3os-product.com.d3os/v1", "kind": "DataService", "metadata": fields{"name": fmt.Sprintf("p-%d", i), "namespace": namespace}, "spec": spec,
			}}))
		}
	},
}
