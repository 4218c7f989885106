// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// Alone returns the facts about a single resource that is not a DataService. The resource is treated like a DataService with one component.
// The caller must add the resource's objects, pods and the other fields of Facts.
func Alone(of *unstructured.Unstructured) (*Facts, error) {
	var like struct {
		metav1.ObjectMeta `json:"metadata"`
		Status            struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Phase              dsv1.Phase         `json:"phase"`
			Ready              string             `json:"ready"`
			Conditions         []metav1.Condition `json:"conditions"`
			Backup             *dsv1.BackupStatus `json:"backup"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(of.Object, &like); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", of.GetKind(), of.GetNamespace(), of.GetName(), err)
	}
	state := health.Assess([]*unstructured.Unstructured{of}, nil)
	c := dsv1.ComponentStatus{Name: of.GetName(), Kind: managed, Phase: dsv1.PhaseUpdating, Ready: state.Ready, Desired: state.Desired, Message: state.Hint}
	switch {
	case state.Settled:
		c.Phase, c.Message = dsv1.PhaseRunning, state.Note.Text
		if blamed := state.Note.Culprit; blamed != (health.Culprit{}) && !state.Note.Backup { // see backups
			c.Culprit = &dsv1.Culprit{Kind: blamed.Kind, Name: blamed.Name, Reason: blamed.Reason}
		}
	case isHeld(of, state.HintCulprit.Reason):
		c.Phase, c.Message = dsv1.PhaseDegraded, state.Hint
		c.Culprit = &dsv1.Culprit{Kind: state.HintCulprit.Kind, Name: state.HintCulprit.Name, Reason: state.HintCulprit.Reason}
	case state.Problem != "":
		c.Phase, c.Message = dsv1.PhaseDegraded, state.Problem
		c.Culprit = &dsv1.Culprit{Kind: state.Culprit.Kind, Name: state.Culprit.Name, Reason: state.Culprit.Reason}
	}
	for i := range like.Status.Conditions {
		if like.Status.Conditions[i].Type == dsv1.ConditionReady {
			c.LastTransitionTime = &like.Status.Conditions[i].LastTransitionTime
		}
	}
	ds := &dsv1.DataService{ObjectMeta: like.ObjectMeta, Status: dsv1.DataServiceStatus{
		ObservedGeneration: like.Status.ObservedGeneration, Phase: like.Status.Phase, Ready: like.Status.Ready, Components: []dsv1.ComponentStatus{c},
	}}
	ds.Status.Backup = like.Status.Backup
	if restored := meta.FindStatusCondition(like.Status.Conditions, dsv1.ConditionRestored); restored != nil {
		ds.Status.Conditions = []metav1.Condition{*restored}
	}
	ds.Spec.Paused, _, _ = unstructured.NestedBool(of.Object, "spec", object.PauseField(of))
	return &Facts{DataService: ds, Resource: of, Component: c.Name}, nil
}

// isHeld reports whether a DataBackup or a DataRestore with this reason makes no progress. No condition reports this
// state, because it may end without a change of the resource, for example when a quota is raised or the resource in
// spec.of is created.
func isHeld(of *unstructured.Unstructured, reason string) bool {
	return slices.Contains([]string{"DataBackup", "DataRestore"}, of.GetKind()) && !slices.Contains(progressReasons, reason)
}

// progressReasons are the reasons of a backup or a restore that makes progress, or that the operator has not observed yet.
var progressReasons = []string{"", "NotReady", "Running", "Deleting", health.ReasonNotObserved, health.ReasonTerminating}

// managed is the kind of a component that is a resource of the operator.
const managed = "Managed"

// kind returns the kind of the subject.
func (f *Facts) kind() string {
	if f.Resource != nil {
		return f.Resource.GetKind()
	}
	return dsv1.Kind
}

// Self returns the subject as the object to examine.
func (f *Facts) Self() *Object { return f.object(f.kind(), f.DataService.Name) }

// resume returns the advice to resume a paused resource.
func (f *Facts) resume() string {
	if f.Resource != nil {
		return fmt.Sprintf("set spec.%s of %s %s to false: then the operator continues", object.PauseField(f.Resource), f.kind(), f.DataService.Name)
	}
	return "resume the DataService: kubectl dataservice resume " + f.DataService.Name
}
