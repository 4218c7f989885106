// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// samplePlatform returns a DataService with a phase and components.
func samplePlatform(name string, phase dsv1.Phase, message string, components ...dsv1.ComponentStatus) *dsv1.DataService {
	ready := 0
	for _, c := range components {
		if c.Phase == dsv1.PhaseRunning {
			ready++
		}
	}
	is := metav1.ConditionFalse
	if phase == dsv1.PhaseRunning {
		is = metav1.ConditionTrue
	}
	return &dsv1.DataService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "data-prod", Name: name, Generation: 7, CreationTimestamp: ago(240 * time.Hour)},
		Status: dsv1.DataServiceStatus{
			ObservedGeneration: 7, Phase: phase, Message: message, Ready: fmt.Sprintf("%d/%d", ready, len(components)), Components: components,
			Conditions: []metav1.Condition{{Type: dsv1.ConditionReady, Status: is, LastTransitionTime: ago(6 * time.Minute)}},
		},
	}
}

func component(name string, phase dsv1.Phase, since time.Duration) dsv1.ComponentStatus {
	at := ago(since)
	c := dsv1.ComponentStatus{Name: name, Kind: "Deployment", Phase: phase, Desired: 3, LastTransitionTime: &at}
	if phase == dsv1.PhaseRunning {
		c.Ready = 3
	}
	return c
}

const cause = "auth: pod auth-6b7c9f-x2x4p: ImagePullBackOff: registry.example.com/platform/team/auth:v1.5-rc.1-20260301: not found"

// degraded returns a DataService with twelve components. The image of one component cannot be pulled.
func degraded() *dsv1.DataService {
	auth := component("auth", dsv1.PhaseDegraded, 6*time.Minute)
	auth.Message = strings.TrimPrefix(cause, "auth: ")
	auth.Culprit = &dsv1.Culprit{Kind: "Pod", Name: "auth-6b7c9f-x2x4p", Reason: "ImagePullBackOff"}
	proxy := component("proxy", dsv1.PhasePending, 6*time.Minute)
	proxy.WaitsFor, proxy.Message = []string{"auth"}, "keeps running as it was; its new revision waits for auth"
	web := component("web", dsv1.PhasePending, 6*time.Minute)
	web.WaitsFor, web.Message = []string{"proxy"}, "keeps running as it was; its new revision waits for proxy"
	all := []dsv1.ComponentStatus{}
	for _, name := range []string{"mysql", "uuc", "eureka", "api-manager"} {
		all = append(all, component(name, dsv1.PhaseRunning, 290*time.Hour))
	}
	all = append(all, auth)
	for _, name := range []string{"ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web"} {
		all = append(all, component(name, dsv1.PhaseRunning, 290*time.Hour))
	}
	return samplePlatform("platform", dsv1.PhaseDegraded, cause, append(all, proxy, web)...)
}

func running(n int) *dsv1.DataService {
	var all []dsv1.ComponentStatus
	for i := range n {
		all = append(all, component(fmt.Sprintf("service-%02d", i), dsv1.PhaseRunning, time.Hour))
	}
	return samplePlatform("large", dsv1.PhaseRunning, "service-00->service-01", all...)
}

func TestScreens(t *testing.T) {
	t.Parallel()
	notSeen := running(2)
	notSeen.Generation = 8
	large := running(40)
	large.Status.Components[3] = component("service-03", dsv1.PhaseUpdating, time.Minute)
	large.Status.Phase, large.Status.Conditions[0].Status = dsv1.PhaseUpdating, metav1.ConditionFalse
	paused := running(2)
	paused.Spec.Paused, paused.Status.Phase = true, dsv1.PhasePaused
	style := Style{Width: 80}
	for name, text := range map[string]string{
		"degraded":       style.Platform(degraded(), now),
		"degraded-color": Style{Width: 80, Color: true}.Platform(degraded(), now),
		"running":        style.Platform(running(3), now),
		"large":          style.Platform(large, now),
		"large-verbose":  Style{Width: 80, Verbose: true}.Platform(large, now),
		"not-seen":       style.Platform(notSeen, now),
		"paused":         style.Platform(paused, now),
		"new":            style.Platform(&dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: "a", Generation: 1, CreationTimestamp: ago(time.Second)}}, now),
		"fleet":          style.Fleet([]dsv1.DataService{*running(3), *degraded(), *notSeen}, true, now),
		"fleet-wide":     Style{}.Fleet([]dsv1.DataService{*running(3), *degraded()}, false, now),
		"lines":          style.Line(degraded()) + style.Line(notSeen),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden.Assert(t, text, name+".txt")
			assert.Assert(t, strings.HasSuffix(text, "\n"))
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if !strings.HasSuffix(name, "verbose") {
				assert.Assert(t, len(lines) <= 24, "%d lines", len(lines))
			}
			for _, line := range lines {
				whole := strings.Contains(line, cause) || strings.Contains(name, "color") || strings.Contains(name, "wide") || name == "lines"
				assert.Assert(t, whole || utf8.RuneCountInString(line) <= 80, "%q", line)
			}
		})
	}
	assert.Assert(t, strings.Contains(style.Platform(degraded(), now), cause), "the cause is never cut")
	assert.Assert(t, !strings.Contains(style.Platform(degraded(), now), "\x1b"))
}

func TestReady(t *testing.T) {
	t.Parallel()
	assert.Assert(t, Ready(running(1)))
	assert.Assert(t, !Ready(degraded()))
	changed := running(1)
	changed.Generation++
	assert.Assert(t, !Ready(changed), "a DataService whose latest generation is not observed is not ready")
	assert.Assert(t, !Ready(&dsv1.DataService{}))
}

// The two event APIs store times and counts in different fields.
func TestEvents(t *testing.T) {
	t.Parallel()
	old := corev1.Event{Type: "Warning", Reason: "BackOff", Message: "Back-off\n  restarting", Count: 7, LastTimestamp: ago(time.Minute),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "auth-1"}}
	recent := corev1.Event{Type: "Normal", Reason: "ComponentUpdated", Message: "updated Deployment auth", EventTime: metav1.NewMicroTime(now.Add(-time.Hour)),
		Series: &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(now.Add(-30 * time.Second))}, InvolvedObject: corev1.ObjectReference{Kind: "DataService", Name: "platform"}}
	golden.Assert(t, Style{Width: 80}.Events([]corev1.Event{recent, old}, now), "events.txt")
}

// Printable replaces the control characters in a pod's log or message by text. It keeps only newlines, tabs and the
// characters for the screens' own colours.
func TestControlCharactersArePrintedAsText(t *testing.T) {
	t.Parallel()
	colored := Style{Color: true}.Paint(dsv1.PhaseRunning, "Running")
	got := Printable(colored + "\tok\n| \x1b]0;title\x07\x1b[2J\r\u009b2J\x1b[31m文\n")
	assert.Equal(t, got, colored+"\tok\n"+`| \u001b]0;title\u0007\u001b[2J\u000d\u009b2J`+"\x1b[31m文\n")
}
