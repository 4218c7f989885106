// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// groupVersion is that of Notebooks; testdata/crd.yaml is their CRD.
var groupVersion = schema.GroupVersion{Group: "example.d3os-product.com.d3os", Version: "v1alpha1"}

// Notebook is a resource: some pages, and a pod with a volume.
type Notebook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NotebookSpec   `json:"spec,omitempty"`
	Status NotebookStatus `json:"status,omitempty"`
}

// NotebookSpec is what a user asks for.
type NotebookSpec struct {
	Title  string            `json:"title,omitempty"`
	Pages  map[string]string `json:"pages,omitempty"`
	Paused bool              `json:"paused,omitempty"`
}

// NotebookStatus is what the operator saw.
type NotebookStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Phase              string             `json:"phase,omitempty"`
	Ready              string             `json:"ready,omitempty"`
	Step               string             `json:"step,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// NotebookList is a list of Notebooks.
type NotebookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Notebook `json:"items"`
}

// addToScheme makes a scheme know Notebooks.
func addToScheme(scheme *runtime.Scheme, gv schema.GroupVersion) {
	scheme.AddKnownTypes(gv, &Notebook{}, &NotebookList{})
	metav1.AddToGroupVersion(scheme, gv)
}

// DeepCopyObject is written by hand here; the types of api/ have a generated one.
func (n *Notebook) DeepCopyObject() runtime.Object {
	c := *n
	c.ObjectMeta = *n.DeepCopy()
	c.Spec.Pages = maps.Clone(n.Spec.Pages)
	c.Status.Conditions = slices.Clone(n.Status.Conditions)
	return &c
}

// DeepCopyObject copies every item.
func (l *NotebookList) DeepCopyObject() runtime.Object {
	c := *l
	c.ListMeta = *l.DeepCopy()
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Notebook))
	}
	return &c
}
