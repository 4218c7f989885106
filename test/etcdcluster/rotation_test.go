// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// secret returns the data of a Secret of the cluster.
func (s *scene) secret(suffix string) map[string][]byte {
	s.Helper()
	found := &corev1.Secret{}
	s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name + suffix}, found))
	return found.Data
}

// rotated returns why the authorities of before are not replaced by new ones, or nil.
func (s *scene) rotated(before map[string][]byte) error {
	now := s.secret("-ca")
	for _, key := range []string{"ca.crt", "ca.key", "peer-ca.crt", "peer-ca.key"} {
		if bytes.Equal(now[key], before[key]) {
			return errors.New(key + " is the former one")
		}
	}
	if len(now) != len(before) {
		return errors.New("the former authorities are trusted still")
	}
	return errors.Join(s.isReady(3), s.check(3))
}

// opens reports whether a client with credentials gets in at a pod.
func (s *scene) opens(config *tls.Config, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(s.Ctx, 3*time.Second)
	defer cancel()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + pod.Status.PodIP + ":2379"}, TLS: config, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithNoProxy(), grpc.WithAuthority(config.ServerName)},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Get(ctx, "key-0")
	return err
}

// The certificate authorities of a running cluster are replaced by new keys, under load, while each life of the operator ends at one of
// its effects. A quorum serves all the time, and at the end the former authorities open nothing.
func TestAuthoritiesAreReplacedUnderMembers(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.create("{replicas: 3, tls: {mode: Auto}}")
	m := &mortal{within: 10 * time.Minute, Lives: stage.Lives{Skip: 1}}
	m.overlap = time.Nanosecond
	m.live(s, func() error { return s.isReady(3) })
	s.write()
	before, cluster, members := s.secret("-ca"), s.get().Status.ClusterID, s.ids()
	former, _, err := s.credentials()
	s.Must(err)
	for _, pod := range s.pods() {
		s.Must(s.opens(former, pod))
	}
	load := s.load()
	s.change("{tls: {rotation: first}}")
	m.live(s, func() error { return s.rotated(before) })
	load.End(t)
	s.holds()
	s.isAsBefore(cluster, members)
	s.harmless()
	for _, pod := range s.pods() {
		mixed := former.Clone() // it trusts the server, so that the server is what refuses it
		current, _, err := s.credentials()
		s.Must(err)
		s.Must(s.opens(current, pod))
		mixed.RootCAs = current.RootCAs
		if s.opens(mixed, pod) == nil {
			t.Errorf("a certificate of the former authority opens %s", pod.Name)
		}
	}
	logs, err := s.Logs("etcd")
	s.Must(err)
	for _, log := range logs {
		t.Logf("%s: %d connections were rejected", log.Pod, strings.Count(log.Text, "rejected connection"))
	}

	after, uids := s.secret("-ca"), s.uids()
	op := s.start(func(_ *rest.Config, o *manager.Options) { o.Etcd.Overlap = time.Nanosecond })
	s.ready(3)
	s.quiet(op)
	if now := s.secret("-ca"); !bytes.Equal(now["ca.crt"], after["ca.crt"]) || fmt.Sprint(s.uids()) != fmt.Sprint(uids) {
		t.Error("one request for new authorities was used twice")
	}
}
