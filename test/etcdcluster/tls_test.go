// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/certs"
	"d3os.com/d3os-operator/test/harness"
)

// serial is that of the certificate with which a pod's etcd answers on a port.
func (s *scene) serial(pod *corev1.Pod, port, secret string) (*big.Int, error) {
	found := &corev1.Secret{}
	if err := suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: secret}, found); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(found.Data["tls.crt"], found.Data["tls.key"])
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{Config: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}} // #nosec G402 -- it is looked at alone
	conn, err := dialer.DialContext(s.Ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, port))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber, nil
}

// serve waits until all pods serve other certificates than those before, on both ports, and returns these.
func (s *scene) serve(before map[string]*big.Int) map[string]*big.Int {
	s.Helper()
	now := map[string]*big.Int{}
	s.Until("other certificates are served", func() error {
		for _, pod := range s.pods() {
			for port, secret := range map[string]string{"2379": s.secrets().client, "2380": s.secrets().peer} {
				serial, err := s.serial(pod, port, secret)
				if err != nil {
					return err
				}
				at := pod.Name + ":" + port
				if was := before[at]; was != nil && was.Cmp(serial) == 0 {
					return errors.New(at + " serves the one before")
				}
				now[at] = serial
			}
		}
		return nil
	})
	return now
}

// secrets are the names of those of a cluster.
type secrets struct{ server, peer, client string }

func (s *scene) secrets() secrets {
	if spec := s.get().Spec.TLS; spec.ServerSecret != "" {
		return secrets{spec.ServerSecret, spec.PeerSecret, spec.ClientSecret}
	}
	return secrets{name + "-server-tls", name + "-peer-tls", name + "-client-tls"}
}

// issue writes certificates into the Secrets of a cluster, made at a time by authorities for clients and for members.
func (s *scene) issue(names secrets, clients, members certs.Pair, at time.Time) {
	s.Helper()
	service := fmt.Sprintf("%s.%s.svc", name, s.Namespace)
	hosts := []string{name, name + "." + s.Namespace, service, service + ".cluster.local", "localhost", "127.0.0.1"}
	var pods []string
	for ordinal := range 9 {
		pod := fmt.Sprintf("%s-%d.%s-headless.%s.svc", name, ordinal, name, s.Namespace)
		pods = append(pods, pod, pod+".cluster.local")
	}
	for secret, leaf := range map[string]certs.Leaf{
		names.server: {Name: "server", Hosts: append(hosts, pods...), Client: true}, names.peer: {Name: "member", Hosts: pods, Client: true},
		names.client: {Name: "client", Client: true},
	} {
		authority := clients
		if secret == names.peer {
			authority = members
		}
		pair, err := authority.Issue(leaf, at)
		s.Must(err)
		o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: secret}}
		s.Must(client.IgnoreNotFound(suite.API.Get(s.Ctx, client.ObjectKeyFromObject(o), o)))
		o.Data = map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": authority.Cert}
		if o.UID == "" {
			s.Must(suite.API.Create(s.Ctx, o))
		} else {
			s.Must(suite.API.Update(s.Ctx, o))
		}
	}
}

// restarts counts those of etcd.
func (s *scene) restarts() (n int32) {
	for _, pod := range s.pods() {
		n += pod.Status.ContainerStatuses[0].RestartCount
	}
	return n
}

// several is how many members a test has that needs more than one.
func several() int {
	if full {
		return 3
	}
	return 2
}

// encrypted fails the test if a member takes connections without encryption.
func (s *scene) encrypted() {
	s.Helper()
	for _, pod := range s.pods() {
		text, err := s.Log(pod.Name, "etcd")
		s.Must(err)
		if strings.Contains(text, "serving client traffic insecurely") {
			s.Errorf("%s serves clients without encryption", pod.Name)
		}
	}
}

// Connections are encrypted. Certificates that are at two thirds of their life are renewed, and members serve the new ones
// without a restart.
func TestEncrypted(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.start()
	voters := several()
	s.create(fmt.Sprintf("{replicas: %d, tls: {mode: Auto}}", voters))
	t.Logf("%d voters are ready after %.1f s", voters, s.ready(voters).Seconds())
	s.write()
	s.encrypted()
	op.Stop()
	ca := &corev1.Secret{}
	s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name + "-ca"}, ca))
	first, uids, restarts := s.serve(nil), s.uids(), s.restarts()
	s.issue(s.secrets(), certs.Pair{Cert: ca.Data["ca.crt"], Key: ca.Data["ca.key"]}, certs.Pair{Cert: ca.Data["peer-ca.crt"], Key: ca.Data["peer-ca.key"]},
		time.Now().Add(-certs.LeafLife*2/3))
	aged := s.serve(first)
	op = s.start()
	began := time.Now()
	s.serve(aged)
	t.Logf("aged certificates were replaced in all members after %.1f s", time.Since(began).Seconds())
	s.ready(voters)
	s.holds()
	if now := s.restarts(); now != restarts || fmt.Sprint(s.uids()) != fmt.Sprint(uids) {
		t.Errorf("members were restarted: %d times before and %d now, pods %v and %v", restarts, now, uids, s.uids())
	}
	s.quiet(op)
}

// With Secrets of the user's own, their certificates are used, and those that the user puts in their place.
func TestOwnCertificates(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	clients, err := certs.NewAuthority("clients", time.Now())
	s.Must(err)
	members, err := certs.NewAuthority("members", time.Now())
	s.Must(err)
	own := secrets{"own-server", "own-peer", "own-client"}
	s.issue(own, clients, members, time.Now())
	s.start()
	voters := several()
	s.create(fmt.Sprintf("{replicas: %d, tls: {mode: Secrets, serverSecret: own-server, peerSecret: own-peer, clientSecret: own-client}}", voters))
	t.Logf("%d voters are ready after %.1f s", voters, s.ready(voters).Seconds())
	s.write()
	s.encrypted()
	first, uids := s.serve(nil), s.uids()
	s.issue(own, clients, members, time.Now())
	s.serve(first)
	s.ready(voters)
	s.holds()
	if n := s.restarts(); n > 0 || fmt.Sprint(s.uids()) != fmt.Sprint(uids) {
		t.Errorf("members were restarted %d times", n)
	}
}
