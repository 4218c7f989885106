// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// places maps each type of the API reference to a path in a resource. The examples of the type are tested at this path.
var places = map[string]at{
	"DataServiceSpec": {}, "MySQL": {"mysql"}, "Middleware": {"eureka"}, "Service": {"auth"}, "Published": {"web"},
	"AdditionalService": {"additionalServices", "0"}, "CronJob": {"cronJobs", "0"}, "Defaults": {"defaults"},
	"NetworkPolicy": {"networkPolicy"}, "Rollout": {"rollout"}, "MySQLStorage": {"mysql", "storage"}, "GrowingStorage": {"redis", "storage"}, "AutoGrow": {"redis", "storage", "autoGrow"}, "ThirdParty": {"mysql", "thirdParty"},
	"DatabaseUser": {"mysql", "users", "0"}, "ObjectReference": {"mysql", "initScripts", "0"}, "Autoscaling": {"web", "autoscaling"},
	"Ingress": {"web", "ingress"}, "HTTPRoute": {"web", "httpRoute"}, "Gateway": {"web", "httpRoute", "gateways", "0"}, "MySQLReplication": {"mysql", "replication"}, "Redis": {"redis"}, "RedisThirdParty": {"redis", "thirdParty"},
	"Etcd": {"etcd"}, "EtcdTLS": {"etcd", "tls"}, "EtcdRecovery": {"etcd", "recovery"}, "EtcdThirdParty": {"etcd", "thirdParty"},
	"MongoDB": {"mongodb"}, "MongoDBThirdParty": {"mongodb", "thirdParty"},
	"Backup": {"mysql", "backup"}, "BackupDestination": {"mysql", "backup", "destination"},
	"S3": {"mysql", "backup", "destination", "s3"}, "BackupClaim": {"mysql", "backup", "destination", "claim"},
	"SecretName": {"mysql", "backup", "destination", "s3", "caSecret"}, "BackupEncryption": {"mysql", "backup", "encryption"},
	"BackupRetention": {"mysql", "backup", "retention"}, "PointInTime": {"mysql", "backup", "pointInTime"}, "BackupVerify": {"mysql", "backup", "verify"},
	"RestoreFrom": {"mysql", "restoreFrom"}, "ImportFrom": {"mysql", "importFrom"},
}

// row is a field in the API reference.
type row struct {
	description, defaultValue, example string
}

// pages returns the pages of the reference that document the types of DataServices and of their backups.
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

// reference returns the rows of these pages, by type and field.
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
		if len(cells) < 6 { // the row documents a value of an enumeration
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

// The API reference documents the meaning and the default of every field, with an example that the API server accepts.
func TestEveryFieldIsInTheReference(t *testing.T) {
	t.Parallel()
	sections := reference(t)
	types := map[string]string{} // the type at each path
	for name, where := range places {
		types[where.String()] = name
	}
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		section := types[where.String()]
		for name := range schema.Properties {
			if section == "" { // the type is documented at another place
				assert.Assert(t, known(where), "%s has no section: add it to places", where)
				return
			}
			r, ok := sections[section][name]
			assert.Assert(t, ok && r.description != "" && r.defaultValue != "" && r.example != "", "%s.%s: %+v", section, name, r)
			if section == "MySQL" && (name == "replica" || name == "thirdParty") {
				continue // the row applies to all components, and mysql does not accept the row's example
			}
			t.Run(section+"."+name, func(t *testing.T) {
				t.Parallel()
				var example any
				assert.NilError(t, yaml.Unmarshal([]byte(r.example), &example))
				field := where.below(name)
				spec := put(field, example)
				if field.String() == "spec.cronJobs[0].resources" { // a field that is allowed only with size custom
					get(spec, where).(map[string]any)["size"] = "custom"
				}
				assert.NilError(t, validate(t, withSpec(spec)))
			})
		}
	})
	for name := range places {
		assert.Assert(t, len(sections[name]) > 0, "the reference does not have %s", name)
	}
}

// known reports whether the type at a path is documented at another path.
func known(where at) bool {
	if len(where) == 1 {
		return where[0] == "uuc"
	}
	if slices.Contains(where, "resources") { // a type of Kubernetes, which Kubernetes documents
		return true
	}
	if last := len(where) - 1; where[last] == "0" {
		where = where[:last]
	}
	for _, other := range places {
		if len(other) > 1 && other.last() == "0" {
			other = other[:len(other)-1]
		}
		if len(other) > 0 && (other.last() == where.last() || slices.Contains([]string{"secretRef", "credentialsSecret", "identitySecret"}, where.last())) {
			return true
		}
	}
	return false
}

