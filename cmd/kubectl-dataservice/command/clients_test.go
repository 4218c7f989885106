// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// answering starts a fake API server. answers maps a method and a path to the response to the n-th request. A method is an HTTP method or
// WATCH; the response to WATCH is a list of events, after which the watch ends. A number is the status of a response without a body. All
// other requests return NotFound.
func answering(t *testing.T, answers map[string]func(n int) any) *server {
	t.Helper()
	s := &server{}
	times := map[string]int{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if r.URL.Query().Get("watch") != "" {
			method = "WATCH"
		}
		key := method + " " + r.URL.Path
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.Path+"?"+r.URL.RawQuery)
		times[key]++
		n := times[key]
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[key]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		switch answered := answer(n).(type) {
		case int:
			w.WriteHeader(answered)
		case []any:
			for _, event := range answered {
				_ = json.NewEncoder(w).Encode(event)
			}
		default:
			_ = json.NewEncoder(w).Encode(answered)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// always returns the same answer to each request.
func always(answer any) func(int) any { return func(int) any { return answer } }

// executed returns the container and the command of the first exec request for a pod. It fails the test if there is none.
func (s *server) executed(t *testing.T, pod string) (container string, command []string) {
	t.Helper()
	for _, request := range s.asked {
		u, err := url.Parse(request)
		assert.NilError(t, err)
		if strings.HasSuffix(u.Path, "/pods/"+pod+"/exec") {
			return u.Query().Get("container"), u.Query()["command"]
		}
	}
	t.Fatalf("no command was run in pod %s: %v", pod, s.asked)
	return "", nil
}

func resourceOf(gvk schema.GroupVersionKind, name string) map[string]any {
	return map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": map[string]any{"name": name, "namespace": "a"}}
}

func podOf(name, container string, ready corev1.ConditionStatus, mounts ...corev1.VolumeMount) corev1.Pod {
	pod := corev1.Pod{}
	pod.APIVersion, pod.Kind, pod.Name, pod.Namespace = "v1", "Pod", name, "a"
	pod.Labels = map[string]string{object.LabelManagedBy: object.ManagedBy}
	pod.Spec.Containers = []corev1.Container{{Name: container, VolumeMounts: mounts}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}
	return pod
}

const (
	dataServices = "GET /apis/d3os-product.com.d3os/v1/namespaces/a/dataservices/"
	redisOnes    = "GET /apis/redis.middleware.hc.cn/v1alpha1/namespaces/a/redisclusters"
	etcdOnes     = "GET /apis/etcd.database.coreos.com/v1alpha1/namespaces/a/etcdclusters"
	mysqlOnes    = "GET /apis/d3os-product.com.d3os/v1alpha1/namespaces/a/mysqlclusters"
	podsPath     = "GET /api/v1/namespaces/a/pods"
)

func platform(spec dsv1.DataServiceSpec) *dsv1.DataService {
	ds := &dsv1.DataService{Spec: spec}
	ds.APIVersion, ds.Kind, ds.Name, ds.Namespace = dsv1.GroupVersion.String(), dsv1.Kind, "platform", "a"
	return ds
}

// For a DataService and for a RedisCluster, redis-cli runs in a ready pod of the cluster. No argument contains the password.
func TestRedis(t *testing.T) {
	t.Parallel()
	starting, running := podOf("redis-0-0", "redis", corev1.ConditionFalse), podOf("redis-1-0", "redis", corev1.ConditionTrue)
	list := always(map[string]any{"kind": "RedisClusterList", "apiVersion": redisKind.GroupVersion().String(), "items": []any{resourceOf(redisKind, "redis")}})
	answers := map[string]func(int) any{
		dataServices + "platform": always(platform(dsv1.DataServiceSpec{Redis: &dsv1.Redis{}})),
		dataServices + "bare":     always(platform(dsv1.DataServiceSpec{})),
		dataServices + "away":     always(platform(dsv1.DataServiceSpec{Redis: &dsv1.Redis{Kind: "ThirdParty"}})),
		redisOnes:                 list,
		redisOnes + "/cache":      always(resourceOf(redisKind, "cache")),
		podsPath:                  always(corev1.PodList{Items: []corev1.Pod{starting, running}}),
		podsPath + "/redis-1-0":   always(running),
	}
	for _, name := range []string{"platform", "cache"} {
		s := answering(t, answers)
		_, _, _ = s.run(t, "redis", name, "--", "CLUSTER", "INFO") // fails: the fake server refuses it
		container, command := s.executed(t, "redis-1-0")
		assert.Equal(t, container, "redis")
		assert.DeepEqual(t, command, []string{"/bin/sh", "-c", asRedis, "redis", "CLUSTER", "INFO"})
	}
	for name, says := range map[string]string{"bare": "declares no redis", "away": "runs elsewhere", "nothing": "read RedisCluster nothing"} {
		code, _, errOut := answering(t, answers).run(t, "redis", name)
		assert.Equal(t, code, exitError)
		assert.Assert(t, strings.Contains(errOut, says), errOut)
	}
	delete(answers, podsPath)
	answers[podsPath] = always(corev1.PodList{})
	_, _, errOut := answering(t, answers).run(t, "redis", "cache")
	assert.Assert(t, strings.Contains(errOut, "no pod of RedisCluster cache runs"), errOut)
}

// For a DataService and for a MySQLCluster, mysql runs in the primary's pod.
func TestMySQLOfSeveralMembers(t *testing.T) {
	t.Parallel()
	primary := podOf("db-1", "mysql", corev1.ConditionTrue)
	primary.Spec.Containers = append([]corev1.Container{{Name: "proxy-of-a-mesh"}}, primary.Spec.Containers...)
	formed, unformed := resourceOf(mysqlKind, "db"), resourceOf(mysqlKind, "young")
	formed["status"] = map[string]any{"primary": "db-1"}
	several := platform(dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{}}) // the spec declares one server, but the MySQLCluster still exists
	several.Status.Components = []dsv1.ComponentStatus{{Name: "mysql", Kind: "Managed"}}
	answers := map[string]func(int) any{
		dataServices + "platform": always(several),
		mysqlOnes:                 always(map[string]any{"kind": "MySQLClusterList", "apiVersion": mysqlKind.GroupVersion().String(), "items": []any{formed}}),
		mysqlOnes + "/db":         always(formed),
		mysqlOnes + "/young":      always(unformed),
		podsPath + "/db-1":        always(primary),
	}
	for _, c := range []struct {
		args   []string
		script string
	}{{[]string{"mysql", "platform"}, asMember}, {[]string{"mysql", "db"}, asMember}, {[]string{"mysql", "--root", "platform"}, asMemberRoot}} {
		s := answering(t, answers)
		_, _, _ = s.run(t, append(c.args, "--", "--execute", "select 1")...) // fails: the fake server refuses it
		container, command := s.executed(t, "db-1")
		assert.Equal(t, container, "mysql")
		assert.DeepEqual(t, command, []string{"/bin/sh", "-c", c.script, "mysql", "--execute", "select 1"})
	}
	for name, says := range map[string]string{"young": "has no primary yet", "nothing": "there is no DataService and no MySQLCluster nothing"} {
		code, _, errOut := answering(t, answers).run(t, "mysql", name)
		assert.Equal(t, code, exitError)
		assert.Assert(t, strings.Contains(errOut, says), errOut)
	}
}

// etcdctl uses the certificates in its pod, if there are any.
func TestEtcd(t *testing.T) {
	t.Parallel()
	plain := podOf("e-0", "etcd", corev1.ConditionTrue)
	secured := podOf("e-0", "etcd", corev1.ConditionTrue, corev1.VolumeMount{Name: "tls-server", MountPath: "/tls/server"})
	for _, c := range []struct {
		pod  corev1.Pod
		args []string
		want string
	}{
		{plain, nil, "etcdctl --endpoints=http://localhost:2379 endpoint status --cluster --write-out=table"},
		{secured, []string{"--", "get", "key"},
			"etcdctl --endpoints=https://localhost:2379 --cacert=/tls/server/ca.crt --cert=/tls/server/tls.crt --key=/tls/server/tls.key get key"},
	} {
		s := answering(t, map[string]func(int) any{
			etcdOnes + "/e": always(resourceOf(etcdKind, "e")), podsPath: always(corev1.PodList{Items: []corev1.Pod{c.pod}}), podsPath + "/e-0": always(c.pod),
		})
		_, _, _ = s.run(t, append([]string{"etcd", "e"}, c.args...)...) // fails: the fake server refuses it
		container, command := s.executed(t, "e-0")
		assert.Equal(t, container, "etcd")
		assert.Equal(t, strings.Join(command, " "), c.want)
	}
	_, _, errOut := answering(t, nil).run(t, "etcd", "e")
	assert.Assert(t, strings.Contains(errOut, "read EtcdCluster e in namespace a"), errOut)
}

// The command follows a backup to its end, also if a watch ends. The exit code reports the result.
func TestBackup(t *testing.T) {
	t.Parallel()
	const path = "/apis/d3os-product.com.d3os/v1alpha1/namespaces/a/databackups"
	is := func(phase backupv1.Phase, message string) *backupv1.DataBackup {
		b := &backupv1.DataBackup{}
		b.APIVersion, b.Kind, b.Name, b.Namespace = backupv1.GroupVersion.String(), "DataBackup", "nightly", "a"
		b.Status = backupv1.DataBackupStatus{Phase: phase, Message: message}
		return b
	}
	done := is(backupv1.PhaseSucceeded, "the store holds backup 20260102T150405Z-0a1b2c3d")
	done.Status.ID, done.Status.Size, done.Status.Tables, done.Status.Rows, done.Status.Duration = "20260102T150405Z-0a1b2c3d", "12.4 MiB", 42, 120000, "5s"
	done.Status.Warnings = []string{"table app.log has the engine MyISAM: it is not of the same point in time as the other tables"}
	event := func(kind string, b *backupv1.DataBackup) any { return map[string]any{"type": kind, "object": b} }
	for name, c := range map[string]struct {
		code int
		get  []*backupv1.DataBackup
		ends []any // events of the second watch; the first watch ends immediately
	}{
		"succeeds": {exitYes, []*backupv1.DataBackup{is("", ""), is(backupv1.PhaseRunning, "Job nightly is running")}, []any{event("MODIFIED", done)}},
		"fails":    {exitNo, []*backupv1.DataBackup{is("", ""), is(backupv1.PhaseFailed, "AccessDenied: the store refuses the key")}, nil},
		"deleted":  {exitError, []*backupv1.DataBackup{is("", ""), is(backupv1.PhaseRunning, "Job nightly is running")}, []any{event("DELETED", done)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, map[string]func(int) any{
				dataServices + "platform":  always(platform(dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{Backup: &dsv1.Backup{}}})),
				"POST " + path:             always(is("", "")),
				"GET " + path + "/nightly": func(n int) any { return c.get[min(n, len(c.get))-1] },
				"WATCH " + path: func(n int) any {
					if n == 1 {
						return []any{}
					}
					return c.ends
				},
			})
			code, out, errOut := s.run(t, "backup", "platform", "--as-name", "nightly")
			assert.Equal(t, code, c.code, out+errOut)
			golden.Assert(t, out+errOut, "backup-"+name+".txt")
		})
	}
	code, _, errOut := answering(t, map[string]func(int) any{dataServices + "bare": always(platform(dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{}}))}).run(t, "backup", "bare")
	assert.Equal(t, code, exitError)
	assert.Assert(t, strings.Contains(errOut, "declare spec.mysql.backup first"), errOut)
}
