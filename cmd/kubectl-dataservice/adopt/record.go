// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/plugin"
)

// Record holds the original objects that the adoption destroys. It is stored in a Secret, because the original operator's objects contain
// passwords.
type Record struct {
	// MySQL and Paused are fields of the spec before the adoption. MySQL is nil if the adoption does not change spec.mysql.
	MySQL  map[string]any `json:"mysql,omitempty"`
	Paused bool           `json:"paused,omitempty"`
	// Fence is the state of the original server before the adoption stopped its writes; nil if it did not stop them.
	Fence *Fence `json:"fence,omitempty"`
	// Owner is the UID of the DataService.
	Owner string `json:"owner"`
	// Objects are the original operator's objects. They have no status and, except for the UID, no fields that the API server sets.
	Objects []map[string]any `json:"objects"`

	version string // resource version of the last read or write
}

// recordKey is the key of the record in its Secret.
const recordKey = "record"

// object returns an original object; nil for none.
func (r *Record) object(id object.ID) *unstructured.Unstructured {
	if r == nil {
		return nil
	}
	for _, fields := range r.Objects {
		if o := (&unstructured.Unstructured{Object: fields}); object.IDOf(o) == id {
			return o.DeepCopy()
		}
	}
	return nil
}

// readRecord returns the record of a DataService; nil if there is none.
func readRecord(ctx context.Context, r *plugin.Reader, ds *unstructured.Unstructured) (*Record, error) {
	live, err := r.Get(ctx, secretKind, recordName(ds.GetName()))
	if live == nil || err != nil {
		return nil, err
	}
	encoded, _, _ := unstructured.NestedString(live.Object, "data", recordKey)
	text, err := base64.StdEncoding.DecodeString(encoded)
	record := &Record{version: live.GetResourceVersion()}
	if err == nil {
		err = json.Unmarshal(text, record) // unlike encoding/json, keeps integers
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of the adoption in Secret %s: %w", live.GetName(), err)
	}
	if record.Owner != string(ds.GetUID()) {
		return nil, fmt.Errorf("the record in Secret %s belongs to an earlier DataService of this name: save the data that you need, and delete the Secret", live.GetName())
	}
	return record, nil
}

// isElsewhere reports whether a DataService declares mysql with kind ThirdParty, or does not declare mysql.
func isElsewhere(ds *unstructured.Unstructured) bool {
	mysql, found, _ := unstructured.NestedMap(ds.Object, "spec", "mysql")
	kind := fmt.Sprint(mysql["kind"])
	return !found || kind == "3" || kind == "ThirdParty"
}
