// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// CLONE copies to a server of the same version. From 8.0.37 on, it also copies to another version of the same series.
func TestVersionsOfACopy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		may      bool
	}{
		{"8.0.36", "8.0.36", true}, {"8.0.36", "8.0.37", false}, {"8.0.37", "8.0.36", false}, {"8.0.37", "8.0.45", true}, {"8.4.2", "8.4.9", true}, {"8.4.9", "8.4.2", true},
		{"8.0.45", "8.4.2", false}, {"9.6.0", "9.7.4", false}, {"9.7.4", "11.8.9-MariaDB", false},
	} {
		from, _ := server.ParseVersion(c.from)
		to, _ := server.ParseVersion(c.to)
		if may := maySend(from, to); may != c.may {
			t.Errorf("from %s to %s: %t", c.from, c.to, may)
		}
	}
}
