// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// Pods that the API server would refuse are found before anything is written, also of other
// components, and the mistake is named with its path. Mended, the whole change is carried out.
func TestPodsThatCannotBeChangeNothing(t *testing.T) {
	for name, mistake := range map[string]struct {
		auth    fields
		message string
	}{
		"a value that only the API server judges": {
			fields{"sidecars": []any{fields{"name": "more", "image": "registry.example/more:v1", "ports": []any{fields{"containerPort": 99999}}}}},
			"spec.template.spec.containers[1].ports[0].containerPort",
		},
		"a field that does not exist":            {fields{"sidecars": []any{fields{"name": "more", "imag": "registry.example/more:v1"}}}, "spec.auth.sidecars[0].imag"},
		"an overlay of a wrong type":             {fields{"podTemplate": fields{"spec": fields{"hostAliases": "none"}}}, "spec.auth.podTemplate"},
		"an overlay that the API server refuses": {fields{"podTemplate": fields{"spec": fields{"dnsPolicy": "Sometimes"}}}, "spec.template.spec.dnsPolicy"},
		"a mount of nothing":                     {fields{"volumeMounts": []any{fields{"name": "nothing", "mountPath": "/nothing"}}}, `"nothing", which is not there`},
	} {
		t.Run(name, func(t *testing.T) {
			e := parallel(t)
			op := e.Start()
			ds := e.CreateReady(small())
			mark := op.Mark()
			e.Change(ds, fields{"auth": mistake.auth, "web": fields{"image": "registry.example/web:v2"}})
			e.condition(ds, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonInvalidSpec, "spec.auth", mistake.message)
			e.never("something is written", func() bool { return len(op.Since(mark, harness.Sent.WritesObject)) > 0 })
			e.equal("objects written", harness.Objects(op.Since(mark, harness.Sent.WritesObject)), nil)

			undo := fields{}
			for field := range mistake.auth {
				undo[field] = nil
			}
			e.ChangeReady(ds, fields{"auth": undo})
			e.equal("objects written", harness.Objects(op.Since(mark, harness.Sent.WritesObject)), []string{"Deployment/web"})
		})
	}
}
