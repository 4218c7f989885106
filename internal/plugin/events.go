// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/health"
)

// Last returns the time of the last occurrence of an event.
func Last(e *corev1.Event) *metav1.Time {
	return &metav1.Time{Time: health.LastSeen(e)}
}

// Count returns the number of occurrences of an event.
func Count(e *corev1.Event) int32 {
	if e.Series != nil {
		return max(e.Series.Count, e.Count, 1)
	}
	return max(e.Count, 1)
}

// Events prints events, the oldest first, with their whole messages.
func (s Style) Events(all []corev1.Event, now time.Time) string {
	all = slices.Clone(all)
	health.SortEvents(all)
	rows := [][]cell{{{text: "LAST"}, {text: "TYPE"}, {text: "REASON"}, {text: "OBJECT"}, {text: "MESSAGE"}}}
	for i := range all {
		e := &all[i]
		rows = append(rows, []cell{
			{text: Age(Last(e), now)}, {text: e.Type}, {text: e.Reason},
			{text: strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name}, {text: Times(e) + oneLine(e.Message)},
		})
	}
	s.Width = 0
	return s.table(rows)
}

// Times prints the number of occurrences of an event, if more than one.
func Times(e *corev1.Event) string {
	if n := Count(e); n > 1 {
		return fmt.Sprintf("(x%d) ", n)
	}
	return ""
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
