// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"gotest.tools/v3/assert"
)

// A resource of the operator's own kinds is compared by the schema of its CustomResourceDefinition:
// lists are maps by their keys, and what the API server fills in is no difference.
func TestOwnKindsAreComparedByTheirSchema(t *testing.T) {
	t.Parallel()
	const planned = `{apiVersion: d3os-product.com.d3os/v1, kind: DataService, metadata: {name: a},
		spec: {mysql: {databases: [a, b]}, additionalServices: [{name: x, image: i:1, port: 80}, {name: z, image: i:1}]}}`
	c := newComparer(ownTypes)
	for name, test := range map[string]struct {
		live string
		same bool
	}{
		"as planned": {planned, true},
		"with defaults, in another order, and with what others added": {`{apiVersion: d3os-product.com.d3os/v1, kind: DataService,
			metadata: {name: a, uid: u, labels: {more: x}}, status: {phase: Running},
			spec: {rollout: {order: Dependency}, mysql: {databases: [b, a], storage: {size: 10Gi}},
			additionalServices: [{name: z, image: i:1, kind: Deployment}, {name: x, image: i:1, port: 80}]}}`, true},
		"another image": {`{apiVersion: d3os-product.com.d3os/v1, kind: DataService, metadata: {name: a},
			spec: {mysql: {databases: [a, b]}, additionalServices: [{name: x, image: i:2, port: 80}, {name: z, image: i:1}]}}`, false},
		"one item less": {`{apiVersion: d3os-product.com.d3os/v1, kind: DataService, metadata: {name: a},
			spec: {mysql: {databases: [a]}, additionalServices: [{name: x, image: i:1, port: 80}, {name: z, image: i:1}]}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			same, err := c.contains(parse(t, test.live), parse(t, planned))
			assert.NilError(t, err)
			assert.Equal(t, same, test.same)
		})
	}
}
