// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	ownerUID = "11111111-1111-4111-8111-111111111111"
	otherUID = "22222222-2222-4222-8222-222222222222"
)

const namespaceYAML = `
- {apiVersion: d3os-product.com.d3os/v1, kind: DataService, metadata: {name: ds, uid: OWNER, resourceVersion: "1"}, spec: {a: b},
   status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: "TIME"}, {type: Paused, status: "False"}],
            components: [{name: x, revision: DIGEST, lastTransitionTime: "TIME", firstReady: "TIME"}]}}
- {apiVersion: v1, kind: Secret, metadata: {name: s, uid: OTHER}, data: {password: DIGEST}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, annotations: {d3os-product.com.d3os/digest: DIGEST}, labels: {a: b},
   ownerReferences: [{apiVersion: d3os-product.com.d3os/v1, kind: DataService, name: ds, uid: OWNER, controller: true}],
   managedFields: [{manager: d3os-operator, operation: Apply, fieldsType: FieldsV1, fieldsV1: {"f:data": {"f:k": {}}}}]}, data: {k: x.NAMESPACE.svc}}
- {apiVersion: v1, kind: Service, metadata: {name: v}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80, nodePort: 31234}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: p-DIGEST, labels: {app.kubernetes.io/name: x}}, spec: {containers: [{image: "i:1"}]}, status: {phase: Running}}
`

func read(t *testing.T, namespace string, replace ...string) State {
	t.Helper()
	replace = append(replace, "OWNER", ownerUID, "OTHER", otherUID, "NAMESPACE", namespace, "DIGEST", "abc", "TIME", "2026-01-01T00:00:00Z")
	var items []map[string]any
	if err := yaml.Unmarshal([]byte(strings.NewReplacer(replace...).Replace(namespaceYAML)), &items); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, item := range items {
		objects = append(objects, &unstructured.Unstructured{Object: item})
	}
	state, err := Of(namespace, objects)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestOracleIgnoresWhatAlwaysDiffers(t *testing.T) {
	one := read(t, "one-abcde")
	two := read(t, "two-fghij", "OWNER", otherUID, "OTHER", ownerUID, "DIGEST", "def", "TIME", "2027-01-01T00:00:00Z",
		"10.0.0.1", "10.0.0.2", "31234", "31235", `resourceVersion: "1"`, `resourceVersion: "2"`)
	if diff := Diff(one, two); diff != "" {
		t.Error(diff)
	}
}

func TestOracleFindsEachDifference(t *testing.T) {
	for _, change := range [][2]string{
		{"a: b}", "a: c}"}, // spec, label
		{"phase: Running, cond", "phase: Failed, cond"},                  // status
		{`status: "True"`, `status: "False"`},                            // condition
		{"{password: DIGEST}", "{password: ''}"},                         // the value is missing
		{"{password: DIGEST}", "{passwort: DIGEST}"},                     // key
		{"k: x.", "k: y."},                                               // data
		{"uid: OWNER, controller: true", "uid: OTHER, controller: true"}, // owner
		{", controller: true", ""},                                       // controller
		{"operation: Apply", "operation: Update"},                        // field ownership
		{`{"f:k": {}}`, `{"f:k": {}, "f:l": {}}`},                        // field ownership
		{"clusterIP: 10.0.0.1", "clusterIP: None"},                       // headless
		{"port: 80", "port: 81"},                                         // port
		{`image: "i:1"`, `image: "i:2"`},                                 // pod
		{"status: {phase: Running}}\n", "status: {phase: Pending}}\n"},   // pod
		{"{name: c, ann", "{name: c, deletionTimestamp: '2026-01-01T00:00:00Z', ann"},
		{"{name: c, ann", "{name: c, finalizers: [orphan], ann"},
		{"{name: s,", "{name: s2,"}, // one missing, one more
	} {
		if !strings.Contains(namespaceYAML, change[0]) {
			t.Errorf("the test's object does not contain %q", change[0])
		}
		if Diff(read(t, "ns-abcde"), read(t, "ns-abcde", change[0], strings.NewReplacer("OWNER", ownerUID, "OTHER", otherUID, "DIGEST", "abc").Replace(change[1]))) == "" {
			t.Errorf("the oracle does not report %q instead of %q", change[1], change[0])
		}
	}
}
