// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/crd"
)

// fill sets every field of a value: texts to the given text, lists and maps to several items.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if v.Type().Elem() != timeType {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != timeType {
				fill(v.Field(i), text)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 500, 500))
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	default:
	}
}

// In a status of any kind, boundStatus shortens every text, because the API server refuses a status with a message of,
// for example, 40 KB. It also removes control characters, because a terminal would execute them.
func TestStatusesOfEveryKindFit(t *testing.T) {
	t.Parallel()
	resources := map[string]client.Object{
		"d3os-product.com.d3os_dataservices":    &dsv1.DataService{},
		"d3os-product.com.d3os_databackups":     &backupv1.DataBackup{},
		"d3os-product.com.d3os_datarestores":    &backupv1.DataRestore{},
		"d3os-product.com.d3os_mysqlclusters":   &mysqlv1.MySQLCluster{},
		"etcd.database.coreos.com_etcdclusters": &etcdv1.EtcdCluster{},
		"redis.middleware.hc.cn_redisclusters":  &redisv1.RedisCluster{},
	}
	files, err := crd.Files.ReadDir("bases")
	assert.NilError(t, err)
	for _, file := range files {
		assert.Check(t, resources[strings.TrimSuffix(file.Name(), ".yaml")] != nil, "the kind of %s is not in resources", file.Name())
	}
	for file, resource := range resources {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			status := reflect.ValueOf(resource).Elem().FieldByName("Status")
			fill(status, "\x1b[2J\nlook at"+strings.Repeat("文x", 20000))
			conditions := status.FieldByName("Conditions").Addr().Interface().(*[]metav1.Condition)
			*conditions = (*conditions)[:1]
			(*conditions)[0].Type, (*conditions)[0].Status = "Ready", metav1.ConditionTrue
			boundStatus(resource)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(resource)
			assert.NilError(t, err)
			for _, refused := range schemaOf(t, file).Validate(map[string]any{"status": content["status"]}).Errors {
				tooLong := strings.Contains(refused.Error(), "at most") || strings.Contains(refused.Error(), "Too long") || strings.Contains(refused.Error(), "should be")
				assert.Check(t, !tooLong, "%s", refused)
			}
			text, err := json.Marshal(content["status"])
			assert.NilError(t, err)
			assert.Check(t, !strings.Contains(string(text), `\u001b`) && !strings.Contains(string(text), `\n`), "%.200s", text)
			for i := range content["status"].(map[string]any) {
				_, isText := content["status"].(map[string]any)[i].(string)
				assert.Check(t, !isText || len(content["status"].(map[string]any)[i].(string)) <= textLimit, i)
			}
		})
	}
}

// The warnings of a backup come from one termination message of at most 4,096 bytes. boundStatus shortens none of them.
func TestWarningsAreNotShortened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ warnings, want []int }{
		"as long as a message": {[]int{4000, 96}, []int{4000, 96}},
		"longer":               {[]int{4000, 97}, []int{itemLimit, 97}},
	} {
		backup := &backupv1.DataBackup{}
		for _, size := range c.warnings {
			backup.Status.Warnings = append(backup.Status.Warnings, strings.Repeat("x", size))
		}
		boundStatus(backup)
		var got []int
		for _, text := range backup.Status.Warnings {
			got = append(got, len(text))
		}
		assert.Check(t, cmp.DeepEqual(got, c.want), name)
	}
}

func schemaOf(t *testing.T, file string) validation.SchemaValidator {
	t.Helper()
	data, err := crd.Files.ReadFile("bases/" + file + ".yaml")
	assert.NilError(t, err)
	definition, schema := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.JSONSchemaProps{}
	assert.NilError(t, yaml.Unmarshal(data, definition))
	assert.NilError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, schema, nil))
	validator, _, err := validation.NewSchemaValidator(schema)
	assert.NilError(t, err)
	return validator
}

// boundStatus changes the reason of a condition so that the API accepts it.
func TestReasonsOfConditionsAreValid(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"ImagePullBackOff": "ImagePullBackOff", "": "Unknown", "no route to host": "noroutetohost", "42": "Unknown", "_a:": "a",
		"<script>": "script", "文": "Unknown", strings.Repeat("a", 2000): strings.Repeat("a", 128),
	} {
		ds := &dsv1.DataService{Status: dsv1.DataServiceStatus{Conditions: []metav1.Condition{{Reason: given}}}}
		boundStatus(ds)
		assert.Equal(t, ds.Status.Conditions[0].Reason, want)
		assert.Assert(t, reasonPattern.MatchString(ds.Status.Conditions[0].Reason))
	}
}

// sized returns a DataService with one setting of the given number of bytes.
func sized(name string, bytes int) *dsv1.DataService {
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u", Generation: 1}}
	ds.Spec.Auth = &dsv1.Service{}
	ds.Spec.Auth.Config = map[string]string{"a": strings.Repeat("x", bytes)}
	return ds
}

// Only one large resource has a turn at a time, whatever its kind. A small resource needs no turn, even if it was large
// before.
func TestOneLargeResourceHasATurn(t *testing.T) {
	t.Parallel()
	h := NewHeavy()
	enters := func(kind string, resource client.Object) func() {
		leave, err := h.enter(kind, resource)
		assert.NilError(t, err, resource.GetName())
		return leave
	}
	waits := func(kind string, resource client.Object) {
		_, err := h.enter(kind, resource)
		assert.ErrorIs(t, err, errBusy, resource.GetName())
	}
	cache := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "large", UID: "v", Generation: 1}}
	cache.Spec.Finalizers = strings.Repeat("x", heavyBytes)

	leave := enters(dsv1.Kind, sized("large", heavyBytes))
	waits(dsv1.Kind, sized("large-2", heavyBytes))
	waits(redisv1.Kind, cache)
	assert.Equal(t, h.again(), 3*heavyWait)
	enters(dsv1.Kind, sized("small", 10))()
	leave()

	leave = enters(redisv1.Kind, cache)
	shrunk := sized("large-2", 10)
	shrunk.Generation++
	enters(dsv1.Kind, shrunk)()
	assert.Equal(t, h.again(), heavyWait, "nothing waits")
	waits(dsv1.Kind, sized("large", heavyBytes))
	h.forget(dsv1.Kind, client.ObjectKeyFromObject(sized("large", 0)))
	assert.Equal(t, h.again(), heavyWait, "nothing waits")
	waits(redisv1.Kind, cache)
	leave()
	assert.Equal(t, len(h.sizes), 3, "%v", h.sizes)
}

// A resource with many objects counts as large, regardless of the size of its spec.
func TestManyReplicasAreLarge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		replicas, bytes int
		want            bool
	}{{6, 10, false}, {heavyReplicas, 10, false}, {heavyReplicas + 1, 10, true}, {6, heavyBytes / 2, false}, {30, heavyBytes / 2, true}} {
		rc := &redisv1.RedisCluster{}
		rc.Spec.Replicas, rc.Spec.Finalizers = ptr.To(int32(c.replicas)), strings.Repeat("x", c.bytes)
		assert.Equal(t, IsHeavy(rc), c.want, "%+v", c)
	}
}
