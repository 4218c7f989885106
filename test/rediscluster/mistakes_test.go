// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"syscall"
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

// replace deletes a pod and waits until the next pod exists.
func (s *scene) replace(pod string) {
	s.Helper()
	before := harness.Lookup[*corev1.Pod](s.Journal, pod)
	s.Must(suite.API.Delete(s.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: pod}}))
	s.Eventually("another "+pod, func() bool {
		now := harness.Lookup[*corev1.Pod](s.Journal, pod)
		return now != nil && now.UID != before.UID && stage.IsReady(now)
	})
}

// says waits until the message of the status contains words.
func (s *scene) says(words ...string) {
	s.Helper()
	s.Until("the status has the words", func() error {
		rc := s.get()
		text := rc.Status.Message
		for _, c := range rc.Status.Conditions {
			text += "\n" + c.Message
		}
		return harness.Mentions(text, words...)
	})
}

// The status names an impossible setting of a spec. The setting does not change running pods, and the operator still repairs these pods.
func TestMistakesLeaveWhatRuns(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.Start()
	// The soft anti-affinity allows all pods on one node.
	s.create(fmt.Sprintf("{replicas: 6, repository: redis, pod: [{nodeSelector: {kubernetes.io/hostname: %s}}]}", s.Nodes()[0]))
	s.ready(6)
	s.write()
	s.says("shard 0 has all of its pods on node " + s.Nodes()[0])
	uids := s.uids()

	// Redis refuses the value. Nevertheless, a pod that restarts must start.
	s.change("{config: {maxmemory-policy: no-such-policy, hz: '20'}}")
	s.says("CONFIG SET maxmemory-policy no-such-policy")
	s.replace(name + "-0-1")
	s.replace(name + "-1-0")
	if file := harness.Lookup[*corev1.ConfigMap](s.Journal, name+"-config").Data["settings.conf"]; strings.Contains(file, "no-such-policy") {
		t.Errorf("the refused setting is in the file for the next start: %s", file)
	}
	s.change("{config: {maxmemory-policy: null, maxmemory-polcy: allkeys-lru, hz: '20'}}")
	s.says(`does not know the setting "maxmemory-polcy"`)
	s.change("{config: {maxmemory-polcy: null, maxmemory-policy: allkeys-lru, hz: '20'}}")
	s.ready(6)
	s.Until("the file has the settings of the servers", func() error {
		return harness.Mentions(harness.Lookup[*corev1.ConfigMap](s.Journal, name+"-config").Data["settings.conf"], "maxmemory-policy allkeys-lru", "hz 20")
	})

	// Redis reads this wrong setting only at its start: the first new pod does not start, and no other pod is replaced. A server that ends
	// starts again with its former settings.
	s.change("{config: {maxmemory-policy: allkeys-lru, hz: '20', io-threads: no-number}}")
	s.says("no further pod is replaced now", "CrashLoopBackOff")
	replaced := len(uids) - s.remain(uids)
	s.killContainers()
	s.change("{config: {io-threads: null}}")
	s.ready(6)
	if now := len(uids) - s.remain(uids); now != replaced {
		t.Errorf("%d pods were replaced, and %d before their servers ended", now, replaced)
	}
	uids = s.uids()

	// Redis 3.2.8 is too old.
	s.change("{version: 3.2.8}")
	s.Until("it is named", func() error {
		return s.ignores(s.get(), "spec.version: Redis 3.2.8 is not supported", "keep their image")
	})
	s.replace(name + "-2-0")
	s.ready(6)
	if left := s.remain(uids); left != 5 {
		t.Errorf("%d of six pods still exist; one was deleted", left)
	}
	s.change("{version: 7.0.15}")
	s.ready(6)
	s.holds()
}

// killContainers ends the server of each ready pod, one after the other, and waits until the server runs again.
func (s *scene) killContainers() {
	s.Helper()
	for _, pod := range s.pods() {
		if !stage.IsReady(pod) {
			continue
		}
		s.killContainer(pod.Name)
	}
}

// killContainer kills the server of a pod, and waits until the container has restarted and the pod is ready.
func (s *scene) killContainer(pod string) {
	s.Helper()
	restarts := func(pod *corev1.Pod) int32 {
		for _, c := range pod.Status.ContainerStatuses {
			if c.Name == "redis" {
				return c.RestartCount
			}
		}
		return 0
	}
	before := harness.Lookup[*corev1.Pod](s.Journal, pod)
	s.Must(s.Kill(pod, syscall.SIGKILL, "redis"))
	s.Until("the server of "+pod+" is back", func() error {
		switch now := harness.Lookup[*corev1.Pod](s.Journal, pod); {
		case now == nil || now.UID != before.UID:
			s.Fatalf("%s was replaced: %s", pod, s.get().Status.Message)
		case restarts(now) == restarts(before) || !stage.IsReady(now):
			return fmt.Errorf("%d restarts, ready: %v", restarts(now), stage.IsReady(now))
		}
		return nil
	})
}

