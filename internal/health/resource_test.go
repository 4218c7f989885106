// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// A custom resource is judged by the conditions of its latest generation.
func TestCustomResource(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: redis.middleware.hc.cn/v1alpha1\nkind: RedisCluster\n"
	for name, test := range map[string]struct {
		object        string
		settled       bool
		problem, hint string
		note          string
		ready         int32
		desired       int64 // 0 means spec.replicas
	}{
		"ready": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, ready: 6/6, conditions: [{type: Ready, status: "True", reason: AllServed, observedGeneration: 2}]}`,
			settled: true, ready: 6},
		"ready, and began again on empty volumes": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, ready: 6/6, conditions: [
  {type: Ready, status: "True", reason: AllServed}, {type: BeganEmpty, status: "True", reason: DataLost, message: RedisCluster cache began empty}]}`,
			settled: true, ready: 6, note: "RedisCluster cache began empty"},
		"ready, and a backup failed": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, ready: 6/6, conditions: [
  {type: Ready, status: "True", reason: AllServed}, {type: BackupHealthy, status: "False", reason: StoreFull, message: m}]}`,
			settled: true, ready: 6, note: "backup: StoreFull: m"},
		"ready, and the first backup is not due": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, ready: 6/6, conditions: [
  {type: Ready, status: "True", reason: AllServed}, {type: BackupHealthy, status: "False", reason: NoBackup, message: m}]}`,
			settled: true, ready: 6},
		"ready, and the condition of the backups describes an earlier generation": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, ready: 6/6, conditions: [
  {type: Ready, status: "True", reason: AllServed}, {type: BackupHealthy, status: "False", reason: StoreFull, message: m, observedGeneration: 1}]}`,
			settled: true, ready: 6},
		"more pods than spec.replicas": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 4}
status: {observedGeneration: 2, ready: 4/5, conditions: [{type: Ready, status: "False", reason: AddLearner, message: adding}]}`,
			hint: "RedisCluster cache: AddLearner: adding", ready: 4, desired: 5},
		"just created": {object: `
metadata: {name: cache, generation: 1}
spec: {replicas: 6}
status: {observedGeneration: -1}`, hint: "RedisCluster cache: NotObserved: its operator has not reported on it yet"},
		"without any status": {object: `
metadata: {name: cache, generation: 1}
spec: {replicas: 6}`, hint: "RedisCluster cache: NotObserved: its operator has not reported on it yet"},
		"ready in an earlier generation": {object: `
metadata: {name: cache, generation: 3}
spec: {replicas: 8}
status: {observedGeneration: 2, ready: 6/6, conditions: [{type: Ready, status: "True", reason: AllServed, observedGeneration: 2}]}`,
			hint: "RedisCluster cache: NotObserved: its operator has not reported on it yet", ready: 6},
		"a condition of an earlier generation": {object: `
metadata: {name: cache, generation: 3}
spec: {replicas: 8}
status: {observedGeneration: 3, conditions: [{type: Ready, status: "True", reason: AllServed, observedGeneration: 2}]}`,
			hint: "RedisCluster cache: NotObserved: its condition Ready describes an earlier generation"},
		"without conditions": {object: `
metadata: {name: cache, generation: 1}
spec: {replicas: 6}
status: {observedGeneration: 1}`, hint: "RedisCluster cache: NotReady: it is not ready"},
		"in progress": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 8}
status: {observedGeneration: 2, ready: 7/8, conditions: [{type: Ready, status: "False", reason: MoveSlots, message: moving}, {type: Degraded, status: "False"}]}`,
			hint: "RedisCluster cache: MoveSlots: moving", ready: 7},
		"degraded": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, ready: 5/6, conditions: [
  {type: Ready, status: "False", reason: Working}, {type: Degraded, status: "True", reason: NotRedundant, message: a replica is gone}]}`,
			problem: "RedisCluster cache: NotRedundant: a replica is gone", ready: 5},
		"stalled and degraded": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, conditions: [{type: Degraded, status: "True", reason: A, message: a}, {type: Stalled, status: "True", reason: SlotsLost, message: lost}]}`,
			problem: "RedisCluster cache: SlotsLost: lost"},
		"being deleted": {object: `
