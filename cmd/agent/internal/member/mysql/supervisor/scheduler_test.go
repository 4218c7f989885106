// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
)

// The scheduler of a primary has the user's setting. A server starts without a scheduler, because it may be a replica.
func TestScheduler(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"": schedulerOn, "# event_scheduler = OFF": schedulerOn, "event_scheduler = on": schedulerOn, "event-scheduler=1": schedulerOn, "event_scheduler": schedulerOn,
		"event-scheduler = OFF": schedulerOff, "loose_event_scheduler = 0": schedulerOff, "loose-loose-event-scheduler=\"off\"": schedulerOff,
		"skip_event_scheduler": schedulerOff, "disable-event-scheduler": schedulerOff, "skip_event_scheduler\nenable-event-scheduler": schedulerOn,
		"event_scheduler = DISABLED": schedulerDisabled, "event_scheduler = 2": schedulerDisabled, "event_scheduler = OFF\n[client]\nevent_scheduler = ON": schedulerOff,
		"event_scheduler = OFF\n\n[mysqld]\nevent_scheduler = ON": schedulerOn, "event_scheduler_of_another = OFF": schedulerOn,
	} {
		s := Server{Config: filepath.Join(t.TempDir(), "my.cnf")}
		assert.NilError(t, os.WriteFile(s.Config, []byte("# a comment\n[mysqld]\nmax_connections = 60\n"+setting+"\n"), 0o600))
		assert.Equal(t, s.scheduler(), want, setting)
		arguments := s.arguments(0, "data", "socket", nil)
		last := ""
		for _, argument := range arguments {
			if len(argument) > 17 && argument[:17] == "--event-scheduler" {
				last = argument
			}
		}
		assert.Equal(t, last, map[bool]string{true: "--event-scheduler=DISABLED", false: "--event-scheduler=OFF"}[want == schedulerDisabled], setting)
		assert.Assert(t, slices.Contains(arguments, "--persisted-globals-load=OFF"))
	}
	assert.Equal(t, Server{Options: []string{"--event-scheduler=OFF"}}.scheduler(), schedulerOff)
	assert.Equal(t, Server{}.scheduler(), schedulerOn)
}
