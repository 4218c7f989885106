// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
	table "d3os.com/d3os-operator/test/fields"
)

// Build refuses a schedule that the parser refuses, and an unknown time zone. It refuses a schedule that is never due only if the schedule
// has seconds. TestCheck of package schedule lists the refused schedules.
func TestSchedules(t *testing.T) {
	t.Parallel()
	for schedule, message := range map[string]string{
		"* * * * * *":      "",
		"0 3 30 2 *":       "", // a schedule that never becomes due
		"1 0 0 29 2 *":     "",
		"99 99 99 99 99":   "the minute '99' is refused",
		"60 * * * * *":     "the second '60' is refused",
		"1 * * * FEV *":    "the month 'FEV' is refused",
		"0 3 * * 0-7":      "the day of the week '0-7' is refused",
		"0 3 * * Sunday":   "the day of the week 'Sunday' is refused",
		"0 3 L * *":        "the day 'L' is refused",
		"0 24 * * *":       "the hour '24' is refused",
		"1 0 0 30 2 *":     "'1 0 0 30 2 *' is never due",
		"0 0 0 31 2,4 * *": "must have five fields",
	} {
		mistake(t, fmt.Sprintf("{cronJobs: [{name: a, schedule: %q, image: c, command: [d]}]}", schedule), "spec.cronJobs[a].schedule", message)
	}
	for _, schedule := range []string{"* * * * * *", "* * * * *"} {
		mistake(t, "{cronJobs: [{name: a, schedule: '"+schedule+"', image: c, command: [d], timeZone: Europe/Nowhere}]}", "spec.cronJobs[a].timeZone",
			"'Europe/Nowhere' is not known: use a name such as Europe/Berlin")
	}
}

// Schedules of backups and checks that the CRD accepts, but that no parser accepts or that are never due, are refused with their path. So is an
// invalid time zone.
func TestSchedulesOfBackups(t *testing.T) {
	t.Parallel()
	refused := map[string]string{
		"0 4 * * 0": "", "@daily": "", "0 4 * * SUN": "", "0 3 30 * *": "",
		"0 3 * * 7": "the day of the week '7' is refused", "0 3 * * 0-7": "the day of the week '0-7' is refused",
		"0 3 * * Sunday": "the day of the week 'Sunday' is refused", "0 3 * * 5L": "the day of the week '5L' is refused",
		"0 3 L * *": "the day 'L' is refused", "0 3 15W * *": "the day '15W' is refused", "0 3 0 * *": "the day '0' is refused", "0 3 32 * *": "the day '32' is refused",
		"0 24 * * *": "the hour '24' is refused", "60 3 * * *": "the minute '60' is refused", "*/0 3 * * *": "the minute '*/0' is refused", "30-10 3 * * *": "the minute '30-10' is refused",
		"0 3 * 13 *": "the month '13' is refused", "0 3 * FEV *": "the month 'FEV' is refused", "a b c d e": "the minute 'a' is refused",
		"0 3 30 2 *": "is never due", ", 3 * * *": "is never due",
	}
	pattern := backupPattern(t)
	for text := range refused {
		assert.Assert(t, pattern.MatchString(text), "the CRD refuses %s", text)
	}
	for _, database := range []struct {
		of   dsv1.ComponentName
		more string
	}{{component.MySQL, ""}, {component.MySQL, "replica: 3, "}, {component.Etcd, ""}, {component.Redis, ""}} {
		try := func(field, given, message string) {
			t.Helper()
			mistakeOf(t, database.of, fmt.Sprintf("{%s: {%sbackup: {destination: {claim: {name: a}}, %s}}}", database.of, database.more, given), fmt.Sprintf("spec.%s.backup.%s", database.of, field), message)
		}
		for text, message := range refused {
			try("schedule", fmt.Sprintf("schedule: %q", text), message)
			if database.of == component.MySQL {
				try("verify.schedule", fmt.Sprintf("verify: {schedule: %q}", text), message)
			}
		}
		try("timeZone", "timeZone: Europe/Nowhere", "'Europe/Nowhere' is not known")
		try("timeZone", "timeZone: Local", "'Local' is not known")
		try("timeZone", "timeZone: Etc/UTC", "")
	}
}

// backupPattern returns the pattern of schedules of backups, from a CRD. All CRDs have the same pattern.
func backupPattern(t *testing.T) *regexp.Regexp {
	t.Helper()
	file, err := crd.Files.ReadFile("bases/etcd.database.coreos.com_etcdclusters.yaml")
	assert.NilError(t, err)
	definition := &apiextensionsv1.CustomResourceDefinition{}
	assert.NilError(t, yaml.Unmarshal(file, definition))
	return regexp.MustCompile(definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["backup"].Properties["schedule"].Pattern)
}

