// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/redis/server"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// count sets the numbers and the instances of a status.
func (v *view) count(s *redisv1.RedisClusterStatus, now metav1.Time) {
	before := map[string]redisv1.Instance{}
	for _, i := range s.Instances {
		before[i.Name] = i
	}
	s.Replicas, s.Shards, s.Instances = 0, 0, nil
	well := 0
	for i := range v.observed.Nodes {
		node := &v.observed.Nodes[i]
		if node.UID == "" {
			continue
		}
		s.Replicas++
		made := v.instance(node)
		if made.Status == string(metav1.ConditionTrue) {
			well++
		}
		known, ok := before[made.Name]
		made.LastTransitionTime = known.LastTransitionTime
		if !ok || known.Status != made.Status || made.LastTransitionTime == nil {
			made.LastTransitionTime = &now
		}
		s.Instances = append(s.Instances, made)
	}
	for _, shard := range v.decided.Model.Shards {
		if shard.Owned.Len() > 0 {
			s.Shards++
		}
	}
	s.Slots = int32(v.decided.Model.Served) //nolint:gosec // 16384 at most
	s.Ready = fmt.Sprintf("%d/%d", well, len(v.observed.Nodes))
}

// instance returns the status entry of one pod and its Redis.
func (v *view) instance(node *topology.Node) redisv1.Instance {
	made := redisv1.Instance{
		Name: node.Pod, HostName: node.Host, HostIP: v.observed.HostIPs[node.Pod],
		DomainName: fmt.Sprintf("%s.%s-headless.%s.svc", node.Pod, v.rc.Name, v.rc.Namespace),
	}
	if node.IP != "" {
		made.Instance = net.JoinHostPort(node.IP, strconv.Itoa(server.Port))
	}
	made.Status, made.Reason, made.Message = v.judge(node)
	if !node.Reached {
		return made
	}
	made.NodeID = node.ID
	for i := range node.View {
		own := &node.View[i]
		if !own.Myself {
			continue
		}
		made.Slots, made.MasterNodeID, made.Type = own.Owned.String(), own.MasterID, "master"
		if own.Replica {
			made.Type = "slave"
		}
	}
	return made
}

// judge reports whether a node serves, and if not, the reason.
func (v *view) judge(node *topology.Node) (status, reason, message string) {
	no := string(metav1.ConditionFalse)
	problem := v.observed.Problems[node.Pod]
	switch {
	case node.Terminating:
		return no, "Terminating", "the pod is being deleted"
	case problem != "":
		reason, message, _ = strings.Cut(problem, ": ")
		return no, reason, message
	case !node.Running:
		return no, "NotRunning", "the Redis container does not run"
	case node.Loading:
		return no, "Loading", node.Problem
	case !node.Reached:
		return no, "Unreachable", node.Problem
	case node.Refuses != "":
		return no, redisv1.ReasonRefuses, node.Refuses
	case !node.Replication.Master && !node.Replication.LinkUp:
		return no, "LinkDown", "the link to its master is down"
	case !node.StateOK && v.observed.Record.Formed:
		return no, "ClusterDown", "its server reports that the cluster is not well"
	case !node.Ready:
		return no, "NotReady", "the pod is not ready"
	}
	return string(metav1.ConditionTrue), "", ""
}
