// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// running returns the observation of a healthy cluster of six pods.
func running() Observation {
	obs := Observation{
		Record:  topology.Record{Formed: true, Shards: []int{2, 2, 2}, Nodes: map[string]string{}},
		HostIPs: map[string]string{}, Problems: map[string]string{},
	}
	id := func(shard, pod int) string { return fmt.Sprintf("%039d%d", shard, pod) }
	var lines []topology.Entry
	for shard := range 3 {
		slots := topology.SlotSet{{From: shard * 5461, To: shard*5461 + 5460}}
		if shard == 2 {
			slots[0].To = topology.Slots - 1
		}
		for pod := range 2 {
			e := topology.Entry{
				ID: id(shard, pod), IP: fmt.Sprintf("10.0.%d.%d", shard, pod), Port: 6379, BusPort: 16379, Connected: true,
				Master: pod == 0, Replica: pod == 1, Epoch: uint64(shard + 1),
			}
			if pod == 0 {
				e.Owned = slots
			} else {
				e.MasterID = id(shard, 0)
			}
			lines = append(lines, e)
		}
	}
	for i, own := range lines {
		shard, pod := i/2, i%2
		view := append([]topology.Entry(nil), lines...)
		view[i].Myself = true
		name := fmt.Sprintf("cache-%d-%d", shard, pod)
		obs.Record.Nodes[name] = own.ID
		obs.Nodes = append(obs.Nodes, topology.Node{
			Pod: name, UID: name, Shard: shard, Ordinal: pod, Host: fmt.Sprintf("node-%d", i), IP: own.IP, Running: true, Ready: true,
			Reached: true, ID: own.ID, View: view, StateOK: true, Version: "7.0.15",
			Replication: topology.Replication{Master: pod == 0, MasterHost: fmt.Sprintf("10.0.%d.0", shard), MasterPort: 6379, LinkUp: pod == 1, Replicas: 1 - pod},
		})
	}
	return obs
}

func statusKind(t *testing.T) *Kind {
	t.Helper()
	return &Kind{planner: testPlanner(t)}
}

// The status names the volume with the most former files, before these files fill the volume.
func TestKeptFilesAreNamed(t *testing.T) {
	t.Parallel()
	k := statusKind(t)
	for kept, want := range map[[2]int64]string{
		{0, 0}:  "",
		{0, 12}: "the volume of cache-2-1 keeps 12 MiB of files of former data (*.damaged, *.of-the-past, *.without-*; the size is from the server's start): remove the unneeded files before they fill the volume",
		{9, 12}: "the volume of cache-2-1 keeps 12 MiB of files of former data (*.damaged, *.of-the-past, *.without-*; the size is from the server's start) (1 more volumes keep some): remove the unneeded files before they fill the volume",
	} {
		rc, obs := read(t, "minimal"), running()
		without := len(notes(&rc.Spec))
		obs.Nodes[0].Kept, obs.Nodes[5].Kept = kept[0], kept[1]
		report(k, rc, &obs, nil)
		assert.Equal(t, strings.Join(rc.Status.Notes[without:], ""), want)
	}
}

// The message of a healthy cluster begins with a failed backup. A first backup that is not due yet is not named.
func TestFailedBackupIsNamed(t *testing.T) {
	t.Parallel()
	const well = "all 16384 slots are served by 3 shards"
	stuck := []backup.Unfinished{{Name: "b", Stuck: "m"}}
	for name, c := range map[string]struct {
		jobs   []backup.Unfinished
		change change
		want   string
	}{
		"no backup yet":             {nil, of(func(*redisv1.RedisCluster) {}), well},
		"it does not start":         {stuck, of(func(*redisv1.RedisCluster) {}), "backup: PodNotStarting: Job b does not start: m; " + well},
		"the cluster is paused":     {stuck, of(func(rc *redisv1.RedisCluster) { rc.Spec.Pause = true }), "paused (spec.pause): nothing is changed; " + well},
		"the cluster has a problem": {stuck, node(1, func(n *topology.Node) { n.Ready = false }), "pod cache-0-1: "},
	} {
		k, rc, obs := statusKind(t), read(t, "minimal"), running()
		rc.Spec.Backup, obs.backups.Jobs = &backupv1.ClusterBackup{}, c.jobs
		c.change(rc, &obs)
		report(k, rc, &obs, nil)
		assert.Assert(t, strings.HasPrefix(rc.Status.Message, c.want), "%s: %s", name, rc.Status.Message)
		before := rc.Status.DeepCopy()
		report(k, rc, &obs, nil)
		assert.DeepEqual(t, &rc.Status, before)
	}
}

