// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/health"
)

// ProbeFailure returns the output of a pod's readiness probe when it last failed, from the kubelet's events. It returns
// "" if there is no event, or if the operator may not list events. Each call sends a request.
func ProbeFailure(ctx context.Context, live client.Reader, pod *corev1.Pod) string {
	events := &corev1.EventList{}
	if err := live.List(ctx, events, client.InNamespace(pod.Namespace), client.MatchingFields{"involvedObject.uid": string(pod.UID)}); err != nil {
		return ""
	}
	newest, found := time.Time{}, ""
	for i := range events.Items {
		e := &events.Items[i]
		at := health.LastSeen(e)
		if text, isProbe := strings.CutPrefix(e.Message, "Readiness probe failed: "); isProbe && !at.Before(newest) {
			newest, found = at, strings.TrimSpace(text)
		}
	}
	return found
}
