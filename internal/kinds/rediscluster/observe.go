// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/runs"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

// container is the name of Redis' container in each pod.
const container = "redis"

// World is what is observed of a cluster: plain data.
type World struct {
	Nodes  []topology.Node
	Record topology.Record
	// HostIPs and Problems are by pod: the address of the Kubernetes node, and why a pod does not come up.
	HostIPs, Problems map[string]string
	// Lagging reports whether Kubernetes has not looked at the latest StatefulSets yet, so that nobody
	// knows which pods are outdated, or the servers have settings that the file for their next start has
	// not got yet.
	Lagging bool
	// NoSettings reports whether the ConfigMap with settings (spec.pod[0].configmap) was not there when the
	// pods started.
	NoSettings bool
	// Announced reports whether pods see in the record's ConfigMap that the cluster has begun. It is looked at while a backup is
	// to be restored.
	Announced bool
	// OtherPassword reports whether the Secret has another password than the servers take.
	OtherPassword bool
	// Password says why the password in the Secret is refused.
	Password string

	access   server.Access
	recordAt stateful.Version
	backups  runs.Seen
}

// Observe asks every server of the cluster what it is and what it sees.
func (k *Kind) Observe(ctx context.Context, rc *redisv1.RedisCluster, _ engine.Seen, pods kinds.Pods) (World, error) {
	w := World{HostIPs: map[string]string{}, Problems: map[string]string{}}
	var err error
	if w.Record, w.recordAt, err = records.Observe(ctx, k.client, kinds.OwnerOf(k, rc)); err != nil {
		return w, err
	}
	if rc.Spec.RestoreFrom != nil && !w.Record.Formed {
		if w.Announced, err = k.isAnnounced(ctx, rc); err != nil {
			return w, err
		}
	}
	sets, err := k.sets(ctx, rc)
	if err != nil {
		return w, err
	}
	live, err := pods(ctx, part)
	if err != nil {
		return w, err
	}
	for _, set := range sets {
		w.Lagging = w.Lagging || stateful.IsLagging(set)
	}
	w.place(rc, sets, live)
	if w.access, w.Password, err = k.accounts.access(ctx, rc); err != nil {
		return w, err
	}
	settings := slices.Sorted(maps.Keys(settingsOf(rc.Spec.Config).live))
	k.servers.Read(ctx, clusterKey(rc.Namespace, rc.Name), w.access, w.Nodes, settings)
	if err := k.judgePassword(ctx, rc, &w); err != nil {
		return w, err
	}
	w.Lagging = k.planner.holds.judge(rc, w.Nodes) || w.Lagging
	if w.NoSettings, err = k.sources.missing(ctx, rc, live); err != nil {
		return w, err
	}
	model := topology.Merge(wanted(rc, w.Announced), w.Record, w.Nodes)
	metrics.Redis.Set(client.ObjectKeyFromObject(rc), model.Served, states(w.Nodes), lost(model))
	w.backups, err = backupsOf(rc).See(ctx, pods, k.jobs, kinds.OwnerOf(k, rc))
	return w, err
}

// judgePassword draws conclusions from who took the password and who did not.
func (k *Kind) judgePassword(ctx context.Context, rc *redisv1.RedisCluster, w *World) error {
	refuses := func(n topology.Node) bool { return n.Problem == server.NotLetIn }
	taken := slices.ContainsFunc(w.Nodes, func(n topology.Node) bool { return n.Reached })
	refused := slices.ContainsFunc(w.Nodes, refuses)
	k.planner.passwords.prove(rc, w.access.Password, taken, refused)
	if !refused {
		if slices.ContainsFunc(w.Nodes, func(n topology.Node) bool { return !n.Running }) {
			var err error
			w.Password, err = k.accounts.lookAgain(ctx, rc)
			return err
		}
		return nil
	}
	stands, differs, err := k.accounts.refused(ctx, rc, w.access, taken)
	if err != nil {
		return err
	}
	w.OtherPassword = differs
	for i := range w.Nodes {
		w.Nodes[i].Locked = stands && refuses(w.Nodes[i])
	}
	return nil
}