// report runs a pass that writes the status for an observation.
func report(k *Kind, rc *redisv1.RedisCluster, obs *Observation, failure *reconcile.Failure) {
	seen := reconcile.Seen[Observation]{Generation: rc.Generation, Paused: rc.Spec.Pause, Deleting: rc.DeletionTimestamp != nil, Observed: obs, Failure: failure}
	if obs != nil {
		if decision := k.Decide(rc, seen.PlanSeen, obs); !seen.Paused {
			seen.Decision = decision
		}
	}
	k.Status(rc, seen, metav1.NewTime(time.Unix(1000, 0)))
}

// change changes the observation of a healthy cluster.
type change = func(*redisv1.RedisCluster, *Observation)

// of returns a change of the resource; node, of one node; nodes, of all nodes.
func of(do func(*redisv1.RedisCluster)) change {
	return func(rc *redisv1.RedisCluster, _ *Observation) { do(rc) }
}

func node(i int, do func(*topology.Node)) change {
	return func(_ *redisv1.RedisCluster, obs *Observation) { do(&obs.Nodes[i]) }
}

func nodes(do func(int, *topology.Node)) change {
	return func(_ *redisv1.RedisCluster, obs *Observation) {
		for i := range obs.Nodes {
			do(i, &obs.Nodes[i])
		}
	}
}

// setting adds to the spec a setting that the servers do not have yet.
func setting(rc *redisv1.RedisCluster, obs *Observation) {
	rc.Spec.Config = map[string]redisv1.Setting{"maxmemory": "1gb"}
	nodes(func(_ int, n *topology.Node) { n.Settings = map[string]string{"maxmemory": "0"} })(rc, obs)
}

