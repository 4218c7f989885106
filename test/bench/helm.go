// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/cluster"
)

// helmKind is the resource of the Helm operator: its spec is the values of the chart.
var helmKind = schema.GroupVersionKind{Group: "bench.d3os-product.com.d3os", Version: "v1", Kind: "Platform"}

// installHelmCRD makes the API server take any spec of helmKind.
func (b *bench) installHelmCRD() (*apiextensionsv1.CustomResourceDefinition, error) {
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "platforms." + helmKind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: helmKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "platforms", Kind: helmKind.Kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: helmKind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": open, "status": open},
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	_, err := envtest.InstallCRDs(b.config(), envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}})
	return crd, err
}

// helmValues are the values of every component of a DataService, by its name.
func helmValues(ds *dsv1.DataService) (map[string]any, *component.Graph, error) {
	graph, err := component.NewGraph(&ds.Spec)
	if err != nil {
		return nil, nil, err
	}
	secrets, err := credentials.NewKeeper().Plan(ds, graph, func(string, string) (*unstructured.Unstructured, error) { return nil, nil })
	if err != nil {
		return nil, nil, err
	}
	in := values.Input{
		Instance: ds.Name, Namespace: ds.Namespace, Graph: graph, Defaults: ds.Spec.Defaults,
		NetworkPolicy: ds.Spec.NetworkPolicy, Credentials: secrets.Credentials,
	}
	all := map[string]any{}
	for i := range graph.Components {
		if all[string(graph.Components[i].Name)], err = values.Build(in, &graph.Components[i]); err != nil {
			return nil, nil, err
		}
	}
	data, err := json.Marshal(all) // leaves only the types that an unstructured object may hold
	if err != nil {
		return nil, nil, err
	}
	plain := map[string]any{}
	return plain, graph, json.Unmarshal(data, &plain)
}

// platform is the resource with which the Helm operator makes what a DataService stands for.
func platform(ds *dsv1.DataService) (*unstructured.Unstructured, error) {
	spec, _, err := helmValues(ds)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(helmKind)
	object.SetNamespace(ds.Namespace)
	object.SetName(ds.Name)
	return object, nil
}

// writeUmbrella writes a chart with a subchart for each component. The schemas of values stay
// out: the operator does not check against them either.
func writeUmbrella(ds *dsv1.DataService, folder string) error {
	_, graph, err := helmValues(ds)
	if err != nil {
		return err
	}
	if err := writeChart(folder, "platform", ""); err != nil {
		return err
	}
	if err := writeChart(filepath.Join(folder, "charts", helmcharts.Library), helmcharts.Library, helmcharts.Library); err != nil {
		return err
	}
	for i := range graph.Components {
		c := &graph.Components[i]
		if err := writeChart(filepath.Join(folder, "charts", string(c.Name)), string(c.Name), c.Chart); err != nil {
			return err
		}
	}
	return nil
}

// writeChart writes an embedded chart under another name; one of no source has nothing in it.
func writeChart(folder, name, source string) error {
	meta := map[string]any{"apiVersion": "v2", "name": name, "version": "0.0.0"}
	if source == helmcharts.Library {
		meta["type"] = "library"
	}
	data, err := yaml.Marshal(meta)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "Chart.yaml"), data, 0o600); err != nil || source == "" {
		return err
	}
	return fs.WalkDir(helmcharts.FS, source, func(file string, entry fs.DirEntry, err error) error {
		inside := strings.TrimPrefix(strings.TrimPrefix(file, source), "/")
		if err != nil || entry.IsDir() || inside == "Chart.yaml" || inside == "values.schema.json" || strings.HasPrefix(inside, "ci/") {
			return err
		}
		data, err := fs.ReadFile(helmcharts.FS, file)
		if err != nil {
			return err
		}
		target := filepath.Join(folder, filepath.FromSlash(inside))
		return errors.Join(os.MkdirAll(filepath.Dir(target), 0o750), os.WriteFile(target, data, 0o600))
	})
}

// startHelm builds the Helm operator, which is a module of its own, and starts it with a chart.
func (b *bench) startHelm(ctx context.Context, chart string, workers int) (*process, error) {
	return b.launch(ctx, program{
		source: filepath.Join(cluster.Root(), "test", "helmpeer"),
		args: []string{
			"--chart=" + chart, "--group=" + helmKind.Group, "--kind=" + helmKind.Kind, fmt.Sprintf("--max-concurrent-reconciles=%d", workers),
		},
	})
}

// workloads are those of a DataService whose pods are waited for, by kind/namespace/name.
func (b *bench) workloads(renderer *render.Renderer, ds *dsv1.DataService) ([]string, error) {
	_, p, err := makePlan(plan.NewPlanner(renderer, nil), credentials.NewKeeper(), ds)
	if err != nil {
		return nil, err
	}
	var found []string
	for i := range p.Components {
		for _, object := range p.Components[i].Objects {
			if object.GroupVersionKind().Group == "apps" {
				found = append(found, key(object.GetKind(), object.GetNamespace(), object.GetName()))
			}
		}
	}
	return found, nil
}

// setImage changes the image of the victim in a Helm operator's resource.
func (b *bench) setImage(ctx context.Context, object *unstructured.Unstructured, image string) error {
	before := object.DeepCopy()
	if err := unstructured.SetNestedField(object.Object, image, "spec", victim, "image"); err != nil {
		return err
	}
	return b.client.Patch(ctx, object, client.MergeFrom(before))
}