// sets returns the StatefulSets of the shards, by ordinal, that the resource controls and that stay.
func (k *Kind) sets(ctx context.Context, rc *redisv1.RedisCluster) (map[int]*appsv1.StatefulSet, error) {
	owner := kinds.OwnerOf(k, rc)
	list := object.EmptyList(object.StatefulSetKind)
	err := k.client.List(ctx, list, client.InNamespace(rc.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()})
	if err != nil {
		return nil, fmt.Errorf("list the StatefulSets of the shards: %w", err)
	}
	sets := map[int]*appsv1.StatefulSet{}
	for i := range list.Items {
		o := &list.Items[i]
		shard, ok := stateful.Ordinal(o.GetName(), rc.Name+"-")
		if !ok || !owner.Controls(o) || o.GetDeletionTimestamp() != nil {
			continue
		}
		sets[shard] = stateful.Set(o)
	}
	return sets, nil
}

// place lists a node for each pod that should exist, in their order. A pod counts if its StatefulSet is
// the cluster's, and if it has the name that this gives to its pods: labels alone are no proof.
func (w *World) place(rc *redisv1.RedisCluster, sets map[int]*appsv1.StatefulSet, pods []*corev1.Pod) {
	live := map[string]*corev1.Pod{}
	for _, pod := range pods {
		live[pod.Name] = pod
	}
	counts := topology.Planned(wantedShards(&rc.Spec), w.Record)
	for shard, set := range sets {
		for len(counts) <= shard {
			counts = append(counts, 0)
		}
		counts[shard] = max(counts[shard], int(*set.Spec.Replicas))
	}
	for shard, count := range counts {
		set := sets[shard]
		for i := range count {
			node := topology.Node{Pod: fmt.Sprintf("%s-%d", setName(rc.Name, shard), i), Shard: shard, Ordinal: i, Problem: "the pod does not exist"}
			if pod := live[node.Pod]; pod != nil && set != nil && metav1.IsControlledBy(pod, set) {
				fill(&node, pod, set)
				node.Outdated = node.Outdated && replacesPods(&rc.Spec)
				w.HostIPs[node.Pod] = pod.Status.HostIP
				if problem := health.PodProblem(pod); problem != "" {
					w.Problems[node.Pod] = problem
				}
			}
			w.Nodes = append(w.Nodes, node)
		}
	}
}

// fill says of a node what Kubernetes says of its pod.
func fill(node *topology.Node, pod *corev1.Pod, set *appsv1.StatefulSet) {
	node.UID, node.Host, node.IP, node.Problem = string(pod.UID), pod.Spec.NodeName, pod.Status.PodIP, ""
	node.Terminating, node.Zone = pod.DeletionTimestamp != nil, pod.Labels[corev1.LabelTopologyZone]
	node.Outdated = stateful.IsOutdated(pod, set)
	node.NeverUp = isUnserved(pod)
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container {
			node.Running = c.State.Running != nil
			if end := lastEnd(c.State.Terminated, c.LastTerminationState.Terminated); !node.Running && end != nil {
				node.LostData = end.ExitCode == exitDataLost
				if end.ExitCode == exitForeign || end.ExitCode == exitDamaged {
					node.NotStarted = end.Message
				}
			}
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			node.Ready = c.Status == corev1.ConditionTrue
		}
	}
}

// isUnserved reports whether the Redis container of a pod has served nothing in it.
func isUnserved(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container {
			return neverUp(pod, c)
		}
	}
	return true
}

// neverUp reports whether a container has served nothing in its pod: it never ran, or it ended at least twice, does not
// run now, and the pod was never ready. Kubernetes keeps the time since when a pod is not ready, so the count of
// ends is of this pod and of nothing that worked before.
func neverUp(pod *corev1.Pod, c corev1.ContainerStatus) bool {
	if c.State.Running != nil {
		return false
	}
	if c.State.Terminated == nil && c.LastTerminationState.Terminated == nil {
		return c.RestartCount == 0
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status != corev1.ConditionTrue && pod.Status.StartTime != nil {
			return c.RestartCount >= 2 && !condition.LastTransitionTime.After(pod.Status.StartTime.Add(neverReadyWithin))
		}
	}
	return false
}

// neverReadyWithin is how long after its start a pod becomes unready at most, if it was not ready before.
const neverReadyWithin = 2 * time.Second

// What start.sh of the chart exits with when it starts no server: the data went and the pod stayed, the volume is another
// cluster's, a file is damaged.
const exitDataLost, exitForeign, exitDamaged = 65, 66, 67

// lastEnd returns the latest of a container's ends; nil if there was none.
func lastEnd(ends ...*corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	for _, end := range ends {
		if end != nil {
			return end
		}
	}
	return nil
}
