// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import "testing"

// Six pods become a cluster.
func TestForms(t *testing.T) {
	s := newScene(t)
	s.Start()
	s.create("{replicas: 6, repository: redis}")
	took := s.ready(6)
	s.Logf("ready after %s", took)
}
