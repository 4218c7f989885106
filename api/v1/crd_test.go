// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A client-side kubectl apply keeps the whole CRD in an annotation, which has a limit.
func TestTheCRDFitsIntoAnAnnotation(t *testing.T) {
	t.Parallel()
	file, err := os.Stat(crdFile)
	assert.NilError(t, err)
	assert.Assert(t, file.Size() < 262144, "%d bytes", file.Size())
}

func TestNamesAndColumns(t *testing.T) {
	t.Parallel()
	crd := readCRD(t)
	assert.DeepEqual(t, crd.Spec.Names.ShortNames, []string{"ds3", "dsvc"})
	assert.DeepEqual(t, crd.Spec.Names.Categories, []string{"all"})
	var columns []string
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		columns = append(columns, c.Name+" "+c.JSONPath)
	}
	assert.DeepEqual(t, columns, []string{
		"Ready .status.ready", "Phase .status.phase", "Message .status.message", "Age .metadata.creationTimestamp",
	})
	assert.Assert(t, crd.Spec.Versions[0].Subresources.Status != nil)
}

// What the repository shows people is accepted as it is.
func TestSamplesAreAccepted(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../internal/preview/testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the DataServices are missing")
	for _, file := range append(files, "../../config/samples/d3os-product.com_v1_dataservice.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			assert.NilError(t, err)
			object := &unstructured.Unstructured{}
			assert.NilError(t, yaml.Unmarshal(data, &object.Object))
			object.SetNamespace("default")
			object.SetUID("")
			assert.NilError(t, validate(t, object))
		})
	}
}

// at is the place of a schema in the spec, such as [mysql thirdParty url]; a map's values are
// [*], a list's items [0].
type at []string

func (a at) String() string { return strings.Join(append([]string{"spec"}, a...), ".") }

