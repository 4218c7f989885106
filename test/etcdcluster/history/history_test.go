// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A pod that goes before the one that went before it is back is found out, and so is a member that is removed.
func TestFindsHarm(t *testing.T) {
	t.Parallel()
	at := func(second int) string { return fmt.Sprintf("2026-01-02T03:04:%02d.000Z", second) }
	line := func(second int, message, more string) string {
		return fmt.Sprintf(`{"ts":%q,"msg":%q%s}`+"\n", at(second), message, more)
	}
	log := func(pod int, returns int) Log {
		began := line(1, "a switched to configuration voters=(1 2 3)", fmt.Sprintf(`,"local-member-id":"%d"`, pod+1)) + line(2, "ready to serve client requests", "")
		again := "starting: etcd\n" + line(returns-1, "a switched to configuration voters=(1 2 3)", fmt.Sprintf(`,"local-member-id":"%d"`, pod+1)) +
			line(returns, "ready to serve client requests", "")
		return Log{Pod: fmt.Sprint(pod), Text: "starting: etcd\n" + began + line(11, "received signal; shutting down", "") + again}
	}
	third := Log{Pod: "2", Text: line(1, "added member", `,"local-member-id":"3"`) + line(2, "ready to serve client requests", "")}
	moment := func(second int) time.Time {
		found, err := time.Parse(time.RFC3339, at(second))
		assert.NilError(t, err)
		return found
	}
	for name, c := range map[string]struct {
		second  int    // when the second pod is deleted
		removed string // a member that is removed when the first pod is away
		harm    int
	}{
		"one after the other": {30, "", 0}, "one before the other is back": {15, "", 1}, "at once": {10, "", 1},
		"the member that is away is removed": {30, "1", 0}, "another one is removed": {30, "3", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &History{Deletions: []Deletion{{"0", "operator", moment(10)}, {"1", "operator", moment(c.second).Add(time.Millisecond)}}}
			assert.NilError(t, h.Add(log(0, 20)))
			third := third
			if c.removed != "" {
				third.Text += line(15, "removed member", fmt.Sprintf(`,"removed-remote-peer-id":%q`, c.removed))
				h.Deletions = h.Deletions[:1]
			}
			second := log(1, 40)
			second.Text = strings.ReplaceAll(second.Text, at(11), at(c.second+1))
			assert.NilError(t, h.Add(second))
			assert.NilError(t, h.Add(third))
			harm, moments := h.Harm()
			assert.Equal(t, len(harm), c.harm, "%v", harm)
			assert.Equal(t, moments, 2)
		})
	}
}
