// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// takesItsData reports whether the data of a resource is deleted with the resource. The data of an EtcdCluster or a
// MySQLCluster stays.
func takesItsData(cluster *unstructured.Unstructured) bool {
	finalizers, _, _ := unstructured.NestedString(cluster.Object, "spec", "finalizers")
	return finalizers == "foreground"
}

// keepReason returns the reason why a leftover resource is kept: its component is declared in another form, and deleting the resource would
// delete data. It returns "" if the resource may be deleted.
func keepReason(leftover *unstructured.Unstructured) string {
	if !object.IsResource(leftover) || !takesItsData(leftover) {
		return ""
	}
	return fmt.Sprintf("%s %s is left running, because its data would be deleted with it (spec.finalizers: foreground): delete it when you no longer need the data",
		leftover.GetKind(), leftover.GetName())
}

// deletionNote describes the objects and data that remain after a resource was removed.
func deletionNote(removed *unstructured.Unstructured) string {
	name := removed.GetName()
	switch {
	case !object.IsResource(removed):
		return ""
	case takesItsData(removed):
		return "its data is deleted with it, as storage.retention said"
	case object.IsForeign(removed):
		return fmt.Sprintf("its volume claims and the Secret %s-credentials, if it has one, stay; delete the claims when you no longer need the data", name)
	case removed.GetKind() == "EtcdCluster":
		return fmt.Sprintf("its volume claims and its certificate authorities in Secret %s-ca, if it has some, stay, and an etcd of the same name uses them again", name)
	case removed.GetKind() == "MySQLCluster":
		return fmt.Sprintf("its volume claims, the Secrets %s-members and %s-ca and the ConfigMap %s-replication stay, and a mysql of the same name with replica above 1 uses them again",
			name, name, name)
	}
	return fmt.Sprintf("its volume claims, the Secret %s-credentials and the ConfigMap %s-topology stay, and a redis of the same name uses them again", name, name)
}