// walk visits every schema below the spec but those of Kubernetes' own types.
func walk(schema apiextensionsv1.JSONSchemaProps, where at, visit func(at, apiextensionsv1.JSONSchemaProps)) {
	visit(where, schema)
	if len(where) > 0 && where[len(where)-1] == "resources" {
		return
	}
	below := func(step string) at { return append(slices.Clone(where), step) }
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		walk(schema.Properties[name], below(name), visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(*schema.Items.Schema, below("0"), visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walk(*schema.AdditionalProperties.Schema, below("*"), visit)
	}
}

// urlOf is a valid url of middleware that runs elsewhere.
func urlOf(name string) string {
	if name == "mysql" {
		return "mysql://example.com"
	}
	return "http://example.com"
}

// put sets a value in a valid spec with every component, with what must stand beside it.
func put(t *testing.T, where at, value any) map[string]any {
	t.Helper()
	spec := everything(t)
	if len(where) > 1 && where[1] == "thirdParty" {
		spec[where[0]].(map[string]any)["thirdParty"] = map[string]any{"url": urlOf(where[0])}
	}
	parent := spec
	for i, step := range where[:len(where)-1] {
		switch where[i+1] {
		case "0": // the last but one step is a list of values or of maps with one key
			if i+2 == len(where) {
				parent[step] = []any{value}
			} else {
				parent[step] = []any{map[string]any{where[i+2]: value}}
			}
			return spec
		case "*":
			parent[step] = map[string]any{"KEY": value}
			return spec
		}
		next, ok := parent[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			parent[step] = next
		}
		parent = next
	}
	parent[where[len(where)-1]] = value
	return spec
}

// mismatches are strings that each pattern must refuse.
var mismatches = map[string][]string{
	`^[a-z]([-a-z0-9]*[a-z0-9])?$`:     {"", "1a", "a-", "-a", "A", "a_b", "a.b", "a b", "ä"},
	`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`:  {"-flag", "a b", "a\nb", "a\"b", "{{a}}", "$(a)", "ä"},
	`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`: {"", "Fast", "a/b", "-a", "a."},
	`^(mysql|https?)://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$`: {
		"", "example.com", "ftp://example.com", "http://", "http:///a", "http://a b", "http://user:password@example.com", "http://example.com/?a=b",
		"http://example.com#a", "http://example.com:123456", "http://example.com:", "http://-a", "http://a.", "http://[::1", "http://a\n", "xhttp://a",
		"http://a/$(id)", "http://a/\"", "jdbc:mysql://a",
	},
	`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`: {"", "big", "10 Gi", "10GiB"},
}

// Every pattern, length, range and enumeration of the schema refuses what it should, with a
// message that names the field, and takes the ends of its range.
func TestLimitsOfEveryField(t *testing.T) {
	t.Parallel()
	limits := 0
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		refused := func(value any, want string) {
			limits++
			t.Run(fmt.Sprintf("%s=%.20s", where, fmt.Sprint(value)), func(t *testing.T) {
				t.Parallel()
				err := validate(t, withSpec(put(t, where, value)))
				assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
				assert.ErrorContains(t, err, strings.NewReplacer(".0", "[0]", ".*", ".KEY").Replace(where.String()))
				assert.ErrorContains(t, err, want)
			})
		}
		accepted := func(value any) {
			t.Run(fmt.Sprintf("%s=%v", where, value), func(t *testing.T) {
				t.Parallel()
				assert.NilError(t, validate(t, withSpec(put(t, where, value))))
			})
		}
		if schema.Pattern != "" {
			bad, ok := mismatches[schema.Pattern]
			assert.Assert(t, ok, "%s: there is no case for the pattern %s", where, schema.Pattern)
			for _, value := range bad {
				if value == "" && schema.MinLength != nil {
					continue
				}
				refused(value, "should match '")
			}
		}
		if schema.MinLength != nil {
			refused(strings.Repeat("a", int(*schema.MinLength)-1), fmt.Sprintf("should be at least %d chars long", *schema.MinLength))
		}
		if schema.MaxLength != nil {
			refused(strings.Repeat("a", int(*schema.MaxLength)+1), fmt.Sprintf("Too long: may not be more than %d bytes", *schema.MaxLength))
		}
		if schema.Minimum != nil {
			refused(int64(*schema.Minimum)-1, fmt.Sprintf("should be greater than or equal to %v", *schema.Minimum))
			accepted(int64(*schema.Minimum))
		}
		if schema.Maximum != nil {
			refused(int64(*schema.Maximum)+1, fmt.Sprintf("should be less than or equal to %v", *schema.Maximum))
			if where.String() != "spec.mysql.replica" { // a rule allows less
				accepted(int64(*schema.Maximum))
			}
		}
		if schema.MaxItems != nil {
			items := make([]any, *schema.MaxItems+1)
			for i := range items {
				items[i] = map[string]any{"name": fmt.Sprintf("item-%d", i)}
				if where[len(where)-1] == "dependsOn" {
					items[i] = "web"
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

func TestListsAreSets(t *testing.T) {
	t.Parallel()
	for path, spec := range map[string]string{
		"spec.eureka.dependsOn[1]":  "eureka: {dependsOn: [mysql, mysql]}\nmysql: {}",
		"spec.mysql.initScripts[1]": "mysql: {initScripts: [{name: a}, {name: a}]}",
	} {
		err := validate(t, resourceOf(t, spec))
		assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
		assert.ErrorContains(t, err, path+": Duplicate value")
	}
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"oracle: {}", "auth: {replicas: 2}", "mysql: {storage: {class: a}}"} {
		assert.ErrorContains(t, validate(t, resourceOf(t, spec)), "unknown field", "%s", spec)
	}
}

// violation is a spec that one rule refuses, and the field that its message is about.
type violation struct {
	field, spec, before string
}

// violations of each rule, by message; %s stands for the component that has the rule, %u for
// the url of one that runs elsewhere.
func violations() map[string][]violation {
	const thirdParty = "uuc: {kind: 3, thirdParty: {url: 'http://a'}}"
	found := map[string][]violation{
		"mysql runs as one pod: several would be separate databases behind one address": {
			{field: "spec.mysql.replica", spec: "mysql: {replica: 2}"},
		},
		"uuc runs elsewhere unless it has another kind: give spec.uuc.thirdParty with its url": {
			{field: "spec.uuc.thirdParty", spec: "uuc: {}"},
			{field: "spec.uuc.thirdParty", spec: "uuc: {kind: null, thirdParty: null}"},
		},
		"the url of uuc must be http:// or https://": {
			{field: "spec.uuc.thirdParty.url", spec: "uuc: {thirdParty: {url: 'mysql://a'}}"},
		},
		"the url of eureka must be http:// or https://": {
			{field: "spec.eureka.thirdParty.url", spec: "eureka: {kind: 3, thirdParty: {url: 'mysql://a'}}"},
		},
		"the url of mysql must be mysql://host:port, without the name of a schema": {
			{field: "spec.mysql.thirdParty.url", spec: "mysql: {kind: 3, thirdParty: {url: 'mysql://a:3306/schema'}}"},
			{field: "spec.mysql.thirdParty.url", spec: "mysql: {kind: 3, thirdParty: {url: 'http://a:3306'}}"},
			{field: "spec.mysql.thirdParty.url", spec: "mysql: {thirdParty: {url: 'https://mysql'}}"},
		},
		"kind must be Deployment (or 0), StatefulSet (1), DaemonSet (2) or ThirdParty (3)": {
			{field: "spec.%s.kind", spec: "%s: {kind: 4, image: a, port: 1}"},
			{field: "spec.%s.kind", spec: "%s: {kind: -1, image: a, port: 1}"},
			{field: "spec.%s.kind", spec: "%s: {kind: Job, image: a, port: 1}"},
			{field: "spec.%s.kind", spec: "%s: {kind: '0', image: a, port: 1}"},
			{field: "spec.%s.kind", spec: "%s: {kind: deployment, image: a, port: 1}"},
			{field: "spec.%s.kind", spec: "%s: {kind: '', image: a, port: 1}"},
		},
		"kind ThirdParty needs the thirdParty block with the url of the middleware": {
			{field: "spec.%s.thirdParty", spec: "%s: {kind: 3}"},
			{field: "spec.%s.thirdParty", spec: "%s: {kind: ThirdParty, thirdParty: null}"},
		},
		"give either secretRef or username and password, not both": {
			{field: "spec.%s.thirdParty", spec: "%s: {thirdParty: {url: '%u', secretRef: {name: a}, password: b}}"},
			{field: "spec.%s.thirdParty", spec: "%s: {thirdParty: {url: '%u', secretRef: {name: a}, username: b}}"},
		},
		"the name of an environment variable must consist of letters, digits, '_', '-' or '.' and not start with a digit": {
			{field: "spec.%s.env", spec: "%s: {env: {'1A': b}}"},
			{field: "spec.%s.env", spec: "%s: {env: {'': b}}"},
			{field: "spec.%s.env", spec: "%s: {env: {'A B': b}}"},
			{field: "spec.%s.env", spec: "%s: {env: {A: b, 'A=B': b}}"},
			{field: "spec.%s.env", spec: "%s: {env: {'$(A)': b}}"},
		},
		"size must be a quantity above zero, such as 10Gi": {
			{field: "spec.mysql.storage.size", spec: "mysql: {storage: {size: 0}}"},
			{field: "spec.mysql.storage.size", spec: "mysql: {storage: {size: '0'}}"},
			{field: "spec.mysql.storage.size", spec: "mysql: {storage: {size: -1Gi}}"},
		},
		"a volume cannot shrink: size must not be smaller than before": {
			{field: "spec.mysql.storage.size", before: "mysql: {}", spec: "mysql: {storage: {size: 9Gi}}"},
			{field: "spec.mysql.storage.size", before: "mysql: {storage: {size: 20Gi}}", spec: "mysql: {}"},
			{field: "spec.mysql.storage.size", before: "mysql: {storage: {size: 1Gi}}", spec: "mysql: {storage: {size: 1000Mi}}"},
			{field: "spec.mysql.storage.size", before: "mysql: {storage: {size: 2000}}", spec: "mysql: {storage: {size: 1999}}"},
		},
		"storageClassName cannot be changed: a volume stays in its class": {
			{field: "spec.mysql.storage.storageClassName", before: "mysql: {storage: {storageClassName: a}}", spec: "mysql: {storage: {storageClassName: b}}"},
			{field: "spec.mysql.storage.storageClassName", before: "mysql: {storage: {storageClassName: a}}", spec: "mysql: {}"},
			{field: "spec.mysql.storage.storageClassName", before: "mysql: {}", spec: "mysql: {storage: {storageClassName: b}}"},
		},
		"uuc has no image of its own: set spec.uuc.image and spec.uuc.port, or kind: ThirdParty": {
			{field: "spec.uuc", spec: "uuc: {kind: 0}"},
			{field: "spec.uuc", spec: "uuc: {kind: StatefulSet, image: a}"},
			{field: "spec.uuc", spec: "uuc: {kind: DaemonSet, port: 80}"},
		},
		"auth needs uuc: declare spec.uuc (kind: ThirdParty for one that runs elsewhere) or remove spec.auth": {
			{field: "spec.uuc", spec: "mysql: {}\neureka: {}\nauth: {}"},
			{field: "spec.uuc", spec: "mysql: {}\neureka: {}\nauth: {}\nuuc: null"},
		},
	}
	for _, service := range []string{"api-manager", "auth", "ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web", "proxy"} {
		for missing, other := range map[string]string{"mysql": "eureka", "eureka": "mysql"} {
			message := fmt.Sprintf("%s needs %s: declare spec.%s (kind: ThirdParty for one that runs elsewhere) or remove spec.%s", service, missing, missing, service)
			found[message] = []violation{
				{field: "spec." + missing, spec: fmt.Sprintf("%s: {}\n%s: {}\n%s", service, other, thirdParty)},
				{field: "spec." + missing, spec: fmt.Sprintf("%s: {}\n%s: {}\n%s: null\n%s", service, other, missing, thirdParty)},
			}
		}
	}
	return found
}

// Every rule of the CRD, wherever it stands, refuses what it is there for, with its own message
// and no other.
func TestEveryRuleRefuses(t *testing.T) {
	t.Parallel()
	cases := violations()
	used := map[string]bool{}
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		for _, rule := range schema.XValidations {
			assert.Assert(t, len(cases[rule.Message]) > 0, "%s: there is no case for the rule %q", where, rule.Message)
			used[rule.Message] = true
			name := "mysql"
			if len(where) > 0 {
				name = where[0]
			}
			for i, v := range cases[rule.Message] {
				t.Run(fmt.Sprintf("%s/%.30s/%d", where, rule.Message, i), func(t *testing.T) {
					t.Parallel()
					spec := everything(t)
					if len(where) == 0 {
						spec = map[string]any{}
					}
					maps.Copy(spec, resourceOf(t, strings.NewReplacer("%s", name, "%u", urlOf(name)).Replace(v.spec)).Object["spec"].(map[string]any))
					if uuc, ok := spec["uuc"].(map[string]any); ok && len(where) > 0 && uuc["kind"] == nil && uuc["thirdParty"] == nil {
						uuc["thirdParty"] = map[string]any{"url": urlOf("uuc")} // which another rule asks for
					}
					var err error
					if v.before == "" {
						err = validate(t, withSpec(spec))
					} else {
						err = update(t, v.before, v.spec)
					}
					assertCause(t, err, strings.ReplaceAll(v.field, "%s", name), rule.Message)
				})
			}
		}
	})
	assert.Equal(t, len(used), len(cases), "a case has no rule")
}

func TestTheRuleForTheName(t *testing.T) {
	t.Parallel()
	rules := readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations
	assert.Equal(t, len(rules), 1)
	object := resourceOf(t, "{}")
	object.SetName(strings.Repeat("a", 51))
	const message = "metadata.name must have at most 50 characters: it becomes a label value and a part of object names"
	assert.Equal(t, rules[0].Message, message)
	assertCause(t, validate(t, object), "<nil>", message) // the API server knows no path for the whole
	object.SetName(strings.Repeat("a", 50))
	assert.NilError(t, validate(t, object))
}

// assertCause requires that a refusal has one cause: this field and message.
func assertCause(t *testing.T, err error, field, message string) {
	t.Helper()
	var status apierrors.APIStatus
	assert.Assert(t, apierrors.IsInvalid(err) && errors.As(err, &status), "%v", err)
	found := status.Status().Details.Causes
	assert.Equal(t, len(found), 1, "%v", err)
	assert.Equal(t, found[0].Field, field)
	assert.Assert(t, strings.HasSuffix(found[0].Message, ": "+message), found[0].Message)
}

// update creates a resource and asks the API server whether it would take a change of it.
func update(t *testing.T, before, after string) error {
	t.Helper()
	object := resourceOf(t, before)
	object.SetNamespace(newNamespace(t))
	assert.NilError(t, api.Create(t.Context(), object))
	changed := resourceOf(t, after)
	changed.SetNamespace(object.GetNamespace())
	changed.SetResourceVersion(object.GetResourceVersion())
	return api.Update(t.Context(), changed, client.DryRunAll)
}

func TestVolumesMayGrow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string][2]string{
		"larger":             {"mysql: {}", "mysql: {storage: {size: 11Gi}}"},
		"in another unit":    {"mysql: {storage: {size: 1Gi}}", "mysql: {storage: {size: 1025Mi}}"},
		"the same":           {"mysql: {storage: {size: 1Gi}}", "mysql: {storage: {size: 1024Mi}}"},
		"as a number":        {"mysql: {storage: {size: 1000}}", "mysql: {storage: {size: 1Ki}}"},
		"the same class":     {"mysql: {storage: {storageClassName: a}}", "mysql: {storage: {storageClassName: a, retention: Delete}}"},
		"no class":           {"mysql: {storage: {storageClassName: null}}", "mysql: {}"},
		"no class, the same": {"mysql: {}", "mysql: {storage: {storageClassName: null}}"},
		"mysql added":        {"{}", "mysql: {storage: {size: 1Gi, storageClassName: a}}"},
		"mysql removed":      {"mysql: {storage: {storageClassName: a}}", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.NilError(t, update(t, test[0], test[1]))
		})
	}
}

