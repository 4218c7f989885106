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
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	etcdNamespace = "default"
	etcdName      = "my-etcd-cluster" // of the sample
)

// inEtcd runs a script in the etcd container of a pod.
func inEtcd(t *testing.T, pod, script string) string {
	t.Helper()
	return shell(t, fmt.Sprintf(`kubectl exec --stdin --namespace %s %s --container etcd -- sh <<'SH'
%s
SH`, etcdNamespace, pod, script))
}

// etcdReady waits until the cluster is ready with three voters, none of which runs in the pod that went.
func etcdReady(t *testing.T, went *corev1.Pod) {
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
	for _, wanted := range []string{"jsonpath={.status.ready}=3/3", "jsonpath={.status.phase}=Running", "condition=Ready"} {
		shell(t, fmt.Sprintf("kubectl wait --namespace %s etcd/%s --for '%s' --timeout 8m", etcdNamespace, etcdName, wanted))
	}
}

// members returns the ids of the members by the status, by pod.
func members(t *testing.T) map[string]string {
	t.Helper()
	ids := map[string]string{}
	text := shell(t, fmt.Sprintf(`kubectl get --namespace %s etcd/%s -o 'jsonpath={range .status.members[*]}{.name} {.id}{"\n"}{end}'`, etcdNamespace, etcdName))
	for line := range strings.Lines(text) {
		pod, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		ids[pod] = id
	}
	return ids
}

// value is what a member reads of the key, when a quorum agrees.
func value(t *testing.T, pod string) string {
	t.Helper()
	// "a" and "b", as etcd's JSON has bytes.
	return inEtcd(t, pod, `curl --silent --show-error --fail --max-time 20 --data '{"key": "YQ=="}' http://127.0.0.1:2379/v3/kv/range`)
}

// testTicket shows that an annotation of a running pod is in its file within seconds: what a start on an empty volume rests on.
func testTicket(t *testing.T, pod string) {
	t.Helper()
	const annotation = "d3os-product.com.d3os/ticket"
	shell(t, fmt.Sprintf("kubectl annotate --namespace %s --overwrite pod/%s %s=none", etcdNamespace, pod, annotation))
	began := time.Now()
	eventually(t, "the ticket is in the pod", 15*time.Second, func(context.Context) error {
		if text := inEtcd(t, pod, "cat /d3os-ticket/ticket"); !strings.Contains(text, "none") { //nolint:contextcheck // the shell ends with the test
			return fmt.Errorf("it says %q", text)
		}
		return nil
	})
	t.Logf("an annotation was in the file of the running pod %.1f s after it was written", time.Since(began).Seconds())
}

// backUpEtcd has the cluster backed up to a claim, by the sample of a DataBackup. What the store has does not go with that.
func backUpEtcd(t *testing.T) {
	t.Helper()
	shell(t, fmt.Sprintf(`kubectl apply --namespace %[1]s -f - <<'YAML'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: backups}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
YAML
kubectl patch --namespace %[1]s etcd/%[2]s --type merge -p '{"spec": {"backup": {"destination": {"claim": {"name": "backups"}}}}}'
kubectl apply --namespace %[1]s -f config/samples/backup/etcd.yaml
kubectl wait --namespace %[1]s databackup/before-upgrade-of-etcd --for 'jsonpath={.status.phase}=Succeeded' --timeout 5m
kubectl get --namespace %[1]s databackups
kubectl delete --namespace %[1]s databackup/before-upgrade-of-etcd --timeout 3m`, etcdNamespace, etcdName))
}

// restoreEtcd has the lost cluster come back from its backup, with the key in it.
func restoreEtcd(t *testing.T) {
	t.Helper()
	began := time.Now()
	shell(t, fmt.Sprintf(`kubectl create --namespace %s --dry-run=client -o json -f config/samples/etcd/etcd.yaml |
	sed 's/"spec": {/"spec": {"restoreFrom": {"destination": {"claim": {"name": "backups"}}},/' | kubectl apply --namespace %[1]s -f -`, etcdNamespace))
	etcdReady(t, nil)
	t.Logf("three voters with the data of a backup after %.1f s", time.Since(began).Seconds())
	if text := value(t, etcdName+"-0"); !strings.Contains(text, `"value":"Yg=="`) {
		t.Errorf("it reads %s", text)
	}
}

