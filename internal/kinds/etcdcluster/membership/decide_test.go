// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

const clusterID = 0xc1

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*scene)
		verdict Verdict
		action  Action // of the first step; none: settled
		says    string // of its message
	}{
		"all is well":         {func(*scene) {}, Complete, "", ""},
		"parked":              {func(s *scene) { s.want.Replicas = 0 }, Parked, "", ""},
		"nothing is there":    {func(s *scene) { s.view, s.list = View{}, nil }, Fresh, ActionRecord, "begin with one member of etcd 3.6.16"},
		"the first pod waits": {fresh(&Report{Volume: VolumeEmpty}), Fresh, ActionTicket, "let p-0 form the cluster"},
		"the first pod has foreign data": {fresh(&Report{Volume: VolumeForeign, Waiting: "data of somebody else"}), QuorumLost, ActionWait,
			"data of somebody else"},
		"the first pod cannot be asked": {fresh(nil), Fresh, ActionWait, "p-0: it does not answer"},
		"two clusters": {func(s *scene) { s.view.Pods[2].Answer.Cluster = 0xc2 }, SplitBrain, ActionWait,
			"data of 2 clusters (c1, c2)"},
		"a claim of another cluster":      {func(s *scene) { s.view.Claims[1].Cluster = 0xc2 }, SplitBrain, ActionWait, "nothing is changed"},
		"a member is down":                {func(s *scene) { s.down(1) }, Degraded, ActionWait, "p-1: no answer within 2s"},
		"a member crashes for a while":    {func(s *scene) { s.down(1); s.crashing(1, time.Minute) }, Degraded, ActionWait, "p-1"},
		"a member crashes for too long":   {func(s *scene) { s.down(1); s.crashing(1, 5*time.Minute) }, Degraded, ActionRemove, "remove p-1 from the cluster: it has not started for 5m0s"},
		"it may crash for ever":           {func(s *scene) { s.want.ReplaceAfter = 0; s.down(1); s.crashing(1, time.Hour) }, Degraded, ActionWait, "p-1"},
		"data is damaged":                 {func(s *scene) { s.damaged(1) }, Degraded, ActionRemove, "remove p-1 from the cluster: its data is damaged: a checksum"},
		"damaged data may stay for ever":  {func(s *scene) { s.want.ReplaceAfter = 0; s.damaged(1) }, Degraded, ActionWait, "p-1: the data is damaged"},
		"the data of two is damaged":      {func(s *scene) { s.damaged(1, 2) }, QuorumLost, ActionWait, "1 of 3 voters answer"},
		"one is damaged, another is down": {func(s *scene) { s.down(2); s.damaged(1); s.down(1, 2) }, QuorumLost, ActionWait, "1 of 3 voters answer"},
		"damaged, of another member":      {func(s *scene) { s.damaged(1); s.view.Pods[1].Report.Member = 3 }, Degraded, ActionWait, "p-1 is left alone"},
		"a volume is lost":                {func(s *scene) { s.empty(1) }, Degraded, ActionRemove, "remove p-1 from the cluster: its volume is empty"},
		"two volumes are lost":            {func(s *scene) { s.empty(1, 2) }, QuorumLost, ActionWait, "set spec.recovery.from to p-0 (or Best)"},
		"two are down, none is lost":      {func(s *scene) { s.down(1, 2) }, QuorumLost, ActionWait, "1 of 3 voters answer, a quorum is 2"},
		"one is lost, another is paused":  {func(s *scene) { s.empty(1); s.down(1, 2) }, QuorumLost, ActionWait, "1 of 3 voters answer"},
		"all volumes are lost":            {func(s *scene) { s.empty(0, 1, 2) }, QuorumLost, ActionWait, "set spec.recovery.from to Empty"},
		"consent":                         {func(s *scene) { s.empty(1, 2); s.want.Recovery = Recovery{RecoverBest, "t"} }, QuorumLost, ActionRecord, "go on with the data of p-0"},
		"consent, and a member may come back": {func(s *scene) { s.empty(1); s.down(1, 2); s.want.Recovery = Recovery{RecoverBest, "t"} }, QuorumLost, ActionWait,
			"the recovery waits: nobody knows whether p-2 has data"},
		"consent that was used": {func(s *scene) { s.empty(1, 2); s.want.Recovery = Recovery{RecoverBest, "t"}; s.view.Record.Token = "t" }, QuorumLost, ActionWait, "recovery"},
		"consent with a quorum": {func(s *scene) { s.empty(1); s.want.Recovery = Recovery{RecoverBest, "t"} }, Degraded, ActionRemove, "p-1"},
		"consent to begin again": {func(s *scene) { s.empty(0, 1, 2); s.list = nil; s.want.Recovery = Recovery{RecoverEmpty, "t"} }, QuorumLost, ActionMarkClaim,
			"its volume is empty"},
		"volumes were swapped": {func(s *scene) {
			s.down(1)
			s.view.Pods[1].Report = &Report{Volume: VolumeData, Cluster: clusterID, Member: 3}
		}, Degraded, ActionWait, "p-1 is left alone: its volume has the data of member 3"},
		"a member of somebody else": {func(s *scene) {
			s.list = append(s.list, Member{ID: 9, Name: "other", PeerURLs: []string{"http://elsewhere:2380"}})
		}, Degraded, ActionWait,
			"member 9 (other) is none of this cluster's pods"},
		"a corrupt member": {func(s *scene) { s.view.Pods[0].Answer.Alarms = []Alarm{{3, AlarmCorrupt}} }, Degraded, ActionRemove, "remove p-2"},
		"a corrupt leader": {func(s *scene) { s.view.Pods[0].Answer.Alarms = []Alarm{{1, AlarmCorrupt}} }, Degraded, ActionMoveLeader, "let p-1 lead the cluster in place of p-0: it is to be replaced"},
		"an alarm of a member that is gone": {func(s *scene) { s.view.Pods[0].Answer.Alarms = []Alarm{{8, AlarmCorrupt}} }, Complete, ActionDisarm,
			"end the alarm CORRUPT of member 8"},
		"a learner to start": {learner(&Report{Volume: VolumeEmpty}, nil), Degraded, ActionMarkClaim, "it is for member 4"},
		"a learner that lost its data": {func(s *scene) {
			learner(&Report{Volume: VolumeEmpty}, nil)(s)
			s.list[3].Name = "p-3"
		}, Degraded, ActionRemove, "remove the learner p-3: it was started"},
		"a learner has the data": {learner(nil, &Answer{Learner: true, Applied: 100}), Degraded, ActionPromote, "let p-3 vote"},
		"a learner gets the data": {func(s *scene) {
			learner(nil, &Answer{Learner: true, Applied: 100})(s)
			s.view.Pods[0].Answer.Applied = 9000
		}, Degraded, ActionWait, "p-3 gets the data"},
		"a learner is silent": {func(s *scene) { learner(nil, nil)(s); s.view.Pods[3].Silent = true }, Degraded, ActionWait, "p-3 starts"},
		"a learner is silent after a snapshot": {func(s *scene) {
			learner(nil, nil)(s)
			s.view.Pods[3].Silent, s.view.Pods[0].Answer.Index = true, 5001
		}, Degraded, ActionAppend, "p-3 may have all others"},
		"a learner is not wanted":    {func(s *scene) { learner(nil, &Answer{Learner: true, Applied: 100})(s); s.want.Replicas = 3 }, Degraded, ActionRemove, "not wanted any more"},
		"more are wanted":            {func(s *scene) { s.want.Replicas = 5 }, Complete, ActionRecord, "add a pod with ordinal 3"},
		"more, and one is down":      {func(s *scene) { s.want.Replicas = 5; s.down(1) }, Degraded, ActionWait, "no member is added: not all voters are well"},
		"fewer are wanted":           {func(s *scene) { s.want.Replicas = 1 }, Complete, ActionRemove, "remove p-2 from the cluster: 1 members are wanted"},
		"fewer, and the last leads":  {func(s *scene) { s.want.Replicas = 2; s.leads(3) }, Complete, ActionMoveLeader, "let p-0 lead the cluster in place of p-2"},
		"fewer, and another is down": {func(s *scene) { s.want.Replicas = 2; s.down(1) }, Degraded, ActionWait, "p-2 is not removed"},
		"a follower is outdated":     {func(s *scene) { s.view.Pods[0].Outdated, s.view.Pods[1].Outdated = true, true }, Complete, ActionDeletePod, "replace pod p-1"},
		"the leader is outdated":     {func(s *scene) { s.view.Pods[0].Outdated = true }, Complete, ActionMoveLeader, "let p-1 lead"},
		"outdated, and one is down":  {func(s *scene) { s.view.Pods[0].Outdated = true; s.down(1) }, Degraded, ActionWait, "no further pod is replaced"},
		"the one that is down is":    {func(s *scene) { s.view.Pods[1].Outdated = true; s.down(1) }, Degraded, ActionDeletePod, "it does not answer"},
		"outdated or not is unknown": {func(s *scene) { s.view.Pods[1].Outdated, s.view.Lagging = true, true }, Complete, "", ""},
		"the next minor":             {func(s *scene) { s.versions("3.4.23"); s.want.Version = "3.6.16" }, Complete, ActionRecord, "bring etcd from 3.4.23 to 3.5.35"},
		"the last minor":             {func(s *scene) { s.versions("3.5.35"); s.want.Version = "3.6.16" }, Complete, ActionRecord, "from 3.5.35 to 3.6.16"},
		"a patch that comes first":   {func(s *scene) { s.versions("3.5.9"); s.want.Version = "3.6.16" }, Complete, ActionRecord, "bring etcd from 3.5.9 to 3.5.35"},
		"not all run the present one": {func(s *scene) {
			s.versions("3.5.35")
			s.view.Pods[1].Answer.Version = "3.4.44"
			s.want.Version = "3.6.16"
		}, Complete, ActionMarkClaim, ""},
		"no way back":                  {func(s *scene) { s.want.Version = "3.5.35" }, Complete, ActionWait, "cannot go back from 3.6.16 to 3.5.35"},
		"no space, with history":       {func(s *scene) { s.noSpace(false) }, Complete, ActionCompact, "drop the history before revision 50"},
		"no space, history dropped":    {func(s *scene) { s.noSpace(true); s.unused(1) }, Complete, ActionDefrag, "rewrite the database of p-1"},
		"no space, the leader is left": {func(s *scene) { s.noSpace(true); s.unused(0) }, Complete, ActionMoveLeader, "its database is to be rewritten"},
		"there is space again":         {func(s *scene) { s.noSpace(true) }, Complete, ActionDisarm, "there is space again"},
		"the quota is full":            {func(s *scene) { s.noSpace(true); s.view.Pods[2].Answer.Quota = 1000 }, Complete, ActionWait, "raise spec.config.quota-backend-bytes"},
		"no consent to drop history":   {func(s *scene) { s.noSpace(false); s.want.Maintenance.Compact = false }, Complete, ActionWait, "takes no writes"},
		"much is unused":               {func(s *scene) { s.view.Pods[2].Answer.Used = 100 }, Complete, ActionDefrag, "rewrite the database of p-2"},
		"a resource made anew":         {func(s *scene) { s.view.Record = Record{Replicas: 1, Version: "3.6.16"} }, Complete, ActionRecord, "this is cluster c1, with 3 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			c.change(s)
			d := s.decide()
			assert.Equal(t, d.Model.Verdict, c.verdict, d.Model.Reason)
			if c.action == "" {
				assert.Equal(t, len(d.Steps), 0, fmt.Sprint(d.Steps))
				return
			}
			assert.Assert(t, len(d.Steps) > 0, "nothing is to be done: "+d.Model.Reason)
			assert.Equal(t, d.Steps[0].Action, c.action, d.Steps[0].Message)
			assert.Assert(t, strings.Contains(d.Steps[0].Message, c.says), d.Steps[0].Message)
		})
	}
}

