// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// A DataService with an etcd becomes ready, and an additional service connects to etcd with the certificate in its container. The data
// stays when the DataService hibernates, when etcd is removed from the spec, and when the DataService is deleted.
func TestInADataService(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.start()
	began := time.Now()
	s.CreateReady(s.NewPlatform(withService))
	t.Logf("the DataService is ready after %s", time.Since(began))
	s.ready(1)
	if owner := metav1.GetControllerOf(s.get()); owner == nil || owner.Name != platform {
		t.Errorf("the controller of the EtcdCluster is %v", owner)
	}
	s.WaitsFor("reports", isVoting)
	c := s.asService()
	defer c.Close()
	s.Until("the service writes", func() error {
		ctx, cancel := context.WithTimeout(s.Ctx, 3*time.Second)
		defer cancel()
		_, err := c.Put(ctx, "of-the-service", "a")
		return err
	})
	s.write()
	cluster := s.get().Status.ClusterID

	// The DataService owns the whole spec: a change by another writer is reverted once, and then nothing is written.
	planned, err := yaml.Marshal(s.get().Spec)
	s.Must(err)
	s.change(`{replicas: 3, paused: true, maintenance: {defragThreshold: "0%"}, networkPolicy: {enabled: true}, config: {log-level: debug}, podTemplate: {metadata: {labels: {a: b}}}}`)
	s.Until("the spec is restored", func() error {
		now, err := yaml.Marshal(s.get().Spec)
		if err == nil && string(now) != string(planned) {
			err = fmt.Errorf("it is\n%s\nnot\n%s", now, planned)
		}
		return err
	})
	s.ready(1)
	s.Ready(platform)
	mark := op.Mark()
	s.Pass(5 * time.Second)
	if sent := op.Since(mark, harness.Sent.WritesObject); len(sent) > 0 {
		t.Errorf("at rest: %v", sent)
	}

	s.ChangePlatform("{paused: true}")
	s.Eventually("etcd is paused, too", func() bool { return s.get().Spec.Paused })
	s.Become("{paused: false}")
	s.ready(1)
	s.Hibernate()
	s.ready(1)
	s.holds()
	s.isCluster(cluster)

	s.Become("{etcd: null, additionalServices: null}")
	s.gone()
	s.Become(withService)
	s.ready(1)
	s.holds()
	s.DeletePlatform()
	s.gone()
	s.CreateReady(s.NewPlatform(withService))
	s.ready(1)
	s.holds()
	s.isCluster(cluster)
}

// The DataService is not ready while a member does not answer. The status names etcd, with the message of etcd's status. The clients of
// etcd are not changed.
func TestEtcdIsNotReady(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.CreateReady(s.NewPlatform(withService))
	s.ready(1)
	if c := s.Component("etcd"); c.Kind != "Managed" || c.Ready != 1 || c.Desired != 1 || c.Phase != dsv1.PhaseRunning {
		t.Errorf("the status says %+v", c)
	}
	s.Must(s.Kill(s.pod(0).Name, syscall.SIGSTOP, "etcd"))
	s.Until("the status reports it", func() error {
		child := s.get().Status
		if c := s.Component("etcd"); c.Phase == dsv1.PhaseRunning || !strings.Contains(c.Message, "EtcdCluster "+name) || !strings.Contains(c.Message, child.Message) {
			return fmt.Errorf("the DataService has %+v, etcd %s", c, child.Message)
		}
		return nil
	})
	if harness.Lookup[*appsv1.Deployment](s.Journal, "reports") == nil {
		t.Error("the service was deleted")
	}
	s.Must(s.Kill(s.pod(0).Name, syscall.SIGCONT, "etcd"))
	s.Ready(platform)
	s.ready(1)
}

// platform is the name of the DataService in these tests. Its etcd has the name of the EtcdCluster in other tests.
const platform = stage.Platform

// withService is the spec of a DataService with an etcd and a service that uses it.
const withService = `{etcd: {name: my-etcd-cluster, replicas: 1, tls: {mode: Auto}},
	additionalServices: [{name: reports, image: work, command: [sleep, "1000000"], dependsOn: [etcd]}]}`

// given returns the environment of the service's container, and the content of its files from Secrets.
func (s *scene) given() (env map[string]string, files map[string][]byte) {
	s.Helper()
	deployment := harness.Lookup[*appsv1.Deployment](s.Journal, "reports")
	if deployment == nil {
		s.Fatal("the service does not exist")
	}
	env, files = map[string]string{}, map[string][]byte{}
	pod := deployment.Spec.Template.Spec
	for _, v := range pod.Containers[0].Env {
		env[v.Name] = v.Value
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name != mount.Name || volume.Secret == nil {
				continue
			}
			secret := &corev1.Secret{}
			s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: volume.Secret.SecretName}, secret))
			for name, content := range secret.Data {
				files[path.Join(mount.MountPath, name)] = content
			}
		}
	}
	return env, files
}

// asService connects to etcd with only the service's environment and files.
func (s *scene) asService() *clientv3.Client {
	s.Helper()
	env, files := s.given()
	pair, err := tls.X509KeyPair(files[env["ETCD_CERT_FILE"]], files[env["ETCD_KEY_FILE"]])
	s.Must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(files[env["ETCD_CA_FILE"]])
	want := fmt.Sprintf("https://%s.%s.svc:2379", name, s.Namespace)
	if env["ETCD_ENDPOINTS"] != want {
		s.Fatalf("the service has the endpoints %q, want %s", env["ETCD_ENDPOINTS"], want)
	}
	// There is no DNS, so the dialer connects to a ready pod instead of the Service.
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		for _, pod := range s.pods() {
			if stage.IsReady(pod) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, "2379"))
			}
		}
		return nil, errors.New("no pod is ready")
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{env["ETCD_ENDPOINTS"]}, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots},
		Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithNoProxy(), grpc.WithContextDialer(dial)},
	})
	s.Must(err)
	return c
}

// gone waits until the EtcdCluster and its pods are deleted, and fails the test unless the data is kept.
func (s *scene) gone() {
	s.Helper()
	s.Until("etcd goes", func() error {
		if ec := harness.Lookup[*etcdv1.EtcdCluster](s.Journal, name); ec != nil || len(s.pods()) > 0 {
			return fmt.Errorf("%d pods, EtcdCluster: %t", len(s.pods()), ec != nil)
		}
		return nil
	})
	if harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, s.claim(0)) == nil || harness.Lookup[*corev1.Secret](s.Journal, name+"-ca") == nil {
		s.Error("the claim or the certificate authorities were deleted")
	}
}

// isVoting reports whether a change contains an EtcdCluster that is ready.
func isVoting(c harness.Change) bool {
	ec, ok := c.Object.(*etcdv1.EtcdCluster)
	return ok && ec.Status.Phase == etcdv1.PhaseRunning && ec.Status.Ready == "1/1"
}
