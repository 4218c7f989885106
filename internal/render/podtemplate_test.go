// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
)

func rendered() map[string]any {
	return map[string]any{
		"metadata": map[string]any{
			"labels":      map[string]any{"app.kubernetes.io/name": "a", "d3os-product.com.d3os/kind": "rediscluster"},
			"annotations": map[string]any{"checksum/config": "1", "d3os-product.com.d3os/mark": "1"},
		},
		"spec": map[string]any{
			"volumes":    []any{map[string]any{"name": "v", "emptyDir": map[string]any{}}},
			"containers": []any{map[string]any{"name": "a", "image": "x"}},
		},
	}
}

// A podTemplate cannot set, change or remove labels and annotations of the operator's domains, in any spelling and in any place with
// metadata.
func TestPodTemplateCannotSetReservedKeys(t *testing.T) {
	t.Parallel()
	ephemeral := func(metadata string) string {
		return `{"spec":{"volumes":[{"name":"w","ephemeral":{"volumeClaimTemplate":{"metadata":` + metadata + `,"spec":{}}}}]}}`
	}
	for template, problem := range map[string]string{
		`{"metadata":{"annotations":{"d3os-product.com.d3os/ticket":"seed"}}}`:                                                                   "d3os-product.com.d3os/ticket is the operator's own",
		`{"metadata":{"labels":{"d3os-product.com.d3os/backup":"mysql"}}}`:                                                                       "d3os-product.com.d3os/backup is the operator's own",
		`{"metadata":{"labels":{"d3os-product.com.d3os/kind":"x"}}}`:                                                                             "may not be changed",
		`{"metadata":{"labels":{"d3os-product.com.d3os/kind":null}}}`:                                                                            "may not be changed",
		`{"metadata":{"labels":{"$patch":"replace","app.kubernetes.io/name":"a"}}}`:                                                              "may not be changed",
		`{"metadata":{"labels":{"app.kubernetes.io/name":"b"}}}`:                                                                                 "may not be changed",
		`{"metadata":{"annotations":{"$patch":"delete"}}}`:                                                                                       "may not be changed",
		`{"metadata":{"annotations":{"checksum/config":"2"}}}`:                                                                                   "may not be changed",
		`{"metadata":{"annotations":{"D3OS-Product.com.d3os/ticket":"seed"}}}`:                                                                   "the operator's own",
		`{"metadata":{"annotations":{"sub.d3os-product.com.d3os/ticket":"seed"}}}`:                                                               "the operator's own",
		`{"metadata":{"annotations":{"etcd.database.coreos.com/ticket":"seed"}}}`:                                                                "the operator's own",
		`{"metadata":{"annotations":{"redis.middleware.hc.cn/accept-data-loss":"1"}}}`:                                                           "the operator's own",
		ephemeral(`{"labels":{"app.kubernetes.io/managed-by":"d3os-operator"}}`):                                                                 "the operator's own",
		ephemeral(`{"labels":{"d3os-product.com.d3os/kind":"x"}}`):                                                                               "the operator's own",
		ephemeral(`{"annotations":{"d3os-product.com.d3os/restored-to":"x"}}`):                                                                   "the operator's own",
		ephemeral(`{"annotations":{"example.com/a":"x"}}`):                                                                                       "",
		`{"metadata":{"labels":{"notd3os-product.com.d3os/a":"b"},"annotations":{"example.com/d3os-product.com.d3os":"b","checksum/mine":"1"}}}`: "",
	} {
		_, err := OverlayPods("spec.podTemplate", rendered(), []byte(template))
		if problem == "" {
			assert.Check(t, err == nil || !errors.As(err, new(*Error)), "%s: %v", template, err)
			continue
		}
		var mistake *Error
		assert.Check(t, errors.As(err, &mistake) && is.Contains(err.Error(), problem)().Success(), "%s: %v", template, err)
	}
}

