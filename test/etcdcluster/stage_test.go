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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// scene is a namespace whose pods run real programs.
type scene struct {
	*stage.Stage
	*emulator.Emulator

	watchdog *watchdog
}

const (
	name  = "my-etcd-cluster"
	image = "gcr.io/etcd-development/etcd"
)

func newScene(t *testing.T, settings ...func(*emulator.Options)) *scene {
	t.Helper()
	t.Parallel()
	s := &scene{Stage: suite.New(t)}
	s.watchdog = &watchdog{scene: s}
	options := emulator.Options{
		Namespace: s.Namespace, Nodes: 3, Names: true,
		Images: map[string]emulator.Image{
			image:                       {Executables: map[string]string{"etcd": s.etcd(etcdtest.V36)}}, // versions without a separate image use 3.6
			"work":                      {},                                                             // an additional service
			"docker.io/curlimages/curl": {},                                                             // the probe of third parties
			"example/agent":             {Executables: map[string]string{"/agent": agent}},
		},
	}
	if !testing.Short() { // the short form needs only etcd 3.6
		for _, version := range []string{etcdtest.V34, etcdtest.V35, etcdtest.V37} {
			options.Images[image+":v"+version] = emulator.Image{Executables: map[string]string{"etcd": s.etcd(version)}}
		}
	}
	for _, set := range settings {
		set(&options)
	}
	var err error
	s.Emulator, err = emulator.Start(s.Ctx, suite.Config, options)
	s.Must(err)
	t.Cleanup(func() {
		if t.Failed() {
			s.describe()
		}
		s.Must(s.Stop())
	})
	return s
}

// etcd returns the path of etcd of a version.
func (s *scene) etcd(version string) string {
	s.Helper()
	path, err := etcdtest.Program(version)
	s.Must(err)
	return path
}

// start starts an operator that uses the agent's image and that the watchdog checks.
func (s *scene) start(settings ...func(*rest.Config, *manager.Options)) *stage.Operator {
	s.Helper()
	return s.Start(append([]func(*rest.Config, *manager.Options){func(config *rest.Config, o *manager.Options) {
		o.Images = map[string]string{"agent": "example/agent:v1"}
		o.Etcd.Tap = s.watchdog
		config.Wrap(s.watchdog.wrap)
	}}, settings...)...)
}

// describe logs the state after a failed test.
func (s *scene) describe() {
	for _, ec := range harness.Every[*etcdv1.EtcdCluster](s.Journal) {
		text, _ := yaml.Marshal(ec.Status)
		s.Logf("%s:\n%s", ec.Name, text)
	}
	s.LastWords(s.Log)
	s.story(0)
}

// story logs the messages of the status since a mark of the journal, in order.
func (s *scene) story(from int) {
	s.Story(from, func(o client.Object) string {
		ec, ok := o.(*etcdv1.EtcdCluster)
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s %s %s: %s", ec.Status.Phase, ec.Status.Ready, ec.Status.Reason, ec.Status.Message)
	})
}

// pods returns the pods of the cluster, without those that are being deleted.
func (s *scene) pods() []*corev1.Pod {
	return slices.DeleteFunc(harness.Every[*corev1.Pod](s.Journal), func(pod *corev1.Pod) bool {
		_, err := strconv.Atoi(strings.TrimPrefix(pod.Name, name+"-"))
		return err != nil || pod.DeletionTimestamp != nil
	})
}

func (s *scene) pod(ordinal int) *corev1.Pod {
	s.Helper()
	return harness.Lookup[*corev1.Pod](s.Journal, fmt.Sprintf("%s-%d", name, ordinal))
}

func (s *scene) claim(ordinal int) string { return fmt.Sprintf("data-%s-%d", name, ordinal) }