func TestStatus(t *testing.T) {
	t.Parallel()
	silent := func(n *topology.Node) {
		*n = topology.Node{Pod: n.Pod, UID: n.UID, Shard: n.Shard, Ordinal: n.Ordinal, IP: n.IP, Running: true, Problem: "no answer within 2s"}
	}
	absent := func(_ int, n *topology.Node) {
		*n = topology.Node{Pod: n.Pod, Shard: n.Shard, Ordinal: n.Ordinal, Problem: "the pod does not exist"}
	}
	was := func(phase redisv1.Phase) change {
		return of(func(rc *redisv1.RedisCluster) { rc.Status.Phase = phase })
	}
	eight := of(func(rc *redisv1.RedisCluster) { rc.Spec.Replicas = ptr.To[int32](8) })
	paused := of(func(rc *redisv1.RedisCluster) { rc.Spec.Pause = true })
	notReady := node(1, func(n *topology.Node) { n.Ready = false })
	fails := func(_ *redisv1.RedisCluster, obs *Observation) {
		obs.Nodes[0].Failures = []topology.Failure{{Action: topology.ActionMoveSlots, Target: obs.Nodes[2].ID, Cause: "the memory is full"}}
		obs.Nodes[0].View[0].Migrating = map[int]string{0: obs.Nodes[2].ID}
		obs.Nodes[2].View[2].Importing = map[int]string{0: obs.Nodes[0].ID}
		obs.Nodes[0].SlotKeys, obs.Nodes[2].SlotKeys, obs.Nodes[4].SlotKeys = map[int]int64{0: 1}, map[int]int64{0: 1}, map[int]int64{0: 0}
	}
	type row struct {
		phase             redisv1.Phase
		reason, ready     string // an empty reason matches any reason
		slots             int32
		conditions        string // the conditions that are True
		changes           []change
		refused, observed bool
	}
	served := func(phase redisv1.Phase, reason, ready, conditions string, changes ...change) row {
		return row{phase, reason, ready, redisv1.Slots, conditions, changes, false, true}
	}
	unseen := func(phase redisv1.Phase, refused bool, reason, conditions string, changes ...change) row {
		return row{phase, reason, "", 0, conditions, changes, refused, false}
	}
	const works, bad = "Progressing Reconciling", "Degraded Progressing Reconciling"
	const runs, failed, scaling, upgrading = redisv1.PhaseRunning, redisv1.PhaseFailed, redisv1.PhaseScaling, redisv1.PhaseUpgrading
	for name, c := range map[string]row{
		"well":                      served(runs, redisv1.ReasonAllServed, "6/6", "Ready"),
		"paused":                    served(runs, redisv1.ReasonPaused, "6/6", "Ready", paused),
		"a replica does not answer": served(failed, redisv1.ReasonNotRedundant, "5/6", bad, node(1, silent)),
		"a link is down":            served(failed, "", "5/6", bad, node(1, func(n *topology.Node) { n.Replication.LinkUp = false })),
		"a pod is not ready":        served(failed, redisv1.ReasonPodsNotReady, "5/6", bad, notReady),
		"a server refuses writes":   served(failed, redisv1.ReasonRefuses, "5/6", bad, node(2, func(n *topology.Node) { n.Refuses = "it refuses writes, its disk fails" })),
		"while it is scaled, a move keeps failing": served(scaling, "", "6/6", bad, was(scaling), eight, fails),
		"while it is upgraded, a pod is not ready": served(upgrading, redisv1.ReasonPodsNotReady, "5/6", works, was(upgrading), notReady),
		"new":                      {redisv1.PhaseCreating, redisv1.ReasonPodsNotReady, "0/6", 0, works, []change{nodes(absent), func(_ *redisv1.RedisCluster, obs *Observation) { obs.Record = topology.Record{} }}, false, true},
		"Kubernetes lags":          served(upgrading, redisv1.ReasonWorking, "6/6", works, func(_ *redisv1.RedisCluster, obs *Observation) { obs.Lagging = true }),
		"two more pods are wanted": served(scaling, "", "6/6", works, eight),
		"after it is scaled, a replica becomes the master": served(scaling, string(topology.ActionFailover), "6/6", works, was(scaling), nodes(func(i int, n *topology.Node) { n.Host = fmt.Sprint("node-", i%2) })),
		"a setting is changed":                             served(runs, string(topology.ActionConfigure), "6/6", works, setting),
		"the spec is refused":                              unseen(failed, true, redisv1.ReasonUnsupportedVersion, "Degraded Stalled"),
		"the spec is refused, and the cluster is paused":   unseen(redisv1.PhaseNone, true, redisv1.ReasonUnsupportedVersion, "Degraded Stalled", paused),
		"the resource is being deleted":                    unseen("", false, redisv1.ReasonDeleting, works, of(func(rc *redisv1.RedisCluster) { rc.DeletionTimestamp = &metav1.Time{} })),
		"a field has no effect": served(runs, redisv1.ReasonAllServed, "6/6", "Ready SpecIgnored",
			of(func(rc *redisv1.RedisCluster) { rc.Spec.Pod = []redisv1.Pod{{Volumes: &redisv1.Volumes{Type: "nfs"}}} })),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, rc, obs := statusKind(t), read(t, "minimal"), running()
			for _, change := range c.changes {
				change(rc, &obs)
			}
			var failure *reconcile.Failure
			if c.refused {
				failure = &reconcile.Failure{Reason: redisv1.ReasonUnsupportedVersion, Message: "spec.version: too old", Stalled: true}
			}
			observed := &obs
			if !c.observed {
				observed = nil
			}
			report(k, rc, observed, failure)
			s := &rc.Status
			assert.Equal(t, s.Phase, c.phase, "%+v", s)
			if c.reason != "" {
				assert.Equal(t, s.Reason, c.reason, "%s", s.Message)
			}
			assert.Equal(t, s.Ready, c.ready)
			assert.Equal(t, s.Slots, c.slots)
			assert.Assert(t, s.Message != "")
			var are string
			for _, name := range []string{"Ready", "Degraded", "Progressing", "Reconciling", "Stalled", "SpecIgnored"} {
				if meta.IsStatusConditionTrue(s.Conditions, name) {
					are += " " + name
				}
			}
			assert.Equal(t, are, " "+c.conditions, "%+v", s.Conditions)
			before := rc.DeepCopy()
			report(k, rc, observed, failure)
			assert.DeepEqual(t, rc, before)
		})
	}
}

