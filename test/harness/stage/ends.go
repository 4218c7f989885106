// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// EndsLater returns the path of a program that is killed some time after its start, like a server that exceeds its memory limit under load.
func EndsLater(t *testing.T, program string, after time.Duration) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	script := fmt.Sprintf("#!/bin/sh\n(sleep %d; kill -9 $$) >/dev/null 2>&1 &\nexec %s \"$@\"\n", int(after.Seconds()), program)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// PodsOf returns the names of the pods that have had a container with an image, of any tag, since a mark of the journal.
func (s *Stage) PodsOf(image string, mark int) (names []string) {
	for _, c := range s.Since(mark) {
		pod, isPod := c.Object.(*corev1.Pod)
		if isPod && !slices.Contains(names, pod.Name) && slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return strings.HasPrefix(c.Image+":", image+":") }) {
			names = append(names, pod.Name)
		}
	}
	return names
}
