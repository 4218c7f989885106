// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"gotest.tools/v3/assert"
)

// Only an Ingress that names a class has a class. An annotation and the default of the cluster are no class, because some controllers serve
// such an Ingress.
func TestClassOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{kind: Ingress, spec: {ingressClassName: nginx}}":                                         "nginx",
		"{kind: Ingress, spec: {ingressClassName: ''}}":                                            "",
		"{kind: Ingress, spec: {rules: []}}":                                                       "",
		"{kind: Ingress, metadata: {annotations: {kubernetes.io/ingress.class: nginx}}, spec: {}}": "",
		"{kind: Ingress}": "",
		"{kind: Service, spec: {ingressClassName: nginx}}":                                           "",
		"{kind: Ingress, spec: {ingressClassName: [nginx]}}":                                         "",
		"{kind: Ingress, metadata: {deletionTimestamp: x}, spec: {ingressClassName: example.com/a}}": "example.com/a",
	} {
		assert.Equal(t, ClassOf(objectOf(t, text)), want, text)
	}
}

// An Ingress without its class is recorded, and the component stays settled.
func TestIngressWithoutItsClass(t *testing.T) {
	t.Parallel()
	state := State{Settled: true}
	state.AddNoClass(objectOf(t, "{kind: Ingress, metadata: {name: web}, spec: {ingressClassName: nginx}}"))
	const message = `no IngressClass "nginx" exists in this cluster: set ingress.className to an existing class, or install the controller of this class`
	assert.Equal(t, state, State{Settled: true, Note: Note{Text: "Ingress web: NoIngressClass: " + message, Culprit: Culprit{"Ingress", "web", "NoIngressClass", message}}})
}