// If no pod can pull its image, the messages begin with the image, in a new cluster and in a cluster whose pods all restarted.
func TestImageOfAllPodsIsNamedFirst(t *testing.T) {
	t.Parallel()
	const problem = "ImagePullBackOff: image docker.io/library/redis:9.9.9: not found"
	for name, began := range map[string]change{
		"new":     func(_ *redisv1.RedisCluster, obs *Observation) { obs.Record = topology.Record{} },
		"formed":  func(*redisv1.RedisCluster, *Observation) {},
		"parked":  of(func(rc *redisv1.RedisCluster) { rc.Status.Phase = redisv1.PhaseParked }),
		"upgrade": of(func(rc *redisv1.RedisCluster) { rc.Status.Phase = redisv1.PhaseUpgrading }),
		"lagging": func(_ *redisv1.RedisCluster, obs *Observation) { obs.Lagging = true },
	} {
		for _, outdated := range []bool{false, true} {
			k, rc, obs := statusKind(t), read(t, "minimal"), running()
			began(rc, &obs)
			for i := range obs.Nodes {
				n := &obs.Nodes[i]
				*n = topology.Node{Pod: n.Pod, UID: n.UID, Shard: n.Shard, Ordinal: n.Ordinal, IP: n.IP, NeverUp: true, Stuck: true, Outdated: outdated, Problem: "the container does not run"}
				obs.Problems[n.Pod] = problem
			}
			report(k, rc, &obs, nil)
			want := "pod cache-0-0: " + problem + " (and 5 more pods do not come up)"
			assert.Assert(t, strings.HasPrefix(rc.Status.Message, want), "%s: %s", name, rc.Status.Message)
			for _, c := range rc.Status.Conditions {
				isBad := c.Type == redisv1.ConditionReady || c.Type == redisv1.ConditionDegraded && c.Status == metav1.ConditionTrue
				assert.Assert(t, !isBad || strings.HasPrefix(c.Message, want), "%s: %s: %s", name, c.Type, c.Message)
			}
		}
	}
}

