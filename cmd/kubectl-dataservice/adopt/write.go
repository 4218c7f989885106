// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// newRecord records the original objects that an adoption changes, and the spec. It omits the database's StatefulSet, which does not
// change.
func newRecord(o *Observation) *Record {
	record := &Record{Owner: string(o.DataService.GetUID())}
	record.Paused, _, _ = unstructured.NestedBool(o.DataService.Object, "spec", "paused")
	if !isElsewhere(o.DataService) && !o.isReplaced() {
		record.MySQL, _, _ = unstructured.NestedMap(o.DataService.Object, "spec", "mysql")
	}
	for _, part := range o.Plan.Parts {
		for _, planned := range part.Objects {
			if live := o.Live[object.IDOf(planned)]; o.isOriginal(live) {
				record.Objects = append(record.Objects, stripped(live).Object)
			}
		}
	}
	return record
}

// stripped returns an object without its status and without fields that the API server sets, except the UID.
func stripped(live *unstructured.Unstructured) *unstructured.Unstructured {
	o := live.DeepCopy()
	delete(o.Object, "status")
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	o.SetCreationTimestamp(metav1.Time{})
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	annotations := o.GetAnnotations()
	for key := range annotations {
		if strings.HasPrefix(key, "deployment.kubernetes.io/") {
			delete(annotations, key)
		}
	}
	o.SetAnnotations(annotations)
	return o
}

// secret returns the Secret of a record.
func (r *Record) secret(ds *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write the record of the adoption: %w", err)
	}
	return ownSecret(ds, recordName(ds.GetName()), map[string]string{recordKey: string(text)}), nil
}

// ownSecret returns a Secret of the plugin. The Secret has no label of the operator: with that label, the operator would manage it.
func ownSecret(ds *unstructured.Unstructured, name string, data map[string]string) *unstructured.Unstructured {
	s := object.Empty(secretKind)
	s.SetNamespace(ds.GetNamespace())
	s.SetName(name)
	s.SetLabels(map[string]string{object.LabelManagedBy: manager, object.LabelPartOf: "dataservice"})
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	s.Object["type"], s.Object["data"] = "Opaque", encoded
	return s
}
