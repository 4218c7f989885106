// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds the operator's own Prometheus metrics, beside those of
// controller-runtime (queues, reconcile times, requests).
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	// TimeToReady observes the seconds from the creation of a DataService until it is first Ready.
	TimeToReady = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "dataservice_time_to_ready_seconds",
		Help:    "Seconds from the creation of a DataService until it was first Ready.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800},
	})

	// Writes counts objects written, by kind and operation (create, update, correct, replace, delete).
	Writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dataservice_object_writes_total",
		Help: "Objects written to the API server.",
	}, []string{"kind", "operation"})

	// SkippedWrites counts objects that were looked at and found to be as declared.
	SkippedWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dataservice_object_writes_skipped_total",
		Help: "Objects that were as declared, so that nothing was written.",
	}, []string{"kind"})

	// DriftCorrections counts objects that somebody else had changed or deleted and that were put back.
	DriftCorrections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dataservice_drift_corrections_total",
		Help: "Objects that had been changed or deleted by somebody else and were put back.",
	}, []string{"kind"})

	// StatusWrites counts writes of a DataService's status.
	StatusWrites = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dataservice_status_writes_total",
		Help: "Status patches sent to the API server.",
	})

	// ComponentReady is 1 for a component that is ready and 0 for one that is not.
	ComponentReady = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dataservice_component_ready",
		Help: "Whether a component of a DataService is ready (1) or not (0).",
	}, []string{"namespace", "dataservice", "component"})

	// Phase is 1 for the phase that a DataService is in.
	Phase = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dataservice_phase",
		Help: "The phase of a DataService: 1 for the one it is in.",
	}, []string{"namespace", "dataservice", "phase"})
)

func init() {
	ctrlmetrics.Registry.MustRegister(TimeToReady, Writes, SkippedWrites, DriftCorrections, StatusWrites, ComponentReady, Phase)
}

// Forget drops the series of a DataService that is gone.
func Forget(namespace, name string) {
	labels := prometheus.Labels{"namespace": namespace, "dataservice": name}
	ComponentReady.DeletePartialMatch(labels)
	Phase.DeletePartialMatch(labels)
}
