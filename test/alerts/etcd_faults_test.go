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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/certs"
	"d3os.com/d3os-operator/test/harness/emulator"
)

func (w *world) etcd(namespace string, spec fields) {
	w.Helper()
	w.create("etcd.database.coreos.com/v1alpha1", "EtcdCluster", namespace, spec)
}

// etcdFaults make the alerts about EtcdClusters fire.
var etcdFaults = map[string]func(w *world, namespace string){
	"EtcdClusterFailed": func(w *world, namespace string) {
		w.etcd(namespace, fields{"version": "3.3.0"})
	},
	"EtcdClusterBackupFailing": func(w *world, namespace string) {
		w.ended(namespace, "etcd.cluster", time.Now(), 22, `{"reason":"StoreFull","message":"the store is full"}`)
		w.etcd(namespace, daily(fields{}))
	},
	"EtcdClusterBackupMissing": func(w *world, namespace string) {
		w.ended(namespace, "etcd.cluster", time.Now().Add(-48*time.Hour), 0, `{"ok":true,"id":"a"}`)
		w.etcd(namespace, daily(fields{}))
	},
	"EtcdClusterStuck": func(w *world, namespace string) { // pods without an etcd
		w.etcd(namespace, fields{})
	},
	"EtcdClusterNotObserved": func(w *world, namespace string) { // see refuseStatus
		w.etcd(namespace, fields{})
	},
	"EtcdClusterPaused": func(w *world, namespace string) {
		w.etcd(namespace, fields{"paused": true})
	},
	"EtcdClusterContested": func(w *world, namespace string) {
		w.etcd(namespace, fields{})
		w.keepChanging("apps/v1", "StatefulSet", namespace, name, func(n int) string {
			return fmt.Sprintf("spec: {template: {spec: {containers: [{name: etcd, image: 'registry.example/other:v%d'}]}}}", n)
		})
	},
	"EtcdClusterDegraded": func(w *world, namespace string) { // the node of one member of three stops
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
	"EtcdClusterCertificateExpiring": func(w *world, namespace string) { // what should renew certificates does not
		now := time.Now()
		authority, err := certs.NewAuthority("clients", now)
		w.must(err)
		for _, secret := range []string{"server", "peer", "client"} {
			pair, err := authority.Issue(certs.Leaf{Name: secret, Client: true}, now.Add(24*time.Hour-certs.LeafLife))
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
