// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// As returns a copy of a DataService whose spec.mysql declares the running form.
func (f *Form) As(ds *dsv1.DataService) *dsv1.DataService {
	changed, m := *ds, *ds.Spec.MySQL
	one := int32(1)
	switch stage := f.Stage(); stage {
	case StageCheck, StageImport:
		m.Replica, m.Replication = &one, nil
		if stage == StageCheck {
			m.Backup = f.begun(m.Backup)
		}
	default:
		m.Replication = &dsv1.MySQLReplication{}
	}
	changed.Spec.MySQL = &m
	return &changed
}

// begun returns those declared backups that the single server already makes. Other backups would restart the server,
// which is about to become several members anyway.
func (f *Form) begun(declared *dsv1.Backup) *dsv1.Backup {
	if declared == nil || !slices.Contains(f.Left, "CronJob "+f.Name+"-backup") {
		return nil
	}
	b := *declared
	if !slices.Contains(f.Left, "Deployment "+f.Name+"-archive") {
		b.PointInTime = nil
	}
	return &b
}

// PlanTakeover plans the change of a single server to a MySQLCluster. image is the image of the members. spec is the declared database.
// parts are the parts of the single server. If the change is refused, it returns an error for users, and nothing changes.
func PlanTakeover(spec Declared, form *Form, image string, parts []reconcile.Part, in reconcile.Inputs) (*Takeover, error) {
	t := &Takeover{Database: form.Name, Mark: form.Mark, Image: image, Job: fmt.Sprintf("%s-members-%d", form.Name, spec.Generation), in: in, spec: spec}
	for i := range parts {
		t.IsUnknown = t.IsUnknown || parts[i].Name == Component && IsUnknown(parts[i].Objects)
	}
	var err error
	for kind, to := range map[string]**unstructured.Unstructured{object.ConfigMapKind.Kind: &t.Record, object.ClaimKind.Kind: &t.Claim, object.StatefulSetKind.Kind: &t.Workload} {
		name := map[string]string{object.ConfigMapKind.Kind: RecordName(form.Name), object.ClaimKind.Kind: ClaimName(form.Name)}[kind]
		if name == "" {
			name = form.Name
		}
		if *to, err = in.Lookup(kind, name); err != nil {
			return nil, err
		}
	}
	if t.Record == nil {
		return nil, fmt.Errorf("%w: ConfigMap %s is gone", reconcile.ErrAgain, RecordName(form.Name))
	}
	if t.Pods, err = in.Pods(Component); err != nil {
		return nil, err
	}
	if t.Checks, err = in.Pods(partMembers); err != nil {
		return nil, err
	}
	if act, message := t.Decide(); act == takeoverRefused {
		return nil, reconcile.SpecErrorOf(render.FieldError(spec.Path+".replica", "%s. Until then the database continues as one server", message))
	}
	return t, nil
}

// Note describes to users the next write of the takeover, or the reason why it waits.
func (t *Takeover) Note() string {
	_, message := t.Decide()
	return message
}

// Steps returns the next write of a takeover; nil if the takeover waits.
func (t *Takeover) Steps(c client.Client) []reconcile.Step {
	act, message := t.Decide()
	do := map[string]func(context.Context, client.Client) error{takeoverCheck: t.makeJob, takeoverHand: t.handOver}[act]
	if do == nil {
		return nil
	}
	return []reconcile.Step{{Name: act, Message: message, Do: func(ctx context.Context) error { return do(ctx, c) }}}
}

func (t *Takeover) makeJob(ctx context.Context, c client.Client) error {
	of := backup.Of{Kind: t.spec.Owner.GroupVersionKind, Namespace: t.spec.Owner.Namespace, Name: t.spec.Owner.Name}
	source, err := backup.Reader{Client: c}.Source(ctx, of, Component+"-members")
	if err != nil || source == nil { // the plan creates the object
		return err
	}
	if err := c.Create(ctx, source.Job(t.Job, of.Namespace), client.FieldOwner(apply.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make Job %s: %w", t.Job, err)
	}
	return nil
}

// handOver makes the first member the owner of the server's claim. It is the only write that a change of the spec cannot revert.
func (t *Takeover) handOver(ctx context.Context, c client.Client) error {
	again := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{reconcile.ErrAgain}, args...)...)
	}
	if generation, err := t.in.Generation(); err != nil || generation != t.spec.Generation {
		return again("the DataService has changed (%v)", err)
	}
	record, err := t.in.LookupLive(object.ConfigMapKind.Kind, RecordName(t.Database))
	if err != nil {
		return err
	}
	if record == nil || record.GetResourceVersion() != t.Record.GetResourceVersion() {
		return again("ConfigMap %s has changed", RecordName(t.Database))
	}
	claim, err := t.in.LookupLive(object.ClaimKind.Kind, ClaimName(t.Database))
	if err != nil {
		return err
	}
	if claim == nil || claim.GetResourceVersion() != t.Claim.GetResourceVersion() {
		return again("PersistentVolumeClaim %s has changed", ClaimName(t.Database))
	}
	if err := t.isFree(ctx, c); err != nil {
		return err
	}
	member := object.Owner{GroupVersionKind: clusterKind, Namespace: t.spec.Owner.Namespace, Name: t.Database}
	changed := claim.DeepCopy()
	labels := changed.GetLabels()
	delete(labels, object.LabelPartOf)
	for name, value := range member.Labels(ClaimOfCluster) {
		labels[name] = value
	}
	changed.SetLabels(labels)
	if err := c.Patch(ctx, changed, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}), client.FieldOwner(apply.FieldManager)); err != nil {
		return fmt.Errorf("make PersistentVolumeClaim %s the claim of the first member: %w", ClaimName(t.Database), err)
	}
	return nil
}

