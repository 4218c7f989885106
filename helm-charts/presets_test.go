// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"io/fs"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	helmcharts "d3os.com/d3os-operator/helm-charts"
)

// backEnds are the services of the product that run on Spring Boot.
func backEnds(t *testing.T) []string {
	t.Helper()
	entries, err := fs.ReadDir(helmcharts.FS, "microservice/services")
	assert.NilError(t, err)
	var names []string
	for _, entry := range entries {
		if entry.Name() != "web" {
			names = append(names, entry.Name())
		}
	}
	assert.Equal(t, len(names), 8)
	return names
}

// backEndValues are the values that each back end needs.
func backEndValues(service string) string {
	return "{service: " + service + `, endpoints: {mysql: {url: "mysql://mysql.data.svc:3306"}, eureka: {url: "http://eureka.data.svc:8761"}},
credentials: {mysql: {secretName: mysql}, platform: {secretName: platform}}}`
}

// settings returns the settings of a back end by their dotted names.
func settings(t *testing.T, service string, found objects) map[string]any {
	t.Helper()
	flat := map[string]any{}
	if text, ok := at(found["ConfigMap/"+service], "data", "application.properties").(string); ok {
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				flat[name] = value
			}
		}
		return flat
	}
	text, _ := at(found["ConfigMap/"+service], "data", "application.yml").(string)
	var tree map[string]any
	assert.NilError(t, yaml.Unmarshal([]byte(text), &tree), text)
	flatten(flat, "", tree)
	return flat
}

func flatten(flat map[string]any, prefix string, tree map[string]any) {
	for name, value := range tree {
		if below, ok := value.(map[string]any); ok {
			flatten(flat, prefix+name+".", below)
		} else {
			flat[prefix+name] = value
		}
	}
}

// What nginx passes on, Tomcat accepts. A number is one of bytes for each release of Spring Boot.
func TestBackEndsTakeLargeHeaders(t *testing.T) {
	t.Parallel()
	for _, service := range backEnds(t) {
		found := settings(t, service, made(t, "microservice", backEndValues(service)))
		assert.Check(t, found["server.max-http-header-size"] == "16384" || found["server.max-http-header-size"] == 16384.0, "%s: %v", service, found["server.max-http-header-size"])
	}
}
