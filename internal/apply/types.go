// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/object"
)

// Types contains the schema of every kind that the operator applies: Kubernetes' own kinds, and the kinds of
// CustomResourceDefinitions. For any other kind, the schema is deduced from each object.
type Types struct {
	builtin managedfields.TypeConverter
	custom  managedfields.TypeConverter
	deduced managedfields.TypeConverter      // no schema: maps are merged, lists are values
	kinds   map[schema.GroupVersionKind]bool // kinds of CustomResourceDefinitions
}

var _ managedfields.TypeConverter = &Types{}

// gvkExtension is the extension that names the kind of a schema.
const gvkExtension = "x-kubernetes-group-version-kind"

// NewTypes reads the CustomResourceDefinitions in the YAML files of a file system.
func NewTypes(definitions fs.FS) (*Types, error) {
	t := &Types{builtin: applyconfigurations.NewTypeConverter(scheme.Scheme), deduced: managedfields.NewDeducedTypeConverter(), kinds: map[schema.GroupVersionKind]bool{}}
	schemas := map[string]*spec.Schema{}
	err := fs.WalkDir(definitions, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(definitions, file)
		if err != nil {
			return err
		}
		if err := t.add(schemas, data); err != nil {
			return fmt.Errorf("read the schema in %s: %w", file, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	const preserveUnknownFields = true // a CustomResourceDefinition does not describe the fields of metadata
	t.custom, err = managedfields.NewTypeConverter(schemas, preserveUnknownFields)
	if err != nil {
		return nil, fmt.Errorf("read the schemas of CustomResourceDefinitions: %w", err)
	}
	return t, nil
}

func (t *Types) add(schemas map[string]*spec.Schema, data []byte) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return err
	}
	for _, version := range crd.Spec.Versions {
		gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
		text, err := json.Marshal(version.Schema.OpenAPIV3Schema) // JSON converts the type of the CRD to the type of the converter
		if err != nil {
			return err
		}
		s := &spec.Schema{}
		if err := json.Unmarshal(text, s); err != nil {
			return err
		}
		s.AddExtension(gvkExtension, []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}})
		schemas[gvk.Group+"/"+gvk.Version+"."+gvk.Kind] = s
		t.kinds[gvk] = true
	}
	return nil
}

// ObjectToTyped returns an object with its schema.
func (t *Types) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return t.of(obj.GetObjectKind().GroupVersionKind()).ObjectToTyped(obj, options...)
}

// TypedToObject returns the object of a value that ObjectToTyped returned.
func (t *Types) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return t.builtin.TypedToObject(value) // any converter works, because TypedToObject uses no schema
}

func (t *Types) of(gvk schema.GroupVersionKind) managedfields.TypeConverter {
	switch {
	case t.kinds[gvk]:
		return t.custom
	case object.IsUntyped(gvk):
		return t.deduced
	}
	return t.builtin
}
