// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	"d3os.com/d3os-operator/test/harness/slowdisk"
)

// cause is a fault of a cluster, the words by which outputs name it, and the function that ends it.
type cause struct {
	name   string
	happen func(s *scene) (mend func())
	words  []string
}

// keeps is an admission policy with its binding. With it, the API server refuses to delete the pods of a namespace.
const keeps = `
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: keeps-NAMESPACE}
  spec:
    matchConstraints: {resourceRules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
    validations: [{message: pods stay today, expression: "false"}]
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: keeps-NAMESPACE}
  spec: {policyName: keeps-NAMESPACE, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}}
`

// keepPods creates the policy, and returns the function that deletes it.
func (s *scene) keepPods() (end func()) {
	s.Helper()
	var objects []*unstructured.Unstructured
	s.Must(yaml.Unmarshal([]byte(strings.ReplaceAll(keeps, "NAMESPACE", s.Namespace)), &objects))
	for _, o := range objects {
		s.Must(suite.API.Create(s.Ctx, o))
	}
	refused := func(want bool) {
		s.Eventually("the API server applies the policy", func() bool {
			return (suite.API.Delete(s.Ctx, s.pod(0).DeepCopy(), client.DryRunAll) != nil) == want
		})
	}
	refused(true)
	return func() { s.Must(suite.API.Delete(s.Ctx, objects[1])); refused(false) }
}

// damage changes the volumes of pods while their etcd does not run, and returns the function that restores them.
func (s *scene) damage(ordinals []int, how func(folder string)) (back func()) {
	s.Helper()
	kept := map[string]string{}
	for _, ordinal := range ordinals {
		folder, err := s.VolumeFolder(s.Ctx, s.claim(ordinal))
		s.Must(err)
		s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGSTOP, "etcd"))
		kept[folder] = filepath.Join(s.TempDir(), fmt.Sprint("kept-", ordinal))
		s.Must(os.CopyFS(kept[folder], os.DirFS(folder)))
	}
	for folder := range kept {
		how(folder)
	}
	for _, ordinal := range ordinals {
		s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "etcd"))
	}
	return func() {
		for folder, was := range kept {
			s.Must(copyOver(folder, was))
		}
		for _, ordinal := range ordinals {
			s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "etcd"))
		}
	}
}

// copyOver copies a folder over another one.
func copyOver(to, from string) error {
	entries, err := os.ReadDir(to)
	for _, entry := range entries {
		_ = os.RemoveAll(filepath.Join(to, entry.Name()))
	}
	if err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

func causes(disks *slowdisk.Disks) []cause {
	return []cause{
		{"disk full", func(s *scene) func() {
			_, follower := s.leads()
			disks.Fill(s.pod(follower).Name, true)
			s.write()
			return func() { disks.Fill(s.pod(follower).Name, false) }
		}, []string{"no space left on device"}},
		{"a container without memory", func(s *scene) func() { _, follower := s.leads(); return s.Starve(s.pod(follower).Name, "etcd") }, []string{"(OOMKilled)"}},
		{"corrupt members", func(s *scene) func() {
			return s.damage([]int{1, 2}, func(folder string) { s.Must(etcdtest.FlipWAL(folder)) })
		}, []string{"DataDamaged"}},
		{"a clone", func(s *scene) func() {
			from, err := s.VolumeFolder(s.Ctx, s.claim(0))
			s.Must(err)
			return s.damage([]int{2}, func(folder string) { s.Must(copyOver(folder, from)) })
		}, []string{"ForeignVolume"}},
		{"a step that keeps failing", func(s *scene) func() {
			end := s.keepPods()
			s.change(`{podTemplate: {metadata: {annotations: {roll: "1"}}}}`)
			return end
		}, []string{"policy 'keeps-"}},
		{"the quota of the database is used up", func(s *scene) func() {
			s.change(`{config: {quota-backend-bytes: "20000000"}}`)
			s.Until("rolled", func() error { return s.isReady(3) })
			c, err := s.dial()
			s.Must(err)
			defer c.Close()
			written := 0
			s.Eventually("the space is used up", func() bool {
				written++
				ctx, cancel := context.WithTimeout(s.Ctx, 3*time.Second)
				defer cancel()
				_, err := c.Put(ctx, fmt.Sprint("big-", written), strings.Repeat("x", 500000))
				return errors.Is(err, rpctypes.ErrNoSpace)
			})
			return func() {
				c, err := s.dial()
				s.Must(err)
				defer c.Close()
				_, err = c.Delete(s.Ctx, "big-", clientv3.WithPrefix())
				s.Must(err)
				s.change("{maintenance: {compaction: {mode: periodic, retention: 1h}}}")
			}
		}, []string{"its space is used up"}},
	}
}

// named causes a fault, expects the outputs to name its cause, and ends the fault.
func (s *scene) named(c cause) {
	s.Helper()
	mend := c.happen(s)
	s.Names("etcd", name, c.name, c.words...)
	mend()
	s.Until("ready after "+c.name, func() error { return s.isReady(3) })
}

// `kubectl get`, `kubectl describe` and `kubectl dataservice why` name each cause at the start of their output.
func TestCauses(t *testing.T) {
	s, disks := onDisks(t)
	s.write()
	for _, c := range causes(disks) {
		s.named(c)
	}
	// The last fault, a full database, needs all of these steps: compaction, defragmentation of each member, a move of
	// the leader, and the end of the alarm.
	for action, least := range map[membership.Action]int{
		membership.ActionCompact: 1, membership.ActionDefrag: 3, membership.ActionMoveLeader: 1, membership.ActionDisarm: 1,
	} {
		if n := s.watchdog.had(time.Time{}, action); n < least {
			t.Errorf("%s was done %d times, want at least %d", action, n, least)
		}
	}
}
