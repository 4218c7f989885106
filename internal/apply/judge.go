// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"d3os.com/d3os-operator/internal/object"
)

// Judge predicts the result of Apply. It sends no request. Therefore it cannot predict the decision of an admission policy or a quota.
type Judge struct{ applier *Applier }

// NewJudge returns a Judge for an operator of that version.
func NewJudge(types *Types, version string) *Judge {
	return &Judge{&Applier{compare: newComparer(types), version: version}}
}

// Verdict is the predicted result of Apply for an object.
type Verdict struct {
	Action Action
	// Result is the predicted object after Apply. For an object that would be replaced, it is the live object with the
	// planned fields.
	Result *unstructured.Unstructured
	// Fields are the changed fields, sorted by their paths.
	Fields []Field
	// NewPods reports whether the pods would be replaced.
	NewPods bool
}

// Field is a changed field. A value is nil if the field is not set.
type Field struct {
	Path     string // spec.template.spec.containers[name="auth"].image
	Old, New any
}

// Judge predicts the effect of Apply on a planned object. live must contain its managed fields; it is nil if the object does not exist. Judge
// returns those errors of Apply that can be found without a request.
func (j *Judge) Judge(owner object.Owner, planned, live *unstructured.Unstructured) (Verdict, error) {
	if live == nil {
		return Verdict{Action: Created, Result: planned, NewPods: podTemplate(planned) != nil}, nil
	}
	if err := checkOwner(owner, planned, live); err != nil {
		return Verdict{}, err
	}
	if err := j.applier.checkWriter(live); err != nil {
		return Verdict{}, err
	}
	if live.GetDeletionTimestamp() != nil {
		return Verdict{Action: Waiting, Result: live}, nil
	}
	planned = keep(planned, live)
	same, err := j.applier.compare.same(planned, live)
	if err != nil {
		return Verdict{}, err
	}
	unplanned := hasUnplanned(planned, live)
	if same && !unplanned && !unchangeable(planned, live) {
		return Verdict{Result: live}, nil
	}
	verdict, err := j.applier.compare.outcome(planned, live, unplanned)
	if err != nil {
		return Verdict{}, err
	}
	verdict.Action = Updated
	if object.Digest(planned) == object.Digest(live) {
		verdict.Action = Corrected
	}
	if immutableField(planned, live, verdict.Fields) == "" && !unchangeable(planned, live) {
		return verdict, nil
	}
	if (precious(live) || object.OutlivesOwner(planned)) && len(verdict.Fields) > 0 {
		return Verdict{}, fmt.Errorf("%s cannot be changed in place, and is not deleted, because the operator cannot create its content again: take back the change of %s",
			describe(live), verdict.Fields[0].Path)
	}
	verdict.Action = Replaced
	if live.GetKind() != "StatefulSet" || !sameSelector(planned, live) { // with another selector, the pods are deleted with the StatefulSet
		verdict.NewPods = podTemplate(planned) != nil
	}
	return verdict, nil
}

// outcome predicts the live object after an apply of the planned object, and the changed fields.
func (c *comparer) outcome(planned, live *unstructured.Unstructured, unplanned bool) (Verdict, error) {
	before, err := c.types.ObjectToTyped(live, typed.AllowDuplicates)
	if err != nil {
		return Verdict{}, fmt.Errorf("compare %s: %w", describe(live), err)
	}
	base := live
	if unplanned && mayRestore(planned.GetKind()) {
		base = withPlannedLists(planned, live)
	}
	_, merged, err := c.mergeTyped(base, planned)
	if err != nil {
		return Verdict{}, err
	}
	given, err := c.givenUp(planned, live)
	if err != nil {
		return Verdict{}, err
	}
	merged = merged.RemoveItems(given)
	difference, err := before.Compare(merged)
	if err != nil {
		return Verdict{}, fmt.Errorf("compare %s with its plan: %w", describe(live), err)
	}
	content, ok := merged.AsValue().Unstructured().(map[string]any)
	if !ok {
		return Verdict{}, fmt.Errorf("merge %s with its plan: the result is no object", describe(live))
	}
	verdict := Verdict{Result: (&unstructured.Unstructured{Object: content}).DeepCopy()}
	changed := difference.Added.Union(difference.Removed)
	difference.Modified.Iterate(func(path fieldpath.Path) {
		if !onlyDefaulted(path, at(path, live.Object), at(path, planned.Object)) {
			changed.Insert(path.Copy())
		}
	})
	changed.Leaves().Iterate(func(path fieldpath.Path) {
		text := strings.TrimPrefix(path.String(), ".")
		if bookkeeping(text) {
			return
		}
		verdict.Fields = append(verdict.Fields, Field{text, at(path, live.Object), at(path, content)})
		verdict.NewPods = verdict.NewPods || strings.HasPrefix(text, "spec.template.") && podTemplate(planned) != nil
	})
	slices.SortFunc(verdict.Fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return verdict, nil
}

// bookkeeping reports whether a field is an annotation that only the operator uses.
func bookkeeping(path string) bool {
	name, isAnnotation := strings.CutPrefix(path, "metadata.annotations.")
	return isAnnotation && (object.IsNoPrune(name) || slices.Contains([]string{object.AnnotationDigest, object.AnnotationWriter, annotationRestoring}, name))
}

// givenUp returns the fields that an apply would remove: an earlier apply set them, the plan no longer has them, and no
// other manager owns them. A number of pods is kept unless it is 0 (see handOver).
func (c *comparer) givenUp(planned, live *unstructured.Unstructured) (*fieldpath.Set, error) {
	ours, others := &fieldpath.Set{}, &fieldpath.Set{}
	for _, entry := range live.GetManagedFields() {
		if entry.FieldsV1 == nil {
			continue
		}
		fields := &fieldpath.Set{}
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("read who owns the fields of %s: %w", describe(live), err)
		}
		if entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply {
			ours = ours.Union(fields)
		} else {
			others = others.Union(fields)
		}
	}
	want, err := c.types.ObjectToTyped(planned)
	if err != nil {
		return nil, fmt.Errorf("compare %s as planned: %w", describe(planned), err)
	}
	wanted, err := want.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("compare %s as planned: %w", describe(planned), err)
	}
	given := &fieldpath.Set{}
	ours.Difference(wanted).Difference(others).Iterate(func(path fieldpath.Path) {
		if !hasBelow(wanted, path) && !comesBack(planned, path, at(path, live.Object)) {
			given.Insert(path.Copy())
		}
	})
	return given, nil
}

