// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// Every sample comes up as it is. No other test runs meanwhile: node ports are one for the whole
// cluster.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config/samples/*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the samples are missing: %v", err)
	}
	for _, file := range files {
		file := filepath.Base(file)
		if file == "kustomization.yaml" {
			continue
		}
		t.Run(file, func(t *testing.T) {
			e := parallel(t)
			e.startOperator()
			e.prerequisites()
			ds := &unstructured.Unstructured{}
			e.must(readYAML("config/samples/"+file, &ds.Object))
			ds.SetNamespace(e.namespace)
			e.must(api.Apply(e.ctx, client.ApplyConfigurationFromUnstructured(ds), client.FieldOwner("kubectl")))
			e.ready(ds.GetName())
			w := &walk{env: e, name: ds.GetName()}
			e.until("all is as planned", w.asPlanned)
			if !own {
				e.remove(ds.GetName()) // its node ports are those of the whole cluster
			}
		})
	}
}

// prerequisites creates what the samples say that they need.
func (e *env) prerequisites() {
	e.Helper()
	e.must(harness.Prerequisites(e.ctx, api, e.namespace))
}
