// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Resource is the input of the metrics of one resource.
type Resource struct {
	Namespace, Name string
	Phase           string // empty until the first reconciliation
	Generation      int64
	Observed        int64 // the generation that the status describes
	Paused          bool
	Step            string // the step that is being taken on the running system; empty if there is none
	Conditions      []metav1.Condition
	Parts           []Part
	Members         map[string]int // number of servers by state; nil if the kind does not report it
	Backups         *Backups       // nil without declared backups
	Claims          []string       // claims with data of the resource; nil if the kind does not report them
}

// Backups is the input of the metrics of a resource's backups.
type Backups struct {
	// LastSuccessful and LastVerified are the times of the last successful backup and of the last successful check. Before the first
	// success, each is the time at which the operator began to wait for it. It is zero if the spec declares no such run.
	LastSuccessful, LastVerified time.Time
	// Every and VerifyEvery are the longest times between two runs of the respective schedule; 0 if there is no schedule.
	Every, VerifyEvery time.Duration
}

// Part contains the values of the metrics for a part of a resource, such as a component of a DataService.
type Part struct {
	Name    string
	Ready   bool
	Since   time.Time // time of the last change of Phase; zero if unknown
	Pods    int32     // number of ready pods
	Desired int32
	Waits   bool // the new revision waits for other parts
}

// Series are the metrics of the resources of one kind. All except TimeToReady are computed from the current resources at each scrape. So a
// deleted resource leaves no series, and all replicas of the operator report the same values.
type Series struct {
	// TimeToReady observes the seconds from the creation of a resource to its first Ready.
	TimeToReady prometheus.Histogram

	phase, generation, observed, paused, step, condition, conditionSince *prometheus.Desc
	ready, since, pods, waits, members                                   *prometheus.Desc
	backup, backupEvery, volume                                          *prometheus.Desc

	mu      sync.Mutex
	sources map[int]func() []Resource
	last    int
}

var (
	seriesMu sync.Mutex
	series   = map[string]*Series{}
)

// SeriesOf returns the metrics of a kind, such as DataService: dataservice_phase and so on. It returns the same Series for the same kind.
func SeriesOf(kind string) *Series {
	seriesMu.Lock()
	defer seriesMu.Unlock()
	if s := series[kind]; s != nil {
		return s
	}
	name := strings.ToLower(kind)
	desc := func(metric, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name+"_"+metric, help, append([]string{"namespace", name}, labels...), nil)
	}
	s := &Series{
		sources:        map[int]func() []Resource{},
		phase:          desc("phase", "The phase of a "+kind+": 1 for the one it is in.", "phase"),
		generation:     desc("generation", "The generation of the spec of a "+kind+"."),
		observed:       desc("observed_generation", "The generation that the status of a "+kind+" describes."),
		paused:         desc("paused", "Whether a "+kind+" is paused (1) or not (0)."),
		step:           desc("step", "1 for the current step of a "+kind+" on the running system; no series without a step.", "step"),
		condition:      desc("condition", "The conditions of a "+kind+": 1 for True, 0 for others.", "condition", "reason"),
		conditionSince: desc("condition_since_seconds", "When a condition of a "+kind+" changed its status last, as Unix time.", "condition"),
		ready:          desc("component_ready", "Whether a component of a "+kind+" is ready (1) or not (0).", "component"),
		since:          desc("component_since_seconds", "When the phase of a component changed last, as Unix time.", "component"),
		pods:           desc("component_pods", "The pods of a component: the ready ones and the desired ones.", "component", "state"),
		members:        desc("members", "The servers of a "+kind+" by state.", "state"),
		backup:         desc("backup_last_timestamp_seconds", "Time of the last backup or verification of a "+kind+", or the start of the wait for the first one, as Unix time.", "what"),
		backupEvery:    desc("backup_period_seconds", "The longest time between two backups of a "+kind+", or verifications, by their schedules.", "what"),
		volume:         desc("volume", "1 for each claim with the data of a "+kind+", for joining it with the kubelet's metrics of volumes.", "persistentvolumeclaim"),
		waits:          desc("component_waiting", "1 for a component whose new revision waits for other components.", "component"),
	}
	s.TimeToReady = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    name + "_time_to_ready_seconds",
		Help:    "Seconds from the creation of a " + kind + " until it was first Ready.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800},
	})
	ctrlmetrics.Registry.MustRegister(s.TimeToReady, s)
	series[kind] = s
	return s
}

