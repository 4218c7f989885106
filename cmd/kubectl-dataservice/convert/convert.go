// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert converts resources of other operators to one DataService: AppService (app.example.com), ModelBox (model.github.com),
// CronTab (stable.example.com) and MongoDB (mongodb.com). It names each field that has no counterpart, with the reason.
package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// Options configure a conversion.
type Options struct {
	// Name is the name of the DataService; if it is empty, the name of the first resource is used.
	Name string
	// Command is the command for CronTabs without a command; if it is empty, the image's entrypoint runs.
	Command []string
}

// Result is the result of converting a file.
type Result struct {
	DataService *unstructured.Unstructured
	// Notes list the fields without a counterpart: resource, path, reason.
	Notes []string
}

// source is a resource to convert.
type source struct {
	*unstructured.Unstructured

	result *Result
}

// note records a field without a counterpart.
func (s *source) note(path, reason string, args ...any) {
	s.result.Notes = append(s.result.Notes, fmt.Sprintf("%s: %s: %s", s.id(), path, fmt.Sprintf(reason, args...)))
}

func (s *source) id() string { return s.GetKind() + " " + s.GetName() }

// mistake returns an error about a field.
func (s *source) mistake(path, problem string, args ...any) error {
	return fmt.Errorf("%s: %s: %s", s.id(), path, fmt.Sprintf(problem, args...))
}

// converters maps a kind to the function that converts it. The function returns an entry of a list in the spec, or a field of the spec.
var converters = map[schema.GroupKind]struct {
	field   string
	isList  bool
	convert func(*source, Options) (map[string]any, error)
}{
	{Group: "app.example.com", Kind: "AppService"}:                    {"additionalServices", true, appService},
	{Group: "model.github.com", Kind: "ModelBox"}:                     {"additionalServices", true, modelBox},
	{Group: "stable.example.com", Kind: "CronTab"}:                    {"cronJobs", true, cronTab},
	{Group: "mongodb.com", Kind: "MongoDB"}:                           {"mongodb", false, mongoDB}, // of the Community operator before 0.6
	{Group: "mongodbcommunity.mongodb.com", Kind: "MongoDBCommunity"}: {"mongodb", false, mongoDB},
}

// Convert converts the resources in a file: a stream of YAML documents, or lists.
func Convert(data []byte, o Options) (*Result, error) {
	objects, err := parse(data)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, errors.New("the file has no resource: it must have AppServices, ModelBoxes, CronTabs or a MongoDB")
	}
	result := &Result{DataService: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}}
	result.DataService.SetAPIVersion(dsv1.GroupVersion.String())
	result.DataService.SetKind(dsv1.Kind)
	names := map[string]string{}
	for i, object := range objects {
		s := &source{Unstructured: object, result: result}
		converter, isKnown := converters[object.GroupVersionKind().GroupKind()]
		switch {
		case !isKnown:
			return nil, fmt.Errorf("resource %d is a %s of %s, but must be an AppService of app.example.com, a ModelBox of model.github.com, a CronTab of stable.example.com or a MongoDB of mongodb.com: remove it",
				i+1, object.GetKind(), object.GetAPIVersion())
		case !isText(object, "name") || !isText(object, "namespace"):
			return nil, fmt.Errorf("resource %d, a %s: metadata.name and metadata.namespace must be texts, but YAML reads a boolean or a number: put the value in quotes", i+1, object.GetKind())
		case object.GetName() == "":
			return nil, fmt.Errorf("resource %d, a %s, must have metadata.name", i+1, object.GetKind())
		case names[object.GetName()] != "":
			return nil, s.mistake("metadata.name", "%s has the same name: rename one of them", names[object.GetName()])
		case object.GetNamespace() != objects[0].GetNamespace():
			return nil, s.mistake("metadata.namespace", "must be that of the first resource, %q: a DataService is in one namespace", objects[0].GetNamespace())
		}
		if err := s.checkName(); err != nil {
			return nil, err
		}
		names[object.GetName()] = s.id()
		s.metadata()
		entry, err := converter.convert(s, o)
		if err != nil {
			return nil, err
		}
		spec := result.DataService.Object["spec"].(map[string]any)
		switch list, _ := spec[converter.field].([]any); {
		case converter.isList:
			spec[converter.field] = append(list, entry)
		case spec[converter.field] != nil:
			return nil, s.mistake("kind", "a DataService has one replica set of MongoDB: keep only one MongoDB in the file")
		default:
			spec[converter.field] = entry
		}
	}
	result.DataService.SetName(o.Name)
	if o.Name == "" {
		result.DataService.SetName(objects[0].GetName())
	}
	result.DataService.SetNamespace(objects[0].GetNamespace())
	return result, nil
}

