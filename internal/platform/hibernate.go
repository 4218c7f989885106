// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/halt"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Hibernation is the state of a DataService with spec.hibernate. Pods stop in two stages:
//
//  1. Services and cron jobs are planned without pods, and backups are suspended. Middleware does not change.
//  2. When no pod of a service and no backup remains, middleware is planned without pods, too.
//
// The stage is read from the cluster: after a workload of middleware has the annotation halt.Hibernation, the second stage is permanent. So
// if another writer starts a pod, the databases still stay stopped.
type Hibernation struct {
	// Waits names the work that must end before pods are stopped; empty if no work remains.
	Waits string
	// IsLast reports whether middleware is stopped, too (the second stage).
	IsLast bool
	// Remains names the pods and Jobs that still run, of backups and of parts that should have no pods.
	Remains []string
	// Stays names the parts that keep running, because a stop would delete or endanger their data (see staysOf).
	Stays []string

	owner object.Owner
	in    reconcile.Inputs
}

// IsActive reports whether pods are stopped or are being stopped.
func (h *Hibernation) IsActive() bool { return h != nil && h.Waits == "" }

// IsDone reports whether all pods that can be stopped are stopped.
func (h *Hibernation) IsDone() bool { return h.IsActive() && h.IsLast && len(h.Remains) == 0 }

// message describes the hibernation to users.
func (h *Hibernation) message() string {
	text := "hibernated: no pod runs, data and addresses stay"
	switch {
	case !h.IsDone() && h.IsLast:
		text = "hibernating: the middleware stops"
	case !h.IsDone():
		text = "hibernating: the services stop, and backups end"
	case len(h.Stays) > 0:
		text = "hibernated, except " + strings.Join(h.Stays, ", ") + ": data and addresses stay"
	}
	if len(h.Remains) > 0 {
		text += mysql.StillThere + halt.Few(h.Remains)
	}
	return text + "; set spec.hibernate to false to wake it"
}

// findHibernation returns the state of the hibernation of a planned DataService, or nil if it does not hibernate.
func findHibernation(f *form, planned *plan.Plan, parts []reconcile.Part, databases *mysql.Databases, in reconcile.Inputs) (*Hibernation, error) {
	if !f.declared.Spec.Hibernate {
		return nil, nil
	}
	h := &Hibernation{owner: plan.OwnerOf(f.declared), in: in}
	hasBegun := false
	for i := range parts {
		has, err := halt.Hibernation.IsAny(withoutCronJobs(parts[i].Objects), liveIn(in))
		if err != nil {
			return nil, err
		}
		hasBegun = hasBegun || has
		h.IsLast = h.IsLast || has && !isUser(&planned.Components[i])
	}
	if !hasBegun {
		var err error
		if h.Waits, err = obstacle(f, planned, parts, databases, in); err != nil || h.Waits != "" {
			return h, err
		}
	}
	if h.IsLast {
		return h, nil
	}
	for i := range parts {
		look := h.backupsOf
		if isUser(&planned.Components[i]) {
			look = h.remainsOf
		}
		if _, err := look(&parts[i]); err != nil {
			return nil, err
		}
	}
	h.IsLast = len(h.Remains) == 0
	return h, nil
}

// liveIn returns a lookup that also finds custom resources, such as a RedisCluster.
func liveIn(in reconcile.Inputs) object.Lookup {
	return func(kind, name string) (*unstructured.Unstructured, error) {
		if !slices.ContainsFunc(object.Resources, func(gvk schema.GroupVersionKind) bool { return gvk.Kind == kind }) {
			return in.Lookup(kind, name)
		}
		found, err := in.List(kind)
		if i := slices.IndexFunc(found, func(o *unstructured.Unstructured) bool { return o.GetName() == name }); i >= 0 {
			return found[i], nil
		}
		return nil, err
	}
}

// withoutCronJobs returns the objects except the CronJobs, which are suspended in the first stage.
func withoutCronJobs(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return o.GetKind() == object.CronJobKind.Kind })
}

// obstacle names the work that must end before a platform can hibernate, or returns "". If work on the data of mysql were interrupted, the
// work would start again later, or its result would be unknown.
func obstacle(f *form, planned *plan.Plan, parts []reconcile.Part, databases *mysql.Databases, in reconcile.Inputs) (string, error) {
	if f.stage == mysql.StageCheck || f.stage == mysql.StageRemove {
		return "hibernation waits until mysql has been converted to several members", nil
	}
	const switching = "hibernation waits until mysql has been switched to another database"
	if databases != nil && (databases.IsStopping || databases.IsBarred) {
		return switching, nil
	}
	for i := range parts {
		if !isUser(&planned.Components[i]) {
			continue
		}
		if is, err := halt.Switch.IsAny(parts[i].Objects, in.Lookup); err != nil || is {
			return switching, err
		}
	}
	pods, err := in.Pods(mysql.Component)
	if err != nil {
		return "", err
	}
	if pod := mysql.MakesData(pods); pod != "" {
		return "hibernation waits until Pod " + pod + " has restored or imported the data of mysql", nil
	}
	return "", nil
}

