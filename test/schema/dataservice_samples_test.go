// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

const (
	samples        = "../../config/samples/"
	everythingFile = samples + "everything.yaml"
	// originalSample is the sample's file name in the original operator. Here it is a link to the file with operator-sdk's name.
	originalSample = "d3os-product_v1_dataservice.yaml"
)

func sampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(samples + "*.yaml")
	assert.NilError(t, err)
	files = slices.DeleteFunc(files, func(file string) bool {
		return filepath.Base(file) == "kustomization.yaml" || filepath.Base(file) == originalSample
	})
	assert.Assert(t, len(files) > 4, "the samples are missing")
	return append(files, samples+"redis/platform.yaml", samples+"etcd/platform.yaml", samples+"mongodb/platform.yaml", samples+"backup/platform.yaml")
}

// The API server accepts the samples, and the DataServices in internal/platform/plan/testdata.
func TestSamplesAreAccepted(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../internal/platform/plan/testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the DataServices are missing")
	for _, file := range append(files, sampleFiles(t)...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			assert.NilError(t, validate(t, readResource(t, file)))
		})
	}
}

// The file with the original name links to the sample, and the content exists once.
func TestOriginalNameOfTheSample(t *testing.T) {
	t.Parallel()
	target, err := os.Readlink(samples + originalSample)
	assert.NilError(t, err)
	assert.Equal(t, target, "d3os-product.com_v1_dataservice.yaml")
	kustomization, err := os.ReadFile(samples + "kustomization.yaml")
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(kustomization), "\n- "+target+"\n") && !strings.Contains(string(kustomization), originalSample))
}

// All samples can be created in one namespace of one cluster.
func TestSamplesDoNotClash(t *testing.T) {
	t.Parallel()
	names, nodePorts := map[string]string{}, map[any]string{}
	for _, file := range sampleFiles(t) {
		object := readResource(t, file)
		name := object.GetName()
		assert.Equal(t, names[name], "", "%s and %s: the same name %s", file, names[name], name)
		names[name] = file
		var visit func(any)
		visit = func(value any) {
			switch value := value.(type) {
			case []any:
				for _, item := range value {
					visit(item)
				}
			case map[string]any:
				if port := value["nodePort"]; port != nil && port != int64(0) {
					assert.Equal(t, nodePorts[port], "", "%s and %s: the same nodePort %v", file, nodePorts[port], port)
					nodePorts[port] = file
				}
				for _, item := range value {
					visit(item)
				}
			}
		}
		visit(object.Object["spec"])
	}
}

// spelled maps names of fields to their Go types. The CRD does not list the fields of these types.
var spelled = map[string]reflect.Type{
	"ports": reflect.TypeFor[dsv1.Port](), "probes": reflect.TypeFor[dsv1.Probes](), "configFiles": reflect.TypeFor[dsv1.ConfigFile](),
	"rollingUpdate": reflect.TypeFor[dsv1.RollingUpdate](), "disruptionBudget": reflect.TypeFor[dsv1.DisruptionBudget](),
}

// The sample named everything sets every field of every type in at least one place.
func TestEverythingIsEverything(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	survey(reflect.TypeFor[dsv1.DataServiceSpec](), readResource(t, everythingFile).Object["spec"], given)
	delete(given, "BackupClaim.name")                                                                                // the API server accepts either claim or s3
	maps.DeleteFunc(given, func(field string, _ bool) bool { return strings.HasPrefix(field, "MySQLReplication.") }) // not allowed with a backup
	maps.DeleteFunc(given, func(field string, _ bool) bool { return strings.HasPrefix(field, "ImportFrom.") })       // not allowed with restoreFrom
	for field, is := range given {
		assert.Check(t, is, "%s does not set %s", everythingFile, field)
	}
	assert.Assert(t, len(given) > 130, "only %d fields were found", len(given))
}

// survey adds the fields of a type and of its nested types to given, and records whether value sets each field.
func survey(t reflect.Type, value any, given map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer:
		survey(t.Elem(), value, given)
	case reflect.Slice:
		items, _ := value.([]any)
		for _, item := range append(items, nil) { // an empty list still surveys its type
			survey(t.Elem(), item, given)
		}
	case reflect.Struct:
		if t.PkgPath() != reflect.TypeFor[dsv1.DataService]().PkgPath() || t == reflect.TypeFor[dsv1.Object]() {
			return
		}
		object, _ := value.(map[string]any)
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				survey(field.Type, value, given)
				continue
			}
			in, ok := object[name]
			given[t.Name()+"."+name] = given[t.Name()+"."+name] || ok
			is := field.Type
			if other := spelled[name]; other != nil && strings.HasSuffix(is.String(), "Object") {
				if is.Kind() == reflect.Slice {
					other = reflect.SliceOf(other)
				}
				is = other
			}
			survey(is, in, given)
		}
	default:
	}
}

const crdFile = "../../config/crd/bases/d3os-product.com.d3os_dataservices.yaml"

func specSchema(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	return readCRD(t, crdFile).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// resourceOf returns a DataService with a spec in YAML, such as "mysql: {kind: 0}".
func resourceOf(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	return newResource(t, dsv1.GroupVersion.WithKind(dsv1.Kind), "platform", spec)
}

func withSpec(spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(dsv1.GroupVersion.WithKind(dsv1.Kind))
	object.SetName("platform")
	object.SetNamespace("default")
	return object
}

// validate sends a resource to the API server as a dry run.
func validate(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	return api.Create(t.Context(), object, client.DryRunAll)
}

// everything returns a valid spec with every component.
func everything() map[string]any { return runtime.DeepCopyJSON(withEverything()) }

var withEverything = sync.OnceValue(func() (spec map[string]any) {
	if err := yaml.Unmarshal([]byte(`{
		mysql: {storage: {autoGrow: {limit: 1Ei}}}, uuc: {thirdParty: {url: "http://uuc.example.com"}}, eureka: {}, redis: {storage: {autoGrow: {limit: 1Ei}}},
		etcd: {storage: {autoGrow: {limit: 1Ei}}, tls: {mode: Secrets, serverSecret: a, peerSecret: b, clientSecret: c}, recovery: {from: Best, token: a}, thirdParty: {url: "https://a"}},
		mongodb: {thirdParty: {url: "mongodb://a"}},
		api-manager: {}, auth: {}, ds-adapter: {}, es-adapter: {},
		trd-adapter: {}, gateway-master: {}, gateway-web: {}, proxy: {}, web: {},
		additionalServices: [{name: reports, image: reports}], cronJobs: [{name: clean-up, image: busybox, schedule: "@daily"}]}`), &spec); err != nil {
		panic(err)
	}
	return spec
})
