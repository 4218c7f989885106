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
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// check fails unless each pod is a voter, of one cluster, and all have one list of members and one content.
func (s *scene) check(voters int) error {
	pods := s.pods()
	if len(pods) != voters {
		return fmt.Errorf("%d pods", len(pods))
	}
	var contents []string
	var revision int64 // that all are held to: clients may be writing
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
			return "", fmt.Errorf("member %x is %v", m.ID, m)
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

// dial connects to the etcd of one pod; of none, to all of them.
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

// credentials returns how clients connect.
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
		return nil, "", errors.New("there is no Secret with the client's certificate")
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		return nil, "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: fmt.Sprintf("%s.%s.svc", name, s.Namespace)}, "https://", nil
}

// keys are written, and must be there at the end.
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

// holds fails the test unless all keys are there.
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
			s.Fatalf("%d of %d keys are there", got.Count, keys)
		}
		return err
	})
}