metadata: {name: cache, generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {replicas: 6}
status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}`, hint: "RedisCluster cache: Terminating: it is being deleted"},
	} {
		o := objectOf(t, head+test.object)
		state := Assess([]*unstructured.Unstructured{o}, nil)
		assert.Equal(t, state.Settled, test.settled, name)
		assert.Equal(t, state.Problem, test.problem, name)
		assert.Equal(t, state.Hint, test.hint, name)
		assert.Equal(t, state.Note.Text, test.note, name)
		assert.Equal(t, state.Note.Culprit.Name != "", test.note != "", name)
		assert.Equal(t, state.Ready, test.ready, name)
		desired, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
		assert.NilError(t, err)
		assert.Equal(t, int64(state.Desired), cmp.Or(test.desired, desired), name)
		if !test.settled {
			culprit := state.HintCulprit
			if test.problem != "" {
				culprit = state.Culprit
			}
			assert.Equal(t, culprit.Kind+" "+culprit.Name, "RedisCluster cache", name)
		}
	}
}

func TestCronJobsTellOfTheirLastRun(t *testing.T) {
	t.Parallel()
	const (
		nightly = "spec: {schedule: 30 2 * * *}"
		failed  = "last run 2026-01-02 02:30 UTC, did not succeed: `kubectl logs job/report-29455350` shows why"
	)
	for name, test := range map[string]struct{ content, want string }{
		"no run yet":                           {nightly, "runs at 30 2 * * *"},
		"suspended":                            {"spec: {schedule: 30 2 * * *, suspend: true}", "suspended"},
		"running":                              {nightly + ", status: {lastScheduleTime: '2026-01-02T02:30:00Z', active: [{name: a}]}", "runs at 30 2 * * *; running since 2026-01-02 02:30 UTC"},
		"succeeded":                            {nightly + ", status: {lastScheduleTime: '2026-01-02T02:30:00Z', lastSuccessfulTime: '2026-01-02T02:31:00Z'}", "runs at 30 2 * * *; last run 2026-01-02 02:30 UTC, succeeded"},
		"failed":                               {nightly + ", status: {lastScheduleTime: '2026-01-02T02:30:00Z', lastSuccessfulTime: '2026-01-01T02:31:00Z'}", "runs at 30 2 * * *; " + failed},
		"never succeeded, and suspended since": {"spec: {schedule: '@daily', suspend: true}, status: {lastScheduleTime: '2026-01-02T02:30:00Z'}", "suspended; " + failed},
	} {
		job := objectOf(t, "{apiVersion: batch/v1, kind: CronJob, metadata: {name: report}, "+test.content+"}")
		state := Assess([]*unstructured.Unstructured{job}, nil)
		assert.Equal(t, state.Note.Text, test.want, name)
		assert.Assert(t, state.Settled, name)
	}
}

// If a webhook has added a container that never ends to a cron job's pod, the note on the cron job names that
// container.
func TestCronJobsTellOfAHeldRun(t *testing.T) {
	t.Parallel()
	job := objectOf(t, "{apiVersion: batch/v1, kind: CronJob, metadata: {name: report}, spec: {schedule: '@daily', jobTemplate: {spec: {template: "+
		"{spec: {containers: [{name: report}, {name: helper}]}}}}}, status: {lastScheduleTime: '2026-01-02T02:30:00Z', active: [{name: report-1}]}}")
	const ended = "state: {terminated: {exitCode: 0}}"
	for name, test := range map[string]struct{ owner, status, held string }{
		"held":                             {"report-1", "{phase: Running, containerStatuses: [{name: proxy, state: {running: {}}}, {name: report, " + ended + "}]}", "container report has ended, and proxy still runs"},
		"held by two":                      {"report-1", "{phase: Running, containerStatuses: [{name: proxy, state: {running: {}}}, {name: report, " + ended + "}, {name: helper, state: {running: {}}}]}", "container report has ended, and helper, proxy still run"},
		"the working container still runs": {"report-1", "{phase: Running, containerStatuses: [{name: proxy, " + ended + "}, {name: report, state: {running: {}}}]}", ""},
		"the run has ended":                {"report-1", "{phase: Succeeded, containerStatuses: [{name: report, " + ended + "}]}", ""},
		"a run of another cron job":        {"reporting-1", "{phase: Running, containerStatuses: [{name: proxy, state: {running: {}}}, {name: report, " + ended + "}]}", ""},
	} {
		pod := ownedBy("Job", named("report-1-x", podOf(t, test.status)))
		pod.OwnerReferences[0].Name = test.owner
		want := "runs at @daily; running since 2026-01-02 02:30 UTC"
		if test.held != "" {
			want += ", as " + test.held
		}
		assert.Equal(t, Assess([]*unstructured.Unstructured{job}, []*corev1.Pod{pod}).Note.Text, want, name)
	}
}

// A MongoDBCommunity is settled when MongoDB's operator has applied its latest spec and all pods of that spec are ready.
func TestMongoDB(t *testing.T) {
	t.Parallel()
	const (
		spec = `
