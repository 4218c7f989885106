// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admit applies the CRD of DataService to a resource as the API server does: pruning, defaults, validation, and CEL rules. It needs
// no API server.
package admit

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/cluster"
)

// Admitter prunes, defaults and validates a DataService as the API server does. It is not safe for concurrent use.
type Admitter struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// New returns an Admitter that uses the CRD of DataService in config/crd.
func New() (*Admitter, error) {
	data, err := os.ReadFile(filepath.Join(cluster.Root(), "config/crd/bases/d3os-product.com.d3os_dataservices.yaml"))
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return nil, err
	}
	schema := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, schema, nil); err != nil {
		return nil, err
	}
	a := &Admitter{}
	if a.structural, err = structuralschema.NewStructural(schema); err != nil {
		return nil, err
	}
	if a.schema, _, err = validation.NewSchemaValidator(schema); err != nil {
		return nil, err
	}
	a.rules = cel.NewValidator(a.structural, true, math.MaxInt64)
	return a, nil
}

// Admit prunes and defaults a resource in place, and returns an error if the API server would refuse it.
func (a *Admitter) Admit(object map[string]any) error {
	pruning.Prune(object, a.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, a.structural)
	defaulting.Default(object, a.structural)
	found := validation.ValidateCustomResource(nil, object, a.schema)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, a.structural, object)...)
	if len(found) == 0 {
		var more field.ErrorList
		more, _ = a.rules.Validate(context.Background(), nil, a.structural, object, nil, math.MaxInt64)
		found = append(found, more...)
	}
	errs := make([]error, len(found))
	for i := range found {
		errs[i] = found[i]
	}
	return errors.Join(errs...)
}
