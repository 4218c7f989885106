// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adopt takes over the objects that the original operator created for a DataService.
//
// Look observes the cluster. Judge computes the report, a pure function of the observation. Apply and Undo write, with the user's rights: they take
// a step, observe its effect, and continue with the next step. Copy and Finish work in the same way for the database. A started step is visible in the
// cluster, so a killed command can be repeated. The Secret NAME-adoption stores the spec and the original objects, before a step destroys them.
package adopt

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

const (
	// manager is the field manager of the fields that the plugin itself writes. Planned objects have the operator's field manager.
	manager = "kubectl-dataservice"
	// mysqlName is the name of the original operator's database.
	mysqlName = dsv1.OriginalMySQL
	// probeSuffix is the suffix of a temporary Service, which follows the component's name.
	probeSuffix = "-adopt"
)

var (
	configMapKind  = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secretKind     = corev1.SchemeGroupVersion.WithKind("Secret")
	serviceKind    = corev1.SchemeGroupVersion.WithKind("Service")
	podKind        = corev1.SchemeGroupVersion.WithKind("Pod")
	deploymentKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	replicaSetKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
)

// accountName returns the name of the Secret with the account of the original database.
func accountName(ds string) string { return ds + dsv1.OriginalMySQLSecret }

// recordName returns the name of the Secret with the record.
func recordName(ds string) string { return ds + "-adoption" }

// Observation holds the input of Judge.
type Observation struct {
	DataService *unstructured.Unstructured
	// Wanted is the DataService with the spec that it has during the adoption.
	Wanted *dsv1.DataService
	Plan   *reconcile.Plan
	// Live contains every object with a planned name, and every object of the original operator.
	Live map[object.ID]*unstructured.Unstructured
	// ReplicaSets and Pods are all ReplicaSets and pods of the namespace.
	ReplicaSets, Pods []*unstructured.Unstructured
	Record            *Record
	// Copy is the plan with the new database, which imports the original one; nil if spec.mysql declares the new
	// database already. CopyRefused is the reason why such a plan cannot be made.
	Copy        *reconcile.Plan
	CopyRefused string
	// Claim is the claim of the new database, which imports the original one; nil if the claim does not exist.
	Claim *unstructured.Unstructured
	// Own is the claim of the database that spec.mysql names. It is nil if that is the original database, or if the claim does not exist.
	Own *unstructured.Unstructured
	// AgentImage is the image of the agent.
	AgentImage string
	Original   OriginalOperator
	// GitOps names a tool that would revert changes, and the command to suspend it.
	GitOps, Suspend string
}

// OriginalOperator holds the facts about the original operator.
type OriginalOperator struct {
	// Known reports whether the Deployments of all namespaces could be listed, or the user has confirmed that the original operator is
	// stopped.
	Known bool
	// Running lists the Deployments of the original operator that have pods, as namespace/name.
	Running []string
}

// isOriginal reports whether the original operator created an object for the DataService, and the object was not adopted.
func (o *Observation) isOriginal(live *unstructured.Unstructured) bool {
	return live != nil && o.owner().NotAdopted(live)
}

func (o *Observation) owner() object.Owner {
	return object.Owner{GroupVersionKind: dsv1.GroupVersion.WithKind(dsv1.Kind), Namespace: o.DataService.GetNamespace(), Name: o.DataService.GetName(), UID: o.DataService.GetUID()}
}

// originals returns the original operator's objects that were not adopted.
func (o *Observation) originals() (found []*unstructured.Unstructured) {
	for _, live := range o.Live {
		if o.isOriginal(live) {
			found = append(found, live)
		}
	}
	return found
}

func idOf(gvk schema.GroupVersionKind, name string) object.ID {
	return object.ID{Group: gvk.Group, Kind: gvk.Kind, Name: name}
}

// controlledBy returns the objects whose controller is the given object.
func controlledBy(all []*unstructured.Unstructured, owner *unstructured.Unstructured) (found []*unstructured.Unstructured) {
	for _, o := range all {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.UID == owner.GetUID() {
			found = append(found, o)
		}
	}
	return found
}
