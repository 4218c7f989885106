// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/cluster"
)

// kubebuilder contains the labels that kubebuilder gives to the pods, Services and monitors of every operator.
var kubebuilder = labels.Set{"control-plane": "controller-manager", "app.kubernetes.io/managed-by": "kustomize"}

// From other namespaces, the NetworkPolicy of a cluster admits only the operator's pods. It selects them by the name of their namespace,
// and by a label that no other operator's pods have.
func TestNetworkPoliciesAdmitTheOperatorAlone(t *testing.T) {
	t.Parallel()
	own := labels.Set(operatorPods(t, filepath.Join(cluster.Root(), "config/manager/manager.yaml")).Labels)
	for chart, rules := range clusterRules(t) {
		admitted := 0
		for _, rule := range rules {
			for _, peer := range rule.From {
				assert.Check(t, !admits(t, peer, "operators", kubebuilder), "%s admits another operator", chart)
				assert.Check(t, !admits(t, peer, "elsewhere", own), "%s admits any namespace", chart)
				if admits(t, peer, "operators", own) {
					admitted++
				}
			}
		}
		assert.Equal(t, admitted, 1, chart)
	}
}

// clusterRules returns the ingress rules of the NetworkPolicies of each kind of cluster, for an operator in the namespace "operators".
func clusterRules(t *testing.T) map[string][]networkingv1.NetworkPolicyIngressRule {
	t.Helper()
	renderer, err := newRenderer()
	assert.NilError(t, err)
	found := map[string][]networkingv1.NetworkPolicyIngressRule{}
	for _, chart := range []string{"rediscluster", "etcdcluster", "mysqlcluster"} {
		v := map[string]any{"agentImage": "agent", "networkPolicy": map[string]any{"enabled": true, "allowFrom": []any{}}, "operatorNamespace": "operators"}
		rendered, err := renderer.Render(render.Release{Name: "cache", Namespace: "data"}, []render.Part{{Name: "part", Chart: chart, Values: v}})
		assert.NilError(t, err)
		for _, obj := range rendered[0] {
			if obj.GetKind() != "NetworkPolicy" {
				continue
			}
			policy := &networkingv1.NetworkPolicy{}
			convert(t, obj.Object, policy)
			found[chart] = append(found[chart], policy.Spec.Ingress...)
		}
	}
	return found
}

// The NetworkPolicy of config/network-policy selects the operator's pods. It admits only connections to the port of their metrics. It
// permits connections to every port on which the NetworkPolicy of a cluster admits the operator.
func TestPolicyOfTheOperatorLetsItWork(t *testing.T) {
	t.Parallel()
	pods := operatorPods(t, filepath.Join(cluster.Root(), "config/manager/manager.yaml"))
	data, err := os.ReadFile(filepath.Join(cluster.Root(), "config/network-policy/operator.yaml"))
	assert.NilError(t, err)
	var own networkingv1.NetworkPolicy
	assert.NilError(t, yaml.UnmarshalStrict(data, &own))
	selector, err := metav1.LabelSelectorAsSelector(&own.Spec.PodSelector)
	assert.NilError(t, err)
	assert.Assert(t, !selector.Empty() && selector.Matches(labels.Set(pods.Labels)))
	assert.Equal(t, len(own.Spec.PolicyTypes), 2)

	var metrics int32
	for _, port := range pods.Spec.Containers[0].Ports {
		if port.Name == "metrics" {
			metrics = port.ContainerPort
		}
	}
	assert.Equal(t, len(own.Spec.Ingress), 1)
	assert.Equal(t, len(own.Spec.Ingress[0].Ports), 1)
	assert.Equal(t, own.Spec.Ingress[0].Ports[0].Port.IntVal, metrics)

	out := map[int32]bool{}
	for _, rule := range own.Spec.Egress {
		for _, port := range rule.Ports {
			out[port.Port.IntVal] = true
		}
	}
	for chart, rules := range clusterRules(t) {
		for _, rule := range rules {
			if !slices.ContainsFunc(rule.From, func(peer networkingv1.NetworkPolicyPeer) bool { return admits(t, peer, "operators", pods.Labels) }) {
				continue
			}
			assert.Assert(t, len(rule.Ports) > 0, chart)
			for _, port := range rule.Ports {
				assert.Check(t, out[port.Port.IntVal], "%s: port %d", chart, port.Port.IntVal)
			}
		}
	}
}

// admits reports whether a peer of a NetworkPolicy in the namespace "data" admits pods with these labels in another namespace.
func admits(t *testing.T, peer networkingv1.NetworkPolicyPeer, namespace string, pod labels.Set) bool {
	t.Helper()
	if peer.NamespaceSelector == nil {
		return false
	}
	there, err := metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
	assert.NilError(t, err)
	pods, err := metav1.LabelSelectorAsSelector(peer.PodSelector)
	assert.NilError(t, err)
	return there.Matches(labels.Set{"kubernetes.io/metadata.name": namespace}) && (peer.PodSelector == nil || pods.Matches(pod))
}

func convert(t *testing.T, from map[string]any, to any) {
	t.Helper()
	assert.NilError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(from, to))
}

// Each container of databases, their backups and their checks has requests, and limits of at most ten times the requests, unless a resource
// sets others. So a ResourceQuota on limits and a LimitRange with a ratio of ten accept the pods unchanged.
func TestQuotasAcceptThePodsOfDatabases(t *testing.T) {
	t.Parallel()
	renderer, err := newRenderer()
	assert.NilError(t, err)
	for chart, least := range map[string]int{"mysql": 15, "rediscluster": 10, "etcdcluster": 6, "mysqlcluster": 2, "third-party": 1} {
		data := mustRead(t, "helm-charts/"+chart+"/ci/everything-values.yaml")
		v := map[string]any{}
		assert.NilError(t, yaml.Unmarshal(data, &v))
		for _, own := range []string{"resources", "size", "initContainers", "sidecars"} {
			delete(v, own)
		}
		if backup, ok := v["backup"].(map[string]any); ok {
			delete(backup, "resources")
		}
		rendered, err := renderer.Render(render.Release{Name: "data", Namespace: "data"}, []render.Part{{Name: "part", Chart: chart, Values: v}})
		assert.NilError(t, err)
		found := 0
		for id, template := range podsOf(t, rendered[0]) {
			for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
				found++
				for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
					request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
					assert.Check(t, !request.IsZero() && !limit.IsZero() && limit.MilliValue() <= 10*request.MilliValue(),
						"%s, %s, container %s: %s of %s, at most %s", chart, id, c.Name, &request, name, &limit)
				}
			}
		}
		assert.Assert(t, found >= least, "%s: %d containers", chart, found)
	}
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cluster.Root(), file))
	assert.NilError(t, err)
	return data
}