spec: {members: 3, version: 8.0.12, users: [{name: a, db: b, passwordSecretRef: {name: c}}], additionalMongodConfig: {net.maxIncomingConnections: 9},
  statefulSet: {spec: {template: {metadata: {labels: {revision: new}}}}}}`
		// record is an annotation as MongoDB's operator writes it: with empty fields, and without the contents of three
		// fields.
		record = `{"members":3,"version":"8.0.12","arbiters":0,"security":{"authentication":{"modes":null},"tls":{"enabled":false}},` +
			`"users":[{"name":"a","db":"b","passwordSecretRef":{"name":"c","key":""},"additionalConnectionStringConfig":null}],` +
			`"statefulSet":{"spec":{},"metadata":{}},"agent":{"logLevel":""},"additionalMongodConfig":{},"additionalConnectionStringConfig":{}}`
		applied = "\nmetadata: {name: store, annotations: {mongodb.com/v1.lastSuccessfulConfiguration: '" + record + "'}}"
		running = "\nstatus: {phase: Running, currentMongoDBMembers: 3, version: 8.0.12}"
		ready   = `{metadata: {labels: {revision: new, more: a}}, status: {conditions: [{type: Ready, status: "True"}]}}`
		unready = `{metadata: {name: store-1, labels: {revision: new}}, status: {phase: Running, conditions: [{type: Ready, status: "False"}]}}`
		old     = `{metadata: {labels: {revision: old}}, status: {conditions: [{type: Ready, status: "True"}]}}`
		leaving = `{metadata: {labels: {revision: new}, deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {conditions: [{type: Ready, status: "True"}]}}`
		all     = "[" + ready + "," + ready + "," + ready + "]"
	)
	fresh := "\nmetadata: {name: store}"
	other := strings.ReplaceAll(applied, `"members":3`, `"members":5`)
	for name, test := range map[string]struct {
		object, pods  string // no value for pods: the pods were not read
		settled       bool
		problem, hint string
		ready         int32
	}{
		"running":                      {object: applied + spec + running, pods: all, settled: true, ready: 3},
		"running, pods not read":       {object: applied + spec + running, settled: true, ready: 3},
		"no status":                    {object: fresh + spec, pods: "[]", hint: "NotObserved: MongoDB's operator has not reported on it: MongoDB's operator must run and watch this namespace"},
		"no pod":                       {object: fresh + spec + "\nstatus: {phase: Pending, message: not yet ready}", pods: "[]", hint: "Pending: no pod exists: does service account mongodb-database exist (docs/mongodb.md, Before you start)? `kubectl describe statefulset store` shows the reason"},
		"no pod, with another account": {object: fresh + strings.Replace(spec, "template: {", "template: {spec: {serviceAccountName: db}, ", 1) + "\nstatus: {phase: Pending}", pods: "[]", hint: "Pending: no pod exists: does service account db exist (docs/mongodb.md, Before you start)? `kubectl describe statefulset store` shows the reason"},
		"pending":                      {object: fresh + spec + "\nstatus: {phase: Pending, message: not yet ready}", pods: "[" + ready + "]", hint: "Pending: not yet ready", ready: 1},
		"failed":                       {object: fresh + spec + "\nstatus: {phase: Failed, message: wrong users}", pods: "[]", problem: "Failed: wrong users"},
		"failed, by a conflict":        {object: fresh + spec + "\nstatus: {phase: Failed}", pods: "[]", hint: "Failed: MongoDB's operator tries again"},
		"running, not recorded yet":    {object: fresh + spec + running, pods: all, hint: "NotObserved: MongoDB's operator has not applied the latest spec yet", ready: 3},
		"running, an older version":    {object: applied + strings.ReplaceAll(spec, "8.0.12", "8.0.15") + running, pods: all, hint: "NotObserved: MongoDB's operator has not applied the latest spec yet", ready: 3},
		"running, a user was removed":  {object: strings.ReplaceAll(applied, `"users":[`, `"users":[{"name":"x"},`) + spec + running, pods: all, hint: "NotObserved: MongoDB's operator has not applied the latest spec yet", ready: 3},
		"running, fewer members":       {object: applied + strings.ReplaceAll(spec, "members: 3", "members: 5") + running, pods: all, hint: "NotObserved: the replica set has 3 of 5 members", ready: 3},
		"running, five members before": {object: other + spec + running, pods: all, hint: "NotObserved: MongoDB's operator has not applied the latest spec yet", ready: 3},
		"a broken record":              {object: strings.ReplaceAll(applied, record, "{") + spec + running, pods: all, hint: "NotObserved: MongoDB's operator has not applied the latest spec yet", ready: 3},
		"pods of an older template":    {object: applied + spec + running, pods: "[" + ready + "," + old + "," + ready + "]", hint: "PodsNotReady: 2 of 3 pods are ready and have the latest spec", ready: 2},
		"a pod is not ready":           {object: applied + spec + running, pods: "[" + ready + "," + unready + "," + ready + "]", hint: "pod store-1: not ready: ", ready: 2},
		"a pod ends":                   {object: applied + spec + running, pods: "[" + ready + "," + leaving + "," + ready + "]", hint: "PodsNotReady: 2 of 3 pods are ready and have the latest spec", ready: 2},
		"being deleted":                {object: strings.ReplaceAll(applied, "name: store", `name: store, deletionTimestamp: "2026-01-01T00:00:00Z"`) + spec + running, pods: all, hint: "Terminating: it is being deleted", ready: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			if test.pods != "" {
				assert.NilError(t, yaml.UnmarshalStrict([]byte(test.pods), &pods))
			}
			o := objectOf(t, "apiVersion: mongodbcommunity.mongodb.com/v1\nkind: MongoDBCommunity"+test.object)
			before := o.DeepCopy()
			s := Assess([]*unstructured.Unstructured{o}, pods)
			assert.DeepEqual(t, o, before)
			full := func(text string) string {
				if text == "" || strings.HasPrefix(text, "pod ") { // messages of pods come first
					return text
				}
				return "MongoDBCommunity store: " + text
			}
			assert.Equal(t, s.Settled, test.settled)
			assert.Equal(t, s.Problem, full(test.problem))
			if test.problem == "" {
				assert.Equal(t, s.Hint, full(test.hint))
			}
			assert.Equal(t, s.Ready, test.ready)
			assert.Assert(t, NeedsPods(o))
		})
	}
}

func TestLastError(t *testing.T) {
	t.Parallel()
	const fatal = `{"level":"fatal","ts":"2026-03-01T11:57:01.123Z","caller":"etcdserver/raft.go:236","msg":"failed to save Raft hard state and entries","error":"no space left on device"}`
	for want, log := range map[string]string{
		"ERROR: a":                   "started\nERROR: a\njava.lang.IllegalStateException: b\nbye",
		"":                           "all is well",
		"Access denied for user 'a'": "2026-03-01 11:57:01 ERROR java.sql.SQLException: Access denied for user 'a'",
		"cannot open the port":       "2026-03-01T11:57:01.123Z [FATAL] cannot open the port",
		"Connection refused":         "Caused by: a.b.ConnectException: Connection refused",
		"runtime error: nil":         "panic: runtime error: nil\n\ngoroutine 1 [running]:\nmain.failed(...)\n\t/go/panic.go:884",
		// Log lines of etcd, of Redis, and of a start script.
		"failed to save Raft hard state and entries: no space left on device": fatal + `
{"level":"warn","ts":"2026-03-01T11:57:01.124Z","msg":"failed to stop","error":"closed"}`,
		"refused": `{"level":"info","msg":"failed to be read"}` + "\n" + `{"level":"ERROR","message":"refused"}`,
		"Can't open the append-only file: No space left on device":                  "7:M 26 Nov 2026 13:00:00.123 # Can't open the append-only file: No space left on device",
		"/scripts/start.sh: 52: cannot create /data/owner: No space left on device": "/scripts/start.sh: 52: cannot create /data/owner: No space left on device",
	} {
		assert.Equal(t, LastError(strings.Split(log, "\n")), want)
	}
	assert.Equal(t, utf8.RuneCountInString(LastError([]string{"error " + strings.Repeat("x", 500)})), 200)
}
