// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const oldResources = `apiVersion: app.example.com/v1
kind: AppService
metadata: {name: nginx-app}
spec: {size: 2, image: "registry.example/nginx:1.7.9", ports: [{port: 80, targetPort: 80}], envs: [{name: A, value: b}]}
---
apiVersion: model.github.com/v1
kind: ModelBox
metadata: {name: modelbox-sample}
spec: {name: nginx, image: "registry.example/nginx:1.7.9", replicas: 3, rollingUpdate: 30%, ports: [{port: 80}, {port: 81, targetPort: 8081}]}
`

// A converted AppService and a converted ModelBox become ready.
func TestConvertedResourcesRun(t *testing.T) {
	e := newEnv(t, "edit")
	file := filepath.Join(t.TempDir(), "old.yaml")
	e.Must(os.WriteFile(file, []byte(oldResources), 0o600))
	code, out, errOut := e.run("convert", "-f", file, "--name", "converted")
	assert.Equal(t, code, exitYes, errOut)
	assert.Assert(t, strings.Contains(errOut, "no counterpart: ModelBox modelbox-sample: spec.name: "), errOut)
	ds := &unstructured.Unstructured{}
	e.Must(yaml.Unmarshal([]byte(out), &ds.Object))
	e.Start()
	name := e.CreateReady(ds)
	status := e.DataService(name).Status
	assert.Equal(t, status.Ready, "2/2")

	code, _, errOut = e.run("convert")
	assert.Equal(t, code, exitError)
	assert.Assert(t, strings.Contains(errOut, "which file?"), errOut)
	e.Must(os.WriteFile(file, []byte(strings.Replace(oldResources, "name: A, value", "name: 'A=B', value", 1)), 0o600))
	code, out, errOut = e.run("convert", "-f", file)
	assert.Equal(t, code, exitError)
	assert.Assert(t, out == "" && strings.Contains(errOut, "the operator would refuse the DataService: spec.additionalServices[nginx-app].envs[0].name"), errOut)
}
