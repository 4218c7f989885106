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

// Observation holds the observed state of a cluster, as plain data.
type Observation struct {
	Nodes  []topology.Node
	Record topology.Record
	// HostIPs holds the address of each pod's Kubernetes node, and Problems the reason why a pod does not start. The keys are pod names.
	HostIPs, Problems map[string]string
	// Lagging reports whether Kubernetes has not processed the latest StatefulSets yet. Until then, it is unknown which
	// pods are outdated. Lagging is also true if servers have accepted settings that the file for their next start
	// still lacks.
	Lagging bool
	// NoSettings reports whether the ConfigMap with settings (spec.pod[0].configmap) did not exist when the pods started.
	NoSettings bool
	// Announced reports whether the record's ConfigMap contains the key formed, which pods check before they restore a backup. Observe
	// reads it only if spec.restoreFrom is set and Record.Formed is false.
	Announced bool
	// OtherPassword reports whether servers refuse the password in the Secret but accept another one.
	OtherPassword bool
	// Password explains why the password in the Secret is invalid. Empty if it is valid.
	Password string

	// refused is the error because of which the spec was refused and no object of the plan was written. It is nil if the plan was applied.
	refused  *reconcile.SpecError
	access   server.Access
	recordAt database.Version
	backups  backup.Seen
	decided  topology.Decision // result of Decide
}

// Observe reads the record, the StatefulSets and pods, and queries every server of the cluster.
func (k *Kind) Observe(ctx context.Context, rc *redisv1.RedisCluster, _ reconcile.PlanSeen, pods reconcile.Pods, obs *Observation) (err error) {
	obs.HostIPs, obs.Problems = map[string]string{}, map[string]string{}
	if obs.Record, obs.recordAt, err = records.Observe(ctx, k.client, reconcile.OwnerOf(k, rc)); err != nil {
		return err
	}
	if rc.Spec.RestoreFrom != nil && !obs.Record.Formed {
		if obs.Announced, err = k.isAnnounced(ctx, rc); err != nil {
			return err
		}
	}
	sets, err := k.sets(ctx, rc)
	if err != nil {
		return err
	}
	live, err := pods(ctx, part)
	if err != nil {
		return err
	}
	for _, set := range sets {
		obs.Lagging = obs.Lagging || database.IsLagging(set)
	}
	obs.place(rc, sets, live)
	if err := k.seeClaims(ctx, rc, obs); err != nil {
		return err
	}
	if obs.access, obs.Password, err = k.accounts.access(ctx, rc); err != nil {
		return err
	}
	settings := slices.Sorted(maps.Keys(settingsOf(rc.Spec.Config).live))
	k.servers.Read(ctx, clusterKey(rc.Namespace, rc.Name), obs.access, obs.Nodes, settings)
	for _, node := range obs.Nodes {
		for i := range node.Failures {
			node.Failures[i].Cause = health.Refusal(node.Failures[i].Cause)
		}
	}
	if err := k.judgePassword(ctx, rc, obs); err != nil {
		return err
	}
	obs.Lagging = k.planner.holds.judge(rc, obs.Nodes) || obs.Lagging
	if obs.NoSettings, err = k.sources.missing(ctx, rc, live); err != nil {
		return err
	}
	model := topology.Merge(wanted(rc, obs.Announced), obs.Record, obs.Nodes)
	metrics.Redis.Set(client.ObjectKeyFromObject(rc), model.Served, states(obs.Nodes), lost(model))
	obs.backups, err = backupsOf(rc).See(ctx, pods, k.jobs, reconcile.OwnerOf(k, rc))
	return err
}

// seeClaims marks the pods whose claims are being deleted.
func (k *Kind) seeClaims(ctx context.Context, rc *redisv1.RedisCluster, obs *Observation) error {
	list := object.EmptyList(object.ClaimKind)
	if err := k.client.List(ctx, list, client.InNamespace(rc.Namespace), client.MatchingFields{object.IndexOwner: reconcile.OwnerOf(k, rc).Key()}); err != nil {
		return fmt.Errorf("list the claims of %s: %w", rc.Name, err)
	}
	leaving := map[string]bool{}
	for i := range list.Items {
		leaving[list.Items[i].GetName()] = list.Items[i].GetDeletionTimestamp() != nil
	}
	for i := range obs.Nodes {
		node := &obs.Nodes[i]
		node.ClaimLeaves = node.UID != "" && leaving[database.ClaimName(setName(rc.Name, node.Shard), node.Ordinal)]
	}
	return nil
}

