// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A note names an HTTPRoute that no Gateway serves, or that a Gateway refuses, one minute after this began. The component is still settled.
func TestRoute(t *testing.T) {
	t.Parallel()
	const public = "{name: public, namespace: gateways, sectionName: https}"
	const at = `lastTransitionTime: "1970-01-01T00:01:00Z"`
	answer := func(parent, conditions string) string {
		return "[{parentRef: " + parent + ", conditions: [" + conditions + "]}]"
	}
	for name, c := range map[string]struct {
		parents, reason, message string
		from                     int64
	}{
		"accepted":          {answer(public, `{type: Accepted, status: "True"}, {type: ResolvedRefs, status: "True"}`), "", "", 0},
		"no answer":         {"[]", "NoGateway", "Gateway gateways/public/https does not serve the route: the Gateway does not exist, or no controller serves the Gateway", 90},
		"another's answer":  {answer("{name: private}", `{type: Accepted, status: "True"}`), "NoGateway", "Gateway gateways/public/https does not serve the route: the Gateway does not exist, or no controller serves the Gateway", 90},
		"refused":           {answer(public, `{type: Accepted, status: "False", reason: NotAllowedByListeners, message: m, observedGeneration: 2, `+at+`}`), "NotAllowedByListeners", "Gateway gateways/public/https: m", 120},
		"no Service":        {answer(public, `{type: Accepted, status: "True"}, {type: ResolvedRefs, status: "False", reason: BackendNotFound, message: m, `+at+`}`), "BackendNotFound", "Gateway gateways/public/https: m", 120},
		"refused before":    {answer(public, `{type: Accepted, status: "False", reason: NotAllowedByListeners, message: m, observedGeneration: 1, `+at+`}`), "", "", 0},
		"another condition": {answer(public, `{type: PartiallyInvalid, status: "False", reason: r, message: m, `+at+`}`), "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := objectOf(t, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: web, generation: 2, creationTimestamp: "1970-01-01T00:00:30Z"}, `+
				"spec: {parentRefs: ["+public+"]}, status: {parents: "+c.parents+"}}")
			state := Assess([]*unstructured.Unstructured{o}, nil)
			assert.Assert(t, state.Settled)
			want := Note{}
			if c.reason != "" {
				want = Note{Text: "HTTPRoute web: " + c.reason + ": " + c.message, Culprit: Culprit{"HTTPRoute", "web", c.reason, c.message}, From: c.from}
			}
			assert.Equal(t, state.Note, want)
		})
	}
}
