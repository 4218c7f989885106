// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// s3 is a gateway that serves a folder as a bucket by the S3 protocol.
const s3 = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: s3}
spec:
  selector: {matchLabels: {app: s3}}
  template:
    metadata: {labels: {app: s3}}
    spec:
      initContainers:
        - {name: bucket, image: "docker.io/versity/versitygw:v1.8.0", command: [mkdir, -p, /data/backups], volumeMounts: [{name: data, mountPath: /data}]}
      containers:
        - name: s3
          image: docker.io/versity/versitygw:v1.8.0
          args: [--access, key, --secret, "a secret of S3", --port, ":7070", posix, /data]
          readinessProbe: {tcpSocket: {port: 7070}, periodSeconds: 1}
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: s3}
spec: {selector: {app: s3}, ports: [{port: 7070}]}
`

// withBackups is a platform with only MySQL. The format argument adds fields to mysql.
const withBackups = `
apiVersion: d3os-product.com.d3os/v1
kind: DataService
metadata: {name: platform}
spec:
  mysql:%s
    backup:
      destination: {s3: {endpoint: "http://s3.default.svc:7070", bucket: backups, credentialsSecret: {name: s3}}}
      retention: {keep: 2, atLeast: 1}
`

// apply applies a manifest to a namespace.
func apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	shell(t, "kubectl apply --namespace "+namespace+" -f - <<'YAML'"+manifest+"YAML")
}

// platformReady waits until the platform of a namespace is ready, and returns the duration of the wait.
func platformReady(t *testing.T, namespace string) time.Duration {
	t.Helper()
	began := time.Now()
	shell(t, "kubectl wait --namespace "+namespace+" dataservice/platform --for condition=Ready --timeout 8m")
	return time.Since(began)
}

// backUp creates a DataBackup, waits until it has the phase, and returns the reason and the message of its status.
func backUp(t *testing.T, called, phase string) string {
	t.Helper()
	apply(t, "default", fmt.Sprintf(`
apiVersion: d3os-product.com.d3os/v1alpha1
kind: DataBackup
metadata: {name: %s}
spec: {of: {name: platform}}
`, called))
	shell(t, fmt.Sprintf("kubectl wait --namespace default databackup/%s --for 'jsonpath={.status.phase}=%s' --timeout 5m", called, phase))
	return shell(t, "kubectl get --namespace default databackup/"+called+" -o 'jsonpath={.status.reason}: {.status.message}'")
}

// Real pods back up a platform to a real S3 store. With a wrong password of the store, a DataBackup fails with the reason StoreDenied. The
// test deletes the platform, and restores it in another namespace from only the bucket.
func TestBackupsInS3(t *testing.T) {
	if !full() {
		t.Skip("E2E is not full: the store was not built")
	}
	diagnosed(t)
	page.run(t, oneFile)
	running(t, version)
	apply(t, "default", s3)
	shell(t, `kubectl rollout status --namespace default deployment/s3 --timeout 3m
kubectl create namespace elsewhere
for namespace in default elsewhere; do
	kubectl create secret generic s3 --namespace $namespace --from-literal=accessKey=key --from-literal=secretKey='a secret of S3'
done`)
	apply(t, "default", fmt.Sprintf(withBackups, ""))
	platformReady(t, "default")
	sqlIn(t, "default", "CREATE DATABASE kept; CREATE TABLE kept.words (word TEXT); INSERT INTO kept.words VALUES ('still there')")
	t.Log(backUp(t, "first", "Succeeded"))
	shell(t, "kubectl get --namespace default databackups; kubectl describe --namespace default databackup/first")

	shell(t, `kubectl patch --namespace default secret/s3 --patch '{"stringData": {"secretKey": "another"}}'`)
	if said := backUp(t, "refused", "Failed"); !strings.HasPrefix(said, "StoreDenied: ") {
		t.Errorf("the message does not name the wrong password of the store: %s", said)
	}

	shell(t, `kubectl delete --namespace default databackups --all --timeout 3m
kubectl delete --namespace default dataservice/platform --timeout 3m
kubectl wait --namespace default pod/mysql-dataservice-0 --for delete --timeout 3m
kubectl delete --namespace default pvc/data-mysql-dataservice-0 --timeout 3m`)
	apply(t, "elsewhere", fmt.Sprintf(withBackups, `
    restoreFrom:
      destination: {s3: {endpoint: "http://s3.default.svc:7070", bucket: backups, prefix: default/platform/mysql, credentialsSecret: {name: s3}}}`))
	t.Logf("the platform is ready elsewhere after %.1f s", platformReady(t, "elsewhere").Seconds())
	if rows := sqlIn(t, "elsewhere", "SELECT word FROM kept.words"); !strings.Contains(rows, "still there") {
		t.Errorf("the restored database has %q", rows)
	}
	shell(t, `kubectl delete --namespace elsewhere dataservice/platform --timeout 3m
kubectl delete namespace elsewhere --timeout 5m
kubectl delete --namespace default deployment/s3 service/s3 secret/s3 --ignore-not-found --timeout 3m`)
	page.run(t, uninstall, uninstallFile)
	gone(t)
}