// setPassword changes the password in a Secret.
func (s *scene) setPassword(secret, password string) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"data": {"password": %q}}`, base64.StdEncoding.EncodeToString([]byte(password)))
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: secret}}
	s.Must(suite.API.Patch(s.Ctx, o, client.RawPatch(types.MergePatchType, patch)))
}

// A password that a user changes only in the Secret locks no client out.
func TestPasswordIsChanged(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op, set := s.standing(six), s.setPassword

	// The operator restores its generated password.
	secret := name + "-credentials"
	before := harness.Lookup[*corev1.Secret](s.Journal, secret).Data["password"]
	set(secret, "another")
	s.Eventually("it comes back", func() bool {
		now := harness.Lookup[*corev1.Secret](s.Journal, secret).Data["password"]
		return string(now) == string(before)
	})
	s.ready(6)
	s.replace(name + "-0-0")
	s.ready(6)
	s.holds()

	// Without an operator the Secret is not restored. The next operator reports the problem, locks no client out, and continues when the
	// Secret is corrected.
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
		t.Errorf("%d of six pods still exist", left)
	}
	s.holds()
}

// A password is changed by hand as in docs/redis.md: no client is locked out, and pods that start later join.
func TestPasswordIsChangedByHand(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.standing(six)
	uids, former := s.uids(), s.taken()
	s.change("{pause: true}")
	s.says("paused")
	each := func(commands ...[]any) {
		t.Helper()
		for _, pod := range s.pods() {
			c := s.node(pod)
			replication, err := c.ConfigGet(s.Ctx, "masteruser").Result()
			s.Must(err)
			for _, command := range commands {
				if command[0] == "ACL" {
					s.Must(c.Do(s.Ctx, "ACL", "SETUSER", replication["masteruser"], command[3]).Err())
				}
				s.Must(c.Do(s.Ctx, command...).Err())
			}
			s.Must(c.Close())
		}
	}
	each([]any{"ACL", "SETUSER", "default", ">another"}, []any{"CONFIG", "SET", "masterauth", "another"})
	s.setPassword(name+"-credentials", "another")
	s.CatchUp()
	s.password = "another"
	each([]any{"ACL", "SETUSER", "default", "<" + former}, []any{"CLIENT", "KILL", "TYPE", "master"}, []any{"CLIENT", "KILL", "TYPE", "replica"})
	s.change("{pause: false}")
	s.ready(6)
	s.holds()
	s.replace(name + "-0-0")
	s.replace(name + "-1-1")
	s.ready(6)
	s.holds()
	if left := s.remain(uids); left != 4 || s.get().Status.Verdict != "Complete" {
		t.Errorf("%d of six pods still exist, two were deleted; the verdict is %s", left, s.get().Status.Verdict)
	}
}

// A user changes the password in the user's own Secret while the cluster runs: the servers and the operator continue with the present
// password. A replica that restarts cannot join. The status names the Secret, and the replica joins when the user corrects the Secret.
func TestPasswordOfTheUserIsChanged(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.Start()
	s.secret, s.password = "mine", "first"
	s.Must(suite.API.Create(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.secret}, StringData: map[string]string{"password": "first"}}))
	s.create("{replicas: 6, repository: redis, credentialsSecret: mine}")
	s.ready(6)
	s.password = "wrong"
	if err := s.node(s.pods()[0]).Ping(s.Ctx).Err(); err == nil {
		t.Error("a server accepts a wrong password")
	}
	s.password = "first"
	s.write()
	uids, replica := s.uids(), ""
	for _, i := range s.get().Status.Instances {
		if i.Type == "slave" {
			replica = i.Name
		}
	}

	s.setPassword(s.secret, "second")
	s.Must(s.Kill(replica, syscall.SIGKILL, "redis"))
	s.says("Secret mine has another password than the servers", "does not accept the password")
	s.change("{config: {maxmemory-policy: allkeys-lru}}") // only the other servers change
	s.Until("the other servers have the setting", func() error { return s.evicts("allkeys-lru", replica) })
	if rc := s.get(); rc.Status.Slots != redisv1.Slots || s.remain(uids) != 6 || rc.Status.Phase == redisv1.PhaseRunning {
		t.Errorf("%d of six pods still exist, and the status is %+v", s.remain(uids), rc.Status)
	}
	s.holds()

	s.setPassword(s.secret, "first")
	s.ready(6)
	if left := s.remain(uids); left < 5 {
		t.Errorf("%d of six pods still exist: one had to be replaced", left)
	}
	s.holds()
}
