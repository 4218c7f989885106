// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// serial returns the serial number of the certificate that a pod's etcd serves on a port.
func (s *scene) serial(pod *corev1.Pod, port, secret string) (*big.Int, error) {
	found := &corev1.Secret{}
	if err := suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: secret}, found); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(found.Data["tls.crt"], found.Data["tls.key"])
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{Config: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}} // only its serial number is read
	conn, err := dialer.DialContext(s.Ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, port))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber, nil
}

// serve waits until all pods serve new certificates on both ports, and returns their serial numbers.
func (s *scene) serve(before map[string]*big.Int) map[string]*big.Int {
	s.Helper()
	now := map[string]*big.Int{}
	s.Until("new certificates are served", func() error {
		for _, pod := range s.pods() {
			for port, secret := range map[string]string{"2379": s.secrets().client, "2380": s.secrets().peer} {
				serial, err := s.serial(pod, port, secret)
				if err != nil {
					return err
				}
				at := pod.Name + ":" + port
				if was := before[at]; was != nil && was.Cmp(serial) == 0 {
					return errors.New(at + " serves the former one")
				}
				now[at] = serial
			}
		}
		return nil
	})
	return now
}

// secrets are the names of a cluster's Secrets.
type secrets struct{ server, peer, client string }

func (s *scene) secrets() secrets {
	if spec := s.get().Spec.TLS; spec.ServerSecret != "" {
		return secrets{spec.ServerSecret, spec.PeerSecret, spec.ClientSecret}
	}
	return secrets{name + "-server-tls", name + "-peer-tls", name + "-client-tls"}
}

// issue writes certificates with a given time of issue to the Secrets of a cluster. One authority signs those for clients, and another
// those for members.
func (s *scene) issue(names secrets, clients, members database.Pair, at time.Time) {
	s.Helper()
	service := fmt.Sprintf("%s.%s.svc", name, s.Namespace)
	hosts := []string{name, name + "." + s.Namespace, service, service + ".cluster.local", "localhost", "127.0.0.1"}
	var pods []string
	for ordinal := range 9 {
		pod := fmt.Sprintf("%s-%d.%s-headless.%s.svc", name, ordinal, name, s.Namespace)
		pods = append(pods, pod, pod+".cluster.local")
	}
	for secret, leaf := range map[string]database.Leaf{
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

// restarts counts the restarts of etcd.
func (s *scene) restarts() (n int32) {
	for _, pod := range s.pods() {
		n += pod.Status.ContainerStatuses[0].RestartCount
	}
	return n
}

// encrypted fails the test if a member accepts connections without encryption.
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

// Connections are encrypted. Certificates are renewed at two thirds of their life, and members serve the new ones without a restart.
func TestEncrypted(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.start()
	const voters = 3
	s.create("{replicas: 3, tls: {mode: Auto}}")
	t.Logf("%d voters are ready after %.1f s", voters, s.ready(voters).Seconds())
	s.write()
	s.encrypted()
	op.Stop()
	ca := &corev1.Secret{}
	s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name + "-ca"}, ca))
	first, uids, restarts := s.serve(nil), s.uids(), s.restarts()
	s.issue(s.secrets(), database.Pair{Cert: ca.Data["ca.crt"], Key: ca.Data["ca.key"]}, database.Pair{Cert: ca.Data["peer-ca.crt"], Key: ca.Data["peer-ca.key"]},
		time.Now().Add(-database.LeafLife*2/3))
	aged := s.serve(first)
	op = s.start()
	began := time.Now()
	s.serve(aged)
	t.Logf("aged certificates were replaced in all members after %.1f s", time.Since(began).Seconds())
	s.ready(voters)
	s.holds()
	if now := s.restarts(); now != restarts || fmt.Sprint(s.uids()) != fmt.Sprint(uids) {
		t.Errorf("members were restarted: %d restarts before and %d now, pods %v and %v", restarts, now, uids, s.uids())
	}
	s.quiet(op)
}

// Members use the certificates of the user's Secrets, even after the user replaced them. kubectl get, kubectl describe and kubectl
// dataservice why name a client's certificate of an authority that members do not trust.
func TestOwnCertificates(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	authority := func(name string) database.Pair {
		pair, err := database.NewAuthority(name, time.Now())
		s.Must(err)
		return pair
	}
	clients, members := authority("clients"), authority("members")
	own := secrets{"own-server", "own-peer", "own-client"}
	s.issue(own, clients, members, time.Now())
	op := s.start()
	s.create("{replicas: 3, tls: {mode: Secrets, serverSecret: own-server, peerSecret: own-peer, clientSecret: own-client}}")
	t.Logf("3 voters are ready after %.1f s", s.ready(3).Seconds())
	s.write()
	s.encrypted()
	first, uids := s.serve(nil), s.uids()
	s.issue(own, clients, members, time.Now())
	s.serve(first)
	s.ready(3)
	s.holds()
	if n := s.restarts(); n > 0 || fmt.Sprint(s.uids()) != fmt.Sprint(uids) {
		t.Errorf("members were restarted %d times", n)
	}
	s.named(cause{"a certificate of another authority", func(s *scene) func() {
		op.Stop() // a running operator would detect the changed Secret only after up to five minutes
		other := authority("others")
		s.issue(secrets{"unused-server", "unused-peer", "own-client"}, other, other, time.Now())
		op = s.start()
		return func() {
			op.Stop()
			s.issue(own, clients, members, time.Now())
			s.start()
		}
	}, []string{"Secret own-client: "}})
}