// Whatever is seen, there is an answer: every part of a view may be missing, or odd.
func FuzzDecide(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		s := newScene()
		for i, b := range bytes {
			p := &s.view.Pods[i%3]
			switch b % 16 {
			case 0:
				p.Answer = nil
			case 1:
				p.Answer, p.Report = nil, &Report{Volume: VolumeEmpty, Member: ID(b >> 4)}
			case 2:
				p.Answer, p.Report = nil, &Report{Volume: VolumeData, Member: ID(b >> 4)}
			case 3:
				p.Terminating = true
			case 4:
				p.Outdated = true
			case 5:
				s.want.Replicas = int(b>>4) % (MaxReplicas + 1)
			case 6:
				s.view.Claims[i%3].Terminating = true
			case 7:
				s.view.Claims[i%3].Member = ID(b >> 4)
			case 8:
				s.list = s.list[:len(s.list)/2]
			case 9:
				s.list = append(s.list, Member{ID: ID(b>>4) + 10, PeerURLs: allURLs[b>>4 : b>>4+1], Learner: b&64 != 0})
			case 10:
				s.view.Record = Record{Replicas: int(b >> 4)}
			case 11:
				p.Crashing, p.Running, p.NotReadyFor = true, false, time.Hour
			case 12:
				if p.Answer != nil {
					p.Answer.Linear = b&64 != 0
				}
			case 13:
				s.want.Recovery = Recovery{From: []string{RecoverBest, RecoverEmpty, "p-1", "x"}[b>>6], Token: "t"}
			case 14:
				s.view.Record.Survivor = names[b>>6]
			case 15:
				s.view.Pods = s.view.Pods[:max(1, len(s.view.Pods)-1)]
				return
			}
		}
		first, second := s.decide(), s.decide()
		assert.DeepEqual(t, first, second)
		if len(first.Steps) > 0 && first.Steps[0].Action == ActionRemove {
			r := first.Steps[0]
			assert.Assert(t, len(r.Healthy) >= 1 || r.Ordinal >= 0, "%+v", r)
		}
	})
}

func TestNextVersion(t *testing.T) {
	t.Parallel()
	path := []string{"3.4.44", "3.5.35", "3.6.16", "3.7.3"}
	for _, c := range []struct{ from, to, next, why string }{
		{"3.6.16", "3.6.17", "3.6.17", ""},
		{"3.6.16", "3.6.1", "3.6.1", ""},
		{"3.4.23", "3.7.3", "3.5.35", ""},
		{"3.5.35", "3.7.3", "3.6.16", ""},
		{"3.6.16", "3.7.1", "3.7.1", ""},
		{"3.6.5", "3.7.3", "3.6.16", ""},
		{"3.5.9", "3.6.16", "3.5.35", ""},
		{"3.7.3", "3.6.16", "", "cannot go back"},
		{"3.7.3", "3.9.1", "", "no version of etcd 3.8 is known"},
		{"3.6.16", "4.0.0", "", "there is no way"},
		{"3.6", "3.7.3", "", "is no version"},
	} {
		next, why := NextVersion(c.from, c.to, path)
		assert.Equal(t, next, c.next, "%s to %s: %s", c.from, c.to, why)
		assert.Assert(t, strings.Contains(why, c.why), why)
		assert.Equal(t, why == "", c.why == "")
	}
}