// Directives of a strategic merge with values of any type are refused or applied; none causes a panic.
func TestDirectivesOfAnyTypeDoNotPanic(t *testing.T) {
	t.Parallel()
	for _, template := range []string{
		`{"spec":{"volumes":[{"name":"v","$retainKeys":[{}],"hostPath":{"path":"/"}}]}}`,
		`{"spec":{"$retainKeys":[[]]}}`, `{"spec":{"$setElementOrder/containers":[{"name":{}}]}}`, `{"spec":{"$setElementOrder/containers":[[]],"containers":[{"name":"a"}]}}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":[{}],"finalizers":["a"]}}`, `{"metadata":{"finalizers":["a"],"$setElementOrder/finalizers":[{}]}}`,
		`{"spec":{"containers":[{"$patch":["merge"],"name":"a"}]}}`, `{"spec":{"containers":[{"name":["a"]}]}}`, `{"$patch":{}}`,
	} {
		if _, err := OverlayPods("spec.podTemplate", rendered(), []byte(template)); err != nil {
			assert.Check(t, errors.As(err, new(*Error)), "%s: %v", template, err)
		}
	}
}

// In a podTemplate for backups, settings of the container backup apply to the working container, whatever that
// container is named.
func TestPodTemplateOfBackupsReachesTheContainerThatWorks(t *testing.T) {
	t.Parallel()
	const given = `{"spec":{"serviceAccountName":"backups","containers":[{"name":"backup","resources":{"limits":{"cpu":"2"}}},{"name":"proxy","image":"p"}]}}`
	for _, work := range []string{"backup", "archive"} {
		template := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": work, "image": "x"}}}}
		merged, err := OverlayJobs("spec.backup.podTemplate", template, []byte(given))
		assert.NilError(t, err)
		names := map[string]any{}
		for _, c := range merged["spec"].(map[string]any)["containers"].([]any) {
			c := c.(map[string]any)
			names[c["name"].(string)] = c["image"]
		}
		assert.DeepEqual(t, names, map[string]any{work: "x", "proxy": "p"})
	}
	_, err := OverlayJobs("spec.backup.podTemplate", rendered(), []byte(`{"spec":{"container":[]}}`))
	assert.ErrorContains(t, err, "spec.backup.podTemplate.spec.container: unknown field")
}

// Server-side apply refuses two variables of one name, a port twice, a pull secret twice, and two aliases of one address. The last variable wins,
// as in the main container.
func TestPodTemplatesHaveNoKeyTwice(t *testing.T) {
	t.Parallel()
	const twice = `"env":[{"name":"X","value":"old"},{"name":"Y"},{"name":"X","value":"new"}]`
	merged, err := OverlayPods("spec.podTemplate", rendered(), []byte(`{"spec":{"containers":[{"name":"a",`+twice+`},{"name":"b",`+twice+`}],"initContainers":[{"name":"c",`+twice+`}]}}`))
	assert.NilError(t, err)
	spec := merged["spec"].(map[string]any)
	for _, container := range append(spec["containers"].([]any), spec["initContainers"].([]any)...) {
		assert.DeepEqual(t, container.(map[string]any)["env"], []any{map[string]any{"name": "Y"}, map[string]any{"name": "X", "value": "new"}})
	}
	merged, err = OverlayPods("spec.podTemplate", rendered(), []byte(`{"spec":{"imagePullSecrets":[{"name":"p"},{"name":"q"},{"name":"p"}]}}`))
	assert.NilError(t, err)
	assert.DeepEqual(t, merged["spec"].(map[string]any)["imagePullSecrets"], []any{map[string]any{"name": "q"}, map[string]any{"name": "p"}})
	for template, problem := range map[string]string{
		`{"spec":{"hostAliases":[{"ip":"192.0.2.1","hostnames":["a"]},{"ip":"192.0.2.2"},{"ip":"192.0.2.1","hostnames":["b"]}]}}`:     "spec.podTemplate.spec.hostAliases[2].ip: must be unique: '192.0.2.1' is also the ip of hostAliases[0]: list all hostnames there",
		`{"spec":{"containers":[{"name":"a"},{"name":"b","ports":[{"name":"p","containerPort":1},{"name":"q","containerPort":1}]}]}}`: "spec.podTemplate.spec.containers[1].ports[1].containerPort: must be unique: 1/TCP is also the port of ports[0]",
		`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":1},{"containerPort":1}]}]}}`:                                    "spec.podTemplate.spec.containers[0].ports[1].containerPort: must be unique: 1/TCP is also the port of ports[0]",
		`{"spec":{"initContainers":[{"name":"b","ports":[{"containerPort":1},{"containerPort":1}]}]}}`:                                "spec.podTemplate.spec.initContainers[0].ports[1].containerPort: must be unique: 1/TCP is also the port of ports[0]",
	} {
		_, err := OverlayPods("spec.podTemplate", rendered(), []byte(template))
		assert.Error(t, err, problem)
	}
	_, err = OverlayPods("spec.podTemplate", rendered(), []byte(`{"spec":{"containers":[{"name":"b","ports":[{"containerPort":1},{"containerPort":1,"protocol":"UDP"}]}]}}`))
	assert.NilError(t, err)
}