// backupsOf adds the running backups of a part of middleware, and those that may start, to Remains.
func (h *Hibernation) backupsOf(part *reconcile.Part) ([]string, error) {
	crons := slices.DeleteFunc(halt.Workloads(part.Objects), func(o *unstructured.Unstructured) bool { return o.GetKind() != object.CronJobKind.Kind })
	return h.note(part, crons, backup.PartJobs)
}

// remainsOf adds the running pods of a part to Remains.
func (h *Hibernation) remainsOf(part *reconcile.Part) ([]string, error) {
	return h.note(part, halt.Workloads(part.Objects), "")
}

// note adds workloads that still have pods to Remains. suffix selects the pods of the part itself or of its backups.
func (h *Hibernation) note(part *reconcile.Part, workloads []*unstructured.Unstructured, suffix string) ([]string, error) {
	pods, err := h.in.Pods(part.Name + suffix)
	if err != nil {
		return nil, err
	}
	for _, o := range part.Objects {
		if child, its := childOf(o); its != "" {
			more, err := h.in.PodsOf(child, its+suffix)
			if err != nil {
				return nil, err
			}
			pods = append(pods, more...)
		}
	}
	remains, err := halt.Remains(workloads, pods, liveIn(h.in))
	h.Remains = append(h.Remains, remains...)
	return remains, err
}

// childOf returns the owner and the part name of the pods of a resource of this operator. For other objects, part is "".
func childOf(o *unstructured.Unstructured) (owner object.Owner, part string) {
	if !object.IsResource(o) || object.IsForeign(o) {
		return object.Owner{}, ""
	}
	kind := strings.ToLower(strings.TrimSuffix(o.GetKind(), "Cluster"))
	return object.Owner{GroupVersionKind: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName()}, kind + ".cluster"
}

// plan plans the parts that stop in the present stage without pods, and lets the other parts run.
func (h *Hibernation) plan(planned *plan.Plan, parts []reconcile.Part) (err error) {
	h.Remains = nil
	for i := range parts {
		part := &parts[i]
		switch why := staysOf(part); {
		case why != "":
			h.Stays = append(h.Stays, part.Name)
			part.Notes = append([]health.Note{health.Info(why)}, part.Notes...)
			err = h.keep(part)
		case isUser(&planned.Components[i]), h.IsLast:
			err = h.stop(part)
		default:
			part.Notes = append([]health.Note{health.Info("stops after the services")}, part.Notes...)
			if _, err = h.backupsOf(part); err == nil {
				err = h.keep(part)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// staysOf returns the reason why a part must keep running, or "".
func staysOf(part *reconcile.Part) string {
	switch {
	case part.Doubt != nil && part.Doubt.Hold:
		return "keeps running, because its data is in danger"
	case part.Name == mysql.Component && part.Kind == "DaemonSet":
		return "keeps running: kind DaemonSet has no volume, so its data would be deleted with its pod"
	case slices.ContainsFunc(part.Objects, object.IsForeign):
		return "keeps running: MongoDB's operator can only stop its members by removing them"
	}
	return ""
}

// stop plans a part without pods. The stop waits for no other part. A later start waits for other parts, because the part then has a new revision.
func (h *Hibernation) stop(part *reconcile.Part) (err error) {
	if part.Objects, err = halt.Hibernation.Halt(part.Objects, liveIn(h.in), h.owner); err != nil {
		return err
	}
	part.After, part.Revision, part.Stopped = nil, object.Sum([]byte("hibernated "+part.Revision)), &reconcile.Stopped{}
	part.Stopped.Remains, err = h.remainsOf(part)
	return err
}

// keep lets a part run, and suspends its backups.
func (h *Hibernation) keep(part *reconcile.Part) (err error) {
	part.After, part.KeepsRunning = nil, true
	part.Objects, err = halt.Hibernation.Suspend(part.Objects, liveIn(h.in), h.owner)
	return err
}

// wake plans the parts of a platform after its hibernation. Each part gets the number of pods that it had before.
func wake(parts []reconcile.Part, owner object.Owner, in reconcile.Inputs) error {
	for i := range parts {
		is, err := halt.Hibernation.IsAny(parts[i].Objects, liveIn(in))
		if err == nil && is {
			parts[i].Objects, err = halt.Hibernation.Resume(parts[i].Objects, liveIn(in), owner)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hibernate returns the decision while a platform hibernates. If the working container of a backup Job has ended and another container
// still runs, the decision is to delete the Job.
func (k *Kind) hibernate(ds *dsv1.DataService, obs *Observation) reconcile.Decision {
	if obs.Hibernation.IsDone() {
		return reconcile.Decision{}
	}
	return reconcile.Decision{Steps: backup.EndHeld(k.jobs, ds.Namespace, obs.Backups.Unfinished), LookAgain: podsShown}
}
