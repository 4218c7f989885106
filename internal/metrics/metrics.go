// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds the operator's own Prometheus metrics, in addition to those of controller-runtime (queues, reconcile times,
// requests).
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"d3os.com/d3os-operator/internal/version"
)

var (
	// Writes counts objects written, by kind and operation (create, update, correct, replace, delete).
	Writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dataservice_object_writes_total",
		Help: "Objects written to the API server.",
	}, []string{"kind", "operation"})

	// SkippedWrites counts comparisons of an object with its plan that found no difference.
	SkippedWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dataservice_object_writes_skipped_total",
		Help: "Objects that were already as planned, so that nothing was written.",
	}, []string{"kind"})

	// DriftCorrections counts objects that another writer changed or deleted and that the operator restored.
	DriftCorrections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dataservice_drift_corrections_total",
		Help: "Objects that had been changed or deleted by another writer, and that the operator restored.",
	}, []string{"kind"})

	// StatusWrites counts writes of a DataService's status.
	StatusWrites = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dataservice_status_writes_total",
		Help: "Status patches sent to the API server.",
	})

	// NamespacesWithoutRights is 1 for each watched namespace in which the operator lacks rights.
	NamespacesWithoutRights = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "d3os_operator_namespace_without_rights",
		Help: "1 for a namespace of --watch-namespaces in which the operator lacks rights.",
	}, []string{"namespace"})

	// Problems counts the problems that prevent the operator's work, by readiness check.
	Problems = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "d3os_operator_problems",
		Help: "Problems that prevent the operator's work, such as a right that it lacks. /readyz/CHECK and the log name them.",
	}, []string{"check"})
)

func init() {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "d3os_operator_info",
		Help:        "The version of this operator.",
		ConstLabels: prometheus.Labels{"version": version.Version},
	})
	info.Set(1)
	ctrlmetrics.Registry.MustRegister(Writes, SkippedWrites, DriftCorrections, StatusWrites, NamespacesWithoutRights, Problems, info)
}
