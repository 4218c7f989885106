// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/harness"
)

// get requests a path of the web front end at its node port, as a browser would.
func get(ctx context.Context, path string) (int, string, error) {
	service := &corev1.Service{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: platformNamespace, Name: "web"}, service); err != nil {
		return 0, "", err
	}
	nodes := &corev1.NodeList{}
	if err := api.List(ctx, nodes); err != nil {
		return 0, "", err
	}
	for _, address := range nodes.Items[0].Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}
		url := fmt.Sprintf("http://%s:%d%s", address.Address, service.Spec.Ports[0].NodePort, path)
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, string(body), err
	}
	return 0, "", errors.New("the node has no internal address")
}

// answers waits until the expected service answers at a path.
func answers(t *testing.T, path, service string) {
	t.Helper()
	eventually(t, path+" leads to "+service, time.Minute, func(ctx context.Context) error {
		status, body, err := get(ctx, path)
		if err != nil {
			return err
		}
		var answer struct{ Service string }
		if err := json.Unmarshal([]byte(body), &answer); status != http.StatusOK || err != nil || answer.Service != service {
			return fmt.Errorf("status %d: %s", status, body)
		}
		return nil
	})
}

func testWeb(t *testing.T) {
	eventually(t, "the front page", time.Minute, func(ctx context.Context) error {
		status, body, err := get(ctx, "/project-dataservice/")
		if err == nil && (status != http.StatusOK || !strings.Contains(body, "<h1>DataService</h1>")) {
			err = fmt.Errorf("status %d: %s", status, body)
		}
		return err
	})
	answers(t, "/project-dataservice/base-api1/x", "api-proxy-service")
	answers(t, "/project-dataservice/base-api2/x", "gateway-master")
}

// The test calls services through web and proxy. proxy finds the services in Eureka, and the services open their databases.
func testCalls(t *testing.T) {
	for _, service := range []string{"auth-service", "api-manager-service", "API-DSADAPTER-SERVICE"} {
		answers(t, "/project-dataservice/base-api1/call/"+service+"/x", service)
	}
}

// sql runs a statement in the database's pod.
func sql(t *testing.T, statement string) string {
	t.Helper()
	return sqlIn(t, platformNamespace, statement)
}

// sqlIn runs a statement in the pod of the database in a namespace.
func sqlIn(t *testing.T, namespace, statement string) string {
	t.Helper()
	return shell(t, fmt.Sprintf(`kubectl exec --stdin --namespace %s mysql-dataservice-0 -- \
  sh -c 'MYSQL_PWD=$MYSQL_ROOT_PASSWORD mysql --user root --skip-column-names' <<'SQL'
%s
SQL`, namespace, statement))
}

func testData(t *testing.T) {
	sql(t, "CREATE DATABASE kept; CREATE TABLE kept.words (word TEXT); INSERT INTO kept.words VALUES ('still there')")
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: platformNamespace, Name: "mysql-dataservice-0"}
	if err := api.Get(t.Context(), key, pod); err != nil {
		t.Fatal(err)
	}
	killed := pod.UID
	if err := api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another mysql pod is ready", patience, func(ctx context.Context) error {
		next := &corev1.Pod{}
		if err := api.Get(ctx, key, next); err != nil {
			return err
		}
		if next.UID == killed || !ready(next) {
			return errors.New("it is not")
		}
		return nil
	})
	if words := sql(t, "SELECT word FROM kept.words"); !strings.Contains(words, "still there") {
		t.Errorf("the table holds %q", words)
	}
	sql(t, "DROP DATABASE kept")
	shell(t, "kubectl wait --namespace "+platformNamespace+" --for condition=Ready dataservice/"+sample+" --timeout 3m")
}

// lease returns the current leader, and the time after which another operator may become leader if the lease is not renewed.
func lease(ctx context.Context) (holder string, duration time.Duration, err error) {
	leases := &coordinationv1.LeaseList{}
	if err := api.List(ctx, leases, client.InNamespace(operatorNamespace)); err != nil {
		return "", 0, err
	}
	if len(leases.Items) != 1 {
		return "", 0, fmt.Errorf("there are %d leases in %s", len(leases.Items), operatorNamespace)
	}
	spec := leases.Items[0].Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" {
		return "", 0, errors.New("no replica holds the lease")
	}
	return *spec.HolderIdentity, time.Duration(*spec.LeaseDurationSeconds) * time.Second, nil
}

