// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Redis holds the metrics of RedisClusters that other kinds do not have.
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
			Help: "Hash slots of a RedisCluster without data that stay unserved until a user consents to the loss.",
		}, []string{namespace, cluster}),
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rediscluster_nodes",
			Help: "Redis servers of a RedisCluster by state: master, replica, loading or unreachable.",
		}, []string{namespace, cluster, "state"}),
	}
	ctrlmetrics.Registry.MustRegister(s.served, s.lost, s.nodes)
	return s
}

// Set sets the number of served slots of a cluster, the number of nodes in each state, and the number of lost slots.
func (s *RedisSeries) Set(key types.NamespacedName, served int, nodes map[string]int, lost int) {
	s.served.WithLabelValues(key.Namespace, key.Name).Set(float64(served))
	s.lost.WithLabelValues(key.Namespace, key.Name).Set(float64(lost))
	for state, n := range nodes {
		s.nodes.WithLabelValues(key.Namespace, key.Name, state).Set(float64(n))
	}
}

// Forget removes the series of a deleted cluster.
func (s *RedisSeries) Forget(key types.NamespacedName) {
	labels := prometheus.Labels{"namespace": key.Namespace, "rediscluster": key.Name}
	s.served.DeletePartialMatch(labels)
	s.lost.DeletePartialMatch(labels)
	s.nodes.DeletePartialMatch(labels)
}
