// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// container is the name of etcd's container in each pod.
const container = "etcd"

// Observation holds the observed state of a cluster, as plain data.
type Observation struct {
	View membership.View
	// Problems maps a pod to the reason why it does not start, as reported by Kubernetes. others contains the same
	// reasons, but ignores the last termination of etcd's container.
	Problems, others map[string]string

	// Replacing reports whether the StatefulSet is being replaced while its pods run. Until the new StatefulSet owns the pods, Decide
	// returns no step.
	Replacing bool

	// accepted is the resource that was planned, with present values for refused fields; nil stands for the resource itself. refused is the
	// error that names the refused fields of the spec; nil if no field was refused. unplanned reports whether no object of the plan was
	// written because of these fields.
	accepted  *etcdv1.EtcdCluster
	refused   *reconcile.SpecError
	unplanned bool

	access       server.Access
	certificates []certificate
	backups      backup.Seen
	recordAt     database.Version
	model        membership.Model // result of Decide
}

// of returns the resource that was planned.
func (obs *Observation) of(ec *etcdv1.EtcdCluster) *etcdv1.EtcdCluster {
	if obs.accepted == nil {
		return ec
	}
	return obs.accepted
}

// see reads the Kubernetes objects of a cluster from the cache.
func (k *Kind) see(ctx context.Context, ec *etcdv1.EtcdCluster, pods reconcile.Pods, obs *Observation) error {
	var err error
	if obs.View.Record, obs.recordAt, err = records.Observe(ctx, k.client, reconcile.OwnerOf(k, ec)); err != nil {
		return err
	}
	seen, err := database.SeePods(ctx, k.client, reconcile.OwnerOf(k, ec), pods, part)
	if err != nil {
		return err
	}
	obs.View.Live, obs.View.Lagging, obs.Replacing = seen.Replicas, seen.Lagging, seen.Replacing
	for _, pod := range seen.List {
		k.seePod(pod, obs)
	}
	return k.seeClaims(ctx, ec, obs)
}

// seePod adds a pod to the observation.
func (k *Kind) seePod(pod database.Pod, obs *Observation) {
	now := k.now()
	seen := membership.Pod{
		Name: pod.Name, Ordinal: pod.Ordinal, UID: string(pod.UID), IP: pod.Status.PodIP, Terminating: pod.DeletionTimestamp != nil,
		Outdated: pod.Outdated, Revision: pod.Labels[appsv1.ControllerRevisionHashLabelKey], Ticket: pod.Annotations[object.AnnotationTicket], Problem: pod.Problem,
	}
	if seen.Problem != "" {
		obs.Problems[pod.Name] = seen.Problem
		obs.others[pod.Name] = problemBesides(pod.Pod)
	}
	ready, since := health.Readiness(pod.Pod)
	seen.WellFor, seen.Ended = database.WellFor(pod.Pod, now), database.LastEnd(pod.Pod, now)
	if seen.Ready = ready; !ready {
		seen.NotReadyFor = now.Sub(since)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container {
			seen.Running, seen.Crashing = c.State.Running != nil, isCrashing(pod.Pod)
		}
	}
	obs.View.Pods = append(obs.View.Pods, seen)
}

// problemBesides returns the problem of a pod, ignoring the last termination of etcd's container.
func problemBesides(pod *corev1.Pod) string {
	pod = pod.DeepCopy()
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == container {
			c.LastTerminationState = corev1.ContainerState{}
		}
	}
	return health.PodProblem(pod)
}

// outlive drops the problem that etcd's container ended, if the container runs again and its agent reports. The agent's
// report explains more.
func (obs *Observation) outlive() {
	for i := range obs.View.Pods {
		pod := &obs.View.Pods[i]
		if pod.Report == nil || !pod.Running || obs.Problems[pod.Name] == "" {
			continue
		}
		if pod.Problem = obs.others[pod.Name]; pod.Problem == "" {
			delete(obs.Problems, pod.Name)
			continue
		}
		obs.Problems[pod.Name] = pod.Problem
	}
}

// isCrashing reports whether etcd in a pod keeps exiting.
func isCrashing(pod *corev1.Pod) bool {
	ready, since := health.Readiness(pod)
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == container {
			return !ready && crashing(c, since)
		}
	}
	return false
}

// crashing reports whether etcd keeps exiting because of its data. unready is the time at which the pod became
// unready. Three things must hold:
//
//   - The kubelet reports CrashLoopBackOff.
//   - The last exit is later than unready. The restart count alone proves nothing, because it covers the pod's
//     lifetime.
//   - etcd wrote the last message, and the message is about etcd's data. Other exits do not prove that the volume is
//     damaged: the kernel killed etcd for lack of memory, the kubelet sent a signal, the agent wrote the message, or a
//     certificate or a flag is wrong.
func crashing(c *corev1.ContainerStatus, unready time.Time) bool {
	if c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" || c.RestartCount < 2 {
		return false
	}
	end := c.LastTerminationState.Terminated
	if end == nil || end.FinishedAt.Time.Before(unready) || end.Reason != "Error" || health.OwnWords(end.Message) != "" || !blamesData(end.Message) {
		return false
	}
	const killed, terminated = 128 + 9, 128 + 15
	return end.ExitCode != killed && end.ExitCode != terminated
}

