// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render renders a chart and values into objects, in memory. It is pure, and the only package that uses Helm: it stores no release,
// runs no hook and sends no request to a cluster.
//
// specfield.go and podtemplate.go decode the fields of a spec without a schema in the CRD, because they have Kubernetes' own types. They
// decode strictly, and their errors name the field.
package render

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/workers"
)

// Release is the name and namespace that a chart is rendered for.
type Release struct {
	Name      string
	Namespace string
}

// Renderer renders the embedded charts for one version of Kubernetes.
// It is safe for concurrent use.
type Renderer struct {
	charts       map[string]*chart.Chart
	types        *apiruntime.Scheme
	library      *chart.Chart
	capabilities *chartutil.Capabilities
}

// New loads the embedded charts. kubeVersion is the cluster's version, such as v1.36.3: New refuses charts that do not support it. The
// charts render Kubernetes' own kinds, RedisClusters, EtcdClusters and MySQLClusters.
func New(kubeVersion string) (*Renderer, error) {
	types := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{scheme.AddToScheme, redisv1.AddToScheme, etcdv1.AddToScheme, mysqlv1.AddToScheme} {
		if err := add(types); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return NewFrom(helmcharts.FS, kubeVersion, types)
}

// NewFrom loads the charts in the folders of a file system. They render kinds of the scheme.
func NewFrom(files fs.FS, kubeVersion string, types *apiruntime.Scheme) (*Renderer, error) {
	version, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, fmt.Errorf("parse the cluster's version %q: %w", kubeVersion, err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version

	names, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("list the embedded charts: %w", err)
	}
	r := &Renderer{charts: map[string]*chart.Chart{}, types: types, capabilities: capabilities}
	if r.library, err = load(helmcharts.FS, helmcharts.Library); err != nil {
		return nil, err
	}
	for _, entry := range names {
		if entry.Name() == helmcharts.Library {
			continue
		}
		c, err := load(files, entry.Name())
		if err != nil {
			return nil, err
		}
		if supported := c.Metadata.KubeVersion; supported != "" && !chartutil.IsCompatibleRange(supported, version.Version) {
			return nil, fmt.Errorf("chart %s supports Kubernetes %s, the cluster has %s", entry.Name(), supported, version.Version)
		}
		r.charts[entry.Name()] = c
	}
	return r, nil
}

// load reads one chart.
func load(source fs.FS, name string) (*chart.Chart, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(source, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(source, file)
		files = append(files, &loader.BufferedFile{Name: strings.TrimPrefix(file, name+"/"), Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the embedded chart %s: %w", name, err)
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("load the embedded chart %s: %w", name, err)
	}
	return c, nil
}

// Part is a chart to render with its values.
type Part struct {
	Name   string // identifies the part in errors
	Chart  string
	Values map[string]any
}

// umbrella is the name of the chart that contains all parts during rendering.
const umbrella = "dataservice"

// Render renders several charts in one run of Helm's engine. Each run parses every template file, so one run takes a third of the time of
// separate ones. It returns the objects of each part in canonical form (see canonical) and in a stable order. It does not check the values
// against values.schema.json: the API server has validated the resource, and a test checks the values of each field.
func (r *Renderer) Render(release Release, parts []Part) ([][]*unstructured.Unstructured, error) {
	files, err := r.execute(release, parts)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	result := make([][]*unstructured.Unstructured, len(parts))
	errs := make([]error, len(parts))
	var group workers.Group
	group.SetLimit(runtime.GOMAXPROCS(0)) // parsing YAML is half of the work
	for i, part := range parts {
		group.Go(func() { result[i], errs[i] = r.objects(part, files) })
	}
	group.Wait()
	return result, cmp.Or(errs...)
}

// objects parses the rendered files of one part.
func (r *Renderer) objects(part Part, files map[string]string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, template := range r.charts[part.Chart].Templates {
		if isPartial(template) {
			continue
		}
		parsed, err := r.parse(files[path.Join(umbrella, "charts", part.Name, template.Name)])
		if err != nil {
			return nil, fmt.Errorf("render %s: parse %s of chart %s: %w", part.Name, template.Name, part.Chart, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

func (r *Renderer) execute(release Release, parts []Part) (map[string]string, error) {
	all, values, err := r.compose(parts)
	if err != nil {
		return nil, err
	}
	// The values that chartutil.ToRenderValues builds, without its two deep copies.
	return engine.Engine{Strict: true}.Render(all, chartutil.Values{
		"Values":       values,
		"Capabilities": r.capabilities,
		"Release": map[string]any{
			"Name": release.Name, "Namespace": release.Namespace, "Revision": 1,
			"IsInstall": true, "IsUpgrade": false, "Service": "Helm",
		},
	})
}

// compose builds the chart that contains all parts: the partial templates of their charts once, and one subchart for each part with the
// other templates.
func (r *Renderer) compose(parts []Part) (*chart.Chart, map[string]any, error) {
	all := &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: chart.APIVersionV2, Name: umbrella, Version: "0.0.0"},
		Templates: slices.Clone(r.library.Templates),
	}
	values := make(map[string]any, len(parts))
	composed := map[string]bool{}
	for _, part := range parts {
		c, ok := r.charts[part.Chart]
		if !ok {
			return nil, nil, fmt.Errorf("there is no chart %q", part.Chart)
		}
		subchart := &chart.Chart{Metadata: &chart.Metadata{
			APIVersion: chart.APIVersionV2, Name: part.Name, Version: c.Metadata.Version,
		}, Files: c.Files}
		for _, template := range c.Templates {
			switch {
			case !isPartial(template):
				subchart.Templates = append(subchart.Templates, template)
			case !composed[part.Chart]:
				all.Templates = append(all.Templates, template)
			}
		}
		composed[part.Chart] = true
		all.AddDependency(subchart)
		// A copy of the chart's defaults: a null in the values removes its key from both.
		values[part.Name] = chartutil.CoalesceTables(maps.Clone(part.Values), apiruntime.DeepCopyJSON(c.Values))
	}
	return all, values, nil
}

// isPartial reports whether a template renders no object: it only defines other templates, or it is the notes.
func isPartial(template *chart.File) bool {
	base := path.Base(template.Name)
	return strings.HasPrefix(base, "_") || base == "NOTES.txt"
}
