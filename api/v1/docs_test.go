// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// places are where each type of the API reference stands in a resource, for its examples.
var places = map[string]at{
	"DataServiceSpec": {}, "MySQL": {"mysql"}, "Middleware": {"eureka"}, "Service": {"auth"}, "Published": {"web"},
	"AdditionalService": {"additionalServices", "0"}, "CronJob": {"cronJobs", "0"}, "Defaults": {"defaults"},
	"NetworkPolicy": {"networkPolicy"}, "Rollout": {"rollout"}, "MySQLStorage": {"mysql", "storage"}, "Storage": {"redis", "storage"}, "ThirdParty": {"mysql", "thirdParty"},
	"DatabaseUser": {"mysql", "users", "0"}, "ObjectReference": {"mysql", "initScripts", "0"}, "Autoscaling": {"web", "autoscaling"},
	"Ingress": {"web", "ingress"}, "Redis": {"redis"}, "RedisThirdParty": {"redis", "thirdParty"},
	"Etcd": {"etcd"}, "EtcdTLS": {"etcd", "tls"}, "EtcdRecovery": {"etcd", "recovery"}, "EtcdThirdParty": {"etcd", "thirdParty"},
	"Backup": {"mysql", "backup"}, "BackupDestination": {"mysql", "backup", "destination"},
	"S3": {"mysql", "backup", "destination", "s3"}, "BackupClaim": {"mysql", "backup", "destination", "claim"},
	"SecretName": {"mysql", "backup", "destination", "s3", "caSecret"}, "BackupEncryption": {"mysql", "backup", "encryption"},
	"BackupRetention": {"mysql", "backup", "retention"}, "PointInTime": {"mysql", "backup", "pointInTime"}, "BackupVerify": {"mysql", "backup", "verify"},
	"RestoreFrom": {"mysql", "restoreFrom"},
}

// row is a field in the API reference.
type row struct {
	description, defaultValue, example string
}

// pages reads the pages of the reference that describe this package's types, and those of backups in them.
func pages(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, page := range []string{"backup", "api"} {
		data, err := os.ReadFile("../../docs/reference/" + page + ".md")
		assert.NilError(t, err)
		all.Write(data)
	}
	return all.String()
}

// reference reads the pages: type, field, row.
func reference(t *testing.T) map[string]map[string]row {
	t.Helper()
	found := map[string]map[string]row{}
	section := ""
	for line := range strings.Lines(pages(t)) {
		if name, ok := strings.CutPrefix(line, "### "); ok {
			section = strings.TrimSpace(name)
			found[section] = map[string]row{}
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		if len(cells) < 6 { // a value of an enumeration
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
		}
		name := strings.SplitN(cells[1], "`", 3)[1]
		found[section][name] = row{cells[2], cells[3], strings.Trim(cells[4], "`")}
	}
	return found
}

// The API reference says of every field what it means, what it is by default and gives an
// example that the API server accepts.
func TestEveryFieldIsInTheReference(t *testing.T) {
	t.Parallel()
	sections := reference(t)
	types := map[string]string{} // places, to the types that stand there
	for name, where := range places {
		types[where.String()] = name
	}
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		section := types[where.String()]
		for name := range schema.Properties {
			if section == "" { // another place of a type
				assert.Assert(t, known(where), "%s has no section: add it to places", where)
				return
			}
			r, ok := sections[section][name]
			assert.Assert(t, ok && r.description != "" && r.defaultValue != "" && r.example != "", "%s.%s: %+v", section, name, r)
			if section == "MySQL" && (name == "replica" || name == "thirdParty") {
				continue // described once for all components: mysql allows less
			}
			t.Run(section+"."+name, func(t *testing.T) {
				t.Parallel()
				var example any
				assert.NilError(t, yaml.Unmarshal([]byte(r.example), &example))
				field := where.below(name)
				spec := put(t, field, example)
				if field.String() == "spec.cronJobs[0].resources" { // for size custom alone
					get(spec, where).(map[string]any)["size"] = "custom"
				}
				assert.NilError(t, validate(t, withSpec(spec)))
			})
		}
	})
	for name := range places {
		assert.Assert(t, len(sections[name]) > 0, "%s is not in the reference", name)
	}
}

// known reports whether a place has a type that another place stands for.
func known(where at) bool {
	if len(where) == 1 {
		return where[0] == "uuc"
	}
	if slices.Contains(where, "resources") { // Kubernetes' own, which it describes
		return true
	}
	for _, other := range places {
		if len(other) > 0 && (other.last() == where.last() && where.last() != "0" || slices.Contains([]string{"secretRef", "credentialsSecret", "identitySecret"}, where.last())) {
			return true
		}
	}
	return false
}

// The same for the types that the CRD does not spell out.
func TestObjectsAreInTheReference(t *testing.T) {
	t.Parallel()
	sections := reference(t)
	for _, is := range []reflect.Type{reflect.TypeFor[Port](), reflect.TypeFor[Probes](), reflect.TypeFor[ConfigFile](),
		reflect.TypeFor[RollingUpdate](), reflect.TypeFor[DisruptionBudget]()} {
		for i := range is.NumField() {
			name, _, _ := strings.Cut(is.Field(i).Tag.Get("json"), ",")
			r, ok := sections[is.Name()][name]
			assert.Assert(t, ok && r.description != "" && r.defaultValue != "" && r.example != "", "%s.%s: %+v", is.Name(), name, r)
			data, err := yaml.YAMLToJSON([]byte(fmt.Sprintf("%s: %s", name, r.example)))
			assert.NilError(t, err)
			unknown, err := strictjson.UnmarshalStrict(data, reflect.New(is).Interface(), strictjson.DisallowUnknownFields)
			assert.NilError(t, err)
			assert.Equal(t, len(unknown), 0, "%v", unknown)
		}
	}
}

// A field that the CRD does not spell out links to the type that it is.
func TestObjectsAreNamed(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for line := range strings.Lines(all) {
		assert.Assert(t, !strings.Contains(line, "(#object)"), line)
		for _, link := range strings.Split(strings.ReplaceAll(line, "](backup.md#", "](#"), "](#")[1:] {
			anchor, _, _ := strings.Cut(link, ")")
			found := strings.Contains(strings.ToLower(all), "\n### "+anchor+"\n")
			assert.Assert(t, found, "%s has no section", anchor)
		}
	}
}
