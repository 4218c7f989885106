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

// Resource is what the metrics tell of one resource.
type Resource struct {
	Namespace, Name string
	Phase           string // empty while the operator has not looked at it
	Generation      int64
	Observed        int64 // the generation that the status describes
	Paused          bool
	Step            string // what is being done to the running system; empty while nothing is
	Conditions      []metav1.Condition
	Parts           []Part
	Members         map[string]int // how many servers are in each state; nil where that is not told
	Backups         *Backups       // nil where none are declared
	Claims          []string       // those with its data; nil where that is not told
}

// Backups is what the metrics tell of the backups of a resource.
type Backups struct {
	// LastSuccessful and LastVerified are when a backup was made, and checked, last; or, where that has not happened yet, since
	// when it is waited for. Zero where it is not asked for.
	LastSuccessful, LastVerified time.Time
	// Every and VerifyEvery are the longest time between two runs of the schedules; 0 for none.
	Every, VerifyEvery time.Duration
}

// Part is what the metrics tell of one part of a resource, such as a component of a DataService.
type Part struct {
	Name    string
	Ready   bool
	Since   time.Time // when its phase changed last; zero if that is not known
	Pods    int32     // those that are ready
	Desired int32
	Waits   bool // its new revision waits for other parts
}

// Series are the metrics of the resources of one kind. But for TimeToReady they are made at each scrape
// from the resources as they are then. So nothing is left of a resource that is gone, and each replica of
// the operator tells the same, whether it leads or not.
type Series struct {
	// TimeToReady observes the seconds from the creation of a resource until it is first Ready.
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

// SeriesOf returns the metrics of a kind, such as DataService: dataservice_phase and so on. The
// same ones are returned for the same kind.
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
		step:           desc("step", "1 for the step that is being taken for a "+kind+"; none while nothing is being done.", "step"),
		condition:      desc("condition", "The conditions of a "+kind+": 1 for True, 0 for others.", "condition", "reason"),
		conditionSince: desc("condition_since_seconds", "When a condition of a "+kind+" changed its status last, as Unix time.", "condition"),
		ready:          desc("component_ready", "Whether a component of a "+kind+" is ready (1) or not (0).", "component"),
		since:          desc("component_since_seconds", "When the phase of a component changed last, as Unix time.", "component"),
		pods:           desc("component_pods", "The pods of a component: those that are ready, and those that should be.", "component", "state"),
		members:        desc("members", "The servers of a "+kind+" by state.", "state"),
		backup:         desc("backup_last_timestamp_seconds", "When a backup of a "+kind+" was made or verified last, or since when that is waited for, as Unix time.", "what"),
		backupEvery:    desc("backup_period_seconds", "The longest time between two backups of a "+kind+", or verifications, by their schedules.", "what"),
		volume:         desc("volume", "1 for each claim with the data of a "+kind+", for what the kubelet tells of volumes.", "persistentvolumeclaim"),
		waits:          desc("component_waiting", "1 for a component whose new revision waits for others.", "component"),
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

// Show makes scrapes tell of the resources that a function returns, until stop is called. The function must
// not block: it is called at each scrape.
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

// Collect tells of each resource once, also where several operators of this process show it.
func (s *Series) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	sources := make([]func() []Resource, 0, len(s.sources))
	for _, source := range s.sources {
		sources = append(sources, source)
	}
	s.mu.Unlock()
	told := map[[2]string]bool{}
	for _, source := range sources {
		resources := source()
		for i := range resources {
			r := &resources[i]
			if key := [2]string{r.Namespace, r.Name}; !told[key] {
				told[key] = true
				s.tell(to, r)
			}
		}
	}
}

func (s *Series) tell(to chan<- prometheus.Metric, r *Resource) {
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

// isKnown are the conditions that are told of: there is no more than one series for each, whoever writes a status.
var isKnown = map[string]bool{
	"Ready": true, "Progressing": true, "Degraded": true, "Paused": true, "Stalled": true, "OperatorChange": true, "SpecIgnored": true,
	"BackupHealthy": true, "Recoverable": true, "DatabaseSwitch": true, "Available": true, "CertificatesValid": true,
}

// wordLimit is longer than any phase, step or reason of the operator's.
const wordLimit = 40

// word is a value that may be a label: one word. What somebody else has written into a status is Other.
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
