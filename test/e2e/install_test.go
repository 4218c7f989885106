// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// The headings of docs/install.md.
const (
	anyWay    = "Installing, upgrading, removing"
	catalog   = "From a catalog"
	upgrades  = "Upgrades and channels"
	olmV1     = "OLM v1"
	oneFile   = "One file"
	kustomize = "Kustomize"
	helm      = "Helm"
	runBundle = "operator-sdk run bundle"
	uninstall = "Uninstalling"
	airGap    = "Without internet"
)

// mirror is the registry in the section "Without internet".
const mirror = "registry.local/mirror/"

// The numbers of the blocks in the section "Uninstalling".
const (
	uninstallFromCatalog = iota + 1
	uninstallCRD
	uninstallFile
)

func TestOneFile(t *testing.T) {
	diagnosed(t)
	page.run(t, oneFile)
	platform(t)
	page.run(t, uninstall, uninstallFile)
	gone(t)
	t.Run("data outlives the resource and the CRD", func(t *testing.T) {
		for _, kept := range []client.Object{
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-mysql-dataservice-0"}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mysql-dataservice-credentials"}},
		} {
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: platformNamespace, Name: kept.GetName()}, kept); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestKustomize(t *testing.T) {
	page.run(t, kustomize)
	shell(t, "kubectl delete --ignore-not-found --kustomize dist/mine")
	gone(t)
}

// The numbers of the blocks in the section "Helm".
const (
	helmInstall = iota + 1
	helmUpgrade
	helmTakeOver
	helmUninstall
)

// The chart is installed, upgraded and uninstalled while a platform runs; the platform stays. Then the chart adopts the objects that were
// installed from one file.
func TestHelm(t *testing.T) {
	diagnosed(t)
	page.run(t, helm, helmInstall)
	running(t, version)
	platform(t)
	before := look(t)
	page.run(t, helm, helmUpgrade)
	running(t, version)
	unchanged(t, before)
	page.run(t, helm, helmUninstall)
	page.run(t, oneFile)
	running(t, version)
	page.run(t, helm, helmTakeOver)
	running(t, version)
	unchanged(t, before)
	page.run(t, helm, helmUninstall)
	removePlatform(t)
	shell(t, "kubectl delete namespace "+operatorNamespace)
	page.run(t, uninstall, uninstallCRD)
	gone(t)
}

// The test installs the bundle of the last release, and upgrades it to this version while a platform runs. Then it injects faults into the
// platform.
func TestRunBundle(t *testing.T) {
	diagnosed(t)
	page.run(t, runBundle, 1)
	running(t, lastRelease)
	platform(t)
	before := look(t)
	page.run(t, runBundle, 2)
	running(t, version)
	unchanged(t, before, brought...)

	t.Run("web answers and leads to proxy and gateway-master", testWeb)
	t.Run("services find one another", testCalls)
	t.Run("mysql keeps its data", testData)
	t.Run("another replica takes over", testLeader)
	t.Run("the kubelet restarts", testKubelet)
	t.Run("people use the kubectl plugin", testPlugin)
	removePlatform(t)
	page.run(t, runBundle, 3)
	gone(t)
}

// OLM upgrades the operator through the catalog's channel, release by release, to this version. Each release runs its own operator. The
// operator of the last release creates the platform.
func TestCatalog(t *testing.T) {
	diagnosed(t)
	page.run(t, catalog, 1)
	page.run(t, upgrades, 1, 2)
	running(t, "0.1.0")
	page.run(t, upgrades, 3)
	running(t, lastRelease)
	platform(t)
	before := look(t)
	page.run(t, upgrades, 4)
	running(t, version)
	unchanged(t, before, brought...)
	t.Run("OLM waits while a change is rolled out", testUpgradeable)
	removePlatform(t)

	// Most users install the newest version of the catalog directly.
	shell(t, "kubectl delete --namespace "+operatorNamespace+" subscription,csv --all; kubectl delete namespace "+operatorNamespace)
	page.run(t, catalog, 2)
	running(t, version)
	page.run(t, uninstall, uninstallFromCatalog, uninstallCRD)
	gone(t)
}

// OLM v1 installs the operator with rights that are derived from the bundles. It installs the last release, upgrades it to this version
// while a platform runs, and then installs this version on an empty cluster.
func TestOLMv1(t *testing.T) {
	if !full() {
		t.Skip("E2E is not full: OLM v1 was not built")
	}
	diagnosed(t)
	page.run(t, olmV1, 2)
	running(t, lastRelease)
	platform(t)
	before := look(t)
	t.Run("a strict comparison of CRDs is refused", testStrict)
	page.run(t, olmV1, 3)
	running(t, version)
	unchanged(t, before, brought...)
	removePlatform(t)
	page.run(t, olmV1, 4)
	gone(t)

	page.run(t, olmV1, 1)
	running(t, version)
	page.run(t, olmV1, 4)
	gone(t)
}