func TestKindsByNumberAndName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mysql", "uuc", "eureka"} {
		for kind, want := range map[string]intstr.IntOrString{
			"0": intstr.FromInt32(0), "1": intstr.FromInt32(1), "2": intstr.FromInt32(2), "3": intstr.FromInt32(3),
			"Deployment": intstr.FromString("Deployment"), "StatefulSet": intstr.FromString("StatefulSet"),
			"DaemonSet": intstr.FromString("DaemonSet"), "ThirdParty": intstr.FromString("ThirdParty"),
		} {
			object := resourceOf(t, fmt.Sprintf("%s: {kind: %s, image: a, port: 80, thirdParty: {url: '%s'}}", name, kind, urlOf(name)))
			assert.NilError(t, validate(t, object), "%s: %s", name, kind)
			ds := decode(t, object)
			got := map[string]*intstr.IntOrString{}
			if ds.Spec.MySQL != nil {
				got["mysql"] = ds.Spec.MySQL.Kind
			}
			if ds.Spec.UUC != nil {
				got["uuc"] = ds.Spec.UUC.Kind
			}
			if ds.Spec.Eureka != nil {
				got["eureka"] = ds.Spec.Eureka.Kind
			}
			assert.DeepEqual(t, got, map[string]*intstr.IntOrString{name: ptr.To(want)})
		}
	}
}

