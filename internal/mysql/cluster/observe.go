// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8sclient "sigs.k8s.io/controller-runtime/pkg/client"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql/client"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// container is the name of MySQL's container in each pod.
const container = "mysql"

// labelReadable marks the pods that the Service for reads selects.
const labelReadable = "d3os-product.com.d3os/mysql-readable"

// Observation is the observation of a database. It contains only data.
type Observation struct {
	replication.Observation

	// Looks are the answers of the agents, in the order of Members.
	Looks []client.Look
	// Problems maps a pod to the reason why it does not run, from Kubernetes or from its agent.
	Problems map[string]string
	// Lagging reports whether Kubernetes has not processed the latest StatefulSet yet. Replacing reports whether the
	// StatefulSet was deleted and is being created again while its pods run. Until the new StatefulSet owns the pods,
	// Decide returns no step.
	Lagging, Replacing bool
	// Pods is the number of existing pods.
	Pods int
	// Unwritable is the time at which the primary stopped being writable. It keeps that time in the first pass in which
	// the primary is writable again, so that failover can compute the duration. After that pass it is zero.
	Unwritable time.Time

	// Failing is the failure of the last step; empty after a success. Failure is the same text, but empty until steps have failed for
	// failureLasts.
	Failing, Failure string

	record  replication.Record
	pods    []pod
	reach   Reach
	backups backupsSeen
	// restored is the observation of the restore that created the database.
	restored backup.Restored
	decided  replication.Decision // result of Decide
}

// pod is a pod of a database. The pod may be missing.
type pod struct {
	client.Pod

	terminating, readable, ready bool
}

// see reads the Kubernetes objects of a database from the cache.
func (k *Kind) see(ctx context.Context, mc *mysqlv1.MySQLCluster, pods reconcile.Pods, obs *Observation) error {
	var err error
	if obs.record, _, err = records.Observe(ctx, k.client, reconcile.OwnerOf(k, mc)); err != nil {
		return err
	}
	seen, err := database.SeePods(ctx, k.client, reconcile.OwnerOf(k, mc), pods, part)
	if err != nil {
		return err
	}
	obs.Lagging, obs.Replacing = seen.Lagging, seen.Replacing
	if obs.restored.IsDeclared = mc.Spec.RestoreFrom != nil; obs.restored.IsDeclared {
		if obs.restored.Pods, err = pods(ctx, part); err != nil {
			return err
		}
	}
	routed, err := k.seeRoute(ctx, mc)
	if err != nil {
		return err
	}
	for ordinal := range obs.record.Pods(replicasOf(&mc.Spec)) {
		obs.pods = append(obs.pods, pod{Pod: client.Pod{Ordinal: ordinal}})
	}
	obs.reach.IPs = map[int]string{}
	for _, one := range seen.List {
		if one.Ordinal < maxMembers {
			obs.seePod(one)
		}
	}
	for i := range obs.pods {
		obs.pods[i].Routed = database.PodName(mc.Name, obs.pods[i].Ordinal) == routed
	}
	return nil
}

// seeRoute returns the name of the pod that the primary's Service selects, or "".
func (k *Kind) seeRoute(ctx context.Context, mc *mysqlv1.MySQLCluster) (string, error) {
	service := object.Empty(corev1.SchemeGroupVersion.WithKind("Service"))
	err := k.client.Get(ctx, k8sclient.ObjectKey{Namespace: mc.Namespace, Name: mc.Name}, service)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read Service %s: %w", mc.Name, err)
	}
	return selectedPod(service), nil
}

// seePod adds a pod to the observation.
func (obs *Observation) seePod(live database.Pod) {
	n := live.Ordinal
	for ordinal := len(obs.pods); ordinal <= n; ordinal++ {
		obs.pods = append(obs.pods, pod{Pod: client.Pod{Ordinal: ordinal}})
	}
	obs.Pods++
	obs.pods[n] = pod{
		Pod: client.Pod{
			Ordinal: n, UID: string(live.UID), Ticket: live.Annotations[object.AnnotationTicket],
			Outdated: live.Outdated, Down: isDown(live.Pod), WellFor: database.WellFor(live.Pod, time.Now()), Ended: database.LastEnd(live.Pod, time.Now()),
		},
		terminating: live.DeletionTimestamp != nil, readable: live.Labels[labelReadable] == "true", ready: health.IsReady(live.Pod),
	}
	obs.reach.IPs[n] = live.Status.PodIP
	if live.Problem != "" {
		obs.Problems[live.Name] = live.Problem
	}
}

// isDown reports whether, according to Kubernetes, MySQL's container does not run in a pod: it has never started, or it has ended.
func isDown(live *corev1.Pod) bool {
	if live.DeletionTimestamp != nil {
		return false // the deletion of the pod needs no step
	}
	i := slices.IndexFunc(live.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == container })
	if i < 0 {
		return live.Status.Phase == corev1.PodPending
	}
	return live.Status.ContainerStatuses[i].State.Running == nil
}

// ticketWait is the suffix of the report of an agent that waits for the operator. Such a report is not a problem.
const ticketWait = "waiting for the operator's ticket"

// explain replaces the problem that Kubernetes reports for a pod with the report of the pod's agent. If an agent answers,
// its container runs, so an earlier end of that container is not a problem any more. If the agent does not answer because
// of a wrong certificate, the certificate is the problem of the pod.
func (obs *Observation) explain(name string) {
	for i, m := range obs.Members {
		pod, problem := database.PodName(name, m.Ordinal), obs.Looks[i].Answer.Problem
		if !m.Answers {
			if wrong := certificateProblem(obs.Looks[i].Err, name); wrong != "" && obs.Problems[pod] == "" {
				obs.Problems[pod] = wrong
			}
			continue
		}
		delete(obs.Problems, pod)
		switch full := obs.Looks[i].Answer.Full; {
		case full != "": // the full volume causes all other problems
			obs.Problems[pod] = full
		case !m.Running && problem != "" && !strings.HasSuffix(problem, ticketWait):
			obs.Problems[pod] = problem
		}
	}
}

// isServed reports whether the recorded primary accepts writes in the recorded epoch, and waits for the recorded number
// of acknowledgements.
func (obs *Observation) isServed() bool {
	for i, m := range obs.Members {
		if m.Identity == obs.Record.Primary && obs.Record.Formed {
			return m.Running && m.Role == replication.RolePrimary && m.Epoch == obs.Record.Epoch && m.Demands == obs.Record.Acknowledgements &&
				obs.Looks[i].Answer.State.Writable && !m.Blocked
		}
	}
	return false
}
