// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render turns a chart and values into objects, in memory. It is pure
// and the only package that knows Helm: no release is stored, no hook is run,
// no cluster is asked.
package render

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	helmcharts "d3os.com/d3os-operator/helm-charts"
)

// Release is where and under which name a chart is rendered.
type Release struct {
	Name      string
	Namespace string
}

// Renderer renders the embedded charts for one version of Kubernetes.
// It is safe for concurrent use.
type Renderer struct {
	charts       map[string]*chart.Chart
	capabilities *chartutil.Capabilities
	mu           sync.Mutex // chartutil writes to the chart that it is given values for
}

// New loads the charts. kubeVersion is the cluster's version, such as v1.36.3: charts are
// refused that do not support it.
func New(kubeVersion string) (*Renderer, error) {
	version, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, fmt.Errorf("parse the cluster's version %q: %w", kubeVersion, err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version

	names, err := fs.ReadDir(helmcharts.FS, ".")
	if err != nil {
		return nil, fmt.Errorf("list the embedded charts: %w", err)
	}
	r := &Renderer{charts: map[string]*chart.Chart{}, capabilities: capabilities}
	for _, entry := range names {
		if entry.Name() == helmcharts.Library {
			continue
		}
		c, err := load(entry.Name())
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

// load reads one chart and adds the library to it.
func load(name string) (*chart.Chart, error) {
	c, err := loadFiles(name)
	if err != nil {
		return nil, err
	}
	library, err := loadFiles(helmcharts.Library)
	if err != nil {
		return nil, err
	}
	c.AddDependency(library)
	return c, nil
}

func loadFiles(name string) (*chart.Chart, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(helmcharts.FS, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(helmcharts.FS, file)
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

// Render renders a chart. The objects are in canonical form (see canonical) and in a stable
// order. Values are not checked against values.schema.json: the API server has checked the
// resource they come from, and a test holds them against the schema.
func (r *Renderer) Render(chartName string, release Release, values map[string]any) ([]*unstructured.Unstructured, error) {
	c, ok := r.charts[chartName]
	if !ok {
		return nil, fmt.Errorf("there is no chart %q", chartName)
	}
	files, err := r.execute(c, release, values)
	if err != nil {
		return nil, fmt.Errorf("render chart %s: %w", chartName, err)
	}
	var objects []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if base := path.Base(name); base == "NOTES.txt" || strings.HasPrefix(base, "_") {
			continue
		}
		parsed, err := parse(files[name])
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

func (r *Renderer) execute(c *chart.Chart, release Release, values map[string]any) (map[string]string, error) {
	options := chartutil.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true}
	const skipSchema = true
	r.mu.Lock()
	all, err := chartutil.ToRenderValuesWithSchemaValidation(c, values, options, r.capabilities, skipSchema)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(c, all)
}
