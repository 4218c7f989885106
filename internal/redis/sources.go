// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
)

// sources caches whether a user's ConfigMap existed when pods started: servers read the ConfigMap only at their start. The operator's cache
// contains no ConfigMaps of users, so the operator reads each of them once for a set of pods, and again only if the pods change.
type sources struct {
	live client.Reader

	mu    sync.Mutex
	known map[types.NamespacedName]source // by cluster
}

type source struct {
	of      string // name of the ConfigMap and UIDs of the pods
	missing bool
}

func newSources(live client.Reader) *sources {
	return &sources{live: live, known: map[types.NamespacedName]source{}}
}

// missing reports whether the ConfigMap with a cluster's settings does not exist.
func (s *sources) missing(ctx context.Context, rc *redisv1.RedisCluster, pods []*corev1.Pod) (bool, error) {
	name := podOf(&rc.Spec).ConfigMap
	if name == "" {
		return false, nil
	}
	started := []string{name}
	for _, pod := range pods {
		started = append(started, string(pod.UID))
	}
	slices.Sort(started)
	of := strings.Join(started, "/")
	key := client.ObjectKeyFromObject(rc)
	s.mu.Lock()
	known := s.known[key]
	s.mu.Unlock()
	if known.of == of {
		return known.missing, nil
	}
	err := s.live.Get(ctx, types.NamespacedName{Namespace: rc.Namespace, Name: name}, object.Empty(object.ConfigMapKind))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read ConfigMap %s (spec.pod[0].configmap): %w", name, err)
	}
	known = source{of: of, missing: apierrors.IsNotFound(err)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[key] = known
	return known.missing, nil
}

func (s *sources) forget(cluster types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, cluster)
}
