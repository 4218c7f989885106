// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"embed"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/compat"
	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
)

// why follows a chain of waiting components to the cause. It reports that a healthy component is healthy.
func TestWhyOfAComponent(t *testing.T) {
	e := newEnv(t, "view")
	e.Start()
	e.CreateReady(harness.Small())
	e.says(exitYes, []string{"nothing is wrong: all components"}, "why", name)
	e.Change(name, fields{"proxy": fields{"image": "registry.example/proxy:does-not-exist"}, "web": fields{"image": "registry.example/web:v2"}})
	e.says(exitNo, []string{"proxy: pod proxy-", "web waits for proxy"}, "why", name, "web")
	e.says(exitYes, []string{"nothing is wrong: mysql is ready"}, "why", name, "mysql")
	e.says(exitError, []string{"has no component wep", "mysql, uuc"}, "why", name, "wep")
	e.says(exitNo, []string{`"cause": "proxy: pod proxy-`, `"kind": "Pod"`}, "why", name, "-o", "json")
}

// why accepts a RedisCluster, an EtcdCluster and a MySQLCluster by kind and name. It reads the objects of the cluster.
func TestWhyOfAClusterByItself(t *testing.T) {
	t.Parallel()
	waiting := func(gvk schema.GroupVersionKind, name string) map[string]any {
		o := resourceOf(gvk, name)
		o["metadata"].(map[string]any)["generation"] = 1
		o["status"] = map[string]any{"observedGeneration": 1, "phase": "Creating", "conditions": []any{map[string]any{
			"type": "Ready", "status": "False", "reason": "PodsNotReady", "message": "0 of 3 pods exist"}}}
		return o
	}
	pod := podOf("cache-0-0", "redis", corev1.ConditionFalse)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "redis", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "manifest unknown"}}}}
	set := appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "a"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(3))}}
	refused := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Name: "e"}, Reason: "FailedCreate", Type: corev1.EventTypeWarning, Message: "exceeded quota: limit"}
	const sets, events = "GET /apis/apps/v1/namespaces/a/statefulsets", "GET /api/v1/namespaces/a/events"
	answers := func(more map[string]func(int) any) map[string]func(int) any {
		all := map[string]func(int) any{events: always(corev1.EventList{Items: []corev1.Event{refused}}), podsPath: always(corev1.PodList{})}
		for _, gvk := range shownKinds { // all kinds of objects
			list := map[string]any{"kind": gvk.Kind + "List", "apiVersion": gvk.GroupVersion().String(), "items": []any{}}
			prefix := "GET /apis/" + gvk.GroupVersion().String()
			if gvk.Group == "" {
				prefix = "GET /api/v1"
			}
			all[prefix+"/namespaces/a/"+object.ResourceOf(gvk).Resource] = always(list)
		}
		maps.Copy(all, more)
		return all
	}
	setList := map[string]any{"kind": "StatefulSetList", "apiVersion": "apps/v1", "items": []any{set}}
	etcd := answers(map[string]func(int) any{etcdOnes + "/e": always(waiting(etcdKind, "e")), sets: always(setList)})
	cache := answers(map[string]func(int) any{redisOnes + "/cache": always(waiting(redisKind, "cache")), podsPath: always(corev1.PodList{Items: []corev1.Pod{pod}})})
	mysql := answers(map[string]func(int) any{mysqlOnes + "/e": always(waiting(mysqlKind, "e")), sets: always(setList)})
	unsaved := waiting(redisKind, "kept")
	unsaved["status"] = map[string]any{"observedGeneration": 1, "phase": "Running", "conditions": []any{
		map[string]any{"type": "Ready", "status": "True", "reason": "AllServed", "message": "all slots are served"},
		map[string]any{"type": "BackupHealthy", "status": "False", "reason": "NoBackup", "message": "no backup was made yet"}}}
	first := resourceOf(backupKind, "first")
	first["spec"] = map[string]any{"of": map[string]any{"kind": "RedisCluster", "name": "kept"}}
	first["status"] = map[string]any{"phase": "Running", "reason": "PodNotStarting", "message": "claim backups does not exist"}
	backedUp := func(list any) map[string]func(int) any {
		return answers(map[string]func(int) any{redisOnes + "/kept": always(unsaved), "GET /apis/d3os-product.com.d3os/v1alpha1/namespaces/a/databackups": always(list)})
	}
	kept := backedUp(map[string]any{"kind": "DataBackupList", "apiVersion": backupKind.GroupVersion().String(), "items": []any{first}})
	for _, c := range []struct {
		answers map[string]func(int) any
		args    []string
		code    int
		says    []string
	}{
		{kept, []string{"redis/kept"}, exitNo, []string{"DataBackup first is Running: PodNotStarting: claim backups does not exist", "look at DataBackup first"}},
		{backedUp(http.StatusForbidden), []string{"redis/kept"}, exitNo, []string{"backup: NoBackup: no backup was made yet", "look at RedisCluster kept"}},
		{mysql, []string{"mysql/e"}, exitNo, []string{"e: StatefulSet e: FailedCreate: exceeded quota: limit", "look at StatefulSet e"}},
		{etcd, []string{"etcd/e"}, exitNo, []string{"e: StatefulSet e: FailedCreate: exceeded quota: limit", "look at StatefulSet e"}},
		{etcd, []string{"etcdclusters/e"}, exitNo, []string{"look at StatefulSet e"}},
		{cache, []string{"redis/cache"}, exitNo, []string{"cache: pod cache-0-0: ImagePullBackOff: manifest unknown", "look at Pod cache-0-0"}},
		{cache, []string{"redis/cache", "redis"}, exitError, []string{"RedisCluster cache has no components: leave redis out"}},
		{cache, []string{"pod/cache"}, exitError, []string{"must be the name of a DataService, or redis/NAME"}},
		{cache, []string{"redis/other"}, exitError, []string{"read RedisCluster other in namespace a"}},
		{cache, []string{"rec/other"}, exitError, []string{"read RedisCluster other in namespace a"}},
	} {
		code, out, errOut := answering(t, c.answers).run(t, append([]string{"why"}, c.args...)...)
		assert.Equal(t, code, c.code, out+errOut)
		assert.NilError(t, harness.Mentions(out+errOut, c.says...))
	}
}