// Show adds the resources that a function returns to each scrape, until stop is called. The function must not block.
func (s *Series) Show(resources func() []Resource) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	id := s.last
	s.sources[id] = resources
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sources, id)
	}
}

// Describe names the metrics.
func (s *Series) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		s.phase, s.generation, s.observed, s.paused, s.step, s.condition, s.conditionSince, s.ready, s.since, s.pods, s.waits, s.members, s.backup, s.backupEvery, s.volume,
	} {
		to <- d
	}
}

// Collect reports each resource once, even if several operators of this process show it.
func (s *Series) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	sources := make([]func() []Resource, 0, len(s.sources))
	for _, source := range s.sources {
		sources = append(sources, source)
	}
	s.mu.Unlock()
	seen := map[[2]string]bool{}
	for _, source := range sources {
		resources := source()
		for i := range resources {
			r := &resources[i]
			if key := [2]string{r.Namespace, r.Name}; !seen[key] {
				seen[key] = true
				s.collect(to, r)
			}
		}
	}
}

func (s *Series) collect(to chan<- prometheus.Metric, r *Resource) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{r.Namespace, r.Name}, labels...)...)
	}
	if r.Phase != "" {
		gauge(s.phase, 1, word(r.Phase))
	}
	gauge(s.generation, float64(r.Generation))
	gauge(s.observed, float64(r.Observed))
	gauge(s.paused, number(r.Paused))
	if r.Step != "" {
		gauge(s.step, 1, word(r.Step))
	}
	for _, c := range r.Conditions {
		if !isKnown[c.Type] {
			continue
		}
		gauge(s.condition, number(c.Status == metav1.ConditionTrue), c.Type, word(c.Reason))
		gauge(s.conditionSince, float64(c.LastTransitionTime.Unix()), c.Type)
	}
	if b := r.Backups; b != nil {
		for what, x := range map[string]struct {
			at    time.Time
			every time.Duration
		}{"backup": {b.LastSuccessful, b.Every}, "verify": {b.LastVerified, b.VerifyEvery}} {
			if !x.at.IsZero() {
				gauge(s.backup, float64(x.at.Unix()), what)
			}
			if x.every > 0 {
				gauge(s.backupEvery, x.every.Seconds(), what)
			}
		}
	}
	for _, claim := range r.Claims {
		gauge(s.volume, 1, claim)
	}
	for state, n := range r.Members {
		gauge(s.members, float64(n), word(state))
	}
	for _, p := range r.Parts {
		gauge(s.ready, number(p.Ready), p.Name)
		gauge(s.pods, float64(p.Pods), p.Name, "ready")
		gauge(s.pods, float64(p.Desired), p.Name, "desired")
		if !p.Since.IsZero() {
			gauge(s.since, float64(p.Since.Unix()), p.Name)
		}
		if p.Waits {
			gauge(s.waits, 1, p.Name)
		}
	}
}

// isKnown lists the reported conditions: other conditions in a status add no series.
var isKnown = map[string]bool{
	"Ready": true, "Progressing": true, "Degraded": true, "Paused": true, "Stalled": true, "OperatorChange": true, "SpecIgnored": true,
	"BackupHealthy": true, "Recoverable": true, "DatabaseSwitch": true, "Available": true, "CertificatesValid": true, "Redundant": true,
}

// wordLimit is longer than any phase, step or reason of the operator.
const wordLimit = 40

// word returns a text of one word unchanged, and "Other" for any other text, because the texts of a status become labels.
func word(text string) string {
	isForeign := func(r rune) bool { return r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z' }
	if text == "" || len(text) > wordLimit || strings.ContainsFunc(text, isForeign) {
		return "Other"
	}
	return text
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
