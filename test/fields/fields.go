// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fields is a table of changes of a DataService: one for every field of its spec, and several for a field with several meanings.
// Its test compares the manifests of each change with a golden file, and checks the effect of an upgrade. test/transitions changes every
// property of a running DataService.
package fields

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/render"
)

// Case is one change of a DataService.
type Case struct {
	// Field is the field under test, as a path in the spec: mysql.users[].databases.
	Field string `json:"field"`
	// What is a text that distinguishes this case from other cases of the same field.
	What string `json:"what,omitempty"`
	// Base is the DataService that is changed: a file of the folder bases. Default: base.
	Base string `json:"base,omitempty"`
	// Set is a JSON merge patch for the base's spec. Lists of named things can be patched by name: {cronJobs: {report: {suspend: true}}}.
	Set map[string]any `json:"set"`
	// Unchanged is the reason why no manifest changes.
	Unchanged string `json:"unchanged,omitempty"`
}

// Name returns the name of the case and of its golden file.
func (c *Case) Name() string {
	name := strings.ReplaceAll(c.Field, "[]", "")
	if c.What != "" {
		name += "-" + strings.ReplaceAll(c.What, " ", "-")
	}
	return name
}

//go:embed cases bases objects.yaml
var files embed.FS

// Objects returns the objects that the cases refer to, for a running cluster.
func Objects() ([]*unstructured.Unstructured, error) {
	data, err := files.ReadFile("objects.yaml")
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for _, text := range bytes.Split(data, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			return nil, fmt.Errorf("read objects.yaml: %w", err)
		}
		found = append(found, object)
	}
	return found, nil
}

// Cases returns the table.
func Cases() ([]Case, error) {
	var all []Case
	err := each("cases", func(name string, data []byte) error {
		var cases []Case
		if err := yaml.UnmarshalStrict(data, &cases); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		for i := range cases {
			if cases[i].Base == "" {
				cases[i].Base = "base"
			}
		}
		all = append(all, cases...)
		return nil
	})
	return all, err
}

// Bases returns the names of the DataServices that cases change.
func Bases() ([]string, error) {
	var names []string
	err := each("bases", func(name string, _ []byte) error {
		names = append(names, name)
		return nil
	})
	return names, err
}

func each(folder string, read func(name string, data []byte) error) error {
	found, err := fs.Glob(files, folder+"/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range found {
		data, err := files.ReadFile(file)
		if err != nil {
			return err
		}
		if err := read(strings.TrimSuffix(path.Base(file), ".yaml"), data); err != nil {
			return err
		}
	}
	return nil
}

// Load returns a base.
func Load(base string) (*unstructured.Unstructured, error) {
	data, err := files.ReadFile("bases/" + base + ".yaml")
	if err != nil {
		return nil, err
	}
	ds := &unstructured.Unstructured{}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		return nil, fmt.Errorf("read %s: %w", base, err)
	}
	return ds, ds.UnmarshalJSON(data)
}

// Changed returns the base of a case after the change.
func (c *Case) Changed() (*unstructured.Unstructured, error) {
	ds, err := Load(c.Base)
	if err != nil {
		return nil, err
	}
	spec, ok := ds.Object["spec"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s has no spec", c.Base)
	}
	Merge(spec, Plain(c.Set))
	return ds, nil
}

// named are the lists of the spec whose items have names.
var named = []string{"additionalServices", "cronJobs"}

// Plain returns a copy that contains only the types of an unstructured object.
func Plain[T any](value T) T {
	var copied T
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, &copied) // whole numbers become int64
	}
	if err != nil {
		panic(err) // a value that was read from YAML can be written as JSON
	}
	return copied
}

// Merge applies a JSON merge patch. If the patch has a map where the object has a list of named things, the map changes
// the items with these names.
func Merge(to, patch map[string]any) {
	for key, value := range patch {
		change, isMap := value.(map[string]any)
		old, _ := to[key].(map[string]any)
		items, isList := to[key].([]any)
		switch {
		case value == nil:
			delete(to, key)
		case isMap && isList:
			for _, item := range items {
				item, _ := item.(map[string]any)
				name, _ := item["name"].(string)
				if change, ok := change[name].(map[string]any); ok {
					Merge(item, change)
				}
			}
		case isMap:
			if old == nil {
				old = map[string]any{}
			}
			Merge(old, change)
			to[key] = old
		default:
			to[key] = value
		}
	}
}

// Difference is the effect of a change on the manifests. Objects are named kind/name.
type Difference struct {
	Added, Removed, Changed []string
}

// Empty reports whether nothing changes.
func (d Difference) Empty() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// Compare returns the difference of two renderings, in the order of the second rendering.
func Compare(before, after []*unstructured.Unstructured) Difference {
	var d Difference
	was, is := ByID(before), ByID(after)
	for _, object := range before {
		if is[ID(object)] == nil {
			d.Removed = append(d.Removed, ID(object))
		}
	}
	for _, object := range after {
		id := ID(object)
		switch {
		case was[id] == nil:
			d.Added = append(d.Added, id)
		case !reflect.DeepEqual(was[id].Object, object.Object) && Text(was[id]) != Text(object):
			d.Changed = append(d.Changed, id)
		}
	}
	return d
}

// ID returns kind and name, such as Deployment/web.
func ID(object *unstructured.Unstructured) string { return object.GetKind() + "/" + object.GetName() }

// ByID returns objects by kind and name.
func ByID(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	found := make(map[string]*unstructured.Unstructured, len(objects))
	for _, object := range objects {
		found[ID(object)] = object
	}
	return found
}

// digest is the annotation by which the operator decides whether to write an object. Its name is a literal here, because it must not
// change: the operator does not recognize an object without this annotation.
const digest = "d3os-product.com.d3os/digest"

// Text returns an object as YAML, without its digest.
func Text(object *unstructured.Unstructured) string {
	object = object.DeepCopy()
	annotations := object.GetAnnotations()
	delete(annotations, digest)
	object.SetAnnotations(annotations)
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
	}
	text, err := render.YAML(object)
	if err != nil {
		panic(err) // every unstructured object can be written as YAML
	}
	return string(text)
}
