// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/test/harness"
)

// The new version replaces exactly the pods that upgrade-check has listed.
func TestUpgradeCheck(t *testing.T) {
	e := newEnv(t, "view")
	with := func(version string) func(*rest.Config, *manager.Options) {
		return func(_ *rest.Config, o *manager.Options) {
			o.Images = map[string]string{"eureka": "registry.example/eureka:" + version, "probe": "registry.example/probe:v1"}
		}
	}
	op := e.Start(with("v1"))
	for name, spec := range map[string]fields{
		"a": {"eureka": fields{"name": "eureka-a", "kind": "Deployment"}, "additionalServices": []any{fields{"name": "reports-a", "image": "registry.example/app:v1", "port": int64(8080)}}},
		"b": {"eureka": fields{"name": "eureka-b", "kind": "Deployment", "image": "registry.example/eureka:mine"}},
		"c": {"eureka": fields{"name": "eureka-c", "kind": "StatefulSet"}},
		"d": {"additionalServices": []any{fields{"name": "reports-d", "image": "registry.example/app:v1", "port": int64(8080)}}},
	} {
		e.CreateReady(&unstructured.Unstructured{Object: fields{
			"apiVersion": "d3os-product.com.d3os/v1", "kind": "DataService", "metadata": fields{"name": name}, "spec": spec,
		}})
	}
	manifest := func(version string) string {
		path := filepath.Join(t.TempDir(), "install.yaml")
		e.Must(os.WriteFile(path, []byte(`kind: Namespace
---
kind: Deployment
spec: {template: {spec: {containers: [
  {name: proxy, env: [{name: RELATED_IMAGE_EUREKA, value: nonsense}]},
  {name: manager, env: [
    {name: RELATED_IMAGE_PROBE, value: "registry.example/probe:v1"}, {name: RELATED_IMAGE_EUREKA, value: "registry.example/eureka:`+version+`"}]}]}}}
`), 0o600))
		return path
	}
	text := e.says(exitYes, []string{"4 DataServices", "unchanged 4, changed 0"}, "upgrade-check", "--manifest", manifest("v1"))
	assert.Assert(t, !strings.Contains(text, "NAMESPACE"), text)

	code, out, errOut := e.run("upgrade-check", "-o", "json", "--manifest", manifest("v2"))
	assert.Equal(t, code, exitNo, errOut)
	var u plugin.Upgrade
	assert.NilError(t, json.Unmarshal([]byte(out), &u))
	var foreseen []string
	for _, p := range u.Platforms {
		assert.Equal(t, p.Error, "")
		for component, pods := range p.Restarts {
			assert.Equal(t, pods, int64(1))
			foreseen = append(foreseen, component+"-"+p.Name)
		}
	}
	slices.Sort(foreseen)
	assert.DeepEqual(t, foreseen, []string{"eureka-a", "eureka-c"})

	op.Stop()
	before := e.pods()
	e.Start(with("v2"))
	e.says(exitYes, []string{"unchanged 4, changed 0"}, "upgrade-check", "--manifest", manifest("v2"))
	for _, name := range []string{"a", "b", "c", "d"} {
		e.Ready(name)
	}
	e.Until("the foreseen pods are replaced, and no others", func() error {
		var replaced []string
		for _, pod := range e.gone(before) {
			for _, workload := range []string{"eureka-a", "eureka-b", "eureka-c", "reports-a", "reports-d"} {
				if strings.HasPrefix(pod, workload) && !slices.Contains(replaced, workload) {
					replaced = append(replaced, workload)
				}
			}
		}
		if difference := harness.Difference(replaced, foreseen); difference != "" {
			return errors.New(difference)
		}
		return nil
	})

	code, _, errOut = e.run("upgrade-check", "--manifest", e.file(&unstructured.Unstructured{Object: fields{"kind": "Namespace"}}))
	assert.Equal(t, code, exitError)
	assert.Assert(t, strings.Contains(errOut, "RELATED_IMAGE"), errOut)
}
