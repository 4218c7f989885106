// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"strconv"
	"time"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
)

// startOnly holds settings that Redis 6.2 to 8 reads at its start and refuses to change later (found by CONFIG SET of every setting). It
// also holds settings that CONFIG GET returns in another form, which makes a comparison impossible. All others are changed by CONFIG SET.
var startOnly = map[string]bool{
	"always-show-logo": true, "rdbchecksum": true, "io-threads": true, "io-threads-do-reads": true, "tcp-backlog": true,
	"set-proc-title": true, "disable-thp": true, "socket-mark-id": true,

	"notify-keyspace-events": true, "oom-score-adj-values": true, "proc-title-template": true,
	"latency-tracking-info-percentiles": true,
}

const settingNodeTimeout = "cluster-node-timeout"

// settings holds the settings of spec.config, separated by the time at which a server gets them.
type settings struct {
	live  map[string]string // settings to apply by CONFIG SET
	start map[string]string // settings to apply by a restart
}

func settingsOf(config map[string]redisv1.Setting) settings {
	s := settings{live: map[string]string{}, start: map[string]string{}}
	for name, value := range config {
		if startOnly[name] {
			s.start[name] = string(value)
			continue
		}
		s.live[name] = string(value)
	}
	return s
}

// nodeTimeout returns the time without an answer after which nodes mark another node as failed.
func nodeTimeout(live map[string]string) time.Duration {
	ms, err := strconv.Atoi(live[settingNodeTimeout])
	if err != nil || ms <= 0 {
		return defaultNodeTimeout
	}
	return time.Duration(ms) * time.Millisecond
}
