// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/version"
)

// NewerError reports that a newer operator wrote an object. A write by this version might remove fields that this version does not know.
type NewerError struct {
	Kind, Name string
	Writer     string // version of the operator that wrote the object
	Version    string // version of this operator
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s %s was written by version %s of the operator, but this operator has version %s: nothing is changed until version %s or a newer one runs: install that version; to downgrade on purpose see docs/operations.md#downgrading",
		e.Kind, e.Name, e.Writer, e.Version, e.Writer)
}

// stampVersion writes the operator's version to an annotation of an object that is about to be written.
func (a *Applier) stampVersion(obj *unstructured.Unstructured) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[object.AnnotationWriter] = a.version
	obj.SetAnnotations(annotations)
}

// checkWriter returns a *NewerError if newer operators wrote some of the objects. The error names the object that the highest version
// wrote. Among equal versions, it names the first object by name, so that the error is stable.
func (a *Applier) checkWriter(objects ...*unstructured.Unstructured) error {
	var newest *NewerError
	for _, obj := range objects {
		writer := obj.GetAnnotations()[object.AnnotationWriter]
		if !version.Newer(writer, a.version) {
			continue
		}
		found := &NewerError{Kind: obj.GetKind(), Name: obj.GetName(), Writer: writer, Version: a.version}
		if newest == nil || version.Newer(writer, newest.Writer) ||
			!version.Newer(newest.Writer, writer) && found.Kind+"/"+found.Name < newest.Kind+"/"+newest.Name {
			newest = found
		}
	}
	if newest == nil {
		return nil
	}
	return newest
}