// The sample on real pods: it applies as it is, comes up, survives that a member is killed and that a volume is lost, keeps its
// data, and leaves its claims. Without them it comes back from its backup.
func TestEtcdCluster(t *testing.T) {
	diagnosed(t)
	page.run(t, oneFile)
	running(t, version)
	began := time.Now()
	shell(t, "kubectl apply --namespace "+etcdNamespace+" -f config/samples/etcd/etcd.yaml")
	etcdReady(t, nil)
	t.Logf("three voters %.1f s after the sample was applied", time.Since(began).Seconds())
	first, last := etcdName+"-0", etcdName+"-2"
	inEtcd(t, first, `curl --silent --show-error --fail --data '{"key": "YQ==", "value": "Yg=="}' http://127.0.0.1:2379/v3/kv/put`)
	testTicket(t, first)

	before := members(t)
	restarts := func() string {
		return shell(t, "kubectl get pod --namespace "+etcdNamespace+" "+first+` -o 'jsonpath={.status.containerStatuses[?(@.name=="etcd")].restartCount}'`)
	}
	count := restarts()
	// The first process of a container heeds SIGTERM alone. The shell ends with the container, 137 is how kubectl says so.
	shell(t, fmt.Sprintf(`kubectl exec --namespace %s %s --container etcd -- sh -c 'kill 1' || [[ $? == 137 || $? == 143 ]]`, etcdNamespace, first))
	eventually(t, "the container has restarted", patience, func(context.Context) error {
		if restarts() == count {
			return errors.New("it has not")
		}
		return nil
	})
	etcdReady(t, nil)
	if now := members(t); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("members were %v and are %v", before, now)
	}

	went := &corev1.Pod{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: etcdNamespace, Name: last}, went); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	shell(t, fmt.Sprintf("kubectl delete --namespace %[1]s --wait=false pvc/data-%[2]s pod/%[2]s", etcdNamespace, last))
	etcdReady(t, went)
	t.Logf("three voters %.1f s after the volume of %s was lost", time.Since(began).Seconds(), last)
	if now := members(t); now[last] == before[last] || now[first] != before[first] {
		t.Errorf("members were %v and are %v", before, now)
	}
	for _, pod := range []string{first, last} {
		if text := value(t, pod); !strings.Contains(text, `"value":"Yg=="`) {
			t.Errorf("%s reads %s", pod, text)
		}
	}
	if text := shell(t, "kubectl logs --namespace "+etcdNamespace+" "+last+" --container etcd | grep -E '^(waiting|starting):'"); !strings.Contains(text, "waiting: NeedsTicket") {
		t.Errorf("the empty volume did not wait: %s", text)
	}
	shell(t, "kubectl describe --namespace "+etcdNamespace+" etcd/"+etcdName)
	backUpEtcd(t)

	shell(t, `kubectl delete --namespace `+etcdNamespace+` etcd/`+etcdName+` --timeout 3m
kubectl wait --namespace `+etcdNamespace+` pods --selector app.kubernetes.io/instance=`+etcdName+` --for delete --timeout 3m`)
	if claims := strings.TrimSpace(shell(t, "kubectl get pvc --namespace "+etcdNamespace+" --output name | grep -c data-"+etcdName)); claims != "3" {
		t.Errorf("%s claims are left, not 3", claims)
	}
	deleteClaims := func() {
		shell(t, "kubectl delete pvc --namespace "+etcdNamespace+" --selector app.kubernetes.io/instance="+etcdName+" --timeout 3m")
	}
	deleteClaims()
	restoreEtcd(t)
	shell(t, `kubectl delete --namespace `+etcdNamespace+` etcd/`+etcdName+` --timeout 3m
kubectl wait --namespace `+etcdNamespace+` pods --selector app.kubernetes.io/instance=`+etcdName+` --for delete --timeout 3m`)
	deleteClaims()
	shell(t, "kubectl delete pvc --namespace "+etcdNamespace+" backups --timeout 3m")
	page.run(t, uninstall, uninstallFile)
	gone(t)
}