// The API reference also documents types whose fields the CRD does not list. Each field has an example that the Go type accepts.
func TestObjectsAreInTheReference(t *testing.T) {
	t.Parallel()
	sections := reference(t)
	for _, is := range []reflect.Type{reflect.TypeFor[dsv1.Port](), reflect.TypeFor[dsv1.Probes](), reflect.TypeFor[dsv1.ConfigFile](),
		reflect.TypeFor[dsv1.RollingUpdate](), reflect.TypeFor[dsv1.DisruptionBudget]()} {
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

// Each link in the reference leads to the section of a type. No field links to the general type Object.
func TestObjectsAreNamed(t *testing.T) {
	t.Parallel()
	all := pages(t)
	lower := strings.ToLower(all)
	for line := range strings.Lines(all) {
		assert.Assert(t, !strings.Contains(line, "(#object)"), line)
		for _, link := range strings.Split(strings.ReplaceAll(line, "](backup.md#", "](#"), "](#")[1:] {
			anchor, _, _ := strings.Cut(link, ")")
			found := strings.Contains(lower, "\n### "+anchor+"\n")
			assert.Assert(t, found, "%s has no section", anchor)
		}
	}
}

const (
	statusPage = "../../docs/status.md"
	everyKind  = "../../internal/reconcile/kinds.go"
	redis      = "../../api/redis/v1alpha1/status_types.go"
	ofBackups  = "../../api/backup/v1alpha1/store_types.go" // conditions and reasons of all clusters with backups
	topology   = "../../internal/redis/topology/"
)

// constants returns the values of the string constants of a file that have a prefix or a type.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	assert.NilError(t, err)
	var found []string
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		kind, _ := spec.Type.(*ast.Ident)
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !strings.HasPrefix(spec.Names[0].Name, prefix) && (kind == nil || kind.Name != prefix) {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		assert.NilError(t, err)
		found = append(found, value)
		return true
	})
	assert.Assert(t, len(found) > 0, "%s has no %s", file, prefix)
	slices.Sort(found)
	return found
}

// without returns the values that are not in others.
func without(all []string, others ...string) []string {
	return slices.DeleteFunc(all, func(value string) bool { return slices.Contains(others, value) })
}

// tables returns the names in the first column of each table of a page, by section and title of that column.
func tables(t *testing.T, file string) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	found := map[string][]string{}
	title, row := "", 0
	section := ""
	for line := range strings.Lines(string(data)) {
		if heading, ok := strings.CutPrefix(line, "#"); ok {
			section = strings.TrimSpace(strings.TrimLeft(heading, "#"))
		}
		if !strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "|-") {
			row = 0
			continue
		}
		cell := strings.TrimSpace(strings.Split(line, "|")[1])
		switch row++; row {
		case 1:
			title = section + "/" + cell
		case 2:
		default:
			for name := range strings.SplitSeq(cell, ",") {
				found[title] = append(found[title], strings.Trim(name, " `"))
			}
		}
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}

// Every phase, condition, reason and event of any kind has a row in the status reference, and each row
// names an existing phase, condition, reason or event.
func TestEveryReasonIsInTheReference(t *testing.T) {
	t.Parallel()
	documented := tables(t, statusPage)
	failures := constants(t, everyKind, "Reason")
	events := append(constants(t, "../../api/v1/status_types.go", "Event"), "VolumeNotResized", "VolumeGrown", "VolumeNotGrown", "PolicyChangedObject", "StatusTooLarge", "Hibernating", "Hibernated")
	slices.Sort(events)
	for title, want := range map[string][]string{
		"Reasons of failures/reason":             failures,
		"Reasons of events/reason":               events,
		"Phases of a DataService/phase":          constants(t, "../../api/v1/status_types.go", "Phase"),
		"Conditions of a DataService/condition":  constants(t, "../../api/v1/status_types.go", "Condition"),
		"Reasons of a DataService/reason":        without(constants(t, "../../api/v1/status_types.go", "Reason"), failures...),
		"Phases of a RedisCluster/phase":         constants(t, redis, "Phase"),
		"Conditions of a RedisCluster/condition": slices.Sorted(slices.Values(append(constants(t, redis, "Condition"), constants(t, ofBackups, "Condition")...))),
		"Reasons of a RedisCluster/reason":       slices.Sorted(slices.Values(append(without(constants(t, redis, "Reason"), failures...), constants(t, ofBackups, "Reason")...))),
		"Verdicts of a RedisCluster/verdict":     constants(t, topology+"model.go", "Verdict"),
		"Steps of a RedisCluster/step":           without(constants(t, topology+"step.go", "Action"), "Wait"),
	} {
		assert.DeepEqual(t, documented[title], want)
	}
	// Every event of internal/reconcile is in the table of events.
	for _, event := range constants(t, "../../internal/reconcile/event.go", "Event") {
		assert.Assert(t, slices.Contains(events, event), event)
	}
}
