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

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// platform is the name of the DataService of these tests, whose etcd is called as the EtcdCluster of the others.
const platform = stage.Platform

// withService is a DataService with an etcd and a service that uses it.
const withService = `{etcd: {name: my-etcd-cluster, replicas: 1, tls: {mode: Auto}},
	additionalServices: [{name: reports, image: work, command: [sleep, "1000000"], dependsOn: [etcd]}]}`

// given returns what the container of the service has: its environment, and the content of the files of Secrets in it.
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

// asService connects to etcd by what the service has in its container, and by nothing else.
func (s *scene) asService() *clientv3.Client {
	s.Helper()
	env, files := s.given()
	pair, err := tls.X509KeyPair(files[env["ETCD_CERT_FILE"]], files[env["ETCD_KEY_FILE"]])
	s.Must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(files[env["ETCD_CA_FILE"]])
	want := fmt.Sprintf("https://%s.%s.svc:2379", name, s.Namespace)
	if env["ETCD_ENDPOINTS"] != want {
		s.Fatalf("the service is told of %q, not %s", env["ETCD_ENDPOINTS"], want)
	}
	// There is no DNS: the name of the Service leads to a pod that is ready.
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

// gone waits until the EtcdCluster and its pods are gone, and fails the test unless the data stays.
func (s *scene) gone() {
	s.Helper()
	s.Until("etcd goes", func() error {
		if ec := harness.Lookup[*etcdv1.EtcdCluster](s.Journal, name); ec != nil || len(s.pods()) > 0 {
			return fmt.Errorf("%d pods, EtcdCluster: %t", len(s.pods()), ec != nil)
		}
		return nil
	})
	if harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, s.claim(0)) == nil || harness.Lookup[*corev1.Secret](s.Journal, name+"-ca") == nil {
		s.Error("the claim or the certificate authorities are gone")
	}
}

// isVoting reports whether a change says that etcd is ready.
func isVoting(c harness.Change) bool {
	ec, ok := c.Object.(*etcdv1.EtcdCluster)
	return ok && ec.Status.Phase == etcdv1.PhaseRunning && ec.Status.Ready == "1/1"
}
