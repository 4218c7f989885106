// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Service gives up a node port for one of the API server's choice and keeps all else, also where an operator that ended between
// the two writes left the port that held the number.
func TestServiceGivesUpANodePort(t *testing.T) {
	t.Parallel()
	p, planned := running(t, "{web: {nodePort: 30996, ports: [{name: a, port: 1234, nodePort: 30995}]}}", "Service/web")
	t.Cleanup(func() { freeNodePorts(t, []*unstructured.Unstructured{planned}) })
	for what, writes := range map[string]int{"a port of its own": 2, "what an earlier call left": 1} {
		p.apply(planned)
		if writes == 1 {
			edit(t, planned, func(_ *testing.T, o map[string]any) {
				ports := items(o, "spec", "ports")
				delete(ports[0], "nodePort")
				ports = append(ports, map[string]any{"name": releasedPrefix + "0", "port": int64(30996), "nodePort": int64(30996)})
				set(t, o, list(ports), "spec", "ports")
			})
		}
		live, err := p.Get(t.Context(), planned)
		assert.NilError(t, err)
		traffic.take(p.ds.Namespace)
		assert.NilError(t, p.ReleaseNodePorts(t.Context(), p.owner(), live, []int64{30996}))
		assert.Equal(t, len(traffic.take(p.ds.Namespace)), writes, what)
		ports, before := items(fetch(t, planned).Object, "spec", "ports"), items(planned.Object, "spec", "ports")
		assert.Equal(t, len(ports), len(before), what)
		for i, port := range ports {
			assert.Equal(t, port["name"], before[i]["name"], what)
			assert.Equal(t, port["nodePort"] == before[i]["nodePort"], before[i]["nodePort"] == int64(30995), what)
			assert.Assert(t, port["nodePort"] != int64(30996) && port["nodePort"] != nil, what)
		}
	}
	p.apply(planned)
	p.atRest(planned)
}