// isText reports whether a field of the metadata is a text or absent.
func isText(object *unstructured.Unstructured, field string) bool {
	_, _, err := unstructured.NestedString(object.Object, "metadata", field)
	return err == nil
}

// parse returns the resources of a file.
func parse(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for i := 1; ; i++ {
		object := &unstructured.Unstructured{}
		raw := runtime.RawExtension{}
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err == nil && len(raw.Raw) > 0 {
			err = json.Unmarshal(raw.Raw, &object.Object) // unlike encoding/json, keeps integers
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("read document %d: %w", i, err)
		case len(object.Object) == 0:
			continue
		case object.GetKind() == "" || object.GetAPIVersion() == "":
			return nil, fmt.Errorf("document %d must have apiVersion and kind", i)
		}
		if !strings.HasSuffix(object.GetKind(), "List") {
			objects = append(objects, object)
			continue
		}
		items, _, err := unstructured.NestedSlice(object.Object, "items")
		if err != nil {
			return nil, fmt.Errorf("read the items of document %d: %w", i, err)
		}
		for j, item := range items {
			fields, isObject := item.(map[string]any)
			if !isObject {
				return nil, fmt.Errorf("item %d of document %d must be a resource", j+1, i)
			}
			objects = append(objects, &unstructured.Unstructured{Object: fields})
		}
	}
}

var (
	namePattern  = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	imagePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`)
	builtIn      = []string{"mysql", "uuc", "eureka", "api-manager", "auth", "ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web", "proxy", "web", "platform"}
)

// checkName refuses a name that is not allowed for a component.
func (s *source) checkName() error {
	switch name := s.GetName(); {
	case len(name) > 50 || !namePattern.MatchString(name):
		return s.mistake("metadata.name", "a component must have a name of at most 50 lower-case letters, digits and '-', which begins with a letter: rename the resource in the file")
	case slices.Contains(builtIn, name):
		return s.mistake("metadata.name", "it is the name of a built-in component: rename the resource in the file")
	}
	return nil
}

// image returns the image.
func (s *source) image(spec map[string]any) (string, error) {
	image, _ := spec["image"].(string)
	if len(image) > 1024 || !imagePattern.MatchString(image) {
		return "", s.mistake("spec.image", "'%v' must be the name of an image", spec["image"])
	}
	s.note("spec.image", "its pods ran as the image's own user; they run as user 10001 without capabilities now: set podSecurityContext and securityContext if the image needs more")
	return image, nil
}

// metadata records the fields of a resource's metadata that have no counterpart in a DataService.
func (s *source) metadata() {
	if len(s.GetLabels()) > 0 {
		s.note("metadata.labels", "they were labels of the resource alone: set labels of the component if its pods need them")
	}
	annotations := maps.Clone(s.GetAnnotations())
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return key == "kubectl.kubernetes.io/last-applied-configuration" || key == "spec" || strings.HasSuffix(key, "/spec")
	})
	if len(annotations) > 0 {
		s.note("metadata.annotations", "they were annotations of the resource alone: set annotations of the component if its pods need them")
	}
	if len(s.GetFinalizers()) > 0 {
		s.note("metadata.finalizers", "a DataService needs none")
	}
}

// fields returns the spec, and records unknown fields.
func (s *source) fields(known ...string) (map[string]any, error) {
	spec, isObject := s.Object["spec"].(map[string]any)
	if !isObject {
		return nil, s.mistake("spec", "must be an object")
	}
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		if !slices.Contains(known, name) {
			s.note("spec."+name, "the kind has no such field that this command knows")
		}
	}
	return spec, nil
}