// defaults are the API server's defaults of some fields. Removing a field with its default changes nothing.
var defaults = map[string]any{
	"successThreshold": int64(1), "failureThreshold": int64(3), "periodSeconds": int64(10), "timeoutSeconds": int64(1),
	"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "terminationGracePeriodSeconds": int64(30),
	"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "defaultMode": int64(420), "protocol": "TCP",
	"whenDeleted": "Retain", "whenScaled": "Retain", "partition": int64(0), "revisionHistoryLimit": int64(10), "progressDeadlineSeconds": int64(600),
	"sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "concurrencyPolicy": "Allow",
	"deprecated.daemonset.template.generation": nil,
}

// comesBack reports whether a field keeps its value although the plan no longer sets it: handOver keeps the number of
// pods, a bound claim keeps its fields, and the API server sets defaults.
func comesBack(planned *unstructured.Unstructured, path fieldpath.Path, value any) bool {
	if len(path) < 2 || path[len(path)-1].FieldName == nil {
		return false
	}
	name, parent := *path[len(path)-1].FieldName, path[len(path)-2].FieldName
	known, hasDefault := defaults[name]
	isSpec := path[0].FieldName != nil && *path[0].FieldName == "spec"
	switch {
	case path.Equals(fieldpath.MakePathOrDie("spec", "replicas")):
		return value != int64(0)
	case isSpec && planned.GetKind() == object.ClaimKind.Kind:
		return true
	case parent != nil && *parent == "updateStrategy":
		return value == "RollingUpdate"
	case planned.GetKind() == "DaemonSet" && name == "maxSurge":
		return value == int64(0)
	case planned.GetKind() == "DaemonSet" && name == "maxUnavailable":
		return value == int64(1)
	}
	return hasDefault && (known == nil || known == value)
}

// hasBelow reports whether a set contains a path, or a longer path that begins with it.
func hasBelow(set *fieldpath.Set, path fieldpath.Path) bool {
	for _, element := range path {
		if set.Has(fieldpath.Path{element}) && len(path) == 1 {
			return true
		}
		set = set.WithPrefix(element)
	}
	return !set.Empty()
}

// changeable are the fields of a StatefulSet's spec that Kubernetes changes in place.
var changeable = []string{"replicas", "ordinals", "template", "updateStrategy", "persistentVolumeClaimRetentionPolicy", "minReadySeconds"}

// immutableField returns the changed field that the API server cannot change in place, or "".
func immutableField(planned, live *unstructured.Unstructured, changed []Field) string {
	for _, f := range changed {
		field := f.Path
		name, isSpec := strings.CutPrefix(field, "spec.")
		top := strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '[' })
		switch planned.GetKind() {
		case "StatefulSet":
			if isSpec && !slices.Contains(changeable, top[0]) {
				return field
			}
		case "Deployment", "DaemonSet":
			if isSpec && top[0] == "selector" {
				return field
			}
		case object.ClaimKind.Kind:
			if isSpec && top[0] != "resources" {
				return field
			}
		case "Secret":
			if field == "type" {
				return field
			}
		}
	}
	if fixed, _, _ := unstructured.NestedBool(live.Object, "immutable"); fixed && !reflect.DeepEqual(planned.Object["data"], live.Object["data"]) {
		return "data"
	}
	return ""
}

// podTemplate returns the template of a workload's pods. It returns nil for other objects, and for a CronJob, whose pods are never
// replaced.
func podTemplate(o *unstructured.Unstructured) map[string]any {
	if o.GetKind() == "CronJob" {
		return nil
	}
	template, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
	return template
}
