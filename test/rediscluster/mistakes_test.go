// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// replace deletes a pod and waits until another one is there.
func (s *scene) replace(pod string) {
	s.Helper()
	before := harness.Lookup[*corev1.Pod](s.Journal, pod)
	s.Must(suite.API.Delete(s.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: pod}}))
	s.Until("another "+pod, func() error {
		if now := harness.Lookup[*corev1.Pod](s.Journal, pod); now == nil || now.UID == before.UID || !stage.IsReady(now) {
			return errors.New("it is not ready")
		}
		return nil
	})
}

// says waits until the status says something.
func (s *scene) says(words ...string) {
	s.Helper()
	s.Until("the status says so", func() error {
		rc := s.get()
		text := rc.Status.Message
		for _, c := range rc.Status.Conditions {
			text += "\n" + c.Message
		}
		return harness.Mentions(text, words...)
	})
}

// What a spec asks for that cannot be is named and changes nothing that runs, and what runs is healed.
func TestMistakesLeaveWhatRuns(t *testing.T) {
	s := newScene(t)
	s.Start()
	// All pods on one node, which the soft anti-affinity allows.
	s.create(fmt.Sprintf("{replicas: 6, repository: redis, pod: [{nodeSelector: {kubernetes.io/hostname: %s}}]}", s.Nodes()[0]))
	s.ready(6)
	s.write()
	s.says("shard 0 has all of its pods on node " + s.Nodes()[0])
	uids := s.uids()

	// Redis refuses the value. A pod that restarts must start all the same.
	s.change("{config: {maxmemory-policy: no-such-policy, hz: '20'}}")
	s.says("CONFIG SET maxmemory-policy no-such-policy")
	s.replace(name + "-0-1")
	s.replace(name + "-1-0")
	if file := harness.Lookup[*corev1.ConfigMap](s.Journal, name+"-config").Data["settings.conf"]; strings.Contains(file, "no-such-policy") {
		t.Errorf("what Redis refuses is in the file that it starts with: %s", file)
	}
	s.change("{config: {maxmemory-policy: null, maxmemory-polcy: allkeys-lru, hz: '20'}}")
	s.says(`does not know the setting "maxmemory-polcy"`)
	s.change("{config: {maxmemory-polcy: null, maxmemory-policy: allkeys-lru, hz: '20'}}")
	s.ready(6)
	s.Until("the file has what the servers have", func() error {
		return harness.Mentions(harness.Lookup[*corev1.ConfigMap](s.Journal, name+"-config").Data["settings.conf"], "maxmemory-policy allkeys-lru", "hz 20")
	})

	// A version that is too old.
	s.change("{version: 3.2.8}")
	s.Until("it is named", func() error {
		return s.ignores(s.get(), "spec.version: Redis 3.2.8 is not supported", "keep their image")
	})
	s.replace(name + "-2-0")
	s.ready(6)
	if left := s.remain(uids); left != 3 {
		t.Errorf("%d of the first six pods are left; three were deleted", left)
	}
	s.change("{version: 7.0.15}")
	s.ready(6)
	s.holds()
}

// A password that somebody changes where the servers do not have it locks nobody out.
func TestPasswordIsChanged(t *testing.T) {
	s := newScene(t)
	op := s.Start()
	set := func(secret, password string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"data": {"password": %q}}`, base64.StdEncoding.EncodeToString([]byte(password)))
		o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: secret}}
		s.Must(suite.API.Patch(s.Ctx, o, client.RawPatch(types.MergePatchType, patch)))
	}
	s.create("{replicas: 6, repository: redis}")
	s.ready(6)
	s.write()

	// The operator's own comes back.
	secret := name + "-credentials"
	before := harness.Lookup[*corev1.Secret](s.Journal, secret).Data["password"]
	set(secret, "another")
	s.Until("it comes back", func() error {
		if now := harness.Lookup[*corev1.Secret](s.Journal, secret).Data["password"]; string(now) != string(before) {
			return errors.New("it has not")
		}
		return nil
	})
	s.ready(6)
	s.replace(name + "-0-0")
	s.ready(6)
	s.holds()

	// While no operator runs, nobody puts it back. The next one says what is wrong, takes nothing from anybody, and goes on when
	// it is corrected.
	op.Stop()
	set(secret, "another")
	s.CatchUp()
	s.Start()
	s.says("it does not accept the password of the cluster")
	uids := s.uids()
	if meta.IsStatusConditionTrue(s.get().Status.Conditions, redisv1.ConditionReady) || s.get().Status.Verdict != "Unknown" {
		t.Errorf("the servers refuse the operator, and the status is %+v", s.get().Status)
	}
	set(secret, string(before))
	s.ready(6)
	if left := s.remain(uids); left != 6 {
		t.Errorf("%d of six pods are left", left)
	}
	s.holds()
}
