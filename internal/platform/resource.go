// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
)

// markReadyBefore annotates a RedisCluster that does not exist, although the component was ready before, with the time of that readiness. If
// the data was deleted with the former RedisCluster, the new one reports that it began empty. A RedisCluster that exists keeps its
// annotation. Objects are shared, so markReadyBefore copies them.
func markReadyBefore(ds *dsv1.DataService, part *reconcile.Part, in reconcile.Inputs) error {
	for i, o := range part.Objects {
		if !object.IsResource(o) || !takesItsData(o) {
			continue
		}
		live, err := in.Lookup(o.GetKind(), o.GetName())
		if missing := (*apply.NotServedError)(nil); errors.As(err, &missing) {
			return nil // the component reports this error when its objects are applied
		}
		if err != nil {
			return err
		}
		before := readinessOf(ds, part.Name)
		if live != nil {
			before = live.GetAnnotations()[object.AnnotationReadyBefore]
		}
		if before == "" {
			continue
		}
		marked := object.Unfinished(o)
		annotations := marked.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[object.AnnotationReadyBefore] = before
		marked.SetAnnotations(annotations)
		if _, err := object.Finish(marked, plan.OwnerOf(ds)); err != nil {
			return err
		}
		part.Objects = append(part.Objects[:i:i], append([]*unstructured.Unstructured{marked}, part.Objects[i+1:]...)...)
	}
	return nil
}

// readinessOf returns the text of the first known readiness of a component, or "".
func readinessOf(ds *dsv1.DataService, name string) string {
	for i := range ds.Status.Components {
		known := &ds.Status.Components[i]
		if since := firstReady(known); known.Name == name && since != nil {
			return since.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

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