func decode(t *testing.T, object *unstructured.Unstructured) *DataService {
	t.Helper()
	data, err := json.Marshal(object)
	assert.NilError(t, err)
	ds := &DataService{}
	assert.NilError(t, json.Unmarshal(data, ds))
	return ds
}

// null means not given, everywhere: it is accepted for every optional field and reads as its
// absence.
func TestNullIsNotGiven(t *testing.T) {
	t.Parallel()
	fields := 0
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			field := append(slices.Clone(where), name)
			if slices.Contains(schema.Required, name) || slices.Contains(field, "resources") && name != "resources" || slices.Contains(field, "0") {
				continue
			}
			if len(field) == 1 && slices.Contains([]string{"mysql", "eureka", "uuc"}, name) {
				continue // others need them: see violations
			}
			if field.String() == "spec.uuc.thirdParty" {
				continue // needed unless uuc has another kind: see violations
			}
			fields++
			t.Run(field.String(), func(t *testing.T) {
				t.Parallel()
				given, absent := withSpec(put(t, field, nil)), put(t, field, nil)
				assert.NilError(t, validate(t, given))
				parent := absent
				for _, step := range field[:len(field)-1] {
					parent = parent[step].(map[string]any)
				}
				delete(parent, name)
				without := withSpec(absent)
				assert.NilError(t, validate(t, without))
				assert.DeepEqual(t, decode(t, given).Spec, decode(t, without).Spec)
			})
		}
	})
	assert.Assert(t, fields > 100, "only %d optional fields were found", fields)
	for _, spec := range []string{"{mysql: null, eureka: null, uuc: null}", "mysql: null"} {
		assert.NilError(t, validate(t, resourceOf(t, spec)))
	}
}

