// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
)

// The command events prints only the events of the DataService, its objects and its pods.
func TestEvents(t *testing.T) {
	e := newEnv(t, "view")
	e.Start()
	e.CreateReady(harness.Small())
	e.Change(name, fields{"auth": fields{"image": "registry.example/auth:does-not-exist"}})
	e.says(exitYes, []string{"dataservice/" + name, "ComponentCreated", "deployment/auth", "ScalingReplicaSet", "pod/auth-"}, "events", name)
	text := e.says(exitYes, []string{"pod/auth-"}, "events", name, "auth")
	assert.Assert(t, !strings.Contains(text, "pod/proxy-"))
	list := &corev1.EventList{}
	assert.NilError(t, json.Unmarshal([]byte(e.says(exitYes, nil, "events", name, "-o", "json")), list))
	assert.Assert(t, len(list.Items) > 3)
	e.says(exitError, []string{"not found"}, "events", "nothing")
}

func TestRender(t *testing.T) {
	e := newEnv(t, "view")
	text := e.says(exitYes, []string{"kind: Deployment", "namespace: " + e.Namespace}, "render", "-f", e.file(harness.Small()))
	assert.Assert(t, strings.Count(text, "---\n") > 15)
	e.says(exitError, []string{"which file"}, "render")
}

// server is a fake API server. It has one pod with two containers, one of which waits for its restart.
type server struct {
	*httptest.Server

	mu    sync.Mutex
	asked []string
}

func newServer(t *testing.T) *server {
	s := &server{}
	pod := corev1.Pod{}
	pod.Name, pod.Namespace = "mysql-dataservice-0", "a"
	pod.Spec.Containers = []corev1.Container{{Name: "mysql-dataservice"}, {Name: "accounts"}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "mysql-dataservice", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{Name: "accounts", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}},
		{Name: "new", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}},
	}}
	ds := dsv1.DataService{Spec: dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{}}}
	ds.APIVersion, ds.Kind, ds.Name, ds.Namespace = dsv1.GroupVersion.String(), dsv1.Kind, "platform", "a"
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.Path+"?"+r.URL.RawQuery)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/dataservices/platform"):
			_ = json.NewEncoder(w).Encode(ds)
		case strings.HasSuffix(r.URL.Path, "/pods"):
			_ = json.NewEncoder(w).Encode(corev1.PodList{Items: []corev1.Pod{pod}})
		case strings.HasSuffix(r.URL.Path, "/pods/"+pod.Name):
			_ = json.NewEncoder(w).Encode(pod)
		case strings.HasSuffix(r.URL.Path, "/log") && r.URL.Query().Get("container") == "accounts":
			_, _ = w.Write([]byte("no connection\n"))
		case strings.HasSuffix(r.URL.Path, "/log"):
			_, _ = w.Write([]byte("started\nready for connections"))
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	namespace := "a"
	flags.APIServer, flags.Namespace = &s.URL, &namespace
	var o, eo buffer
	code = run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &o, ErrOut: &eo}, flags, args)
	return code, o.String(), eo.String()
}

// Each line names the pod and the container. For a container that waits for its restart, the command prints the log of the last run.
func TestLogs(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	code, out, errOut := s.run(t, "logs", "platform", "mysql", "--tail", "5", "--since", "1h")
	assert.Equal(t, code, exitYes, errOut)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	assert.DeepEqual(t, lines, []string{
		"[mysql-dataservice-0/accounts] no connection",
		"[mysql-dataservice-0/mysql-dataservice] ready for connections",
		"[mysql-dataservice-0/mysql-dataservice] started",
	})
	previous := 0
	for _, request := range s.asked {
		u, err := url.Parse(request)
		assert.NilError(t, err)
		if strings.HasSuffix(u.Path, "/log") {
			assert.Equal(t, u.Query().Get("tailLines")+" "+u.Query().Get("sinceSeconds"), "5 3600")
			if u.Query().Get("previous") == "true" {
				previous++
				assert.Equal(t, u.Query().Get("container"), "accounts")
			}
		}
	}
	assert.Equal(t, previous, 1)
}

// If the log of one container cannot be read, the command prints the error between the lines of other containers. The exit code is 1.
func TestLogsOfAContainerThatFails(t *testing.T) {
	t.Parallel()
	pod := podOf("auth-0", "auth", corev1.ConditionTrue)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "auth", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	other := podOf("auth-1", "auth", corev1.ConditionTrue)
	other.Status.ContainerStatuses = pod.Status.ContainerStatuses
	answers := map[string]func(int) any{
		podsPath:                 always(corev1.PodList{Items: []corev1.Pod{pod, other}}),
		podsPath + "/auth-0/log": always("started"),
		podsPath + "/auth-1/log": always(http.StatusForbidden),
	}
	code, out, errOut := answering(t, answers).run(t, "logs", "platform")
	assert.Equal(t, code, exitNo, out+errOut)
	assert.NilError(t, harness.Mentions(out, "[auth-0/auth] \"started\"\n", "[auth-1/auth] error: "))
}

