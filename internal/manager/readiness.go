// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/metrics"
)

const (
	// reportPoll is the time between two checks for problems. A check without problems sends no request.
	reportPoll = 2 * time.Second
	// logEvery is the interval at which a lasting problem is logged again.
	logEvery = time.Minute
	// noteLength bounds the note of an Event: the API server accepts 1,024 bytes.
	noteLength = 250
)

// readiness reports the problems that prevent the operator's work: failing lists, CRDs that are older than the operator, and watched namespaces
// without rights. It makes the readiness probe fail, counts the problems in a metric, logs each problem once a minute, and records an Event about
// the operator's own pod.
type readiness struct {
	sources  map[string]func() []string
	reader   client.Reader // without a cache
	recorder events.EventRecorder
	pod      client.ObjectKey // the operator's own pod; empty outside of a pod
	logged   map[string]time.Time
}

// check returns the readiness check for one source of problems. GET /readyz/NAME returns the error.
func (r *readiness) check(source string) func(*http.Request) error {
	return func(*http.Request) error {
		if problems := r.sources[source](); len(problems) > 0 {
			return errors.New(strings.Join(problems, "; "))
		}
		return nil
	}
}

// run reports problems until the context ends. Unlike the manager's other runnables, it does not wait for the caches.
func (r *readiness) run(ctx context.Context) {
	ticker := time.NewTicker(reportPoll)
	defer ticker.Stop()
	for {
		r.report(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *readiness) report(ctx context.Context, now time.Time) {
	log := ctrl.Log.WithName("readiness")
	present := map[string]bool{}
	for source, problems := range r.sources {
		found := problems()
		metrics.Problems.WithLabelValues(source).Set(float64(len(found)))
		for _, problem := range found {
			present[problem] = true
			before, isOld := r.logged[problem]
			if isOld && now.Sub(before) < logEvery {
				continue
			}
			r.logged[problem] = now
			log.Error(errors.New(problem), "the operator is not ready because of this error; it may be unable to reconcile the affected resources")
			if !isOld {
				r.record(ctx, problem)
			}
		}
	}
	for problem := range r.logged {
		if !present[problem] {
			delete(r.logged, problem)
			log.Info("the operator no longer has this problem", "problem", problem)
		}
	}
}

// record creates an Event about the operator's own pod. The API merges Events with the same action, so each problem has a different action.
func (r *readiness) record(ctx context.Context, problem string) {
	if r.pod.Name == "" {
		return
	}
	pods := &corev1.PodList{} // a list by name needs no right in addition to those of the cache
	named := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", r.pod.Name)}
	var about runtime.Object = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.pod.Namespace, Name: r.pod.Name}}
	if err := r.reader.List(ctx, pods, client.InNamespace(r.pod.Namespace), named); err == nil && len(pods.Items) == 1 {
		about = &pods.Items[0]
	}
	const actionLength = 120
	r.recorder.Eventf(about, nil, corev1.EventTypeWarning, health.ReasonOperator, health.Clip(problem, actionLength), "%s", health.Clip(problem, noteLength))
}
