// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// takesItsData reports whether a resource takes its data with it when it is deleted. An EtcdCluster never does.
func takesItsData(cluster *unstructured.Unstructured) bool {
	finalizers, _, _ := unstructured.NestedString(cluster.Object, "spec", "finalizers")
	return finalizers == "foreground"
}

// spare keeps a resource that would take its data with it while its component is declared in another form.
func spare(leftover *unstructured.Unstructured) string {
	if !object.IsResource(leftover) || !takesItsData(leftover) {
		return ""
	}
	return fmt.Sprintf("%s %s is left running, because its data would be deleted with it (spec.finalizers: foreground): delete it when you need the data no more",
		leftover.GetKind(), leftover.GetName())
}

// farewell says what stays of a resource that is removed.
func farewell(removed *unstructured.Unstructured) string {
	name := removed.GetName()
	switch {
	case !object.IsResource(removed):
		return ""
	case takesItsData(removed):
		return "its data is deleted with it, as storage.retention said"
	case removed.GetKind() == "EtcdCluster":
		return fmt.Sprintf("its volume claims and its certificate authorities in Secret %s-ca, if it has some, stay, and an etcd of the same name takes them up again", name)
	}
	return fmt.Sprintf("its volume claims, the Secret %s-credentials and the ConfigMap %s-topology stay, and a redis of the same name takes them up again", name, name)
}