// SetDefaults does what the API server does.
func TestDefaultsAreThoseOfTheAPIServer(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		"{}",
		"paused: true",
		"mysql: {}",
		"mysql: null",
		"mysql: {storage: null}",
		"mysql: {storage: {}}",
		"mysql: {storage: {size: null, retention: null}}",
		"mysql: {storage: {size: 20Gi}}",
		"mysql: {storage: {size: 5000000}, replica: null}",
		"mysql: {storage: {retention: Delete, storageClassName: fast}}",
		"mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {}}}",
		"rollout: null",
		"rollout: {order: null}",
		"rollout: {order: Sequential}",
		"{mysql: {replica: 0}, eureka: {replica: 3}, uuc: {image: a, port: 1, kind: 0}, auth: {}, web: {nodePort: null}}",
		"{mysql: {initScripts: null, env: null, dependsOn: null, resources: null}, eureka: {kind: null}}",
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			object := resourceOf(t, spec)
			local := decode(t, object)
			assert.NilError(t, validate(t, object))
			remote := decode(t, object)

			SetDefaults(local)
			oneReplica(local)
			assert.DeepEqual(t, asJSON(t, local.Spec), asJSON(t, remote.Spec))

			again := remote.DeepCopy()
			SetDefaults(again)
			assert.DeepEqual(t, asJSON(t, again.Spec), asJSON(t, remote.Spec))
		})
	}
}

