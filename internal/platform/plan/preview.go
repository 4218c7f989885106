// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/render"
)

// KubeVersion is the default Kubernetes version for rendering.
const KubeVersion = "v1.36.0"

// Run implements the command `render`.
func Run(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("render", flag.ContinueOnError)
	file := flags.String("f", "-", "file with the DataService; - for standard input")
	namespace := flags.String("namespace", "default", "namespace, if the file names none")
	version := flags.String("kube-version", KubeVersion, "version of Kubernetes to render for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	data, err := read(*file, stdin)
	if err != nil {
		return err
	}
	ds, err := Parse(data)
	if err != nil {
		return fmt.Errorf("read the DataService in %s: %w", *file, err)
	}
	if ds.Namespace == "" {
		ds.Namespace = *namespace
	}
	objects, err := Objects(ds, *version)
	if err != nil {
		return err
	}
	for _, object := range objects {
		text, err := render.YAML(object)
		if err != nil {
			return fmt.Errorf("print %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if _, err := fmt.Fprintf(stdout, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

func read(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file) //nolint:gosec // reading the file that the user names is the purpose
}

// Parse parses a DataService and sets the defaults of the API server. Like the API server, it refuses a boolean or a number instead of a
// text. (YAML parses `n` and `on` as booleans, and `1e3` as a number.)
func Parse(data []byte) (*dsv1.DataService, error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	ds := &dsv1.DataService{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var mistyped *json.UnmarshalTypeError
	if err := decoder.Decode(ds); errors.As(err, &mistyped) && mistyped.Type.Kind() == reflect.String {
		path := slices.DeleteFunc(strings.Split(mistyped.Field, "."), isEmbedded)
		return nil, fmt.Errorf("%s: must be a text, but YAML reads a %s: put the value in quotes", strings.Join(path, "."), mistyped.Value)
	} else if err != nil {
		return nil, err
	}
	if got := schema.FromAPIVersionAndKind(ds.APIVersion, ds.Kind); got != dsv1.GroupVersion.WithKind(dsv1.Kind) {
		return nil, fmt.Errorf("it is a %s, not a %s", got, dsv1.GroupVersion.WithKind(dsv1.Kind))
	}
	dsv1.SetDefaults(ds)
	return ds, nil
}

// isEmbedded reports whether a name in a path of encoding/json belongs to an embedded struct instead of a field of the resource.
func isEmbedded(name string) bool { return name != "" && name[0] >= 'A' && name[0] <= 'Z' }

// Objects returns all objects that the operator would apply, in order. Generated credentials are placeholders. The owner's UID is empty
// unless ds has a UID.
func Objects(ds *dsv1.DataService, kubeVersion string) ([]*unstructured.Unstructured, error) {
	renderer, err := render.New(kubeVersion)
	if err != nil {
		return nil, err
	}
	none := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
	return Planned(ds, NewPlanner(renderer, nil), NewPreview(), none)
}

// Planned returns all objects that a planner and a keeper plan for a DataService, in the operator's order.
func Planned(ds *dsv1.DataService, planner *Planner, keeper *Keeper, lookup Lookup) ([]*unstructured.Unstructured, error) {
	graph, err := planner.Graph(ds)
	if err != nil {
		return nil, err
	}
	secrets, err := keeper.Plan(ds, graph, lookup, nil)
	if err != nil {
		return nil, err
	}
	p, err := planner.Make(ds, graph, secrets.Credentials)
	if err != nil {
		return nil, err
	}
	objects := secrets.Secrets
	for _, c := range p.Components {
		objects = append(objects, c.Objects...)
	}
	return objects, nil
}