// The commands version and events name the objects that the user may not read, and continue without them. They escape control characters.
func TestWithFewRights(t *testing.T) {
	t.Parallel()
	about := func(kind, name string) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Reason: "Seen", Message: "\x1b[2Jabout " + name}
	}
	deployment := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{
		"name": "auth", "namespace": "a", "annotations": map[string]any{object.AnnotationWriter: "0.2.0"}}}
	const deployments, sets = "GET /apis/apps/v1/namespaces/a/deployments", "GET /apis/apps/v1/namespaces/a/statefulsets"
	readable := map[string]func(int) any{
		dataServices + "platform":         always(platform(dsv1.DataServiceSpec{})),
		"GET /api/v1/namespaces/a/events": always(corev1.EventList{Items: []corev1.Event{about(dsv1.Kind, "platform"), about("Pod", "auth-0"), about("Pod", "other-0")}}),
	}
	all := func(more map[string]func(int) any) map[string]func(int) any {
		answers := map[string]func(int) any{podsPath: always(http.StatusForbidden)}
		for _, gvk := range slices.Concat(object.Kinds, object.Optional) {
			path := "GET /apis/" + gvk.GroupVersion().String() + "/namespaces/a/" + object.ResourceOf(gvk).Resource
			if gvk.Group == "" {
				path = "GET /api/v1/namespaces/a/" + object.ResourceOf(gvk).Resource
			}
			answers[path] = always(http.StatusForbidden)
		}
		maps.Copy(answers, readable)
		maps.Copy(answers, more)
		return answers
	}
	list := func(items ...any) func(int) any {
		return always(map[string]any{"apiVersion": "apps/v1", "kind": "List", "items": items})
	}
	few, some, none := all(nil), all(map[string]func(int) any{deployments: list(deployment)}), all(map[string]func(int) any{deployments: list(), sets: list()})
	for _, c := range []struct {
		answers map[string]func(int) any
		args    []string
		out     []string
		lacks   string
		errOut  string
	}{
		{few, []string{"version"}, []string{"writer    unknown: you may not list Deployment, StatefulSet\n"}, "none:", ""},
		{some, []string{"version"}, []string{"writer    0.2.0; you may not list StatefulSet\n"}, "none:", ""},
		{none, []string{"version"}, []string{"writer    none: this namespace has no Deployment or StatefulSet of the operator\n"}, "may not", ""},
		{few, []string{"version", "-o", "json"}, []string{`"refused": [`, `"StatefulSet"`}, `"writer"`, ""},
		{few, []string{"events", "platform"}, []string{`\u001b[2Jabout platform`}, "auth-0", "note: you may not list ConfigMap, CronJob, "},
		{few, []string{"events", "platform"}, nil, "other-0", "pods: their events may be missing\n"},
		{some, []string{"events", "platform"}, []string{"about platform", "about auth-0"}, "other-0", "pods: their events may be missing\n"},
		{some, []string{"events", "platform", "-o", "json"}, []string{"about auth-0"}, "note", "pods: their events may be missing\n"},
	} {
		code, out, errOut := answering(t, c.answers).run(t, c.args...)
		assert.Assert(t, code == exitNo || c.args[0] == "version" && code == exitYes, "%v: %d %s%s", c.args, code, out, errOut)
		assert.NilError(t, harness.Mentions(out, c.out...))
		assert.NilError(t, harness.Mentions(errOut, c.errOut))
		assert.Assert(t, !strings.Contains(out, c.lacks), "%v: %s", c.args, out)
		assert.Equal(t, errOut != "", c.errOut != "", errOut)
	}
}

// mysql runs in the database's container. No argument contains the password.
func TestMySQL(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	code, _, errOut := s.run(t, "mysql", "platform", "--", "--execute", "show databases")
	assert.Equal(t, code, exitError, "this server refuses it: %s", errOut)
	i := slices.IndexFunc(s.asked, func(request string) bool { return strings.Contains(request, "/pods/mysql-dataservice-0/exec") })
	assert.Assert(t, i >= 0, "%v", s.asked)
	u, err := url.Parse(s.asked[i])
	assert.NilError(t, err)
	assert.Equal(t, u.Query().Get("container"), "mysql-dataservice")
	assert.DeepEqual(t, u.Query()["command"], []string{"/bin/sh", "-c", asService, "mysql", "--execute", "show databases"})

	none := &dsv1.DataService{}
	_, err = databasePod(none, nil)
	assert.ErrorContains(t, err, "declares no mysql")
	none.Spec.MySQL = &dsv1.MySQL{}
	_, err = databasePod(none, nil)
	assert.ErrorContains(t, err, "no pod of mysql runs")
	none.Status.Components = []dsv1.ComponentStatus{{Name: "mysql", Kind: "ThirdParty"}}
	_, err = databasePod(none, nil)
	assert.ErrorContains(t, err, "runs elsewhere")
}

// mysql does not run in a container that a mesh or another webhook has added as the first one.
func TestMySQLPicksTheContainerOfTheDatabase(t *testing.T) {
	t.Parallel()
	for _, pod := range []string{"mysql-dataservice-0", "mysql-dataservice-6b7c9-x2x"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "istio-proxy"}, {Name: "accounts"}, {Name: "mysql-dataservice"}, {Name: "exporter"},
		}}}
		assert.Equal(t, databaseContainer(p), "mysql-dataservice")
	}
}
