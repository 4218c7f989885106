// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import "testing"

func TestSeries(t *testing.T) {
	t.Parallel()
	for older, newer := range map[string]string{"3.4.44": "3.5.0", "3.5.9": "3.10.1", "3.9.9": "4.0.0", "": "3.4.0"} {
		if Series(older) >= Series(newer) {
			t.Errorf("%s is not older than %s", older, newer)
		}
	}
	if Series("3.6.1") != Series("3.6.16") {
		t.Error("Series compares patch versions")
	}
}
