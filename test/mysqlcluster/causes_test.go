// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/slowdisk"
	"d3os.com/d3os-operator/test/harness/stage"
)

// cause is a fault of a cluster of three members, the words by which outputs name it, and the function that ends it. A cause without words
// checks the outputs itself.
type cause struct {
	name   string
	happen func(s *scene) (mend func())
	words  []string
}

// fail ends nodes until the returned function starts them again.
func (s *scene) fail(ordinals ...int) (mend func()) {
	s.Helper()
	var nodes []string
	for _, ordinal := range ordinals {
		nodes = append(nodes, s.pod(ordinal).Spec.NodeName)
	}
	for _, node := range nodes {
		s.Must(s.StopNode(s.Ctx, node))
	}
	return func() {
		for _, node := range nodes {
			s.Must(s.StartNode(s.Ctx, node))
		}
	}
}

// hang stops members until the returned function continues them.
func (s *scene) hang(ordinals ...int) (mend func()) {
	signal := func(signal syscall.Signal) {
		for _, ordinal := range ordinals {
			if err := s.Kill(fmt.Sprintf("%s-%d", name, ordinal), signal, "mysql"); err != nil {
				s.Logf("no signal: %v", err) // the process does not run
			}
		}
	}
	signal(syscall.SIGSTOP)
	return func() { signal(syscall.SIGCONT) }
}

// distrust replaces the certificate of the members, while no operator runs, by one that another authority signed. Then it starts a new
// operator, which reports that the members do not trust the other authority. The returned function restores the former certificate.
func (s *scene) distrust(op **stage.Operator) (mend func()) {
	s.Helper()
	(*op).Stop()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name + "-member-tls", Namespace: s.Namespace}}
	s.Read(secret)
	former := secret.DeepCopy().Data
	other, err := database.NewAuthority("another authority", time.Now())
	s.Must(err)
	leaf, err := other.Issue(database.Leaf{Name: "member", Hosts: []string{"db"}, Client: true}, time.Now())
	s.Must(err)
	set := func(data map[string][]byte) {
		s.Try("replace the certificate", func() error {
			s.Read(secret)
			secret.Data = data
			return suite.API.Update(s.Ctx, secret)
		})
	}
	set(map[string][]byte{"ca.crt": other.Cert, "tls.crt": leaf.Cert, "tls.key": leaf.Key})
	*op = s.start()
	return func() { set(former) }
}

func causes(disks *slowdisk.Disks, op **stage.Operator) []cause {
	return []cause{
		{"a wrong certificate", func(s *scene) func() { return s.distrust(op) }, []string{"has another certificate authority than the running members trust"}},
		{"the primary is lost, and failover is manual", func(s *scene) func() {
			s.change("{replication: {failover: Manual}}")
			mend := s.hang(s.primary())
			return func() { mend(); s.change("{replication: {failover: null}}") }
		}, []string{"failover is Manual"}},
		{"the quorum is lost", func(s *scene) func() { return s.hang(s.primary(), (s.primary()+1)%3) },
			[]string{"is lost, and of 2 voters 2 must answer"}},
		{"a node is lost", func(s *scene) func() { return s.fail((s.primary() + 1) % 3) }, []string{"NodeUnreachable"}},
		{"a voter that lags", func(s *scene) func() {
			replica := (s.primary() + 1) % 3
			s.change("{replication: {maxLag: 2s}}")
			lock, err := s.hold(replica, "LOCK TABLES ledger.t READ")
			s.Must(err)
			return func() { s.Must(lock()); s.change("{replication: {maxLag: null}}") }
		}, []string{"it is more than 2 s behind"}},
		{"an errant member", func(s *scene) func() {
			replica, from := (s.primary()+1)%3, s.Mark()
			s.Must(s.root(replica, "SET GLOBAL super_read_only = OFF; CREATE DATABASE IF NOT EXISTS strange; SET GLOBAL super_read_only = ON"))
			s.Eventually("the status names it before the copy, which takes seconds, replaces it", func() bool {
				return s.First(from, "MySQLCluster/"+name, func(c harness.Change) bool {
					mc, ok := c.Object.(*mysqlv1.MySQLCluster)
					return ok && strings.HasPrefix(mc.Status.Message, fmt.Sprintf("member %d has transactions that the primary lacks", replica))
				}) != nil
			})
			return func() {}
		}, nil},
		{"a full disk", func(s *scene) func() {
			full := s.pod((s.primary() + 1) % 3).Name
			disks.Fill(full, true)
			return func() { disks.Fill(full, false) }
		}, []string{"no space left on the volume"}},
		{"no copy is left, and commits wait", func(s *scene) func() {
			s.change("{replication: {whenAlone: Block}}")
			mend := s.hang((s.primary()+1)%3, (s.primary()+2)%3)
			return func() { mend(); s.change("{replication: {whenAlone: null}}") }
		}, []string{"no voter is well, and spec.replication.whenAlone is Block"}},
		{"no copy is left, and the primary continues alone", func(s *scene) func() { return s.hang((s.primary()+1)%3, (s.primary()+2)%3) },
			[]string{"is alone, without a copy of its data"}},
	}
}

// hold runs SQL as root in a session of a member. The session stays open until the returned function is called.
func (s *scene) hold(ordinal int, sql string) (end func() error, err error) {
	command, err := s.rootClient(ordinal)
	if err != nil {
		return nil, err
	}
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	if _, err := in.Write([]byte(sql + "; SELECT 'held';\n")); err != nil {
		return nil, err
	}
	if _, err := out.Read(make([]byte, len("held\n"))); err != nil {
		return nil, err
	}
	return func() error {
		_ = in.Close() // this ends the client
		return command.Wait()
	}, nil
}

// `kubectl get`, `kubectl describe` and `kubectl dataservice why` name each cause at the start of their output.
func TestCauses(t *testing.T) {
	harness.FullForm(t, full)
	disks := slowdisk.New(t)
	s := newScene(t, func(o *emulator.Options) {
		programs := o.Images["docker.io/library/mysql"].Executables
		programs["mysqld"] = disks.Program(programs["mysqld"])
	})
	op := s.start()
	s.create("replicas: 3")
	s.ready(3)
	s.write()
	for _, c := range causes(disks, &op) {
		mend := c.happen(s)
		if len(c.words) > 0 {
			s.Names("mysql", name, c.name, c.words...)
		}
		mend()
		s.ready(3)
	}
}
