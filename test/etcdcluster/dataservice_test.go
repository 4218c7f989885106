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
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// platform is the name of the DataService of these tests, whose etcd is called as the EtcdCluster of the others.
const platform = "platform"

// withService is a DataService with an etcd and a service that uses it.
const withService = `{etcd: {name: my-etcd-cluster, replicas: 1, tls: {mode: Auto}},
	additionalServices: [{name: reports, image: work, command: [sleep, "1000000"], dependsOn: [etcd]}]}`

func dataService(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	ds := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte("spec: "+spec), &ds.Object); err != nil {
		t.Fatal(err)
	}
	ds.SetGroupVersionKind(dsv1.GroupVersion.WithKind(dsv1.Kind))
	ds.SetName(platform)
	return ds
}

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

// waited fails the test unless etcd was ready before anything of the service was there.
func (s *scene) waited() {
	s.Helper()
	ready := false
	for _, c := range s.Since(0) {
		if ec, ok := c.Object.(*etcdv1.EtcdCluster); ok && ec.Status.Phase == etcdv1.PhaseRunning && ec.Status.Ready == "1/1" {
			ready = true
		}
		if c.Object.GetLabels()["app.kubernetes.io/name"] == "reports" && !ready {
			s.Errorf("%s was there before etcd was ready", c.ID)
		}
	}
	if !ready {
		s.Error("etcd was never ready")
	}
}

// A DataService with an etcd becomes ready with it, and a service of the user's own connects with the certificate in its
// container. Nothing of the data is lost when etcd is taken out of the spec, or with the DataService.
func TestInADataService(t *testing.T) {
	s := newScene(t)
	op := s.Start(withAgent)
	began := time.Now()
	s.CreateReady(dataService(t, withService))
	t.Logf("the DataService is ready after %s", time.Since(began))
	s.ready(1)
	if owner := metav1.GetControllerOf(s.get()); owner == nil || owner.Name != platform {
		t.Errorf("the controller of the EtcdCluster is %v", owner)
	}
	s.waited()
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

	// The whole spec is the DataService's: what somebody writes is put back, once, and then there is rest.
	planned, err := yaml.Marshal(s.get().Spec)
	s.Must(err)
	s.change(`{replicas: 3, paused: true, maintenance: {defragThreshold: "0%"}, networkPolicy: {enabled: true}, config: {log-level: debug}, podTemplate: {metadata: {labels: {a: b}}}}`)
	s.Until("the spec is put back", func() error {
		now, err := yaml.Marshal(s.get().Spec)
		if err == nil && string(now) != string(planned) {
			err = fmt.Errorf("it is\n%s\nnot\n%s", now, planned)
		}
		return err
	})
	s.ready(1)
	s.Ready(platform)
	mark := op.Mark()
	_ = s.Within(5*time.Second, func() error { return errors.New("quiet so far") })
	if sent := op.Since(mark, harness.Sent.WritesObject); len(sent) > 0 {
		t.Errorf("at rest: %v", sent)
	}

	s.Change(platform, harness.Fields{"paused": true})
	s.Until("etcd is paused, too", func() error {
		if !s.get().Spec.Paused {
			return errors.New("it is not")
		}
		return nil
	})
	s.ChangeReady(platform, harness.Fields{"paused": false})
	s.ready(1)

	s.ChangeReady(platform, harness.Fields{"etcd": nil, "additionalServices": nil})
	s.gone()
	fields := harness.Fields{}
	s.Must(yaml.Unmarshal([]byte(withService), &fields))
	s.ChangeReady(platform, fields)
	s.ready(1)
	s.holds()
	s.Must(suite.API.Delete(s.Ctx, &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: platform}}))
	s.gone()
	s.CreateReady(dataService(t, withService))
	s.ready(1)
	s.holds()
	if now := s.get().Status.ClusterID; now != cluster {
		t.Errorf("the cluster was %s and is %s", cluster, now)
	}
}
