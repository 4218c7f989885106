// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// A database that gets another name is another database: it has another volume, and its own record. The Services of both
// select the pods of both, so the new one has no pod while there is one of the old one: two servers on two volumes never
// answer under one name.

// IsOther reports whether a pod of the component is that of a database of another name.
func IsOther(database string, pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return false
	}
	name := ref.Name
	if ref.Kind == "ReplicaSet" {
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i] // without the hash of the pods
		}
	}
	return name != database
}

// Part takes the pods of databases of other names out of those of d, and returns the name of one of them, "" for none.
func (d *Database) Part() (other string) {
	d.Pods = slices.DeleteFunc(slices.Clone(d.Pods), func(pod *corev1.Pod) bool {
		is := IsOther(d.Name, pod)
		if is {
			other = pod.Name
		}
		return is
	})
	return other
}

// Stop returns the objects of a database with no pod. The objects are not changed.
func Stop(objects []*unstructured.Unstructured, database string, owner object.Owner) ([]*unstructured.Unstructured, error) {
	stopped := slices.Clone(objects)
	for i, o := range objects {
		if kind := o.GetKind(); o.GetName() != database || kind != "StatefulSet" && kind != "Deployment" {
			continue
		}
		stopped[i] = unfinished(o)
		if err := unstructured.SetNestedField(stopped[i].Object, int64(0), "spec", "replicas"); err != nil {
			return nil, fmt.Errorf("stop %s %s: %w", o.GetKind(), database, err)
		}
		if _, err := object.Finish(stopped[i], owner); err != nil {
			return nil, err
		}
	}
	return stopped, nil
}