// judgePassword records whether servers accept the password. It marks a server as Locked if the server refuses the
// password, but other servers accept it and the Secret contains it: in a new pod, the server would accept it.
func (k *Kind) judgePassword(ctx context.Context, rc *redisv1.RedisCluster, obs *Observation) error {
	refuses := func(n topology.Node) bool { return n.Problem == server.NotLetIn }
	taken := slices.ContainsFunc(obs.Nodes, func(n topology.Node) bool { return n.Reached })
	refused := slices.ContainsFunc(obs.Nodes, refuses)
	k.planner.passwords.prove(rc, obs.access.Password, taken, refused)
	if !refused {
		if slices.ContainsFunc(obs.Nodes, func(n topology.Node) bool { return !n.Running }) {
			var err error
			obs.Password, err = k.accounts.lookAgain(ctx, rc)
			return err
		}
		return nil
	}
	stands, differs, err := k.accounts.refused(ctx, rc, obs.access, taken)
	if err != nil {
		return err
	}
	obs.OtherPassword = differs
	for i := range obs.Nodes {
		obs.Nodes[i].Locked = stands && refuses(obs.Nodes[i])
	}
	return nil
}

// sets returns the StatefulSets of the shards, by ordinal. It omits a StatefulSet that the resource does not control or that is being
// deleted.
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

// place adds a node for each pod that should exist, in order. A pod counts if the cluster owns the pod's StatefulSet, and if the pod's
// name is this StatefulSet's name with an ordinal. Labels alone prove nothing.
func (obs *Observation) place(rc *redisv1.RedisCluster, sets map[int]*appsv1.StatefulSet, pods []*corev1.Pod) {
	live := map[string]*corev1.Pod{}
	for _, pod := range pods {
		live[pod.Name] = pod
	}
	counts := topology.Planned(wantedShards(&rc.Spec), obs.Record)
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
				obs.HostIPs[node.Pod] = pod.Status.HostIP
				if problem := health.PodProblem(pod); problem != "" {
					obs.Problems[node.Pod] = problem
				}
			}
			if node.UID == "" && obs.Record.Parked {
				continue // the pod of a parked cluster has stopped
			}
			obs.Nodes = append(obs.Nodes, node)
		}
	}
}

// fill sets the fields of a node that come from its pod.
func fill(node *topology.Node, pod *corev1.Pod, set *appsv1.StatefulSet) {
	node.UID, node.Host, node.IP, node.Problem = string(pod.UID), pod.Spec.NodeName, pod.Status.PodIP, ""
	node.Terminating, node.Zone = pod.DeletionTimestamp != nil, pod.Labels[corev1.LabelTopologyZone]
	node.Outdated = database.IsOutdated(pod, set)
	node.WellFor, node.Ended = database.WellFor(pod, time.Now()), database.LastEnd(pod, time.Now())
	node.Ready, node.NeverUp, node.Stuck = health.IsReady(pod), isUnserved(pod), isStuck(pod)
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

// neverUp reports whether a container has never served in its pod. Either the container never ran, or it exited at
// least twice, does not run now, and the pod was never ready. A pod was ready before if its condition Ready turned
// False later than neverReadyWithin after the start of the pod.
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

// isStuck reports whether the Redis container does not run, and the kubelet has failed to run it. The container ended twice within some
// minutes, or cannot start because of its image, its configuration or an init container.
func isStuck(pod *corev1.Pod) bool {
	statuses := pod.Status.InitContainerStatuses
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != container {
			continue
		}
		if c.State.Running != nil {
			return false
		}
		statuses = append(slices.Clone(statuses), c)
	}
	return slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool {
		waiting := c.State.Waiting
		return waiting != nil && !health.IsStarting(waiting) && (waiting.Reason != "CrashLoopBackOff" || c.RestartCount > 0)
	})
}

// neverReadyWithin is the time after the start of a pod within which its condition Ready is set to False if the pod was
// never ready.
const neverReadyWithin = 2 * time.Second

// Exit codes of the chart's start.sh if it does not start the server: the data of a pod is lost, the volume belongs to another cluster, or
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
