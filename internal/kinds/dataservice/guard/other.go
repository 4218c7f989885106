// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/kinds/dataservice/switchover"
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

// Record returns what a record says of a switch between databases; false for what is no record. claimed is the UID of the claim
// that it names.
func Record(record *unstructured.Unstructured) (r switchover.Record, claimed string, is bool) {
	database, is := strings.CutSuffix(record.GetName(), recordSuffix)
	content, _, _ := unstructured.NestedStringMap(record.Object, "data")
	if !is || isBlank(content) && content[keyReplacedBy] == "" {
		return switchover.Record{}, "", false
	}
	turn, _ := strconv.Atoi(content[keySwitch])
	return switchover.Record{
		Database: database, HasData: !isBlank(content), ReplacedBy: content[keyReplacedBy], ReplacedAt: content[keyReplacedAt], Turn: turn,
	}, content[keyClaim], true
}

// Replaced writes into a record that another database has taken the place of its own, in a turn; at says when that was, "" for a
// database that was not in use. A record that names no data yet gets that of the claim.
func Replaced(record *unstructured.Unstructured, claim, by, at string, turn int) error {
	content, _, _ := unstructured.NestedStringMap(record.Object, "data")
	if content == nil {
		content = map[string]string{}
	}
	if isBlank(content) {
		put(content, keyClaim, claim)
	}
	content[keyReplacedBy], content[keySwitch] = by, strconv.Itoa(turn)
	put(content, keyReplacedAt, at)
	return unstructured.SetNestedStringMap(record.Object, content, "data")
}

// Reinstated takes out of a record that another database took the place of its own.
func Reinstated(record *unstructured.Unstructured) error {
	content, _, _ := unstructured.NestedStringMap(record.Object, "data")
	for _, key := range []string{keyReplacedBy, keyReplacedAt, keySwitch} {
		delete(content, key)
	}
	return unstructured.SetNestedStringMap(record.Object, content, "data")
}

// Runs reports whether a workload is that of a database on a volume.
func Runs(workload *unstructured.Unstructured) bool {
	if workload.GetLabels()[object.LabelBackup] != "" {
		return false
	}
	templates, _, _ := unstructured.NestedSlice(workload.Object, "spec", "volumeClaimTemplates")
	volumes, _, _ := unstructured.NestedSlice(workload.Object, "spec", "template", "spec", "volumes")
	return len(templates) > 0 || slices.ContainsFunc(volumes, func(v any) bool {
		volume, _ := v.(map[string]any)
		name, _, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName")
		return name == ClaimName(workload.GetName())
	})
}

// Stop returns the objects of a database with no pod. The objects are not changed.
func Stop(objects []*unstructured.Unstructured, database string, owner object.Owner) ([]*unstructured.Unstructured, error) {
	stopped := slices.Clone(objects)
	for i, o := range objects {
		if kind := o.GetKind(); o.GetName() != database || kind != "StatefulSet" && kind != "Deployment" {
			continue
		}
		stopped[i] = object.Unfinished(o)
		if err := unstructured.SetNestedField(stopped[i].Object, int64(0), "spec", "replicas"); err != nil {
			return nil, fmt.Errorf("stop %s %s: %w", o.GetKind(), database, err)
		}
		if _, err := object.Finish(stopped[i], owner); err != nil {
			return nil, err
		}
	}
	return stopped, nil
}