// oneReplica sets what nil means, which is the only default that SetDefaults leaves to others.
func oneReplica(ds *DataService) {
	var workloads []*Workload
	if ds.Spec.MySQL != nil {
		workloads = append(workloads, &ds.Spec.MySQL.Workload)
	}
	for _, m := range []*Middleware{ds.Spec.UUC, ds.Spec.Eureka} {
		if m != nil {
			workloads = append(workloads, &m.Workload)
		}
	}
	for _, s := range []*Service{ds.Spec.Auth, ds.Spec.Web} {
		if s != nil {
			workloads = append(workloads, &s.Workload)
		}
	}
	for _, w := range workloads {
		if w.Replica == nil {
			w.Replica = ptr.To[int32](1)
		}
	}
}

func asJSON(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	assert.NilError(t, err)
	found := map[string]any{}
	assert.NilError(t, json.Unmarshal(data, &found))
	return found
}

// The status is a subresource: it is not written with the spec, nor the spec with it.
func TestTheStatusIsASubresource(t *testing.T) {
	t.Parallel()
	ds := &DataService{Spec: DataServiceSpec{Eureka: &Middleware{}}, Status: DataServiceStatus{Phase: PhaseRunning}}
	ds.Name, ds.Namespace = "platform", newNamespace(t)
	assert.NilError(t, api.Create(t.Context(), ds))
	assert.Equal(t, ds.Status.Phase, Phase(""))
	ds.Status = DataServiceStatus{Phase: PhaseRunning, Components: []ComponentStatus{{Name: "eureka"}}}
	ds.Spec.Paused = true
	assert.NilError(t, api.Status().Update(t.Context(), ds))
	got := &DataService{}
	assert.NilError(t, api.Get(t.Context(), client.ObjectKeyFromObject(ds), got))
	assert.Equal(t, got.Status.Phase, PhaseRunning)
	assert.Equal(t, got.Spec.Paused, false)
	assert.Equal(t, got.Generation, int64(1))
	// Zero pods ready is a fact to show, not an absence.
	assert.Assert(t, is.Contains(asJSON(t, got.Status.Components[0]), "ready"))
	assert.Assert(t, is.Contains(asJSON(t, got.Status.Components[0]), "desired"))
}

// Every component name that dependsOn takes is a field of the spec, and the reverse.
func TestDependsOnNamesTheComponents(t *testing.T) {
	t.Parallel()
	schema := specSchema(t)
	var named, declared []string
	for _, value := range schema.Properties["web"].Properties["dependsOn"].Items.Schema.Enum {
		var name string
		assert.NilError(t, json.Unmarshal(value.Raw, &name))
		named = append(named, name)
	}
	for name, property := range schema.Properties {
		if _, ok := property.Properties["dependsOn"]; ok {
			declared = append(declared, name)
		}
	}
	slices.Sort(named)
	slices.Sort(declared)
	assert.DeepEqual(t, named, declared)
}

// A copy shares nothing with its original.
func TestDeepCopy(t *testing.T) {
	t.Parallel()
	object := resourceOf(t, `{mysql: {env: {A: b}, dependsOn: [eureka], initScripts: [{name: a}], thirdParty: {url: 'mysql://a', custom: {a: b}}}, eureka: {}}`)
	ds := decode(t, object)
	ds.Status.Components = []ComponentStatus{{Name: "mysql"}}
	before := asJSON(t, ds)
	c := ds.DeepCopy()
	c.Spec.MySQL.Env["A"] = "c"
	c.Spec.MySQL.DependsOn[0] = "web"
	c.Spec.MySQL.InitScripts[0] = corev1.LocalObjectReference{Name: "c"}
	c.Spec.MySQL.ThirdParty.Custom["a"] = "c"
	c.Spec.Eureka.Name = "c"
	c.Status.Components[0].Name = "c"
	assert.DeepEqual(t, asJSON(t, ds), before)
}