// A refused field changes no object and stops no repair: a replica that has lost its master is attached again. The status names the field.
func TestRefusedFieldsKeepWhatRuns(t *testing.T) {
	t.Parallel()
	const store = "destination: {claim: {name: backups}}"
	for name, c := range map[string]struct{ spec, reason, message string }{
		"unknown field": {"{podTemplate: {spec: {hostnames: a}}}", reconcile.ReasonInvalidSpec, "spec.podTemplate"},
		"label":         {"{podTemplate: {metadata: {labels: {app.kubernetes.io/instance: other}}}}", reconcile.ReasonInvalidSpec, "spec.podTemplate"},
		"variable":      {"{pod: [{env: [{name: POD_IP, value: a}]}]}", reconcile.ReasonInvalidSpec, "POD_IP"},
		"schedule":      {"{backup: {" + store + ", schedule: '61 * * * *'}}", reconcile.ReasonInvalidSpec, "spec.backup.schedule"},
		"time zone":     {"{backup: {" + store + ", schedule: '1 * * * *', timeZone: Nowhere/City}}", reconcile.ReasonInvalidSpec, "spec.backup.timeZone"},
		"no agent":      {"{backup: {" + store + "}}", redisv1.ReasonAgentMissing, "set RELATED_IMAGE_AGENT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, rc, obs := statusKind(t), read(t, "minimal"), running()
			if name == "no agent" {
				k.planner.images.Agent = ""
			}
			assert.NilError(t, yaml.Unmarshal([]byte(c.spec), &rc.Spec))
			live := withSet(withRecord(t, rc, obs.Record), rc.Name, 0, 2)
			_, err := k.Plan(rc, live.Inputs(), &obs)
			refusal := (*reconcile.SpecError)(nil)
			assert.Assert(t, errors.As(err, &refusal), err)
			runs, err := k.Maintain(rc, there{}.Inputs(), refusal, &obs)
			assert.Assert(t, !runs && err == nil, err)
			runs, err = k.Maintain(rc, live.Inputs(), refusal, &obs)
			assert.Assert(t, runs && err == nil, err)

			report(k, rc, &obs, nil)
			assert.Equal(t, rc.Status.Phase, redisv1.PhaseRunning, "%s", rc.Status.Message)
			assert.Equal(t, rc.Status.Reason, c.reason)
			assert.Assert(t, strings.Contains(rc.Status.Message, c.message) && strings.Contains(rc.Status.Message, "The running objects are not changed"), rc.Status.Message)
			assert.Assert(t, meta.IsStatusConditionTrue(rc.Status.Conditions, redisv1.ConditionStalled) && !meta.IsStatusConditionTrue(rc.Status.Conditions, redisv1.ConditionReady))

			obs.Nodes[1].Replication.MasterHost = "10.9.9.9"
			steps := k.Decide(rc, reconcile.PlanSeen{}, &obs).Steps
			assert.Assert(t, len(steps) > 0 && steps[0].Name == string(topology.ActionReplicate), "%+v", steps)
			report(k, rc, &obs, nil)
			assert.Equal(t, rc.Status.Step, string(topology.ActionReplicate), "%s", rc.Status.Message)
		})
	}
}

// An instance has the same fields as an instance of the earlier operator.
func TestInstances(t *testing.T) {
	t.Parallel()
	k, rc, obs := statusKind(t), read(t, "minimal"), running()
	obs.HostIPs["cache-0-1"] = "192.0.2.1"
	report(k, rc, &obs, nil)
	now := metav1.NewTime(time.Unix(1000, 0))
	assert.DeepEqual(t, rc.Status.Instances[1], redisv1.Instance{
		Name: "cache-0-1", Instance: "10.0.0.1:6379", Type: "slave", MasterNodeID: obs.Nodes[0].ID, NodeID: obs.Nodes[1].ID,
		DomainName: "cache-0-1.cache-headless.data.svc", HostName: "node-1", HostIP: "192.0.2.1", Status: "True", LastTransitionTime: &now,
	})
	assert.Equal(t, rc.Status.Instances[0].Slots, "0-5460")
	obs.Problems["cache-0-1"] = "ImagePullBackOff: no such image"
	report(k, rc, &obs, nil)
	assert.Equal(t, rc.Status.Instances[1].Reason, "ImagePullBackOff")
	assert.Equal(t, rc.Status.Instances[1].Message, "no such image")
}

// The documented query lists the pods with their node ids, which the earlier operator listed in its conditions.
func TestDocumentedQuery(t *testing.T) {
	t.Parallel()
	const query = `{range .status.instances[*]}{.name}{"\t"}{.type}{"\t"}{.nodeId}{"\t"}{.masterNodeId}{"\t"}{.slots}{"\n"}{end}`
	page, err := os.ReadFile("../../docs/redis.md")
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(page), query), "docs/redis.md does not have this query")
	k, rc, obs := statusKind(t), read(t, "minimal"), running()
	report(k, rc, &obs, nil)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rc)
	assert.NilError(t, err)
	path, out := jsonpath.New("query").AllowMissingKeys(true), &strings.Builder{} // as kubectl get does
	assert.NilError(t, path.Parse(query))
	assert.NilError(t, path.Execute(out, content))
	lines := strings.Split(out.String(), "\n")
	assert.Equal(t, lines[0], "cache-0-0\tmaster\t"+obs.Nodes[0].ID+"\t\t0-5460")
	assert.Equal(t, lines[1], "cache-0-1\tslave\t"+obs.Nodes[1].ID+"\t"+obs.Nodes[0].ID+"\t")
	assert.Equal(t, len(lines), 7)
}

