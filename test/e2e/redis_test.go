// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	redisNamespace = "kube-system" // of the sample
	redisName      = "example000-redis-cluster"
	redisKeys      = 200
)

// inRedis runs a script in the Redis container of a pod, with the password.
func inRedis(t *testing.T, pod, script string) string {
	t.Helper()
	return shell(t, fmt.Sprintf(`kubectl exec --stdin --namespace %s %s --container redis -- sh <<'SH'
export REDISCLI_AUTH=$(cat /credentials/password)
%s
SH`, redisNamespace, pod, script))
}

// redisReady waits until the cluster is ready with a number of pods, none of which is the one that went.
func redisReady(t *testing.T, pods int, went *corev1.Pod) {
	t.Helper()
	if went != nil {
		eventually(t, "another pod "+went.Name, patience, func(ctx context.Context) error {
			next := &corev1.Pod{}
			if err := api.Get(ctx, client.ObjectKeyFromObject(went), next); err != nil {
				return err
			}
			if next.UID == went.UID {
				return errors.New("it is the old one")
			}
			return nil
		})
	}
	shell(t, fmt.Sprintf(`for path in ready=%[1]d/%[1]d slots=16384 phase=Running 'conditions[?(@.type=="Ready")].status=True'; do
  kubectl wait --namespace %[2]s rec/%[3]s --for "jsonpath={.status.${path%%=*}}=${path##*=}" --timeout 8m
done`, pods, redisNamespace, redisName))
}

// roles returns a master and a replica of the cluster.
func roles(t *testing.T) (master, replica string) {
	t.Helper()
	text := shell(t, fmt.Sprintf(`kubectl get --namespace %s rec/%s -o 'jsonpath={range .status.instances[*]}{.name} {.type}{"\n"}{end}'`, redisNamespace, redisName))
	for line := range strings.Lines(text) {
		pod, role, _ := strings.Cut(strings.TrimSpace(line), " ")
		if role == "master" {
			master = pod
		} else {
			replica = pod
		}
	}
	return master, replica
}

// holdsKeys fails the test unless each key has its value.
func holdsKeys(t *testing.T, pod string) {
	t.Helper()
	script := fmt.Sprintf(`i=0; right=0
while [ $i -lt %d ]; do
  [ "$(redis-cli -c -h "$POD_IP" GET key-$i)" = "value-$i" ] && right=$((right + 1))
  i=$((i + 1))
done
echo "right: $right"`, redisKeys)
	eventually(t, "all keys are read", patience, func(context.Context) error {
		out := inRedis(t, pod, script) //nolint:contextcheck // the shell ends with the test
		if !strings.Contains(out, fmt.Sprintf("right: %d\n", redisKeys)) {
			return errors.New(out)
		}
		return nil
	})
}

// The sample of the earlier operator on real pods: it applies as it is, comes up when it is unpaused, grows, loses a
// pod and a master's process, keeps all keys, and leaves its claims. Its resources are for larger nodes than this one.
func TestRedisCluster(t *testing.T) {
	diagnosed(t)
	page.run(t, oneFile)
	running(t, version)
	shell(t, `kubectl label nodes --all --overwrite HC_Status=C
kubectl apply -f test/rediscluster/testdata/sample.yaml
kubectl wait --namespace `+redisNamespace+` rec/`+redisName+` --for jsonpath={.status.reason}=UnsupportedVersion --timeout 1m
kubectl patch --namespace `+redisNamespace+` rec/`+redisName+` --type json --patch '[
  {"op": "replace", "path": "/spec/pause", "value": false},
  {"op": "replace", "path": "/spec/version", "value": "7.0.15"},
  {"op": "replace", "path": "/spec/replicas", "value": 6},
  {"op": "replace", "path": "/spec/finalizers", "value": "retain"},
  {"op": "replace", "path": "/spec/updateStrategy", "value": {"type": "AutoReceive", "pipeline": "100"}},
  {"op": "replace", "path": "/spec/pod/0/env/1/value", "value": "96mb"},
  {"op": "replace", "path": "/spec/pod/0/resources", "value": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}},
  {"op": "add", "path": "/spec/storage/size", "value": "1Gi"}]'`)
	redisReady(t, 6, nil)
	master, _ := roles(t)
	inRedis(t, master, fmt.Sprintf(`i=0
while [ $i -lt %d ]; do redis-cli -c -h "$POD_IP" SET key-$i value-$i; i=$((i + 1)); done | sort | uniq -c`, redisKeys))

	if out := shell(t, "bin/kubectl-dataservice redis --namespace "+redisNamespace+" "+redisName+" -- PING"); !strings.Contains(out, "PONG") {
		t.Errorf("the plugin's client says %q", out)
	}
	shell(t, "kubectl scale --namespace "+redisNamespace+" rec/"+redisName+" --replicas 8")
	redisReady(t, 8, nil)
	holdsKeys(t, master)

	_, replica := roles(t)
	went := &corev1.Pod{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: redisNamespace, Name: replica}, went); err != nil {
		t.Fatal(err)
	}
	shell(t, "kubectl delete pod --namespace "+redisNamespace+" "+replica)
	redisReady(t, 8, went)

	// It ends at once, without a hand-over and without waiting for its replica.
	restarts := func() string {
		return shell(t, "kubectl get pod --namespace "+redisNamespace+" "+master+` -o 'jsonpath={.status.containerStatuses[?(@.name=="redis")].restartCount}'`)
	}
	before := restarts()
	// The shell ends with the container, 137 is how kubectl says so.
	shell(t, fmt.Sprintf(`kubectl exec --namespace %s %s --container redis -- sh -c 'REDISCLI_AUTH=$(cat /credentials/password) redis-cli -h "$POD_IP" SHUTDOWN NOSAVE NOW FORCE' || [[ $? == 137 ]]`,
		redisNamespace, master))
	eventually(t, "the container has restarted", patience, func(context.Context) error {
		if restarts() == before {
			return errors.New("it has not")
		}
		return nil
	})
	redisReady(t, 8, nil)
	holdsKeys(t, master)

	shell(t, `kubectl delete --namespace `+redisNamespace+` rec/`+redisName+` --timeout 3m
kubectl wait --namespace `+redisNamespace+` pods --selector app.kubernetes.io/instance=`+redisName+` --for delete --timeout 3m`)
	claims := shell(t, "kubectl get pvc --namespace "+redisNamespace+" --output name | grep -c data-"+redisName)
	if strings.TrimSpace(claims) != "8" {
		t.Errorf("%s claims are left, not 8", claims)
	}
	shell(t, "kubectl delete pvc --namespace "+redisNamespace+" --selector app.kubernetes.io/instance="+redisName+" --timeout 3m")
	page.run(t, uninstall, uninstallFile)
	gone(t)
}
