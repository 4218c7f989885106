// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render renders a chart and values into objects, in memory. It is the only package that uses Helm (in helm.go). It stores no
// release, runs no hook and sends no request to a cluster.
//
// specfield.go and podtemplate.go decode fields whose schema the CRD does not specify. These fields have Kubernetes' own types. Decoding is
// strict, and errors name the field.
package render

import (
	"cmp"
	"fmt"
	"io/fs"
	"runtime"

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

// Part is a chart to render with its values.
type Part struct {
	Name   string // identifies the part in errors
	Chart  string
	Values map[string]any
}

// File is the text that one template of a chart rendered.
type File struct {
	Template string
	Text     string
}

// Engine executes the templates of charts. It returns the files of each part in a stable order, and omits files without objects. It may
// change the given values. It is safe for concurrent use.
type Engine func(Release, []Part) ([][]File, error)

// Renderer renders charts for one version of Kubernetes.
// It is safe for concurrent use.
type Renderer struct {
	engine Engine
	types  *apiruntime.Scheme
}

// New loads the embedded charts. kubeVersion is the cluster's version, such as v1.36.3: New refuses charts that do not support this
// version.
func New(kubeVersion string) (*Renderer, error) {
	engine, err := Helm3(helmcharts.FS, kubeVersion)
	if err != nil {
		return nil, err
	}
	return NewWith(engine)
}

// NewWith returns a Renderer of the embedded charts with another engine. The charts may render Kubernetes' own kinds, RedisClusters,
// EtcdClusters and MySQLClusters.
func NewWith(engine Engine) (*Renderer, error) {
	types := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{scheme.AddToScheme, redisv1.AddToScheme, etcdv1.AddToScheme, mysqlv1.AddToScheme} {
		if err := add(types); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return &Renderer{engine: engine, types: types}, nil
}

// NewFrom loads the charts in the folders of a file system. The charts may render kinds of the scheme.
func NewFrom(files fs.FS, kubeVersion string, types *apiruntime.Scheme) (*Renderer, error) {
	engine, err := Helm3(files, kubeVersion)
	if err != nil {
		return nil, err
	}
	return &Renderer{engine: engine, types: types}, nil
}

// Render renders several charts in one run of the engine. It returns the objects of each part in canonical form (see canonical) and in a
// stable order. Values are not checked against values.schema.json: the API server has validated the resource, and a test checks the values
// of each field.
func (r *Renderer) Render(release Release, parts []Part) ([][]*unstructured.Unstructured, error) {
	files, err := r.engine(release, parts)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	result := make([][]*unstructured.Unstructured, len(parts))
	errs := make([]error, len(parts))
	var group workers.Group
	group.SetLimit(runtime.GOMAXPROCS(0)) // parsing YAML is half of the work
	for i, part := range parts {
		group.Go(func() { result[i], errs[i] = r.objects(part, files[i]) })
	}
	group.Wait()
	return result, cmp.Or(errs...)
}

// objects parses the rendered files of one part.
func (r *Renderer) objects(part Part, files []File) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, file := range files {
		parsed, err := r.parse(file.Text)
		if err != nil {
			return nil, fmt.Errorf("render %s: parse %s of chart %s: %w", part.Name, file.Template, part.Chart, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}
