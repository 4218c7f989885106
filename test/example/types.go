// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package example is a database kind in four files: the types (types.go), a chart (charts/ledger), pure decisions (decide.go) and a client
// (client.go). kind.go joins them. docs/develop/adding-a-database.md explains them in that order.
package example

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of Ledgers; crd.yaml is their CRD.
var GroupVersion = schema.GroupVersion{Group: "example.d3os-product.com.d3os", Version: "v1alpha1"}

// Ledger is a database. Each of its pods has a full copy of the data.
type Ledger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LedgerSpec   `json:"spec,omitempty"`
	Status LedgerStatus `json:"status,omitempty"`
}

// LedgerSpec is the desired state.
type LedgerSpec struct {
	// replicas is the number of pods. Default: 1.
	Replicas int32 `json:"replicas,omitempty"`
	// settings are files in the ConfigMap <name>-settings.
	Settings map[string]string `json:"settings,omitempty"`
	// paused stops all changes. Default: false.
	Paused bool `json:"paused,omitempty"`
}

// Phase is the phase of a Ledger.
type Phase string

// The phases of a Ledger.
const (
	PhaseCreating Phase = "Creating" // the Ledger has not been ready yet
	PhaseRunning  Phase = "Running"  // every pod has the data
	PhaseChanging Phase = "Changing" // the Ledger was ready, and is not ready now
	PhaseFailed   Phase = "Failed"   // a user must act
)

// LedgerStatus is the observed state.
type LedgerStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Phase              Phase              `json:"phase,omitempty"`
	Ready              string             `json:"ready,omitempty"`
	Step               string             `json:"step,omitempty"`
	Reason             string             `json:"reason,omitempty"`
	Message            string             `json:"message,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// LedgerList is a list of Ledgers.
type LedgerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Ledger `json:"items"`
}

// AddToScheme adds the types to a scheme.
func AddToScheme(scheme *runtime.Scheme, gv schema.GroupVersion) {
	scheme.AddKnownTypes(gv, &Ledger{}, &LedgerList{})
	metav1.AddToGroupVersion(scheme, gv)
}

// DeepCopyObject copies a Ledger. The types in api have generated methods.
func (l *Ledger) DeepCopyObject() runtime.Object {
	c := *l
	c.ObjectMeta = *l.DeepCopy()
	c.Spec.Settings = maps.Clone(l.Spec.Settings)
	c.Status.Conditions = slices.Clone(l.Status.Conditions)
	return &c
}

// DeepCopyObject copies each item.
func (l *LedgerList) DeepCopyObject() runtime.Object {
	c := *l
	c.ListMeta = *l.DeepCopy()
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Ledger))
	}
	return &c
}
