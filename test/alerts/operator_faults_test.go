// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build alerts

package alerts_test

import (
	"fmt"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// operatorFaults make the alerts about the operator fire.
var operatorFaults = map[string]func(w *world){
	"D3OSOperatorDown": func(w *world) {
		r := w.start(programs.older, nil)
		w.end(r, func() { _ = r.Signal(syscall.SIGKILL) })
	},
	"D3OSOperatorWithoutLeader": func(w *world) { // somebody holds the Lease who does nothing
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
	"D3OSOperatorRolloutStopped": func(w *world) { // a version whose Eureka does not come up
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
	"D3OSOperatorQueueGrows": func(w *world) { // an API server that is slow, and a fleet that comes at once
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
