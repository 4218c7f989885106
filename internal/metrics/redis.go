// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Redis are the metrics of what RedisClusters do, beside those of every kind.
var Redis = newRedisSeries()

// RedisSeries are the metrics of RedisClusters.
type RedisSeries struct {
	served, lost *prometheus.GaugeVec
	nodes        *prometheus.GaugeVec
}

func newRedisSeries() *RedisSeries {
	const namespace, cluster = "namespace", "rediscluster"
	s := &RedisSeries{
		served: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rediscluster_slots_served",
			Help: "Hash slots of a RedisCluster that are served, of 16384.",
		}, []string{namespace, cluster}),
		lost: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rediscluster_slots_lost",
			Help: "Hash slots of a RedisCluster whose data is gone and that nobody serves before a person consents.",
		}, []string{namespace, cluster}),
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rediscluster_nodes",
			Help: "Redis servers of a RedisCluster by state: master, replica, loading or unreachable.",
		}, []string{namespace, cluster, "state"}),
	}
	ctrlmetrics.Registry.MustRegister(s.served, s.lost, s.nodes)
	return s
}

// Set says how many slots of a cluster are served, how many nodes are in each state, and how many slots are lost.
func (s *RedisSeries) Set(key types.NamespacedName, served int, nodes map[string]int, lost int) {
	s.served.WithLabelValues(key.Namespace, key.Name).Set(float64(served))
	s.lost.WithLabelValues(key.Namespace, key.Name).Set(float64(lost))
	for state, n := range nodes {
		s.nodes.WithLabelValues(key.Namespace, key.Name, state).Set(float64(n))
	}
}

// Forget drops the series of a cluster that is gone.
func (s *RedisSeries) Forget(key types.NamespacedName) {
	labels := prometheus.Labels{"namespace": key.Namespace, "rediscluster": key.Name}
	s.served.DeletePartialMatch(labels)
	s.lost.DeletePartialMatch(labels)
	s.nodes.DeletePartialMatch(labels)
}