// mistake checks that the values of the component named "a" cannot be built, with this message. If the message is empty,
// they must be built.
func mistake(t *testing.T, spec, name, message string) {
	t.Helper()
	mistakeOf(t, "a", spec, name, message)
}

// mistakeOf checks that the values of a component cannot be built, with this message. If the message is empty, they
// must be built.
func mistakeOf(t *testing.T, of dsv1.ComponentName, spec, name, message string) {
	t.Helper()
	_, err := try(t, spec, of)
	if message == "" {
		assert.NilError(t, err, spec)
		return
	}
	var field *render.Error
	assert.Assert(t, errors.As(err, &field), "%s: %v", spec, err)
	assert.Equal(t, field.Field, name)
	assert.Assert(t, is.Contains(field.Message, message), spec)
}

// The plan of an EtcdCluster contains every field, including those with a default of the API server: the operator does
// not correct another writer's change of a field that the plan lacks. The number of members is an exception.
func TestEverythingOfEtcdIsPlanned(t *testing.T) {
	t.Parallel()
	file, err := crd.Files.ReadFile("bases/etcd.database.coreos.com_etcdclusters.yaml")
	assert.NilError(t, err)
	definition, schema := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.JSONSchemaProps{}
	assert.NilError(t, yaml.Unmarshal(file, definition))
	assert.NilError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, schema, nil))
	structural, err := structuralschema.NewStructural(schema)
	assert.NilError(t, err)
	for _, spec := range []string{"{replicas: 0}", "{tls: {mode: Auto, additionalNames: [etcd.example.com], rotation: a}}", "{tls: {mode: Secrets, serverSecret: a, peerSecret: b, clientSecret: c}, storage: {size: 1Gi}}"} {
		etcd, err := try(t, "{etcd: "+spec+"}", component.Etcd)
		assert.NilError(t, err)
		completed := map[string]any{"spec": runtime.DeepCopyJSONValue(etcd["spec"])}
		defaulting.Default(completed, structural)
		filled := completed["spec"].(map[string]any)
		// The plan sets false explicitly, because the Go type would leave it out.
		assert.DeepEqual(t, filled["networkPolicy"], map[string]any{"enabled": false})
		assert.Equal(t, filled["paused"], false)
		delete(filled, "networkPolicy")
		delete(filled, "paused")
		if !strings.Contains(spec, "replicas") {
			delete(filled, "replicas")
		}
		assert.DeepEqual(t, filled, etcd["spec"])
	}
}

// FuzzBuild: the values of any spec are deterministic, or an error contains the path of a field. The spec is not modified.
func FuzzBuild(f *testing.F) {
	cases, err := table.Cases()
	assert.NilError(f, err)
	for i := range cases {
		changed, err := cases[i].Changed()
		assert.NilError(f, err)
		data, err := yaml.Marshal(changed.Object["spec"])
		assert.NilError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ds := &dsv1.DataService{}
		if len(data) > 1<<16 || yaml.Unmarshal(data, &ds.Spec) != nil {
			t.Skip("no spec, or too much of it")
		}
		dsv1.SetDefaults(ds)
		before := ds.DeepCopy()
		graph, err := component.NewGraph(&ds.Spec)
		if err != nil {
			isSpecError(t, err)
			return
		}
		in := Input{
			Instance: "platform", Namespace: "data", Graph: graph, Defaults: ds.Spec.Defaults, NetworkPolicy: ds.Spec.NetworkPolicy,
			Credentials: Credentials{
				MySQLSecret: "mysql", MySQLChecksum: "a", PlatformSecret: "platform",
				RedisSecret: "redis", MongoDBSecret: "mongodb", RedisChecksum: "b", RedisHasUser: true,
			},
		}
		for i := range graph.Components {
			v, err := Build(in, &graph.Components[i])
			if err != nil {
				isSpecError(t, err)
				continue
			}
			again, err := Build(in, &graph.Components[i])
			assert.NilError(t, err)
			assert.Assert(t, reflect.DeepEqual(v, again), "other values the second time")
		}
		assert.Assert(t, equality.Semantic.DeepEqual(ds, before), "the spec was changed")
	})
}

func isSpecError(t *testing.T, err error) {
	t.Helper()
	var mistake *render.Error
	assert.Assert(t, errors.As(err, &mistake), "it names no field: %v", err)
	assert.Assert(t, strings.HasPrefix(mistake.Field, "spec"), "%q is no field", mistake.Field)
}
