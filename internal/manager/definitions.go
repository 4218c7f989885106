// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"
)

const (
	// definitionsPoll is the time between two comparisons while a CRD is older than the operator, or the API server's OpenAPI document
	// lacks the CRD.
	definitionsPoll = 5 * time.Second
	// fieldsNamed bounds the number of missing fields in a message.
	fieldsNamed = 3
)

// definitions compares the fields that the API server serves with those of the operator's CRDs. (An older CRD drops fields of specs and
// statuses without an error.) After a CRD was found to be complete, no further request is sent for its kind.
type definitions struct {
	own     func() (map[schema.GroupVersionKind]*fieldTree, error)
	served  openapi.Client
	version string

	mu       sync.Mutex
	pending  map[schema.GroupVersionKind]bool
	problems map[schema.GroupVersionKind]string
}

func newDefinitions(own func() (map[schema.GroupVersionKind]*fieldTree, error), served openapi.Client, version string) *definitions {
	return &definitions{
		own: own, served: served, version: version,
		pending: map[schema.GroupVersionKind]bool{}, problems: map[schema.GroupVersionKind]string{},
	}
}

// add starts to compare the CRD that the API server serves for a kind.
func (d *definitions) add(gvk schema.GroupVersionKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending[gvk] = true
}

// Problems returns a sentence for each CRD that is older than the operator's, sorted.
func (d *definitions) Problems() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for _, problem := range d.problems {
		found = append(found, problem)
	}
	slices.Sort(found)
	return found
}

// run compares the CRDs until the context ends.
func (d *definitions) run(ctx context.Context) {
	ticker := time.NewTicker(definitionsPoll)
	defer ticker.Stop()
	for {
		if err := d.compare(); err != nil {
			ctrl.Log.WithName("readiness").Info("the CRDs cannot be compared with the operator", "cause", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (d *definitions) compare() error {
	d.mu.Lock()
	pending := maps.Clone(d.pending)
	d.mu.Unlock()
	if len(pending) == 0 {
		return nil
	}
	own, err := d.own()
	if err != nil {
		return err
	}
	documents, err := d.served.Paths()
	if err != nil {
		return fmt.Errorf("read the index of the API server's OpenAPI documents: %w", err)
	}
	read := map[schema.GroupVersion]map[string]*fieldTree{}
	for gvk := range pending {
		if own[gvk] == nil {
			continue
		}
		// The index may be older than the document, so the hash in the document's URL may not match.
		document := documents["apis/"+gvk.GroupVersion().String()]
		if document != nil && read[gvk.GroupVersion()] == nil {
			if read[gvk.GroupVersion()], err = kindsOf(document); err != nil {
				return fmt.Errorf("read the OpenAPI document of %s: %w", gvk.GroupVersion(), err)
			}
		}
		served := read[gvk.GroupVersion()][gvk.Kind]
		if served == nil {
			continue // the API server publishes a CRD's document some seconds after it serves the CRD
		}
		d.note(gvk, own[gvk].lacking(served, ""))
	}
	return nil
}

func (d *definitions) note(gvk schema.GroupVersionKind, lacking []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(lacking) == 0 {
		delete(d.pending, gvk)
		delete(d.problems, gvk)
		return
	}
	slices.Sort(lacking)
	named := strings.Join(lacking[:min(len(lacking), fieldsNamed)], ", ")
	if more := len(lacking) - fieldsNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	d.problems[gvk] = fmt.Sprintf("the CRD of %s (%s) is older than the operator: it lacks %s: install the CRDs of version %s", gvk.Kind, gvk.GroupVersion(), named, d.version)
}

// fieldTree is a schema, reduced to the names of its fields.
type fieldTree struct {
	Properties map[string]*fieldTree `json:"properties"`
	Items      *fieldTree            `json:"items"`
	Values     *fieldTree            `json:"-"` // values of a map
	Kinds      []struct {
		Kind string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

// UnmarshalJSON accepts a schema whose additionalProperties is a boolean.
func (t *fieldTree) UnmarshalJSON(data []byte) error {
	type plain fieldTree
	all := struct {
		*plain

		AdditionalProperties json.RawMessage `json:"additionalProperties"`
	}{plain: (*plain)(t)}
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if len(all.AdditionalProperties) > 0 && all.AdditionalProperties[0] == '{' {
		t.Values = &fieldTree{}
		return json.Unmarshal(all.AdditionalProperties, t.Values)
	}
	return nil
}

// lacking returns the paths of the fields that t has and in does not have. If a field is missing, the fields below it
// are not listed.
func (t *fieldTree) lacking(in *fieldTree, path string) []string {
	if t == nil || in == nil || len(in.Properties) == 0 && in.Items == nil && in.Values == nil {
		return nil // a schema without fields accepts all fields, or describes none
	}
	var found []string
	for name, field := range t.Properties {
		below := strings.TrimPrefix(path+"."+name, ".")
		if path == "" && name == "metadata" {
			continue
		}
		if in.Properties[name] == nil {
			found = append(found, below)
			continue
		}
		found = append(found, field.lacking(in.Properties[name], below)...)
	}
	found = append(found, t.Items.lacking(in.Items, path+"[]")...)
	return append(found, t.Values.lacking(in.Values, path+".*")...)
}

// kindsOf returns the fields of the kinds in an OpenAPI document.
func kindsOf(document openapi.GroupVersion) (map[string]*fieldTree, error) {
	data, err := document.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	var content struct {
		Components struct {
			Schemas map[string]*fieldTree `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, err
	}
	found := map[string]*fieldTree{}
	for _, tree := range content.Components.Schemas {
		for _, of := range tree.Kinds {
			if len(tree.Kinds) == 1 {
				found[of.Kind] = tree
			}
		}
	}
	return found, nil
}

// fieldsOf returns the fields of the kinds in the CRDs of file systems.
func fieldsOf(definitions ...fs.FS) (map[schema.GroupVersionKind]*fieldTree, error) {
	found := map[schema.GroupVersionKind]*fieldTree{}
	for _, files := range definitions {
		if err := addFields(found, files); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func addFields(found map[schema.GroupVersionKind]*fieldTree, definitions fs.FS) error {
	files, err := fs.Glob(definitions, "bases/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := fs.ReadFile(definitions, file)
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &crd); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		for _, version := range crd.Spec.Versions {
			text, err := json.Marshal(version.Schema.OpenAPIV3Schema)
			if err != nil {
				return err
			}
			tree := &fieldTree{}
			if err := json.Unmarshal(text, tree); err != nil {
				return fmt.Errorf("read %s: %w", file, err)
			}
			found[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = tree
		}
	}
	return nil
}
