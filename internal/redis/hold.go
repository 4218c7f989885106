// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// keySettings is the key of the ConfigMap <name>-config that holds the settings of spec.config that CONFIG SET can
// change.
const keySettings = "settings.conf"

// holds delays a changed setting until running servers have accepted it. Only then is the setting written to the file that servers read at
// their start, because Redis does not start with a value that it refuses. It is safe for concurrent use.
//
// No state needs to survive a restart of the operator: the values in the file were accepted once, and a different value is held back until
// servers have been queried.
type holds struct {
	mu    sync.Mutex
	known map[types.NamespacedName]held
}

// held is the state of one cluster's settings.
type held struct {
	generation int64           // generation of the settings that the servers were queried for
	unset      map[string]bool // settings that servers have not applied
	back       map[string]bool // settings that the last plan held back
}

func newHolds() *holds { return &holds{known: map[types.NamespacedName]held{}} }

// file returns the settings for the file. A setting that servers have not been queried for, or have not applied, keeps its present value in
// the file. kept is the ConfigMap, which may be nil.
func (h *holds) file(rc *redisv1.RedisCluster, kept *unstructured.Unstructured) map[string]string {
	wanted := settingsOf(rc.Spec.Config).live
	if kept == nil {
		return wanted
	}
	text, _, _ := unstructured.NestedString(kept.Object, "data", keySettings)
	before := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			before[name] = strings.TrimPrefix(value, `""`)
		}
	}
	key := types.NamespacedName{Namespace: rc.Namespace, Name: rc.Name}
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.known[key]
	asked := known.generation == rc.Generation
	known.back = map[string]bool{}
	result := map[string]string{}
	for name, value := range wanted {
		was, had := before[name]
		switch {
		case had && was == value, asked && !known.unset[name]:
			result[name] = value
			continue
		case had:
			result[name] = was
		}
		known.back[name] = true
	}
	h.known[key] = known
	return result
}

// judge stores the settings that servers have not applied, and reports whether the next plan holds back fewer settings
// than the last one. If no server runs, nothing is held back, because an old value in the file may keep servers from
// starting. If servers run but none answers, nothing changes.
func (h *holds) judge(rc *redisv1.RedisCluster, nodes []topology.Node) bool {
	key := types.NamespacedName{Namespace: rc.Namespace, Name: rc.Name}
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.known[key]
	if slices.ContainsFunc(nodes, func(n topology.Node) bool { return n.Running }) && !slices.ContainsFunc(nodes, func(n topology.Node) bool { return n.Reached }) {
		return false
	}
	known.generation, known.unset = rc.Generation, topology.Unset(settingsOf(rc.Spec.Config).live, nodes)
	h.known[key] = known
	for name := range known.back {
		if !known.unset[name] {
			return true
		}
	}
	return false
}

func (h *holds) forget(namespace, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, types.NamespacedName{Namespace: namespace, Name: name})
}