// A cluster that is being parked or started again is not reported as failed. A later loss is reported.
func TestStatusWhileParked(t *testing.T) {
	t.Parallel()
	k, rc, obs := statusKind(t), read(t, "minimal"), running()
	all := obs.Nodes
	absent := make([]topology.Node, len(all))
	for i, n := range all {
		absent[i] = topology.Node{Pod: n.Pod, Shard: n.Shard, Ordinal: n.Ordinal, Problem: "the pod does not exist"}
	}
	for i, c := range []struct {
		replicas          int32
		parked            bool
		nodes             []topology.Node
		phase             redisv1.Phase
		ready, reason     string
		isReady, degraded bool
	}{
		{6, false, all, redisv1.PhaseRunning, "6/6", redisv1.ReasonAllServed, true, false},
		{0, false, all, redisv1.PhaseScaling, "6/6", string(topology.ActionRecord), false, false},
		{0, true, all[:2], redisv1.PhaseParked, "2/2", redisv1.ReasonParked, false, false},
		{0, true, nil, redisv1.PhaseParked, "0/0", redisv1.ReasonParked, true, false},
		{6, true, nil, redisv1.PhaseScaling, "0/0", string(topology.ActionRecord), false, false},
		{6, false, absent, redisv1.PhaseScaling, "0/6", string(topology.Unknown), false, false},
		{6, false, all, redisv1.PhaseRunning, "6/6", redisv1.ReasonAllServed, true, false},
		{6, false, absent, redisv1.PhaseFailed, "0/6", string(topology.Unknown), false, true},
	} {
		rc.Spec.Replicas, obs.Record.Parked, obs.Nodes = &c.replicas, c.parked, c.nodes
		report(k, rc, &obs, nil)
		s := &rc.Status
		assert.Equal(t, s.Phase, c.phase, "%d: %s", i, s.Message)
		assert.Equal(t, s.Ready, c.ready, "%d", i)
		assert.Equal(t, s.Reason, c.reason, "%d: %s", i, s.Message)
		assert.Equal(t, meta.IsStatusConditionTrue(s.Conditions, redisv1.ConditionReady), c.isReady, "%d: %+v", i, s.Conditions)
		assert.Equal(t, meta.IsStatusConditionTrue(s.Conditions, redisv1.ConditionDegraded), c.degraded, "%d: %+v", i, s.Conditions)
	}
}

// A change that takes longer than its deadline is reported with the cause.
func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	k, rc, obs := statusKind(t), read(t, "minimal"), running()
	rc.Spec.ProgressDeadlineSeconds = ptr.To[int32](600)
	obs.Nodes[1].Ready = false
	report(k, rc, &obs, nil)
	assert.Assert(t, meta.IsStatusConditionTrue(rc.Status.Conditions, redisv1.ConditionProgressing))
	meta.FindStatusCondition(rc.Status.Conditions, redisv1.ConditionProgressing).LastTransitionTime = metav1.NewTime(time.Unix(400, 0))
	report(k, rc, &obs, nil)
	progressing := meta.FindStatusCondition(rc.Status.Conditions, redisv1.ConditionProgressing)
	assert.Equal(t, string(progressing.Status)+" "+progressing.Reason, "False "+redisv1.ReasonProgressDeadlineExceeded)
	degraded := meta.FindStatusCondition(rc.Status.Conditions, redisv1.ConditionDegraded)
	assert.Equal(t, degraded.Status, metav1.ConditionTrue)
	assert.Assert(t, strings.HasPrefix(degraded.Message, "pod cache-0-1: ") && strings.HasSuffix(degraded.Message, "not finished within 10m0s (spec.progressDeadlineSeconds)"), "%s", degraded.Message)
}

