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
	"d3os.com/d3os-operator/internal/render"
)

// backEnds returns the services of the product that run on Spring Boot: all except web.
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

// backEndValues returns the values that a back end needs.
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

// Tomcat accepts all headers that nginx passes on. The limit is a plain number of bytes, as each release of Spring Boot accepts it.
func TestBackEndsTakeLargeHeaders(t *testing.T) {
	t.Parallel()
	for _, service := range backEnds(t) {
		found := settings(t, service, made(t, "microservice", backEndValues(service)))
		assert.Check(t, found["server.max-http-header-size"] == "16384" || found["server.max-http-header-size"] == 16384.0, "%s: %v", service, found["server.max-http-header-size"])
	}
}

// pause returns the preStop hook of a service.
func pause(found objects, service string) any {
	return at(found["Deployment/"+service], "spec", "template", "spec", "containers", 0, "lifecycle", "preStop")
}

// A terminating pod keeps serving for 10 s, and Spring Boot then answers the accepted requests. Both fit into the grace period.
func TestServicesStopGracefully(t *testing.T) {
	t.Parallel()
	for _, service := range append(backEnds(t), "web") {
		found := made(t, "microservice", backEndValues(service))
		assert.Equal(t, flow(t, pause(found, service)), `{"sleep":{"seconds":10}}`, service)
		assert.Equal(t, at(found["Deployment/"+service], "spec", "template", "spec", "terminationGracePeriodSeconds"), int64(30))
		if service == "web" {
			continue
		}
		set := settings(t, service, found)
		assert.Equal(t, set["server.shutdown"], "graceful", service)
		assert.Equal(t, set["spring.lifecycle.timeout-per-shutdown-phase"], "15s", service)
	}
}

// A user's own service has no pause unless preStopSeconds is set. Before Kubernetes 1.30, the hook runs the command sleep.
func TestPauses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ version, values, want string }{
		"another pause":                        {kubeVersion, "{service: web, preStopSeconds: 3}", `{"sleep":{"seconds":3}}`},
		"no pause":                             {kubeVersion, "{service: web, preStopSeconds: 0}", `null`},
		"a user's own service":                 {kubeVersion, "{name: web, image: own:v1, preStopSeconds: 5}", `{"sleep":{"seconds":5}}`},
		"a user's own service without a pause": {kubeVersion, "{name: web, image: own:v1}", `null`},
		"the last Kubernetes without sleep":    {"v1.29.15+k3s1", "{service: web}", `{"exec":{"command":["sleep","10"]}}`},
		"the first Kubernetes with sleep":      {"v1.30.0-gke.1", "{service: web}", `{"sleep":{"seconds":10}}`},
		"no pause, a Kubernetes without sleep": {"v1.29.0", "{service: web, preStopSeconds: 0}", `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := parsed(t, test.values)
			assert.NilError(t, schemaErrors(t, "microservice", values))
			renderer, err := render.New(test.version)
			assert.NilError(t, err)
			parts, err := renderer.Render(render.Release{Name: releaseName, Namespace: namespace}, []render.Part{{Name: "part", Chart: "microservice", Values: values}})
			assert.NilError(t, err)
			found := objects{}
			for _, object := range parts[0] {
				found[object.GetKind()+"/"+object.GetName()] = object.Object
			}
			assert.Equal(t, flow(t, pause(found, "web")), test.want)
		})
	}
}

// The pods, their connections to the database and the times in their JSON have one time zone. The default is the same as in earlier releases.
func TestOneTimeZone(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]struct{ variable, jdbc, json string }{
		"":              {"Asia/Shanghai", "Asia/Shanghai", "GMT+8"},
		"Europe/Berlin": {"Europe/Berlin", "Europe/Berlin", "Europe/Berlin"},
		"Etc/GMT+5":     {"Etc/GMT+5", "Etc/GMT%2B5", "Etc/GMT+5"},
	} {
		urls, times := 0, 0
		for _, service := range backEnds(t) {
			values := backEndValues(service)
			if zone != "" {
				values = strings.TrimSuffix(values, "}") + ", timeZone: " + zone + "}"
			}
			found := made(t, "microservice", values)
			variable := named(at(found["Deployment/"+service], "spec", "template", "spec", "containers", 0, "env"), "TZ")
			assert.Equal(t, variable["value"], want.variable)
			for name, value := range settings(t, service, found) {
				text, _ := value.(string)
				if _, given, ok := strings.Cut(text, "serverTimezone="); ok {
					given, _, _ = strings.Cut(given, "&")
					assert.Equal(t, given, want.jdbc, "%s of %s", name, service)
					urls++
				}
				if name == "spring.jackson.time-zone" {
					assert.Equal(t, text, want.json, service)
					times++
				}
			}
		}
		assert.Equal(t, urls, 11)
		assert.Equal(t, times, 3)
	}
}
