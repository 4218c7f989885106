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
	redisNamespace = "kube-system" // namespace of the sample
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

// isReplaced waits until a new pod has replaced the deleted pod. It returns immediately if went is nil.
func isReplaced(t *testing.T, went *corev1.Pod) {
	t.Helper()
	if went == nil {
		return
	}
	eventually(t, "another pod "+went.Name, patience, func(ctx context.Context) error {
		next := &corev1.Pod{}
		if err := api.Get(ctx, client.ObjectKeyFromObject(went), next); err != nil {
			return err
		}
		if next.UID == went.UID {
			return errors.New("the pod was not replaced")
		}
		return nil
	})
}

// redisReady waits until the cluster is ready with a number of pods, and until a new pod has replaced the deleted pod, if any.
func redisReady(t *testing.T, pods int, went *corev1.Pod) {
	t.Helper()
	isReplaced(t, went)
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

// The API server accepts the unchanged sample of the earlier operator. The sample is paused. The test unpauses it with a supported version
// and smaller requests, because the sample requests more than the test's node has. With real pods, the cluster becomes ready, grows, loses a
// pod and a master's process, keeps all keys, and retains its claims.
func TestRedisCluster(t *testing.T) {
	diagnosed(t)
	page.run(t, oneFile)
	running(t, version)
	shell(t, `kubectl label nodes --all --overwrite HC_Status=C
kubectl apply -f test/testdata/seeds/rediscluster.yaml
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

	// The server ends immediately: it neither hands over to its replica nor waits for the replica.
	restarts := func() string {
		return shell(t, "kubectl get pod --namespace "+redisNamespace+" "+master+` -o 'jsonpath={.status.containerStatuses[?(@.name=="redis")].restartCount}'`)
	}
	before := restarts()
	// kubectl reports the end of the container as code 137, because the shell ends with the container.
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

const (
	etcdNamespace = "default"
	etcdName      = "my-etcd-cluster" // name of the sample
)

// inEtcd runs a script in the etcd container of a pod.
func inEtcd(t *testing.T, pod, script string) string {
	t.Helper()
	return shell(t, fmt.Sprintf(`kubectl exec --stdin --namespace %s %s --container etcd -- sh <<'SH'
%s
SH`, etcdNamespace, pod, script))
}

// etcdReady waits until the cluster is ready with three voters, none of which runs in the deleted pod.
func etcdReady(t *testing.T, went *corev1.Pod) {
	t.Helper()
	databaseReady(t, "etcd/"+etcdName, went)
}

// databaseReady waits until a database is ready with three members, none of which runs in the deleted pod.
func databaseReady(t *testing.T, resource string, went *corev1.Pod) {
	t.Helper()
	isReplaced(t, went)
	for _, wanted := range []string{"jsonpath={.status.ready}=3/3", "jsonpath={.status.phase}=Running", "condition=Ready"} {
		shell(t, fmt.Sprintf("kubectl wait --namespace %s %s --for '%s' --timeout 8m", etcdNamespace, resource, wanted))
	}
}

// members returns the member IDs in the status, by pod.
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

// value returns the key's value from a linearizable read of a member.
func value(t *testing.T, pod string) string {
	t.Helper()
	// "a" and "b" in Base64, as etcd's JSON encodes bytes.
	return inEtcd(t, pod, `curl --silent --show-error --fail --max-time 20 --data '{"key": "YQ=="}' http://127.0.0.1:2379/v3/kv/range`)
}

// testTicket checks that the kubelet writes a new annotation of a running pod to the pod's file within seconds. A start on an empty volume
// depends on that file.
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

// backUpEtcd backs up the cluster to a claim, with the sample of a DataBackup. The content of the store outlives the DataBackup.
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

// restoreEtcd restores the lost cluster from its backup, and checks that the key exists.
func restoreEtcd(t *testing.T) {
	t.Helper()
	began := time.Now()
	shell(t, fmt.Sprintf(`kubectl create --namespace %s --dry-run=client -o json -f config/samples/etcd/etcd.yaml |
	sed 's/"spec": {/"spec": {"restoreFrom": {"destination": {"claim": {"name": "backups"}}},/' | kubectl apply --namespace %[1]s -f -`, etcdNamespace))
	etcdReady(t, nil)
	t.Logf("three voters with the data of a backup after %.1f s", time.Since(began).Seconds())
	if text := value(t, etcdName+"-0"); !strings.Contains(text, `"value":"Yg=="`) {
		t.Errorf("the restored cluster has %s", text)
	}
}

// Real pods run the unchanged sample: the cluster becomes ready, survives a killed member and a lost volume, keeps its data, and retains
// its claims. After the claims are deleted, the test restores the cluster from its backup.
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
	// The first process of a container ignores SIGKILL from inside the container, so the test sends SIGTERM. kubectl reports the end of the
	// container as code 137 or 143.
	shell(t, fmt.Sprintf(`kubectl exec --namespace %s %s --container etcd -- sh -c 'kill 1' || [[ $? == 137 || $? == 143 ]]`, etcdNamespace, first))
	eventually(t, "the container has restarted", patience, func(context.Context) error {
		if restarts() == count {
			return errors.New("it has not")
		}
		return nil
	})
	etcdReady(t, nil)
	if now := members(t); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("killing a member changed the members: %v, now %v", before, now)
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
		t.Errorf("wrong members after the loss of a volume: %v, now %v", before, now)
	}
	for _, pod := range []string{first, last} {
		if text := value(t, pod); !strings.Contains(text, `"value":"Yg=="`) {
			t.Errorf("%s reads %s", pod, text)
		}
	}
	if text := shell(t, "kubectl logs --namespace "+etcdNamespace+" "+last+" --container etcd | grep -E '^(waiting|starting):'"); !strings.Contains(text, "waiting: NeedsTicket") {
		t.Errorf("the member with the empty volume did not wait for a ticket: %s", text)
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

const mysqlName = "my-database" // name of the sample

// inMySQL runs a statement as root in the pod of a member.
func inMySQL(t *testing.T, pod, statement string) string {
	t.Helper()
	return shell(t, fmt.Sprintf(`MYSQL_PWD=$(kubectl get secret --namespace %s %s-credentials -o 'jsonpath={.data.root-password}' | base64 --decode)
kubectl exec --stdin --namespace %[1]s %[3]s --container mysql -- sh -c 'read -r MYSQL_PWD; export MYSQL_PWD; mysql --no-defaults --socket /var/run/mysqld/*.sock --user root --skip-column-names --execute "%[4]s"' <<<"$MYSQL_PWD"`,
		etcdNamespace, mysqlName, pod, statement))
}

// Real pods run the unchanged sample: the cluster becomes ready, survives the deletion of the primary's pod and the loss of its volume,
// keeps its data, and retains its claims.
func TestMySQLCluster(t *testing.T) {
	diagnosed(t)
	page.run(t, oneFile)
	running(t, version)
	began := time.Now()
	shell(t, "kubectl apply --namespace "+etcdNamespace+" -f config/samples/mysql/mysql.yaml")
	databaseReady(t, "myc/"+mysqlName, nil)
	t.Logf("three members %.1f s after the sample was applied", time.Since(began).Seconds())
	primary := func() string {
		return strings.TrimSpace(shell(t, fmt.Sprintf("kubectl get --namespace %s myc/%s -o 'jsonpath={.status.primary}'", etcdNamespace, mysqlName)))
	}
	inMySQL(t, primary(), "CREATE DATABASE kept; CREATE TABLE kept.t (n INT PRIMARY KEY); INSERT INTO kept.t VALUES (42)")
	for _, lost := range []struct{ what, objects string }{{"pod", "pod/%[2]s"}, {"volume", "pvc/data-%[2]s pod/%[2]s"}} {
		was := primary()
		went := &corev1.Pod{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: etcdNamespace, Name: was}, went); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		shell(t, fmt.Sprintf("kubectl delete --namespace %[1]s --wait=false "+lost.objects, etcdNamespace, was))
		databaseReady(t, "myc/"+mysqlName, went)
		t.Logf("three members %.1f s after the %s of the primary %s was lost", time.Since(began).Seconds(), lost.what, was)
		if primary() == was {
			t.Errorf("%s is the primary again", was)
		}
	}
	for ordinal := range 3 {
		if text := strings.TrimSpace(inMySQL(t, fmt.Sprintf("%s-%d", mysqlName, ordinal), "SELECT n FROM kept.t")); text != "42" {
			t.Errorf("member %d has %q", ordinal, text)
		}
	}
	shell(t, "kubectl describe --namespace "+etcdNamespace+" myc/"+mysqlName)
	shell(t, `kubectl delete --namespace `+etcdNamespace+` myc/`+mysqlName+` --timeout 3m
kubectl wait --namespace `+etcdNamespace+` pods --selector app.kubernetes.io/instance=`+mysqlName+` --for delete --timeout 3m`)
	if claims := strings.TrimSpace(shell(t, "kubectl get pvc --namespace "+etcdNamespace+" --output name | grep -c data-"+mysqlName)); claims != "3" {
		t.Errorf("%s claims are left, not 3", claims)
	}
	shell(t, "kubectl delete pvc --namespace "+etcdNamespace+" --selector app.kubernetes.io/instance="+mysqlName+" --timeout 3m")
	page.run(t, uninstall, uninstallFile)
	gone(t)
}