func testLeader(t *testing.T) {
	holder, duration, err := lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(holder, "_")
	// SIGKILL ends the operator before it can release the lease.
	leader := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: name}}
	if err := api.Delete(t.Context(), leader, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another replica leads", duration+10*time.Second, func(ctx context.Context) error {
		next, _, err := lease(ctx)
		if err == nil && next == holder {
			err = fmt.Errorf("%s holds the lease", next)
		}
		return err
	})
	auth := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: platformNamespace, Name: "auth"}
	if err := api.Get(t.Context(), key, auth); err != nil {
		t.Fatal(err)
	}
	deleted := auth.UID
	if err := api.Delete(t.Context(), auth); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted Deployment is back and ready", patience, func(ctx context.Context) error {
		next := &appsv1.Deployment{}
		if err := api.Get(ctx, key, next); err != nil {
			return err
		}
		if next.UID == deleted || next.Status.ReadyReplicas != 1 {
			return errors.New("it is not")
		}
		return nil
	})
	running(t, version)
}

func testKubelet(t *testing.T) {
	command := strings.Fields(os.Getenv("E2E_RESTART_KUBELET"))
	if len(command) == 0 {
		t.Skip("E2E_RESTART_KUBELET, the command that restarts the kubelet of this cluster, is not set")
	}
	before := look(t)
	restart := exec.CommandContext(t.Context(), command[0], command[1:]...)
	restart.Dir = root
	if out, err := restart.CombinedOutput(); err != nil {
		t.Fatalf("restart the kubelet: %v\n%s", err, out)
	}
	restarted := time.Now()
	eventually(t, "the new kubelet reports", patience, func(ctx context.Context) error {
		nodes := &corev1.NodeList{}
		if err := api.List(ctx, nodes); err != nil {
			return err
		}
		for _, condition := range nodes.Items[0].Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue &&
				condition.LastHeartbeatTime.After(restarted) {
				return nil
			}
		}
		return errors.New("the node has not reported Ready since")
	})
	unchanged(t, before)
}

// watchUpgradeable watches the condition for OLM. The returned function reports whether an upgrade had to wait.
func watchUpgradeable(t *testing.T) func() bool {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	seen, done := atomic.Bool{}, make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if upgradeable(ctx) == metav1.ConditionFalse {
					seen.Store(true)
				}
			}
		}
	}()
	return func() bool {
		stop()
		<-done
		return seen.Load()
	}
}

// diagnosed prints the state of the cluster if the test fails.
func diagnosed(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			diagnose(t)
		}
	})
}

func diagnose(t *testing.T) {
	t.Helper()
	for _, command := range []string{
		"kubectl get pods,dataservices --all-namespaces -o wide",
		"kubectl describe dataservices --all-namespaces",
		"kubectl logs --namespace " + operatorNamespace + " --selector control-plane=controller-manager --tail 60",
		"kubectl get subscription --all-namespaces -o yaml | grep -A40 '^  status:'",
		"kubectl get csv,subscription,installplan,catalogsource --all-namespaces",
		"kubectl get events --all-namespaces --sort-by .lastTimestamp | tail -n 40",
	} {
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-c", command).CombinedOutput()
		t.Logf("$ %s\n%s", command, out)
		if err != nil {
			t.Log(err)
		}
	}
}

// look waits until all pods of the platform are ready, and takes a snapshot. On a busy machine, a pod may be not ready for a moment.
func look(t *testing.T) (s oracle.Snapshot) {
	t.Helper()
	eventually(t, "all pods are ready", time.Minute, func(ctx context.Context) (err error) {
		if s, err = oracle.Take(ctx, api, platformNamespace); err != nil {
			return err
		}
		if len(s.Pods) == 0 || len(s.Objects) == 0 {
			return fmt.Errorf("no platform in %s", platformNamespace)
		}
		for pod, state := range s.Pods {
			if !strings.HasSuffix(state, "ready true") {
				return fmt.Errorf("%s: %s", pod, state)
			}
		}
		return nil
	})
	return s
}

// brought lists the objects that this version changes in a platform of the last release. The StatefulSet gets the guard of the data, an
// init container that takes effect in the next pod. Other objects get the record of the data, the protocol of the database's port, or
// annotations for retained objects. None of these changes restarts a pod. Only the pods of the Deployments are replaced, because their
// charts have changed.
var brought = []string{
	"StatefulSet/mysql-dataservice", "ConfigMap/mysql-dataservice-data", "Service/mysql-dataservice",
	"Secret/mysql-dataservice-credentials", "PersistentVolumeClaim/data-mysql-dataservice-0",
	"ConfigMap/web-template", "Deployment/web",
	"ConfigMap/api-manager", "Deployment/api-manager", "ConfigMap/auth", "Deployment/auth",
	"ConfigMap/ds-adapter", "Deployment/ds-adapter", "ConfigMap/es-adapter", "Deployment/es-adapter", "ConfigMap/trd-adapter", "Deployment/trd-adapter",
	"ConfigMap/gateway-master", "Deployment/gateway-master", "ConfigMap/gateway-web", "Deployment/gateway-web", "ConfigMap/proxy", "Deployment/proxy",
}

