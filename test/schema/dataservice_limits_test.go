// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// mismatches lists, for each pattern, strings that the pattern must refuse.
var mismatches = map[string][]string{
	`^[a-z]([-a-z0-9]*[a-z0-9])?$`:     {"", "1a", "a-", "-a", "A", "a_b", "a.b", "a b", "ä"},
	`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`:  {"-flag", "a b", "a\nb", "a\"b", "{{a}}", "$(a)", "ä"},
	`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`: {"", "Fast", "a/b", "-a", "a."},
	`^(mysql|https?)://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$`: {
		"", "example.com", "ftp://example.com", "http://", "http:///a", "http://a b", "http://user:password@example.com", "http://example.com/?a=b",
		"http://example.com#a", "http://example.com:123456", "http://example.com:", "http://-a", "http://a.", "http://[::1", "http://a\n", "xhttp://a",
		"http://a/$(id)", "http://a/\"", "jdbc:mysql://a",
	},
	`^rediss?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(,([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)*$`: {
		"", "a:6379", "redis://", "redis://a,", "redis://a,,b", "redis://a, b", "redis://a/0", "redis://user:password@a", "redis://a,redis://b",
		"mysql://a", "http://a", "redis://a:", "redis://a:123456", "redis://-a", "redis://a\n", "xredis://a",
	},
	`^mongodb(\+srv)?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(,([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)*(/[A-Za-z0-9_-]*(\?[A-Za-z0-9_.,=&%:;~+-]*)?)?$`: {
		"", "a:27017", "mongodb://", "mongodb://a,", "mongodb://a, b", "mongodb://user:password@a", "mongodb://a/b/c", "mongodb://a?b=c", "mongodb://a/b?c=$(id)",
		"mongodb://a:", "mongodb://a:123456", "mongodb://-a", "mongodb://a\n", "xmongodb://a", "mysql://a", "mongodb://a,mongodb://b",
	},
	`^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,6}$`: {"", "8", "8.0", "8.0.12-ent", "v8.0.12", "8.0.x", "8.0.12 ", "12345.0.0"},
	`^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(,([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)*$`: {
		"", "a:2379", "http://", "http://a,", "http://a,,b", "http://a, b", "http://a/0", "https://user:password@a", "http://a,http://b",
		"mysql://a", "http://a:", "http://a:123456", "http://-a", "http://a\n", "xhttp://a",
	},
	`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`: {"", "big", "10 Gi", "10GiB"},
	`^[A-Za-z0-9_]+$`:               {"", "a-b", "a b", "a.b", "a`b", "a'b", "a\nb", "ä"},
	`^[A-Za-z0-9_-]+$`:              {"", "a b", "a.b", "a/b", "a%", "ä"},
	`^[0-9]{1,2}\.[0-9]{1,2}$`:      {"", "8", "8.", ".0", "8.0.3", "v8.0", "8,0", "8.0\n", "123.0"},
	`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`: {"", ".1", "-1", "a:b", "a/b", "a@b", "a b", "a\n"},
	`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?(/[A-Za-z0-9._-]+)*$`: {
		"", "-a", "https://a", "a/", "a//b", "/a", "a:", "a:port", "a:123456", "a b", "a\n", "user@a", "a/$(id)",
	},
	`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*$`: {"", "1", "/Europe", "Europe/", "Europe//Berlin", "../etc", "Europe Berlin", "UTC\n"},
	`^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`: {
		"", "Data.example.com", "-a", "a-", "a..b", "a.", ".a", "a_b", "*", "*.", "a.*.b", "*a", "http://a", "a:80", "a/b", "a b",
	},
	`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$`:     {"", "*", "*.", "a b", "-a", "a.", "http://a", "a/b", "a\n"},
	`^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$`:            {"", "-a", "a.", "a b", "a/b", "http://a", "a\n"},
	`^(Off|Auto|Secrets)$`:                                  {"", "off", "auto", "Secret", "Off "},
	`^[A-Za-z0-9._-]+$`:                                     {"", "a b", "a\n", "a/b", "ä", "$(id)"},
	`^(Best|Empty|[a-z]([-a-z0-9]*[a-z0-9])?)$`:             {"", "Worst", "-a", "a-", "A", "a b", "a.b", "a\n"},
	`^3\.([4-9]|[1-9][0-9]+)\.[0-9]+([-+][0-9A-Za-z.-]+)?$`: {"", "3", "3.6", "v3.6.16", "latest", "3.6.16 ", "3.6.16-", "3.6.x", "2.3.8", "3.3.27", "3.03.1", "4.0.0"},
	`^[^\r\n]*$`:                                                     {"a\nb", "a\r", "\n"},
	`^(Managed|ThirdParty)$`:                                         {"", "managed", "StatefulSet", "3", "Managed "},
	`^(Soft|Hard)$`:                                                  {"", "soft", "Required"},
	`^[0-9]+([._-][A-Za-z0-9]+)*$`:                                   {"", "v7", "7.", "7..2", "latest", "7.0 ", "7.0:1"},
	`^(small|medium|large|custom)$`:                                  {"", "Small", "tiny", "small|large", "xlarge", "small\n"},
	`^(ClusterIP|NodePort|LoadBalancer|Headless)$`:                   {"", "ExternalName", "None", "clusterip", "ClusterIP "},
	`^https?://[A-Za-z0-9.:\[\]-]+/?$`:                               {"", "s3.example.com", "ftp://a", "https://", "https://a/b", "https://u:p@a", "https://a b"},
	`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`:                             {"", "ab", "A-bucket", "-ab", "ab-", "a/b", "a_b"},
	`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*/?$`:                         {"", "/a", "a//b", "a b", "a\nb"},
	`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`: {"", "/a", "a//b", "a/", "..", "a/../b", ".a", "a b", "a\nb"},
	`^[A-Za-z0-9-]+$`:                                                {"", "a b", "a/b", "a.b"},
	`^[A-Za-z0-9:/_-]+$`:                                             {"", "a b", "a.b", "a;b"},
	`^age1[02-9ac-hj-np-z]{58}$`:                                     {"", "age1", "AGE-SECRET-KEY-1", "age1" + strings.Repeat("b", 58)},
	`^[1-9][0-9]{0,5}h$`:                                             {"", "0h", "h", "1d", "720", "1h30m"},
	`^([5-9]|[1-9][0-9]{1,2})s$`:                                     {"", "4s", "05s", "s", "10", "1m", "1000s", "5s "},
	`^(latest|[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8})$`:                      {"", "newest", "20260102T150405Z", "20260102T150405Z-0A1B2C3D", "../a"},
	`^(latest|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2}))$`: {
		"", "now", "2026-01-02", "2026-01-02 15:04:05Z", "2026-01-02T15:04:05", "2026-01-02T15:04:05Z ", "2026-01-02T15:04:05.Z",
	},
	`^[1-9][0-9]*(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$`: {"", "0", "-1", "big", "10GiB", "10 Gi", ".5Gi", "1."},
	`^ReadWriteOnce(Pod)?$`:                         {"", "ReadWriteMany", "ReadOnlyMany", "readwriteonce", "ReadWriteOncePods"},
	`^[1-9][0-9]{0,5}(s|m)$`:                        {"", "0s", "s", "1h", "10"},
	`^/`:                                            {"", "a", "https://a", " /"},
	`^[1-9][0-9]*(s|m|h)$`:                          {"", "0s", "10", "-1s", "1.5s", "10 s", "1d", "1m30s", "10s\n"},
	`^[1-9][0-9]?%$`:                                {"", "0%", "100%", "80", "08%", "80 %", "-1%", "80%\n"},
	`^([1-9][0-9]{0,2}|1000)%$`:                     {"", "0%", "1001%", "20", "020%", "+20%", "20%\n"},
	`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4})$`: { // schedules of backups
		"", "daily", "@never", "@every 1h", "* * * *", "* * * * * *", " * * * * *", "* * * * * ", "* * * * ;", "TZ=UTC * * * * *", "*\t* * * *", "* * * * *\n",
	},
	`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4,5})$`: {
		"", "daily", "@never", "@every 1h", "* * * *", "0 0 * * * * *", " * * * * *", "* * * * * ", "* * * * ;", "TZ=UTC * * * * *", "*\t* * * *", "* * * * *\n",
	},
}