// The error about an unknown field contains the field's path, and the name of the most similar field.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	const unknown = "unknown field: there is no such field"
	for name, test := range map[string]struct {
		given         object
		field, reason string
	}{
		"a missing letter":       {object{"terminationGracePeriodSecond": 1}, "spec.terminationGracePeriodSecond", unknown + "; did you mean 'terminationGracePeriodSeconds'?"},
		"upper case":             {object{"Hostname": "a"}, "spec.Hostname", unknown + "; did you mean 'hostname'?"},
		"a prefix":               {object{"tolera": "a"}, "spec.tolera", unknown + "; did you mean 'tolerations'?"},
		"below a list":           {object{"containers": []object{{"imagePullPolice": "a"}}}, "spec.containers[0].imagePullPolice", unknown + "; did you mean 'imagePullPolicy'?"},
		"below an inlined field": {object{"volumes": []object{{"emptydirs": object{}}}}, "spec.volumes[0].emptydirs", unknown + "; did you mean 'emptyDir'?"},
		"no similar name":        {object{"colour": "a"}, "spec.colour", unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Decode("spec", test.given, &corev1.PodSpec{})
			assert.Error(t, err, test.field+": "+test.reason)
		})
	}
	assert.NilError(t, Decode("spec", object{"hostname": "a"}, &corev1.PodSpec{}))
}

// If the podTemplate has a handler for a hook or a probe, it replaces the rendered handler. If the podTemplate has a
// grace period, a longer rendered pause is shortened.
func TestPodTemplateReplacesHandlers(t *testing.T) {
	t.Parallel()
	const grace = `"terminationGracePeriodSeconds":`
	for given, want := range map[string]string{
		`{"spec":{}}`:                                  `{"preStop":{"sleep":{"seconds":10}}}`,
		`{"spec":{` + grace + `60}}`:                   `{"preStop":{"sleep":{"seconds":10}}}`,
		`{"spec":{` + grace + `5}}`:                    `{"preStop":{"sleep":{"seconds":2}}}`,
		`{"spec":{` + grace + `0}}`:                    `{}`,
		inMain(`"preStop":{"exec":{"command":["x"]}}`): `{"preStop":{"exec":{"command":["x"]}}}`,
		inMain(`"preStop":{"sleep":{"seconds":20}}`):   `{"preStop":{"sleep":{"seconds":20}}}`,
		inMain(`"preStop":null`):                       `{}`,
		inMain(`"postStart":{"exec":{}}`):              `{"postStart":{"exec":{}},"preStop":{"sleep":{"seconds":10}}}`,
	} {
		template := rendered()
		spec := template["spec"].(map[string]any)
		spec["terminationGracePeriodSeconds"] = int64(30)
		main := spec["containers"].([]any)[0].(map[string]any)
		main["lifecycle"] = map[string]any{"preStop": map[string]any{"sleep": map[string]any{"seconds": int64(10)}}}
		pods, err := OverlayPods("spec.podTemplate", template, []byte(given))
		assert.NilError(t, err, given)
		container := pods["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		lifecycle, err := json.Marshal(container["lifecycle"])
		assert.NilError(t, err)
		assert.Equal(t, string(lifecycle), want, given)
	}

	template := rendered()
	main := template["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	main["livenessProbe"] = map[string]any{"tcpSocket": map[string]any{"port": int64(80)}, "periodSeconds": int64(7)}
	pods, err := OverlayPods("spec.podTemplate", template, []byte(`{"spec":{"containers":[{"name":"a","livenessProbe":{"exec":{"command":["x"]}}}]}}`))
	assert.NilError(t, err)
	probe, err := json.Marshal(pods["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["livenessProbe"])
	assert.NilError(t, err)
	assert.Equal(t, string(probe), `{"exec":{"command":["x"]},"periodSeconds":7}`)
}

// inMain returns a pod template as JSON. Its container a has the given fields of lifecycle.
func inMain(lifecycle string) string {
	return `{"spec":{"containers":[{"name":"a","lifecycle":{` + lifecycle + `}}]}}`
}