// unchanged waits until everything is healthy, and compares the state with an earlier snapshot: no pod may have been restarted or
// replaced, and no object written. The exceptions are the named objects and the pods of named Deployments.
func unchanged(t *testing.T, before oracle.Snapshot, except ...string) {
	t.Helper()
	without := func(state oracle.Snapshot) {
		maps.DeleteFunc(state.Objects, func(id, _ string) bool { return slices.Contains(except, id) })
		maps.DeleteFunc(state.Pods, func(pod, _ string) bool {
			return slices.ContainsFunc(except, func(id string) bool { return strings.HasPrefix("Deployment/"+pod, id+"-") })
		})
	}
	without(before)
	shell(t, "kubectl wait --namespace "+platformNamespace+" --for condition=Ready dataservice/"+sample+" --timeout 3m")
	var diff string
	eventually(t, "all is as it was", time.Minute, func(ctx context.Context) error {
		now, err := oracle.Take(ctx, api, platformNamespace)
		if err != nil {
			return fmt.Errorf("%w; before that:\n%s", err, diff)
		}
		without(now)
		if diff = cmp.Diff(before, now); diff != "" {
			return errors.New("the platform has changed (-before +after):\n" + diff)
		}
		return nil
	})
}

// dataservice runs a command of the plugin on the platform through kubectl, and returns its output with its exit code.
func dataservice(t *testing.T, arguments string) string {
	t.Helper()
	return shell(t, fmt.Sprintf(`export PATH=$PWD/bin:$PATH
code=0
kubectl dataservice --namespace %s %s || code=$?
echo "exit code $code"`, platformNamespace, arguments))
}

// testPlugin uses the kubectl plugin on real pods: the plugin names a fault by the message of a real kubelet, and a rollback repairs the
// fault.
func testPlugin(t *testing.T) {
	says := func(arguments string, words ...string) {
		t.Helper()
		eventually(t, arguments, patience, func(context.Context) error {
			return harness.Mentions(dataservice(t, arguments), words...) //nolint:contextcheck // the shell ends with the test
		})
	}
	says("status "+sample, "Running", "exit code 0")
	says("why "+sample, "nothing is wrong", "exit code 0")
	says("diff "+sample, "nothing changes", "exit code 0")
	says("mysql "+sample+" -- --execute 'select 6 * 7'", "42", "exit code 0")
	says("logs "+sample+" proxy --tail 1", "[proxy-", "exit code 0")

	// The history starts with the first change under this version.
	shell(t, "kubectl patch --namespace "+platformNamespace+" dataservice "+sample+` --type merge --patch '{"spec": {"auth": {"env": {"HISTORY": "begins"}}}}'
kubectl wait --namespace `+platformNamespace+` deployment/auth --for 'jsonpath={.spec.template.spec.containers[0].env[?(@.name=="HISTORY")].value}=begins' --timeout 1m`)
	says("status "+sample, "Running", "exit code 0")
	says("history "+sample, "Current", "exit code 0")
	for _, broken := range []struct{ field, cause string }{
		{`"image": "registry.invalid/proxy:v1"`, "registry.invalid/proxy:v1"},
		{`"command": ["/there-is-none"]`, "/there-is-none"},
	} {
		shell(t, fmt.Sprintf(`kubectl patch --namespace %s dataservice %s --type merge --patch '{"spec": {"proxy": {%s}}}'`, platformNamespace, sample, broken.field))
		eventually(t, "why names "+broken.cause, patience, func(context.Context) error {
			lines := strings.SplitN(dataservice(t, "why "+sample), "\n", 3) //nolint:contextcheck // the shell ends with the test
			return harness.Mentions(strings.Join(lines[:min(2, len(lines))], "\n"), "proxy: pod proxy-", broken.cause, "look at Pod proxy-")
		})
		says("rollback "+sample+" --yes", "goes back to revision", "exit code 0")
		says("status "+sample, "Running", "exit code 0")
	}
}