// testStrict checks the section of docs/install.md about Strict: OLM v1 refuses the CRDs of this version and changes nothing. Only OLM's
// log contains the reason, because the list of unknown changes is too long for a status.
func testStrict(t *testing.T) {
	const set = `kubectl patch clusterextension/d3os-operator --type merge --patch '{"spec": {
  "source": {"catalog": {"version": "%s"}}, "install": {"preflight": {"crdUpgradeSafety": {"enforcement": "%s"}}}}}'`
	shell(t, fmt.Sprintf(set, version, "Strict"))
	eventually(t, "OLM v1 refuses the CRDs", patience, func(context.Context) error {
		log := shell(t, `kubectl logs --namespace olmv1-system deployment/operator-controller-controller-manager | grep --only-matching 'validating upgrade for CRD "[^"]*" failed' | sort --unique || true`) //nolint:contextcheck // the shell ends with the test
		return harness.Mentions(log, "dataservices.d3os-product.com.d3os")
	})
	running(t, lastRelease)
	shell(t, fmt.Sprintf(set, lastRelease, "None"))
}

func testUpgradeable(t *testing.T) {
	blocked := watchUpgradeable(t)
	shell(t, "kubectl patch --namespace "+platformNamespace+" dataservice "+sample+` --type merge --patch '{"spec": {"auth": {"env": {"ROLLED_OUT": "again"}}}}'
kubectl wait --namespace `+platformNamespace+` deployment/auth --for 'jsonpath={.spec.template.spec.containers[0].env[?(@.name=="ROLLED_OUT")].value}=again' --timeout 1m
kubectl rollout status --namespace `+platformNamespace+` deployment/auth --timeout 3m`)
	eventually(t, "the condition permits OLM to upgrade again", patience, func(ctx context.Context) error {
		if status := upgradeable(ctx); status != metav1.ConditionTrue {
			return fmt.Errorf("upgradeable is %q", status)
		}
		return nil
	})
	if !blocked() {
		t.Error("the condition for OLM never blocked an upgrade while the change was being rolled out")
	}
}

// The bundle's scorecard runs its built-in tests and the operator's tests.
func TestScorecard(t *testing.T) {
	diagnosed(t)
	page.run(t, oneFile)
	running(t, version)
	shell(t, "hack/scorecard.sh")
	page.run(t, uninstall, uninstallFile)
	gone(t)
}

// The platform and the operator get their images from the user's registry.
func TestMirror(t *testing.T) {
	if os.Getenv("E2E_EXEC") == "" {
		t.Skip("registry.local, the mirror of docs/install.md, is a name of the node of hack/node only")
	}
	diagnosed(t)
	page.run(t, airGap)
	pods := &corev1.PodList{}
	for _, namespace := range []string{operatorNamespace, platformNamespace} {
		if err := api.List(t.Context(), pods, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		if len(pods.Items) == 0 {
			t.Errorf("there are no pods in %s", namespace)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				if !strings.HasPrefix(c.Image, mirror) {
					t.Errorf("pod %s runs %s, which is not of %s", pod.Name, c.Image, mirror)
				}
			}
		}
	}
	page.run(t, uninstall, uninstallFile)
	gone(t)
}

// platform creates the sample with the commands of docs/install.md.
func platform(t *testing.T) {
	t.Helper()
	page.run(t, anyWay)
	shell(t, "kubectl get --namespace "+platformNamespace+" dataservices,pods")
}

func removePlatform(t *testing.T) {
	t.Helper()
	shell(t, "kubectl delete --ignore-not-found namespace "+platformNamespace+" --timeout 3m")
}

// running waits until only the operator of this version runs.
func running(t *testing.T, version string) {
	t.Helper()
	eventually(t, "only version "+version+" runs", patience, func(ctx context.Context) error {
		pods, err := operators(ctx)
		if err != nil {
			return err
		}
		if len(pods) == 0 {
			return fmt.Errorf("no pod of the operator in %s", operatorNamespace)
		}
		for _, pod := range pods {
			if image := pod.Spec.Containers[0].Image; !strings.HasSuffix(image, ":v"+version) {
				return fmt.Errorf("pod %s runs %s", pod.Name, image)
			}
			if !ready(&pod) {
				return fmt.Errorf("pod %s is not ready", pod.Name)
			}
		}
		return nil
	})
}

func operators(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := api.List(ctx, pods, client.InNamespace(operatorNamespace), client.MatchingLabels{"control-plane": "controller-manager"})
	return pods.Items, err
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// gone waits until all objects of the operator are deleted, and removes the namespace of the platform.
func gone(t *testing.T) {
	t.Helper()
	eventually(t, "the operator and its CRD are gone", patience, func(ctx context.Context) error {
		if err := api.List(ctx, &dsv1.DataServiceList{}); !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("list DataServices: %w", err)
		}
		namespace := &corev1.Namespace{}
		if err := api.Get(ctx, client.ObjectKey{Name: operatorNamespace}, namespace); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s: %w", operatorNamespace, err)
		}
		return nil
	})
	t.Cleanup(func() { removePlatform(t) })
}

// upgradeable returns the status of the condition that the operator of this version sets for OLM in its OperatorCondition.
func upgradeable(ctx context.Context) metav1.ConditionStatus {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("operators.coreos.com/v2")
	u.SetKind("OperatorCondition")
	if err := api.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: "d3os-operator.v" + version}, u); err != nil {
		return metav1.ConditionStatus(err.Error())
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "spec", "conditions")
	for _, condition := range conditions {
		if c, _ := condition.(map[string]any); c["type"] == "Upgradeable" {
			return metav1.ConditionStatus(fmt.Sprint(c["status"]))
		}
	}
	return ""
}