// The message begins with the problem of a pod: in a settled cluster, during a step, and while the cluster is paused. The problem
// occurs once in the message.
func TestMessageBeginsWithTheProblem(t *testing.T) {
	t.Parallel()
	const problem = "ForeignVolume: the volume of data/cache-0-1 is a copy of that of other/cache-0-1"
	for name, c := range map[string]struct {
		change change
		before string
	}{
		"at rest": {of(func(*redisv1.RedisCluster) {}), ""}, "a step": {setting, ""},
		"paused": {of(func(rc *redisv1.RedisCluster) { rc.Spec.Pause = true }), "paused (spec.pause): nothing is changed; "},
	} {
		k, rc, obs := statusKind(t), read(t, "minimal"), running()
		n := &obs.Nodes[1]
		*n = topology.Node{Pod: n.Pod, UID: n.UID, Shard: n.Shard, Ordinal: n.Ordinal, IP: n.IP, NotStarted: problem, Problem: "connection refused"}
		obs.Problems[n.Pod] = problem
		c.change(rc, &obs)
		report(k, rc, &obs, nil)
		assert.Assert(t, strings.HasPrefix(rc.Status.Message, c.before+"pod cache-0-1: "+problem), "%s: %s", name, rc.Status.Message)
		assert.Equal(t, strings.Count(rc.Status.Message, problem), 1, "%s: %s", name, rc.Status.Message)
	}
}

// The message names a pod that states why it does not start, rather than a pod that ended without a message. It counts
// all such pods.
func TestStatedCausesComeFirst(t *testing.T) {
	t.Parallel()
	k, rc, obs := statusKind(t), read(t, "minimal"), running()
	const outdated = "DataOutdated: this volume was last in use at 10:00"
	for i, problem := range map[int]string{0: "CrashLoopBackOff: container redis ended with exit code 137", 3: outdated, 4: "CrashLoopBackOff: container redis keeps exiting"} {
		n := &obs.Nodes[i]
		*n = topology.Node{Pod: n.Pod, UID: n.UID, Shard: n.Shard, Ordinal: n.Ordinal, IP: n.IP, Problem: "connection refused"}
		obs.Problems[n.Pod] = problem
	}
	report(k, rc, &obs, nil)
	want := "pod " + obs.Nodes[3].Pod + ": " + outdated + " (and 2 more pods do not come up)"
	assert.Assert(t, strings.HasPrefix(rc.Status.Message, want), rc.Status.Message)
}

// The summary for events and metrics matches the status.
func TestSummary(t *testing.T) {
	t.Parallel()
	k, rc, obs := statusKind(t), read(t, "minimal"), running()
	report(k, rc, &obs, nil)
	s := k.Summary(rc)
	assert.Assert(t, s.Ready && s.Problem == "" && s.Doing == reconcile.Doing{} && len(s.Parts) == 1 && s.Parts[0].Ready && s.Parts[0].Pods == 6)
	assert.Equal(t, s.ReadyText, "all 16384 slots are served by 3 shards (pods: 6/6)")
	assert.Assert(t, len(s.Claims) == 6 && s.Claims[1] == "data-cache-0-1", "%v", s.Claims)
	rc.Spec.Pod = []redisv1.Pod{{Volumes: &redisv1.Volumes{Type: "nfs", PersistentVolumeClaimName: "shared"}}}
	assert.DeepEqual(t, k.Summary(rc).Claims, []string{"shared"})
	report(k, rc, &obs, &reconcile.Failure{Reason: reconcile.ReasonStepFailed, Message: "it broke"})
	s = k.Summary(rc)
	assert.Assert(t, !s.Ready)
	assert.Equal(t, s.ProblemReason+": "+s.Problem, "StepFailed: it broke")
}

// A decision becomes steps. In a settled cluster, the next pass is 30 seconds later.
func TestDecide(t *testing.T) {
	t.Parallel()
	k, rc, obs := statusKind(t), read(t, "minimal"), running()
	decision := k.Decide(rc, reconcile.PlanSeen{}, &obs)
	assert.Equal(t, len(decision.Steps), 0)
	assert.Equal(t, decision.LookAgain, atRest)
	obs.Lagging = true
	assert.Equal(t, k.Decide(rc, reconcile.PlanSeen{}, &obs).LookAgain, time.Second)
	decision = k.Decide(rc, reconcile.PlanSeen{}, &Observation{})
	assert.Assert(t, decision.LookAgain > 0 && decision.LookAgain <= 10*time.Second)
}
