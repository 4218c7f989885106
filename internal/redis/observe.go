// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

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
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/server"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// container is the name of Redis' container in each pod.
const container = "redis"

// World is the observation of a cluster, as plain data.
type World struct {
	Nodes  []topology.Node
	Record topology.Record
	// HostIPs and Problems are by pod: the address of the Kubernetes node, and why a pod does not start.
	HostIPs, Problems map[string]string
	// Lagging reports whether Kubernetes has not processed the latest StatefulSets yet, so that outdated pods are unknown. It is also true
	// while servers have settings that are not yet in the file for their next start.
	Lagging bool
	// NoSettings reports whether the ConfigMap with settings (spec.pod[0].configmap) did not exist when the pods started.
	NoSettings bool
	// Announced reports whether pods can see in the record's ConfigMap that the cluster has begun. It is only read while a backup is to be
	// restored.
	Announced bool
	// OtherPassword reports whether the Secret has another password than the servers accept.
	OtherPassword bool
	// Password explains why the password in the Secret is invalid. Empty if it is valid.
	Password string

	access   server.Access
	recordAt database.Version
	backups  backup.Seen
}

// Observe reads the record, the StatefulSets and pods, and queries every server of the cluster.
func (k *Kind) Observe(ctx context.Context, rc *redisv1.RedisCluster, _ reconcile.PlanSeen, pods reconcile.Pods) (World, error) {
	w := World{HostIPs: map[string]string{}, Problems: map[string]string{}}
	var err error
	if w.Record, w.recordAt, err = records.Observe(ctx, k.client, reconcile.OwnerOf(k, rc)); err != nil {
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
		w.Lagging = w.Lagging || database.IsLagging(set)
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
	w.backups, err = backupsOf(rc).See(ctx, pods, k.jobs, reconcile.OwnerOf(k, rc))
	return w, err
}

// judgePassword records which servers accept the password, and marks those that a restart would unlock.
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

// sets returns the StatefulSets of the shards, by ordinal. They are controlled by the resource and not being deleted.
func (k *Kind) sets(ctx context.Context, rc *redisv1.RedisCluster) (map[int]*appsv1.StatefulSet, error) {
	owner := reconcile.OwnerOf(k, rc)
	list := object.EmptyList(object.StatefulSetKind)
	err := k.client.List(ctx, list, client.InNamespace(rc.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()})
	if err != nil {
		return nil, fmt.Errorf("list the StatefulSets of the shards: %w", err)
	}
	sets := map[int]*appsv1.StatefulSet{}
	for i := range list.Items {
		o := &list.Items[i]
		shard, ok := database.Ordinal(o.GetName(), rc.Name+"-")
		if !ok || !owner.Controls(o) || o.GetDeletionTimestamp() != nil {
			continue
		}
		sets[shard] = database.Set(o)
	}
	return sets, nil
}

// place adds a node for each pod that should exist, in order. A pod counts if its StatefulSet is the cluster's, and if its name is one that
// the StatefulSet assigns: labels alone prove nothing.
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
			if node.UID == "" && w.Record.Parked {
				continue // it has stopped
			}
			w.Nodes = append(w.Nodes, node)
		}
	}
}

// fill sets the fields of a node that come from its pod.
func fill(node *topology.Node, pod *corev1.Pod, set *appsv1.StatefulSet) {
	node.UID, node.Host, node.IP, node.Problem = string(pod.UID), pod.Spec.NodeName, pod.Status.PodIP, ""
	node.Terminating, node.Zone = pod.DeletionTimestamp != nil, pod.Labels[corev1.LabelTopologyZone]
	node.Outdated = database.IsOutdated(pod, set)
	node.Ready, node.NeverUp = health.IsReady(pod), isUnserved(pod)
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container {
			node.Running = c.State.Running != nil
			if end := lastEnd(c.State.Terminated, c.LastTerminationState.Terminated); !node.Running && end != nil {
				node.LostData = end.ExitCode == exitDataLost
				if end.ExitCode == exitForeign || end.ExitCode == exitDamaged {
					node.NotStarted = health.OwnWords(end.Message)
				}
			}
		}
	}
}

// isUnserved reports whether the Redis container has never served in this pod.
func isUnserved(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container {
			return neverUp(pod, c)
		}
	}
	return true
}

// neverUp reports whether a container has never served in its pod. It never ran, or it exited at least twice, does not run now, and the pod
// was never ready. Kubernetes keeps the time since a pod is not ready, so the exits are not of a pod that worked before.
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

// neverReadyWithin limits the time from the start of a pod to its condition Ready=False, if the pod was never ready.
const neverReadyWithin = 2 * time.Second

// Exit codes of the chart's start.sh when it starts no server: the data is lost but the pod is the same, the volume is of another cluster,
// a file is damaged.
const exitDataLost, exitForeign, exitDamaged = 65, 66, 67

// lastEnd returns the first termination that is not nil, or nil.
func lastEnd(ends ...*corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	for _, end := range ends {
		if end != nil {
			return end
		}
	}
	return nil
}