// ruledOut contains values that the limits accept but a rule refuses: see violations.
var ruledOut = []string{"spec.mysql.replica=1000", "spec.mysql.replication.primary=4", "spec.etcd.storage.retention=Delete", "spec.mongodb.storage.retention=Delete"}

// Every pattern, length, range and enumeration of the schema refuses a bad value, with a message that names the field, and accepts the ends
// of its range. If a pattern occurs in several places, only the first place is tested with all mismatches.
func TestLimitsOfEveryField(t *testing.T) {
	t.Parallel()
	limits, tried := 0, map[string]bool{}
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		refused := func(value any, wants ...string) {
			limits++
			t.Run(fmt.Sprintf("%s=%.20s", where, fmt.Sprint(value)), func(t *testing.T) {
				t.Parallel()
				err := validate(t, withSpec(put(where, value)))
				assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
				assert.ErrorContains(t, err, where.String())
				for _, want := range wants {
					assert.ErrorContains(t, err, want)
				}
			})
		}
		accepted := func(value any) {
			if slices.Contains(ruledOut, fmt.Sprintf("%s=%v", where, value)) {
				return
			}
			t.Run(fmt.Sprintf("%s=%v", where, value), func(t *testing.T) {
				t.Parallel()
				assert.NilError(t, validate(t, withSpec(put(where, value))))
			})
		}
		if schema.Pattern != "" {
			bad, ok := mismatches[schema.Pattern]
			assert.Assert(t, ok, "%s: no case exists for the pattern %s", where, schema.Pattern)
			if bad = slices.DeleteFunc(slices.Clone(bad), func(value string) bool { return value == "" && schema.MinLength != nil }); tried[schema.Pattern] {
				bad = bad[:1]
			}
			tried[schema.Pattern] = true
			for _, value := range bad {
				refused(value, "should match '")
			}
		}
		if schema.MinLength != nil {
			refused(strings.Repeat("a", int(*schema.MinLength)-1), fmt.Sprintf("should be at least %d chars long", *schema.MinLength))
		}
		if schema.MaxLength != nil {
			refused(strings.Repeat("a", int(*schema.MaxLength)+1), "Too long: may not be ", fmt.Sprint(*schema.MaxLength))
		}
		if schema.Minimum != nil {
			refused(int64(*schema.Minimum)-1, fmt.Sprintf("should be greater than or equal to %v", *schema.Minimum))
			accepted(int64(*schema.Minimum))
		}
		if schema.Maximum != nil {
			refused(int64(*schema.Maximum)+1, fmt.Sprintf("should be less than or equal to %v", *schema.Maximum))
			accepted(int64(*schema.Maximum))
		}
		if schema.MaxItems != nil {
			items := make([]any, *schema.MaxItems+1)
			for i := range items {
				items[i] = fmt.Sprintf("item%d", i)
				if schema.Items.Schema.Type == "object" {
					items[i] = map[string]any{"name": items[i]}
				}
			}
			refused(items, fmt.Sprintf("must have at most %d items", *schema.MaxItems))
		}
		if schema.MaxProperties != nil {
			properties := map[string]any{}
			for i := range *schema.MaxProperties + 1 {
				properties[fmt.Sprintf("V%d", i)] = ""
			}
			refused(properties, fmt.Sprintf("Too many: %d: must have at most %d items", *schema.MaxProperties+1, *schema.MaxProperties))
		}
		if len(schema.Enum) > 0 {
			refused("nonsense", `Unsupported value: "nonsense": supported values: `)
			for _, value := range schema.Enum {
				var name string
				assert.NilError(t, json.Unmarshal(value.Raw, &name))
				accepted(name)
			}
		}
	})
	assert.Assert(t, limits > 300, "only %d limits were found", limits)
}