// isFree returns an error if an object exists whose name the MySQLCluster needs, or that an earlier MySQLCluster of that name has left.
// Such an object would prevent the formation of the cluster, after the single server was removed.
func (t *Takeover) isFree(ctx context.Context, c client.Client) error {
	taken := func(o *unstructured.Unstructured) error {
		return fmt.Errorf("make several members of %s: %s %s exists: delete that object if it is not needed, or set replica back to 1", t.Database, o.GetKind(), o.GetName())
	}
	for _, of := range []struct{ kind, name string }{
		{"Service", "-read"}, {"Service", "-headless"}, {"ConfigMap", "-replication"}, {"ConfigMap", "-config"}, {"ConfigMap", "-databases"}, {"PodDisruptionBudget", ""},
	} {
		if found, err := t.in.LookupLive(of.kind, t.Database+of.name); err != nil || found != nil {
			if err == nil {
				err = taken(found)
			}
			return err
		}
	}
	for ordinal := 1; ordinal < maxMembers; ordinal++ {
		if found, err := t.in.LookupLive(object.ClaimKind.Kind, fmt.Sprintf("data-%s-%d", t.Database, ordinal)); err != nil || found != nil {
			if err == nil {
				err = taken(found)
			}
			return err
		}
	}
	other := object.Empty(clusterKind)
	err := c.Get(ctx, client.ObjectKey{Namespace: t.spec.Owner.Namespace, Name: t.Database}, other)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = taken(other)
	}
	return err
}

// maxMembers is the maximum number of members.
const maxMembers = 5

// clusterKind is the kind of databases with several members.
var clusterKind = object.Resources[2]

// Adopt prepares the MySQLCluster of a part. It annotates the MySQLCluster with the mark of the volume whose data
// becomes the first data. It removes restoreFrom if data exists already: the API server refuses to add that field to an
// existing MySQLCluster. Objects are shared, so Adopt copies them.
func (f *Form) Adopt(part *reconcile.Part, owner object.Owner) error {
	if f == nil || f.Mark == "" && !f.isFormed() {
		return nil
	}
	objects := make([]*unstructured.Unstructured, 0, len(part.Objects))
	for _, o := range part.Objects {
		if o.GroupVersionKind() == clusterKind {
			o = object.Unfinished(o)
			if f.Mark != "" {
				annotate(o, object.AnnotationAdopt, f.Mark)
			}
			unstructured.RemoveNestedField(o.Object, "spec", fieldRestore)
			if _, err := object.Finish(o, owner); err != nil {
				return err
			}
		}
		objects = append(objects, o)
	}
	part.Objects = objects
	return nil
}

// fieldRestore is the field of a MySQLCluster that names the backup to restore to a new database.
const fieldRestore = "restoreFrom"

// isFormed reports whether a MySQLCluster without restoreFrom exists. That field cannot be added later.
func (f *Form) isFormed() bool {
	if f.Cluster == nil {
		return false
	}
	_, restores, _ := unstructured.NestedMap(f.Cluster.Object, "spec", fieldRestore)
	return !restores
}

// Vacate removes all objects from the part of a database, so that the objects of the single server are deleted. The
// claim already belongs to the first member.
func (f *Form) Vacate(part *reconcile.Part) {
	part.Objects, part.Revision, part.ReplacesAtOnce, part.Doubt = nil, "", true, &reconcile.Doubt{}
	part.Notes = append(part.Notes, health.Info(fmt.Sprintf("becomes several members: the server restarts once, after %s is deleted", f.Left[len(f.Left)-1])))
}
