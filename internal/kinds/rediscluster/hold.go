// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
)

// keySettings is the key of the ConfigMap <name>-config that holds the settings of spec.config that servers
// change while they run.
const keySettings = "settings.conf"

// holds keep a changed setting out of the file that servers read when they start, until those that run
// have taken it: redis does not start with a value that it refuses. Nothing of it has to outlive the
// process: what the file has was taken once, and what differs from it is held back until servers were
// asked. It is safe for concurrent use.
type holds struct {
	mu    sync.Mutex
	known map[types.NamespacedName]held
}

// held is what is held back of one cluster's settings.
type held struct {
	generation int64           // that servers were asked about
	unset      map[string]bool // what they do not have
	back       map[string]bool // what the last plan held back
}

func newHolds() *holds { return &holds{known: map[types.NamespacedName]held{}} }

// file returns the settings for the file: those of the spec, and in place of one that servers were not
// asked about or do not have, what the present file says. kept is the ConfigMap, which may be nil.
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

// judge notes what servers were seen to have, and reports whether the next plan holds back less than the
// last one. Where no server runs nothing is held back: they may not start with the file as it is. Servers
// that run and do not answer say nothing.
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