func TestRequiredFields(t *testing.T) {
	t.Parallel()
	required := 0
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		for _, name := range schema.Required {
			required++
			for _, value := range []any{nil, "missing"} {
				t.Run(fmt.Sprintf("%s.%s=%v", where, name, value), func(t *testing.T) {
					t.Parallel()
					spec := put(where.below(name), nil)
					if value != nil {
						delete(get(spec, where).(map[string]any), name)
					}
					assert.ErrorContains(t, validate(t, withSpec(spec)), where.String()+"."+name)
				})
			}
		}
	})
	assert.Assert(t, required > 10, "only %d were found", required)
}

func TestListsAreSets(t *testing.T) {
	t.Parallel()
	for path, spec := range map[string]string{
		"spec.eureka.dependsOn[1]":              "eureka: {dependsOn: [mysql, mysql]}\nmysql: {}",
		"spec.mysql.initScripts[1]":             "mysql: {initScripts: [{name: a}, {name: a}]}",
		"spec.mysql.databases[1]":               "mysql: {databases: [a, a]}",
		"spec.mysql.users[1]":                   "mysql: {users: [{name: a}, {name: a}]}",
		"spec.mysql.users[0].databases[1]":      "mysql: {users: [{name: a, databases: [b, b]}]}",
		"spec.additionalServices[1]":            "additionalServices: [{name: a, image: a}, {name: a, image: b}]",
		"spec.networkPolicy.additionalPorts[1]": "networkPolicy: {additionalPorts: [15008, 15008]}",
		"spec.cronJobs[1]":                      "cronJobs: [{name: a, image: a, schedule: '@daily'}, {name: a, image: a, schedule: '@hourly'}]",
	} {
		err := validate(t, resourceOf(t, spec))
		assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
		assert.ErrorContains(t, err, path+": Duplicate value")
	}
}

func TestKindsByNumberAndName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mysql", "uuc", "eureka"} {
		for _, kind := range []string{"0", "1", "2", "3", "Deployment", "StatefulSet", "DaemonSet", "ThirdParty"} {
			object := resourceOf(t, fmt.Sprintf("%s: {kind: %s, image: a, port: 80, thirdParty: {url: '%s'}}", name, kind, urlOf(name)))
			assert.NilError(t, validate(t, object), "%s: %s", name, kind)
		}
	}
}

func TestKindsOfAdditionalServices(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"0", "ThirdParty", "CronJob"} {
		spec := fmt.Sprintf("additionalServices: [{name: a, image: a, kind: %s}]", kind)
		assert.ErrorContains(t, validate(t, resourceOf(t, spec)), "spec.additionalServices[0].kind")
	}
}
