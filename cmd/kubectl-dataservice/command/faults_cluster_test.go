// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
	"d3os.com/d3os-operator/test/why"
)

// awaitPolicies waits until the API server enforces the created policies. The API server starts to enforce policies in the order of their
// creation, so awaitPolicies creates one more policy and tests it.
func (s *scene) awaitPolicies() {
	var probe struct{ Objects []harness.Fields }
	s.Must(yaml.Unmarshal([]byte(`objects:
- {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: probe-NAMESPACE}, spec: {validations: [{expression: "false"}],
    matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps], resourceNames: [probe]}]}}}
- {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: probe-NAMESPACE}, spec: {policyName: probe-NAMESPACE,
    validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}}}`), &probe))
	for _, o := range probe.Objects {
		s.create(o)
	}
	s.Until("policies are enforced", func() error {
		err := suite.API.Create(s.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "probe"}}, client.DryRunAll)
		return stage.Unless(err != nil && strings.Contains(err.Error(), "probe-"+s.Namespace), fmt.Sprint(err))
	})
}

// awaitMutations waits until the API server applies the created mutating policies.
func (s *scene) awaitMutations() {
	var probe struct{ Objects []harness.Fields }
	s.Must(yaml.Unmarshal([]byte(`objects:
- {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: probe-NAMESPACE}, spec: {failurePolicy: Fail, reinvocationPolicy: Never,
    mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{data: {'done': 'yes'}}"}}],
    matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps], resourceNames: [probe]}]}}}
- {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: probe-NAMESPACE}, spec: {policyName: probe-NAMESPACE,
    matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}}}`), &probe))
	for _, o := range probe.Objects {
		s.create(o)
	}
	s.Until("policies change objects", func() error {
		tried := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "probe"}}
		if err := suite.API.Create(s.Ctx, tried, client.DryRunAll); err != nil {
			return err
		}
		return stage.Unless(tried.Data["done"] == "yes", "they do not")
	})
}

// report serves the used space of a volume over HTTP, as the container d3os-volume does, and adds this container and its address to the
// pod's status.
func (s *scene) report(status harness.Fields, use *why.Volume) {
	var listener net.Listener
	err := errors.New("no address is free")
	var ip string
	for last := 1; err != nil && last < 255; last++ {
		ip = fmt.Sprintf("127.%d.252.%d", 200+os.Getpid()%50, last)
		listener, err = (&net.ListenConfig{}).Listen(s.Ctx, "tcp", net.JoinHostPort(ip, contract.VolumePort))
	}
	s.Must(err)
	volume := contract.Volume{Used: use.Used.Value(), Capacity: use.Capacity.Value()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+contract.PathState, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(volume) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	s.Cleanup(func() { _ = server.Close() })
	containers, _ := status["containerStatuses"].([]any)
	status["containerStatuses"] = append(slices.Clone(containers), harness.Fields{
		"name": "d3os-volume", "image": "a", "imageID": "", "restartCount": 0, "ready": true, "state": harness.Fields{"running": harness.Fields{"startedAt": "NOW"}},
	})
	status["podIP"], status["podIPs"] = ip, []any{harness.Fields{"ip": ip}}
}

// lose deletes the PersistentVolume of a claim while a pod uses the volume.
func (s *scene) lose(claim string) {
	bound := &corev1.PersistentVolumeClaim{}
	s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: claim}, bound))
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: bound.Spec.VolumeName}}
	s.Must(suite.API.Delete(s.Ctx, volume)) // delete it first: a controller restores the finalizer of a volume that is not being deleted
	s.Must(client.IgnoreNotFound(suite.API.Patch(s.Ctx, volume, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
}

// keepNode adds a node and reports its status like a kubelet, until the context ends.
func keepNode(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: still, Labels: map[string]string{still: "yes"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: still, Effect: corev1.TaintEffectNoSchedule}}}}
	if err := client.IgnoreAlreadyExists(suite.API.Create(ctx, node)); err != nil {
		return err
	}
	room := `{"cpu":"100","memory":"100Gi","pods":"500"}`
	beat := func() error {
		patch := fmt.Sprintf(`{"status":{"capacity":%s,"allocatable":%s,"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q}]}}`,
			room, room, time.Now().UTC().Format(time.RFC3339))
		return suite.API.Status().Patch(context.WithoutCancel(ctx), node, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	if err := beat(); err != nil {
		return err
	}
	go func() {
		for range time.Tick(10 * time.Second) {
			_ = beat() // the next heartbeat may succeed
		}
	}()
	return nil
}