// secret returns the data of a Secret of the cluster.
func (s *scene) secret(suffix string) map[string][]byte {
	s.Helper()
	found := &corev1.Secret{}
	s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name + suffix}, found))
	return found.Data
}

// rotated returns the reason why the former authorities are not replaced by new authorities, or nil.
func (s *scene) rotated(before map[string][]byte) error {
	now := s.secret("-ca")
	for _, key := range []string{"ca.crt", "ca.key", "peer-ca.crt", "peer-ca.key"} {
		if bytes.Equal(now[key], before[key]) {
			return errors.New(key + " is the former one")
		}
	}
	if len(now) != len(before) {
		return errors.New("the former authorities are still trusted")
	}
	return errors.Join(s.isReady(3), s.check(3))
}

// opens returns nil if a pod accepts a client with credentials.
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

// Under load, the certificate authorities of a running cluster are replaced by new ones, while each process of the operator ends at one of
// its changes. A quorum serves all the time. At the end, members refuse certificates of the former authorities.
func TestAuthoritiesAreReplacedUnderMembers(t *testing.T) {
	harness.FullForm(t, full)
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
		mixed := former.Clone() // the client trusts the server, so any refusal comes from the server
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

// allSecrets returns the data of the four Secrets of the cluster.
func (s *scene) allSecrets() map[string]map[string][]byte {
	s.Helper()
	found := map[string]map[string][]byte{}
	for _, suffix := range []string{"-ca", "-server-tls", "-peer-tls", "-client-tls"} {
		found[suffix] = s.secret(suffix)
	}
	return found
}

// putSecrets replaces the data of Secrets.
func (s *scene) putSecrets(all map[string]map[string][]byte) {
	s.Helper()
	for suffix, data := range all {
		o := &corev1.Secret{}
		s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name + suffix}, o))
		o.Data = data
		s.Must(suite.API.Update(s.Ctx, o))
	}
}

// strangers replaces all four Secrets by Secrets of authorities that no member trusts.
func (s *scene) strangers() {
	s.Helper()
	var made [2]database.Pair
	for i := range made {
		var err error
		made[i], err = database.NewAuthority("of another cluster", time.Now())
		s.Must(err)
	}
	s.issue(s.secrets(), made[0], made[1], time.Now())
	s.putSecrets(map[string]map[string][]byte{"-ca": {"ca.crt": made[0].Cert, "ca.key": made[0].Key, "peer-ca.crt": made[1].Cert, "peer-ca.key": made[1].Key}})
}

// namesStrangers waits until the status names the Secret with authorities that the members do not trust, and fails the test if anything has
// changed.
func (s *scene) namesStrangers(secrets map[string]map[string][]byte, uids map[string]bool) {
	s.Helper()
	s.Until("the Secret is named", func() error {
		if said := s.get().Status.Message; !strings.HasPrefix(said, "Secret "+name+"-ca has other certificate authorities") {
			return errors.New(said)
		}
		return nil
	})
	if fmt.Sprint(s.uids()) != fmt.Sprint(uids) || fmt.Sprint(s.allSecrets()) != fmt.Sprint(secrets) {
		s.Error("pods or Secrets were changed")
	}
}

// All four Secrets are replaced while no operator runs, as by a restore of another cluster's Secrets. The members continue with the
// authorities that they read at their start. The next operator names the Secret and changes nothing. If the user restores the former
// Secrets, the cluster continues with them. With the new Secrets, the cluster continues once every member that does not trust them has
// ended.
func TestSecretsAreExchangedWithoutAnOperator(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.start()
	s.create("{replicas: 3, tls: {mode: Auto}}")
	s.ready(3)
	s.write()
	s.Until("the authorities are recorded", func() error {
		record := harness.Lookup[*corev1.ConfigMap](s.Journal, name+"-membership")
		if text := record.Annotations["etcd.database.coreos.com/record"]; !strings.Contains(text, "authority") {
			return errors.New(text)
		}
		return nil
	})
	s.quiet(op)
	former, _, err := s.credentials()
	s.Must(err)
	own, uids, cluster, members := s.allSecrets(), s.uids(), s.get().Status.ClusterID, s.ids()
	op.Stop()
	before := s.serve(nil)
	s.strangers()
	s.serve(before)
	theirs := s.allSecrets()
	op = s.start()
	s.namesStrangers(theirs, uids)
	for _, pod := range s.pods() { // they serve the new certificates, and trust only the former authorities
		mixed := former.Clone()
		current, _, err := s.credentials()
		s.Must(err)
		mixed.RootCAs = current.RootCAs
		s.Must(s.opens(mixed, pod))
		if s.opens(current, pod) == nil {
			t.Errorf("a certificate of an unknown authority opens %s", pod.Name)
		}
	}
	s.putSecrets(own)
	s.ready(3)
	s.holds()
	s.quiet(op)
	s.isAsBefore(cluster, members)
	if fmt.Sprint(s.uids()) != fmt.Sprint(uids) {
		t.Error("pods were replaced")
	}

	op.Stop()
	s.putSecrets(theirs)
	s.start()
	s.namesStrangers(theirs, uids)
	s.scale(0)
	s.scale(3)
	s.holds()
	s.isAsBefore(cluster, members)
	if now := s.allSecrets(); !bytes.Equal(now["-ca"]["ca.key"], theirs["-ca"]["ca.key"]) {
		t.Error("the cluster did not change to the other authorities")
	}
	s.harmless()
}