// why accepts each kind of the CRDs except DataService by the names that kubectl accepts. It reads the objects and pods of each kind except
// backups.
func TestWhyKnowsEveryKind(t *testing.T) {
	t.Parallel()
	_, _, refused := (*cluster)(nil).subject(t.Context(), []string{"pod/a"}, time.Time{})
	texts := map[string]string{"help": (&cli{}).whyCommand().Long, "error for an unknown kind": refused.Error()}
	for _, files := range []embed.FS{crd.Files, compat.Files} {
		entries, err := files.ReadDir("bases")
		assert.NilError(t, err)
		assert.Assert(t, len(entries) > 2)
		for _, entry := range entries {
			data, err := files.ReadFile("bases/" + entry.Name())
			assert.NilError(t, err)
			var definition struct {
				Spec struct {
					Group string
					Names struct {
						Kind, Plural, Singular string
						ShortNames             []string
					}
					Versions []struct{ Name string }
				}
			}
			assert.NilError(t, yaml.Unmarshal(data, &definition))
			spec := &definition.Spec
			gvk := schema.GroupVersionKind{Group: spec.Group, Version: spec.Versions[0].Name, Kind: spec.Names.Kind}
			if gvk.Kind == dsv1.Kind {
				continue
			}
			for _, called := range append([]string{spec.Names.Singular, spec.Names.Plural}, spec.Names.ShortNames...) {
				assert.Check(t, clusters[called] == gvk, "why %s/NAME does not ask about a %s: add it to clusters in why.go", called, gvk.Kind)
			}
			for text, content := range texts {
				isNamed := false
				for called, of := range clusters {
					isNamed = isNamed || of == gvk && strings.Contains(content, called+"/NAME")
				}
				assert.Check(t, isNamed, "the %s of why lacks %s/NAME", text, spec.Names.Singular)
			}
			assert.Check(t, hasInside(gvk) == !strings.HasPrefix(gvk.Kind, "Data"), gvk.Kind)
		}
	}
}

// If no operator runs, why reports that, after the time in which the operator should have updated the status.
func TestWhyOfAnOperatorThatIsDown(t *testing.T) {
	e := newEnv(t, "view")
	op := e.Start()
	e.CreateReady(harness.Small())
	op.Stop()
	e.Change(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	e.Until("why names the operator", func() error {
		_, out, _ := e.run("why", name)
		return harness.Mentions(out, "it does not run, or does not watch namespace "+e.Namespace, "app.kubernetes.io/name=d3os-operator")
	})
}

// If a resource is so large that the API server cannot store its status, why names the resource, from an Event of the
// operator.
func TestWhyOfAResourceWithoutRoomForItsStatus(t *testing.T) {
	e := newEnv(t, "view")
	file := func(length int) fields {
		return fields{"configFiles": []any{fields{"path": "/config/long.txt", "content": strings.Repeat("a", length)}}}
	}
	const third = 1 << 19 // etcd accepts requests of up to 1.5 MiB
	created := false
	for length := third; !created; length -= 1000 { // a status has more than 1,000 bytes
		assert.Assert(t, length > third-100_000, "the API server takes no large DataService")
		ds := harness.Small(fields{"auth": file(third), "proxy": file(third), "web": file(length)})
		ds.SetNamespace(e.Namespace)
		err := suite.API.Create(e.Ctx, ds)
		if created = err == nil; !created {
			assert.ErrorContains(t, err, "request is too large")
		}
	}
	e.Start()
	e.says(exitNo, []string{"StatusTooLarge: DataService " + name + " has 15", "look at DataService " + name, "shorten spec"}, "why", name)
}
