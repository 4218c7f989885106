// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
)

// An alarm for the whole cluster has member 0, which etcd does not print.
func TestAlarmsOfAStatus(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]membership.Alarm{
		(&etcdserverpb.AlarmMember{MemberID: 7, Alarm: etcdserverpb.AlarmType_CORRUPT}).String(): {{Member: 7, Kind: membership.AlarmCorrupt}},
		(&etcdserverpb.AlarmMember{Alarm: etcdserverpb.AlarmType_CORRUPT}).String():              {{Kind: membership.AlarmCorrupt}},
		"memberID:7  alarm:NOSPACE": {{Member: 7, Kind: membership.AlarmNoSpace}},
		"alarm:CORRUPT ":            {{Kind: membership.AlarmCorrupt}},
		"etcdserver: no leader":     nil,
	} {
		assert.DeepEqual(t, alarmsIn([]string{text}), want)
	}
}
