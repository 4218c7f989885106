// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
)

// A database with another name is a different database, with a separate volume and record. The Services of both databases select the pods
// of both. Therefore the new database has no pod while a pod of the old one exists: two servers on two volumes must never answer under one
// name.

// IsOther reports whether a pod of the component belongs to a database with another name.
func IsOther(database string, pod *corev1.Pod) bool {
	name, _ := workloadOf(pod)
	return name != "" && name != database
}

// workloadOf returns the name of a pod's workload, and the kind of the pod's controller; "" if there is none.
func workloadOf(pod *corev1.Pod) (name, kind string) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return "", ""
	}
	name = ref.Name
	if ref.Kind == "ReplicaSet" {
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i] // without the hash of the pod template
		}
	}
	return name, ref.Kind
}

// isProbe reports whether a pod is the probe of a third party (chart third-party). Such a pod has the labels of a server's pod, but belongs
// to a Deployment NAME-probe and has no claim. Every server has a claim. (The cache does not contain the containers of pods.)
func isProbe(pod *corev1.Pod) bool {
	workload, kind := workloadOf(pod)
	return kind == "ReplicaSet" && strings.HasSuffix(workload, "-probe") &&
		!slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
}

// Part removes two kinds of pods from d.Pods: those of other databases, and the probes of a third party. It returns the
// name of a pod of another database, or "".
func (d *Database) Part() (other string) {
	d.Pods = slices.DeleteFunc(slices.Clone(d.Pods), func(pod *corev1.Pod) bool {
		is := IsOther(d.Name, pod)
		if is && !isProbe(pod) {
			other = pod.Name
		}
		return is
	})
	return other
}

// ReadRecord returns the fields of a record that a switch between databases needs, and the UID of the claim. The last
// result is false if the object is not a record.
func ReadRecord(record *unstructured.Unstructured) (r Record, claimed string, is bool) {
	database, is := strings.CutSuffix(record.GetName(), recordSuffix)
	content, _, _ := unstructured.NestedStringMap(record.Object, "data")
	if !is || isBlank(content) && content[contract.RecordReplacedBy] == "" {
		return Record{}, "", false
	}
	turn, _ := strconv.Atoi(content[keySwitch])
	return Record{
		Database: database, HasData: !isBlank(content), ReplacedBy: content[contract.RecordReplacedBy], ReplacedAt: content[keyReplacedAt], Turn: turn,
	}, content[contract.RecordClaim], true
}

// Replaced marks the database of a record as replaced by another database, in the write with the number turn. at is the time of the
// replacement; "" for a database that was never in use. If the record has no data, Replaced stores the claim in it.
func Replaced(record *unstructured.Unstructured, claim, by, at string, turn int) error {
	content, _, _ := unstructured.NestedStringMap(record.Object, "data")
	if content == nil {
		content = map[string]string{}
	}
	if isBlank(content) {
		put(content, contract.RecordClaim, claim)
	}
	content[contract.RecordReplacedBy], content[keySwitch] = by, strconv.Itoa(turn)
	put(content, keyReplacedAt, at)
	return unstructured.SetNestedStringMap(record.Object, content, "data")
}

// Reinstated removes the mark of a replacement from a record.
func Reinstated(record *unstructured.Unstructured) error {
	content, _, _ := unstructured.NestedStringMap(record.Object, "data")
	for _, key := range []string{contract.RecordReplacedBy, keyReplacedAt, keySwitch} {
		delete(content, key)
	}
	return unstructured.SetNestedStringMap(record.Object, content, "data")
}

// HasVolume reports whether a workload runs a database on a volume.
func HasVolume(workload *unstructured.Unstructured) bool {
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

// Stop returns copies of the objects of a database with 0 replicas. It does not change objects.
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