// blamesData reports whether etcd ended because of its data: with a panic, or with a fatal error that names a part of
// the data. message is the end of etcd's log; its first line may be incomplete.
func blamesData(message string) bool {
	if environment.MatchString(message) {
		return false
	}
	if trace := panicked.FindString(message); trace != "" {
		return trace != opening || ofDatabase.MatchString(message)
	}
	lines := strings.Split(strings.TrimSpace(message), "\n")
	for _, line := range slices.Backward(lines) {
		var last struct{ Level, Msg, Error string }
		if json.Unmarshal([]byte(line), &last) == nil && (last.Level == "fatal" || last.Level == "panic") {
			return last.Level == "panic" || ofData.MatchString(last.Msg+" "+last.Error)
		}
	}
	return false
}

// opening is the panic of an etcd that cannot open its database. The line before it names the cause, which may have
// nothing to do with the data.
const opening = "panic: failed to open database"

var (
	// panicked matches the beginning of a Go program's stack trace.
	panicked = regexp.MustCompile(`(?m)^(?:panic: failed to open database|panic: |fatal error: |goroutine \d+ )`)
	// ofDatabase matches reasons why a database file is invalid.
	ofDatabase = regexp.MustCompile(`(?i)invalid database|version mismatch|checksum error|file size too small|input/output error`)
	// ofData matches parts of the data (write-ahead log, snapshots, database) and words for their damage.
	ofData = regexp.MustCompile(`(?i)\bwal|snap|\bcrc\b|checksum|corrupt|database|backend|input/output error`)
)

// environment matches errors of the kernel whose cause is not the data: a full disk, a quota, a limit of the process, missing rights.
var environment = regexp.MustCompile(`(?i)no space left on device|disk quota exceeded|too many open files|cannot allocate memory|permission denied|read-only file system|address already in use`)

// seeClaims adds the claims of the cluster's pods, including those of an earlier resource of the same name.
func (k *Kind) seeClaims(ctx context.Context, ec *etcdv1.EtcdCluster, obs *Observation) error {
	owner := reconcile.OwnerOf(k, ec)
	list := object.EmptyList(object.ClaimKind)
	if err := k.client.List(ctx, list, client.InNamespace(ec.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()}); err != nil {
		return fmt.Errorf("list the claims of %s: %w", ec.Name, err)
	}
	for i := range list.Items {
		if claim, ok := readClaim(ec.Name, &list.Items[i], k.now()); ok {
			obs.View.Claims = append(obs.View.Claims, claim)
		}
	}
	slices.SortFunc(obs.View.Claims, func(a, b membership.Claim) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return nil
}

// Annotations of claims that describe the data of the volume.
const (
	annotationCluster = "etcd.database.coreos.com/cluster-id"
	annotationMember  = "etcd.database.coreos.com/member-id"
	annotationVersion = "etcd.database.coreos.com/version"
	// annotationPosition identifies the last log entry that the operator observed while the member ran: the entry's
	// term and index, and the time at which the annotation was written.
	annotationPosition = "etcd.database.coreos.com/position"
	// annotationRecoveries holds the tokens of recoveries of the cluster.
	annotationRecoveries = "etcd.database.coreos.com/recoveries"
)

// readClaim parses a claim and its annotations. ok is false if no pod of the cluster can use the claim. A malformed annotation is reported
// in the result, and does not affect other claims.
func readClaim(cluster string, o *unstructured.Unstructured, now time.Time) (claim membership.Claim, ok bool) {
	n, ok := database.Ordinal(o.GetName(), "data-"+cluster+"-")
	if !ok || n >= membership.MaxReplicas {
		return claim, false
	}
	annotations := o.GetAnnotations()
	claim = membership.Claim{
		Name: o.GetName(), Ordinal: n, UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(), Terminating: o.GetDeletionTimestamp() != nil,
		Tokens: annotations[annotationRecoveries],
	}
	data := claim
	data.Version = annotations[annotationVersion]
	for _, parse := range []struct {
		annotation string
		of         func(text string) error
	}{
		{annotationCluster, func(text string) error { return data.Cluster.UnmarshalText([]byte(text)) }},
		{annotationMember, func(text string) error { return data.Member.UnmarshalText([]byte(text)) }},
		{annotationPosition, func(text string) error { return readPosition(text, now, &data) }},
	} {
		if text := annotations[parse.annotation]; parse.of(text) != nil {
			claim.Malformed = fmt.Sprintf("%s is %q", parse.annotation, health.Clip(text, 40))
			return claim, true
		}
	}
	return data, true
}

// readPosition parses the position of a claim's data and the time at which the position was written.
func readPosition(text string, now time.Time, claim *membership.Claim) error {
	if text == "" {
		return nil
	}
	var at string
	if _, err := fmt.Sscan(text, &claim.Position.Term, &claim.Position.Index, &at); err != nil {
		return fmt.Errorf("read the position %q: %w", text, err)
	}
	noted, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return fmt.Errorf("read the time of the position %q: %w", text, err)
	}
	claim.MarkedFor = now.Sub(noted)
	return nil
}