func named() *etcdv1.EtcdCluster {
	return &etcdv1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// create creates an EtcdCluster with a spec in YAML.
func (s *scene) create(spec string) *etcdv1.EtcdCluster {
	s.Helper()
	ec := named()
	s.CreateWith(ec, &ec.Spec, spec)
	return ec
}

// change patches the spec (JSON merge patch in YAML).
func (s *scene) change(spec string) {
	s.Helper()
	s.Patch(named(), spec)
}

// get returns the present EtcdCluster.
func (s *scene) get() *etcdv1.EtcdCluster {
	s.Helper()
	ec := named()
	s.Read(ec)
	return ec
}

// isReady returns the reason why the cluster is not ready with a number of voters, or nil.
func (s *scene) isReady(voters int) error {
	ec := s.get()
	if ec.Status.ObservedGeneration != ec.Generation || !meta.IsStatusConditionTrue(ec.Status.Conditions, etcdv1.ConditionReady) {
		return fmt.Errorf("generation %d of %d: %s, %s: %s: %s", ec.Status.ObservedGeneration, ec.Generation, ec.Status.Phase, ec.Status.Ready,
			ec.Status.Reason, ec.Status.Message)
	}
	if want := fmt.Sprintf("%d/%d", voters, voters); ec.Status.Ready != want || voters > 0 && ec.Status.Phase != etcdv1.PhaseRunning {
		return fmt.Errorf("ready is %s, phase is %s", ec.Status.Ready, ec.Status.Phase)
	}
	return nil
}

// ready waits until the cluster is ready, compares the status with the state of its members, and returns the time that it took.
func (s *scene) ready(voters int) time.Duration {
	s.Helper()
	began := time.Now()
	s.Until(fmt.Sprintf("ready with %d voters", voters), func() error { return s.isReady(voters) })
	took := time.Since(began)
	s.agree(voters)
	return took
}

// agree waits until each pod is a voter and all members have the same data.
func (s *scene) agree(voters int) {
	s.Helper()
	s.Until("the members agree", func() error { return s.check(voters) })
}

// isAsBefore fails the test unless the cluster and its members have their former ids.
func (s *scene) isAsBefore(cluster string, members map[int32]string) {
	s.Helper()
	if now := s.ids(); fmt.Sprint(now) != fmt.Sprint(members) {
		s.Errorf("members were %v, and now are %v", members, now)
	}
	s.isCluster(cluster)
}

// isCluster fails the test unless the cluster has this id.
func (s *scene) isCluster(id string) {
	s.Helper()
	if now := s.get().Status.ClusterID; now != id {
		s.Errorf("the cluster was %s, and now is %s", id, now)
	}
}

// unready waits until the status reports that the cluster is not ready.
func (s *scene) unready() {
	s.Helper()
	s.Eventually("not ready", func() bool {
		return !meta.IsStatusConditionTrue(s.get().Status.Conditions, etcdv1.ConditionReady)
	})
}

// check returns an error unless each pod is a voter of the same cluster, and all have the same list of members and the same content.
func (s *scene) check(voters int) error {
	pods := s.pods()
	if len(pods) != voters {
		return fmt.Errorf("%d pods", len(pods))
	}
	var contents []string
	var revision int64 // all members are compared at this revision, because clients may still write
	for _, pod := range pods {
		content, err := s.checkMember(pod, voters, &revision)
		if err != nil {
			return fmt.Errorf("%s: %w", pod.Name, err)
		}
		contents = append(contents, content)
	}
	if len(slices.Compact(contents)) > 1 {
		return fmt.Errorf("members differ: %v", contents)
	}
	return nil
}

func (s *scene) checkMember(pod *corev1.Pod, voters int, revision *int64) (content string, err error) {
	ctx, cancel := context.WithTimeout(s.Ctx, 5*time.Second)
	defer cancel()
	c, err := s.dial(pod)
	if err != nil {
		return "", err
	}
	defer c.Close()
	status, err := c.Status(ctx, c.Endpoints()[0])
	if err != nil {
		return "", err
	}
	if len(status.Errors) > 0 || status.IsLearner || status.Leader == 0 {
		return "", fmt.Errorf("it says %v", status)
	}
	list, err := c.MemberList(ctx)
	if err != nil {
		return "", err
	}
	if len(list.Members) != voters {
		return "", fmt.Errorf("%d members", len(list.Members))
	}
	for _, m := range list.Members {
		if m.IsLearner || m.Name == "" {
			return "", fmt.Errorf("member %x has the entry %v", m.ID, m)
		}
	}
	if *revision == 0 {
		*revision = status.Header.Revision
	}
	hash, err := c.HashKV(ctx, c.Endpoints()[0], *revision)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("cluster %x, revision %d: %x", status.Header.ClusterId, *revision, hash.Hash), nil
}

// dial connects to the etcd of some pods; without an argument, to all pods.
func (s *scene) dial(pods ...*corev1.Pod) (*clientv3.Client, error) {
	if len(pods) == 0 {
		pods = s.pods()
	}
	config, scheme, err := s.credentials()
	if err != nil {
		return nil, err
	}
	var endpoints []string
	for _, pod := range pods {
		if pod.Status.PodIP != "" {
			endpoints = append(endpoints, scheme+net.JoinHostPort(pod.Status.PodIP, "2379"))
		}
	}
	if len(endpoints) == 0 {
		return nil, errors.New("no pod has an address")
	}
	options := []grpc.DialOption{grpc.WithNoProxy()}
	if config != nil {
		options = append(options, grpc.WithAuthority(config.ServerName))
	}
	return clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: config, Logger: zap.NewNop(), DialTimeout: 5 * time.Second, DialOptions: options})
}

// credentials returns the credentials of clients.
func (s *scene) credentials() (*tls.Config, string, error) {
	ec := harness.Lookup[*etcdv1.EtcdCluster](s.Journal, name)
	if ec == nil || ec.Spec.TLS.Mode == etcdv1.TLSOff || ec.Spec.TLS.Mode == "" {
		return nil, "http://", nil
	}
	from := name + "-client-tls"
	if ec.Spec.TLS.Mode == etcdv1.TLSSecrets {
		from = ec.Spec.TLS.ClientSecret
	}
	secret := harness.Lookup[*corev1.Secret](s.Journal, from)
	if secret == nil {
		return nil, "", errors.New("the Secret with the client's certificate does not exist")
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		return nil, "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: fmt.Sprintf("%s.%s.svc", name, s.Namespace)}, "https://", nil
}

// keys is the number of keys that write creates. All of them must exist at the end.
const keys = 100

// write writes the keys, one after the other.
func (s *scene) write() {
	s.Helper()
	c, err := s.dial()
	s.Must(err)
	defer c.Close()
	for i := range keys {
		s.Try("write a key", func() error {
			ctx, cancel := context.WithTimeout(s.Ctx, 3*time.Second)
			defer cancel()
			_, err := c.Put(ctx, fmt.Sprintf("key-%d", i), fmt.Sprint(i))
			return err
		})
	}
	s.CatchUp()
}

// holds fails the test unless all keys exist.
func (s *scene) holds() {
	s.Helper()
	c, err := s.dial()
	s.Must(err)
	defer c.Close()
	s.Until("the keys are read", func() error {
		ctx, cancel := context.WithTimeout(s.Ctx, 3*time.Second)
		defer cancel()
		got, err := c.Get(ctx, "key-", clientv3.WithPrefix())
		if err == nil && got.Count != keys {
			s.Fatalf("%d of %d keys exist", got.Count, keys)
		}
		return err
	})
}
