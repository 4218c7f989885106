// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds the operator's own Prometheus metrics, beside those of
// controller-runtime (queues, reconcile times, requests).
package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
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
)

func init() {
	ctrlmetrics.Registry.MustRegister(Writes, SkippedWrites, DriftCorrections, StatusWrites)
}

// Series are the metrics of the resources of one kind.
type Series struct {
	// TimeToReady observes the seconds from the creation of a resource until it is first Ready.
	TimeToReady prometheus.Histogram

	kind  string
	phase *prometheus.GaugeVec // 1 for the phase that a resource is in
	part  *prometheus.GaugeVec // 1 for a part that is ready, 0 for one that is not

	mu    sync.Mutex
	known map[types.NamespacedName]shown
}

// shown is what the series of one resource say.
type shown struct {
	phase string
	parts map[string]bool
}

var (
	seriesMu sync.Mutex
	series   = map[string]*Series{}
)

// SeriesOf returns the metrics of a kind, such as DataService: dataservice_phase and so on. The
// same ones are returned for the same kind.
func SeriesOf(kind string) *Series {
	seriesMu.Lock()
	defer seriesMu.Unlock()
	if s := series[kind]; s != nil {
		return s
	}
	name := strings.ToLower(kind)
	s := &Series{kind: name, known: map[types.NamespacedName]shown{}}
	s.TimeToReady = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    name + "_time_to_ready_seconds",
		Help:    "Seconds from the creation of a " + kind + " until it was first Ready.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800},
	})
	s.part = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: name + "_component_ready",
		Help: "Whether a component of a " + kind + " is ready (1) or not (0).",
	}, []string{"namespace", name, "component"})
	s.phase = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: name + "_phase",
		Help: "The phase of a " + kind + ": 1 for the one it is in.",
	}, []string{"namespace", name, "phase"})
	ctrlmetrics.Registry.MustRegister(s.TimeToReady, s.part, s.phase)
	series[kind] = s
	return s
}

// Set says in which phase a resource is, and which of its parts are ready. It follows what was seen
// even when no status is written.
func (s *Series) Set(key types.NamespacedName, phase string, parts map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[key]
	if known.phase != phase {
		s.phase.DeletePartialMatch(s.labels(key))
		s.phase.WithLabelValues(key.Namespace, key.Name, phase).Set(1)
	}
	for part := range known.parts {
		if _, ok := parts[part]; !ok {
			s.part.DeleteLabelValues(key.Namespace, key.Name, part)
		}
	}
	for part, ready := range parts {
		if was, ok := known.parts[part]; ok && was == ready {
			continue
		}
		value := 0.0
		if ready {
			value = 1
		}
		s.part.WithLabelValues(key.Namespace, key.Name, part).Set(value)
	}
	s.known[key] = shown{phase, parts}
}

// Forget drops the series of a resource that is gone.
func (s *Series) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
	s.part.DeletePartialMatch(s.labels(key))
	s.phase.DeletePartialMatch(s.labels(key))
}

func (s *Series) labels(key types.NamespacedName) prometheus.Labels {
	return prometheus.Labels{"namespace": key.Namespace, s.kind: key.Name}
}
