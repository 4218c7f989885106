// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"reflect"
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
		action  Action // action of the first step; none: settled
		says    string // text in the step's message
	}{
		"all is well":                                 {func(*scene) {}, Complete, "", ""},
		"parked":                                      {func(s *scene) { s.want.Replicas = 0 }, Parked, "", ""},
		"nothing is there":                            {func(s *scene) { s.view, s.list = View{}, nil }, Fresh, ActionRecord, "begin with one member of etcd 3.6.16"},
		"the first pod waits":                         {fresh(&Report{Volume: VolumeEmpty}), Fresh, ActionTicket, "let p-0 form the cluster"},
		"the first pod has foreign data":              {fresh(&Report{Volume: VolumeForeign, Waiting: "data of another database"}), QuorumLost, ActionWait, "data of another database"},
		"the first pod does not answer":               {fresh(nil), Fresh, ActionWait, "p-0: it does not answer"},
		"two clusters":                                {func(s *scene) { s.view.Pods[2].Answer.Cluster = 0xc2 }, SplitBrain, ActionWait, "data of 2 clusters (c1, c2)"},
		"a claim of another cluster":                  {func(s *scene) { s.view.Claims[1].Cluster = 0xc2 }, SplitBrain, ActionWait, "the operator changes nothing"},
		"a claim of another cluster that no pod uses": {stray, Complete, "", ""},
		"a claim of another cluster has the ordinal of a wanted pod": {then(stray, func(s *scene) { s.want.Replicas = 4 }), Complete, ActionWait,
			"no pod is added with ordinal 3: claim data-p-3 has data of member 9 of cluster c2. Delete the claim if that data is not needed"},
		"a claim of another cluster that no pod uses, and the record is lost": {then(stray, func(s *scene) { s.view.Record = Record{} }), SplitBrain, ActionWait, "data of 2 clusters (c1, c2)"},
		"a claim of another cluster that a pod uses": {then(stray, func(s *scene) {
			s.view.Pods = append(s.view.Pods, Pod{Name: "p-3", Ordinal: 3, UID: podUIDs[3], Terminating: true})
		}), SplitBrain, ActionWait, "data of 2 clusters (c1, c2)"},
		"a malformed claim of a member":              {malformed(1), Complete, ActionMarkClaim, "record on claim data-p-1 that its data belongs to member 2"},
		"a malformed claim of a member that is down": {then(malformed(1), func(s *scene) { s.down(1) }), Degraded, ActionWait, "p-1: no answer within 2s"},
		"a malformed claim that is being deleted":    {then(malformed(1), func(s *scene) { s.killed(1); s.leaves(1); s.view.Pods[1].Outdated = true }), Degraded, ActionWait, "the claims of p-1 are being deleted"},
		"a malformed claim, and nothing else": {then(fresh(&Report{Volume: VolumeEmpty}), malformed(0)), Fresh, ActionWait,
			"no cluster is formed: claim data-p-0 has a malformed annotation"},
		"a malformed claim of a pod that may have data": {then(malformed(2), func(s *scene) { s.empty(1); s.down(1, 2) }, consents(RecoverBest, "t")), QuorumLost, ActionWait,
			"Bring that pod back: claim data-p-2 has a malformed annotation, and may have the last copy"},
		"all volumes are lost, and a claim is malformed": {then(malformed(1), func(s *scene) { s.empty(0, 1, 2); s.view.Claims[0], s.view.Claims[2] = Claim{}, Claim{Ordinal: 2} }, consents(RecoverEmpty, "t")),
			QuorumLost, ActionMarkClaim, "record on claim data-p-1 that its volume is empty"},
		"a member is down":                                 {func(s *scene) { s.down(1) }, Degraded, ActionWait, "p-1: no answer within 2s"},
		"a member crashes for a while":                     {func(s *scene) { s.down(1); s.crashing(1, time.Minute) }, Degraded, ActionWait, "p-1"},
		"a member crashes for too long":                    {func(s *scene) { s.down(1); s.crashing(1, 5*time.Minute) }, Degraded, ActionRemove, "remove p-1 from the cluster: it has not started for 5m0s"},
		"a member crashes, and no member is ever replaced": {func(s *scene) { s.want.ReplaceAfter = 0; s.down(1); s.crashing(1, time.Hour) }, Degraded, ActionWait, "p-1"},
		"data is damaged":                                  {func(s *scene) { s.damaged(1) }, Degraded, ActionRemove, "remove p-1 from the cluster: its data is damaged: a checksum"},
		"data is damaged, and no member is ever replaced":  {func(s *scene) { s.want.ReplaceAfter = 0; s.damaged(1) }, Degraded, ActionWait, "p-1: DataDamaged: the data is damaged"},
		"the data of two members is damaged":               {func(s *scene) { s.damaged(1, 2) }, QuorumLost, ActionWait, "1 of 3 voters answer"},
		"one is damaged, another is down":                  {func(s *scene) { s.down(2); s.damaged(1); s.down(1, 2) }, QuorumLost, ActionWait, "1 of 3 voters answer"},
		"damaged data of another member":                   {func(s *scene) { s.damaged(1); s.view.Pods[1].Report.Member = 3 }, Degraded, ActionWait, "the operator does not change p-1"},
		"a volume is lost":                                 {func(s *scene) { s.empty(1) }, Degraded, ActionRemove, "remove p-1 from the cluster: its volume is empty"},
		"two volumes are lost":                             {func(s *scene) { s.empty(1, 2) }, QuorumLost, ActionWait, "set spec.recovery.from to p-0 (or Best)"},
		"two are down, none is lost":                       {func(s *scene) { s.down(1, 2) }, QuorumLost, ActionWait, "1 of 3 voters answer, a quorum is 2"},
		"one volume is lost, another is down":              {func(s *scene) { s.empty(1); s.down(1, 2) }, QuorumLost, ActionWait, "1 of 3 voters answer"},
		"all volumes are lost":                             {func(s *scene) { s.empty(0, 1, 2) }, QuorumLost, ActionWait, "set spec.recovery.from to Empty"},
		"two volumes are lost, with consent":               {func(s *scene) { s.empty(1, 2); s.want.Recovery = Recovery{RecoverBest, "t"} }, QuorumLost, ActionRecord, "continue with the data of p-0"},
		"consent, and a member may come back": {func(s *scene) { s.empty(1); s.down(1, 2); s.want.Recovery = Recovery{RecoverBest, "t"} }, QuorumLost, ActionWait,
			"the recovery waits: it is not known whether p-2 has data"},
		"two volumes are lost, and the third etcd restarted": {survivorRestarted, QuorumLost, ActionWait, "set spec.recovery.from to p-0 (or Best)"},
		"two lost, the third restarted: consent":             {then(survivorRestarted, consents(RecoverBest, "t")), QuorumLost, ActionRecord, "continue with the data of p-0"},
		"two lost, the third restarted: consent by name":     {then(survivorRestarted, consents("p-0", "t")), QuorumLost, ActionRecord, "continue with the data of p-0"},
		"two lost, the third restarted: consent recorded":    {then(survivorRestarted, func(s *scene) { s.view.Record.Tokens, s.view.Record.Survivor = "t", "p-0"; s.used("t") }), QuorumLost, ActionTicket, "let p-0 continue alone"},
		"two lost, the third restarted: another cluster":     {then(survivorRestarted, consents(RecoverBest, "t"), func(s *scene) { s.view.Pods[0].Watched.Cluster = 9 }), QuorumLost, ActionWait, "it is not known whether p-0 has data"},
		"two lost, the third restarted: no report": {then(survivorRestarted, consents(RecoverBest, "t"), func(s *scene) { s.view.Pods[0].Watched = nil }), QuorumLost, ActionWait,
			"it is not known whether p-0 has data (no answer within 2s). Bring that pod back: claim data-p-0 is marked as the claim of member 1, and may have the last copy"},
		"two lost, the third restarted: no mark on its claim": {then(survivorRestarted, consents(RecoverBest, "t"), func(s *scene) { s.view.Pods[0].Watched, s.view.Claims[0].Member = nil, 0 }), QuorumLost, ActionWait,
			"If the data of that pod is lost permanently, delete the pod and its claim"},
		"one volume is lost, and the others restarted": {then(survivorRestarted, consents(RecoverBest, "t"), func(s *scene) { s.restarted(1, 100) }), QuorumLost, ActionWait,
			"the recovery waits: 2 members run, and may form a quorum"},
		"one restarted, another one waits with an older state": {then(survivorRestarted, consents(RecoverBest, "t"), func(s *scene) { s.outdated(1, 90); s.view.Pods[0].Watched.Index = 80 }), QuorumLost, ActionRecord,
			"continue with the data of p-1"},
		"consent that was used":  {then(func(s *scene) { s.empty(1, 2) }, consents(RecoverBest, "t"), func(s *scene) { s.view.Record.Tokens = "t" }), QuorumLost, ActionWait, "recovery"},
		"consent with a quorum":  {func(s *scene) { s.empty(1); s.want.Recovery = Recovery{RecoverBest, "t"} }, Degraded, ActionRemove, "p-1"},
		"consent to begin again": {func(s *scene) { s.empty(0, 1, 2); s.list = nil; s.want.Recovery = Recovery{RecoverEmpty, "t"} }, QuorumLost, ActionMarkClaim, "its volume is empty"},
		"volumes were swapped": {then(func(s *scene) { s.down(1) }, func(s *scene) { s.view.Pods[1].Report = &Report{Volume: VolumeData, Cluster: clusterID, Member: 3} }),
			Degraded, ActionWait, "the operator does not change p-1: its volume has the data of member 3"},
		"a member that another program added": {func(s *scene) {
			s.list = append(s.list, Member{ID: 9, Name: "other", PeerURLs: []string{"http://elsewhere:2380"}})
		}, Degraded, ActionWait,
			"no pod of this cluster runs member 9 (other)"},
		"a corrupt member":                      {corrupt(3, 7, 7, 8), Degraded, ActionRemove, "remove p-2 from the cluster: p-2 is corrupt"},
		"a corrupt leader, which names another": {corrupt(2, 8, 7, 7), Degraded, ActionMoveLeader, "let p-1 lead the cluster in place of p-0: p-0 is corrupt"},
		"a corrupt member, and another one leads": {func(s *scene) { corrupt(2, 8, 7, 7)(s); s.leads(2) }, Degraded, ActionRemove,
			"remove p-0 from the cluster: p-0 is corrupt: its keys differ from the keys of the 2 voters that agree"},
		"an alarm of a removed member":                                        {corrupt(9, 7, 7, 7), Complete, ActionDisarm, "end the alarm CORRUPT of member 9: all 3 voters have the same keys"},
		"an alarm without a member":                                           {corrupt(0, 7, 7, 7), Complete, ActionDisarm, "end the alarm CORRUPT of member 0"},
		"corrupt, and no quorum agrees":                                       {corrupt(0, 7, 8, 9), Degraded, ActionWait, "CORRUPT: etcd raised the alarm for members that etcd cannot name, and no quorum is known to have the same keys"},
		"corrupt, not compared":                                               {corrupt(2, 0, 0, 0), Degraded, ActionWait, "p-1: not compared"},
		"corrupt, and one of those that agree is down":                        {func(s *scene) { corrupt(2, 7, 8, 7)(s); s.down(2) }, Degraded, ActionWait, "no quorum is known"},
		"corrupt, and too few are compared":                                   {corrupt(2, 7, 0, 0), Degraded, ActionWait, "no quorum is known"},
		"corrupt, and more members are wanted":                                {func(s *scene) { corrupt(0, 7, 8, 9)(s); s.want.Replicas = 5 }, Degraded, ActionWait, "CORRUPT"},
		"corrupt, and a pod is outdated":                                      {func(s *scene) { corrupt(0, 7, 8, 9)(s); s.view.Pods[1].Outdated = true }, Degraded, ActionWait, "CORRUPT"},
		"corrupt, and a corrected pod never started":                          {neverStarted, Degraded, ActionDeletePod, "delete pod p-2: nothing runs in it (ImagePullBackOff), and another revision is wanted"},
		"corrupt, a pod never started, and nothing is corrected":              {then(neverStarted, func(s *scene) { s.view.Pods[2].Outdated = false }), Degraded, ActionWait, "CORRUPT"},
		"corrupt, and an outdated pod answers without a hash":                 {func(s *scene) { corrupt(2, 7, 8, 0)(s); s.view.Pods[2].Outdated = true }, Degraded, ActionWait, "CORRUPT"},
		"corrupt, and the claim of a pod that never started is being deleted": {then(neverStarted, func(s *scene) { s.leaves(2) }), Degraded, ActionWait, "the claims of p-2"},
		"corrupt, and the claim of an empty volume is being deleted": {func(s *scene) {
			corrupt(2, 7, 8, 0)(s)
			s.down(2)
			s.view.Pods[2].Problem, s.view.Pods[2].Report = "", &Report{Volume: VolumeEmpty}
			s.leaves(2)
		}, Degraded, ActionWait, "CORRUPT"},
		"corrupt, and a version was corrected": {then(neverStarted, func(s *scene) { s.view.Record.Version, s.view.Pods[2].Outdated = "3.6.99", false }),
			Degraded, ActionRecord, "bring etcd back to 3.6.16"},
		"corrupt, another minor is wanted":           {then(neverStarted, func(s *scene) { s.want.Version, s.view.Pods[2].Outdated = "3.7.3", false }), Degraded, ActionWait, "CORRUPT"},
		"corrupt, and a learner may have wrong keys": {func(s *scene) { corrupt(2, 8, 7, 7)(s); learner(nil, &Answer{Learner: true, Applied: 100})(s) }, Degraded, ActionRemove, "remove the learner p-3"},
		"a corrupt member at another revision":       {func(s *scene) { corrupt(2, 7, 7, 7)(s); s.view.Pods[2].Answer.Hash.Revision = 40 }, Degraded, ActionRemove, "remove p-2"},
		"a pod is not ready":                         {func(s *scene) { s.view.Pods[1].Ready = false }, Complete, ActionWait, "p-1 answers, but is not ready"},
		"a member crashes, and no healthy member runs its revision": {func(s *scene) { s.down(1); s.crashing(1, time.Hour); s.view.Pods[1].Revision = "new" }, Degraded, ActionWait,
			"p-1 keeps exiting (no answer within 2s), and is not replaced: no healthy member runs the same revision"},
		"a member crashes, and a healthy member runs its revision": {then(func(s *scene) { s.down(1); s.crashing(1, time.Hour) }, func(s *scene) { s.view.Pods[1].Revision, s.view.Pods[2].Revision = "new", "new" }),
			Degraded, ActionRemove, "remove p-1"},
		"claims are being deleted":                                              {func(s *scene) { s.leaves(0, 1, 2) }, Complete, ActionWait, "the claims of p-0, p-1, p-2 are being deleted: their data would be lost with these pods"},
		"claims are being deleted, and all containers were killed":              {func(s *scene) { s.leaves(0, 1, 2); s.killed(0, 1, 2) }, QuorumLost, ActionWait, "the claims of p-0, p-1, p-2 are being deleted"},
		"the claim of a single member is being deleted":                         {func(s *scene) { s.only(); s.leaves(0); s.killed(0) }, QuorumLost, ActionWait, "Make a backup, and restore it"},
		"the claim of damaged data is being deleted, quorum lost":               {func(s *scene) { s.damaged(1, 2); s.leaves(1) }, QuorumLost, ActionWait, "the claims of p-1 are being deleted"},
		"the claim of an outdated pod is being deleted":                         {func(s *scene) { s.leaves(1); s.view.Pods[1].Outdated = true }, Complete, ActionWait, "the claims of p-1"},
		"the claim of an outdated pod is being deleted, and nothing runs in it": {func(s *scene) { s.leaves(1); s.killed(1); s.view.Pods[1].Outdated = true }, Degraded, ActionWait, "the claims of p-1"},
		"the claim of an empty volume is being deleted":                         {func(s *scene) { s.empty(1); s.leaves(1) }, Degraded, ActionDeletePod, "delete pod p-1: its claim is being deleted"},
		"the claim of a removed member is being deleted":                        {func(s *scene) { s.vacate(1); s.view.Pods[1].Report.Volume = VolumeData; s.leaves(1) }, Complete, ActionDeletePod, "delete pod p-1"},
		"parked while claims are being deleted":                                 {func(s *scene) { s.leaves(1); s.want.Replicas = 0 }, Parked, ActionWait, "the claims of p-1"},
		"a volume in an earlier state":                                          {func(s *scene) { s.outdated(1, 50) }, Degraded, ActionRemove, "remove p-1 from the cluster: its volume has an older state"},
		"the leader's volume in an earlier state":                               {func(s *scene) { s.outdated(0, 50) }, Degraded, ActionRemove, "remove p-0"},
		"two volumes in an earlier state":                                       {func(s *scene) { s.outdated(1, 50); s.outdated(2, 40); s.down(1, 2) }, QuorumLost, ActionWait, "set spec.recovery.from to p-0 or p-1 or p-2 (or Best)"},
		"a volume in an earlier state, and one is down":                         {func(s *scene) { s.outdated(1, 50); s.down(1, 2) }, QuorumLost, ActionWait, "p-1: its volume has an older state"},
		"all volumes in an earlier state":                                       {allOutdated, QuorumLost, ActionWait, "set spec.recovery.from to p-2 or p-1 or p-0 (or Best)"},
		"all volumes in an earlier state, with consent":                         {func(s *scene) { allOutdated(s); s.want.Recovery = Recovery{RecoverBest, "t"} }, QuorumLost, ActionRecord, "continue with the data of p-2"},
		"two volumes in an earlier state, one unknown": {then(allOutdated, func(s *scene) { s.down(0); s.view.Pods[0].Report = nil }, consents(RecoverBest, "t")),
			QuorumLost, ActionWait, "it is not known whether p-0 has data"},
		"an old record":                             {func(s *scene) { s.view.Record.Replicas = 1 }, Complete, ActionRecord, "this is cluster c1, with 3 pods"},
		"an old record, and no quorum":              {func(s *scene) { s.view.Record.Replicas = 1; s.down(1, 2) }, QuorumLost, ActionRecord, "with 3 pods"},
		"a record of too many pods":                 {func(s *scene) { s.view.Record.Replicas = 7 }, Complete, ActionRecord, "record that no pods are wanted from ordinal 3 on"},
		"too many pods":                             {func(s *scene) { s.view.Live = 4 }, Complete, ActionScale, "remove the pods from ordinal 3 on"},
		"a record that lacks a token":               {func(s *scene) { s.view.Claims[1].Tokens = "t" }, Complete, ActionRecord, ""},
		"a token that was used before the last one": {then(func(s *scene) { s.empty(1, 2); s.view.Record.Tokens = "t u" }, consents(RecoverBest, "t")), QuorumLost, ActionWait, "The token t was used before"},
		"a used token that only a claim has":        {then(func(s *scene) { s.empty(1, 2); s.view.Record, s.view.Claims[0].Tokens = Record{}, "t" }, consents(RecoverBest, "t")), QuorumLost, ActionRecord, "record that this is cluster"},
		"a used token that only a volume has":       {then(allOutdated, func(s *scene) { s.view.Pods[1].Report.Token = "t" }, consents(RecoverBest, "t")), QuorumLost, ActionWait, "The token t was used before"},
		"the survivor's node died, new consent": {then(func(s *scene) { s.empty(0, 2); s.view.Record.Tokens, s.view.Record.Survivor = "t", "p-0" }, consents("p-1", "u")),
			QuorumLost, ActionRecord, "continue with the data of p-1"},
		"the survivor may still continue, new consent": {func(s *scene) {
			s.empty(2)
			s.down(2, 2)
			s.view.Record.Tokens, s.view.Record.Survivor, s.view.Pods[0].Ticket = "t", "p-0", "force:t"
			s.want.Recovery = Recovery{"p-1", "u"}
			s.list = append(s.list, Member{ID: 4, Name: "p-3", PeerURLs: allURLs[3:4]})
			s.view.Pods = append(s.view.Pods, Pod{Name: "p-3", Ordinal: 3, UID: podUIDs[3], Running: true, Report: &Report{Volume: VolumeEmpty}})
			s.want.Replicas, s.view.Record.Replicas, s.view.Live = 4, 4, 4
		}, QuorumLost, ActionDeletePod, "and the deletion ends that permission"},
		"the survivor's data may return, new consent": {func(s *scene) {
			s.empty(1, 2)
			s.view.Record.Tokens, s.view.Record.Survivor, s.view.Pods[0].Terminating = "t", "p-0", true
			s.want.Recovery = Recovery{"p-1", "u"}
		}, QuorumLost, ActionWait, "it is not known whether p-0 has data"},
		"a recovery first notes that its token is used": {func(s *scene) { s.empty(1, 2); s.view.Record.Tokens, s.view.Record.Survivor = "t", "p-0" }, QuorumLost, ActionMarkClaim, "the token t is used"},
		"one stale member does not know of another":     {stale, QuorumLost, ActionWait, "no quorum can confirm whether that member was removed"},
		"one stale member, with consent":                {func(s *scene) { stale(s); s.want.Recovery = Recovery{RecoverBest, "t"} }, QuorumLost, ActionRecord, "continue with the data of p-2"},
		"a copy of another cluster's volumes": {func(s *scene) {
			s.empty(0, 1, 2)
			for i := range s.view.Pods {
				s.view.Pods[i].Report = &Report{Volume: VolumeForeign, Cluster: clusterID, Member: ID(i + 1), Owner: "other/p"}
			}
		}, QuorumLost, ActionWait, "pod 0: ForeignVolume: its volume is a copy of the volume of pod other/p: no member starts on a copy"},
		"a learner does not start, and a pod is outdated": {then(learner(nil, nil), func(s *scene) { s.view.Pods[3].Running, s.view.Pods[1].Outdated = false, true }),
			Degraded, ActionDeletePod, "replace pod p-1"},
		"a learner does not start, and space is used up": {then(learner(nil, nil), func(s *scene) { s.view.Pods[3].Running = false }, func(s *scene) { s.view.Pods[0].Answer.Alarms = []Alarm{{2, AlarmNoSpace}} }),
			Degraded, ActionCompact, "drop the history"},
		"a learner is to start":        {learner(&Report{Volume: VolumeEmpty}, nil), Degraded, ActionMarkClaim, "it is for member 4"},
		"a learner that lost its data": {then(learner(&Report{Volume: VolumeEmpty}, nil), func(s *scene) { s.list[3].Name = "p-3" }), Degraded, ActionRemove, "remove the learner p-3: it was started"},
		"a learner's pod runs a removed member": {then(learner(nil, nil), func(s *scene) { s.view.Pods[3].Answer = &Answer{Cluster: clusterID, Member: 9, Version: "3.6.16"} }),
			Degraded, ActionDeletePod, "member 9, which was removed from the cluster, runs in the place of the learner"},
		"no voter shows what a learner lacks": {func(s *scene) {
			learner(nil, &Answer{Learner: true, Applied: 1})(s)
			p := s.view.Pods
			p[0].Answer, p[1].Answer, p[2].Answer = p[1].Answer, p[2].Answer, p[0].Answer // the pods have exchanged their addresses
		}, Degraded, ActionWait, "p-3 gets the data"},
		"a learner has the data":                                         {learner(nil, &Answer{Learner: true, Applied: 100}), Degraded, ActionPromote, "let p-3 vote"},
		"a learner gets the data":                                        {then(learner(nil, &Answer{Learner: true, Applied: 100}), func(s *scene) { s.view.Pods[0].Answer.Applied = 9000 }), Degraded, ActionWait, "p-3 gets the data"},
		"a learner is silent":                                            {func(s *scene) { learner(nil, nil)(s); s.view.Pods[3].Silent = true }, Degraded, ActionWait, "p-3 starts"},
		"a learner is silent after a snapshot":                           {then(learner(nil, nil), func(s *scene) { s.view.Pods[3].Silent, s.view.Pods[0].Answer.Index = true, 5001 }), Degraded, ActionAppend, "p-3 may have all other entries"},
		"a learner is not wanted":                                        {func(s *scene) { learner(nil, &Answer{Learner: true, Applied: 100})(s); s.want.Replicas = 3 }, Degraded, ActionRemove, "not wanted any more"},
		"more members are wanted":                                        {func(s *scene) { s.want.Replicas = 5 }, Complete, ActionRecord, "add a pod with ordinal 3"},
		"more members are wanted, and one is down":                       {func(s *scene) { s.want.Replicas = 5; s.down(1) }, Degraded, ActionWait, "no member is added: not all voters are well"},
		"fewer members are wanted":                                       {func(s *scene) { s.want.Replicas = 1 }, Complete, ActionRemove, "remove p-2 from the cluster: 1 members are wanted"},
		"fewer members are wanted, and the last leads":                   {func(s *scene) { s.want.Replicas = 2; s.leads(3) }, Complete, ActionMoveLeader, "let p-0 lead the cluster in place of p-2"},
		"fewer members are wanted, and another is down":                  {func(s *scene) { s.want.Replicas = 2; s.down(1) }, Degraded, ActionWait, "p-2 is not removed"},
		"a follower is outdated":                                         {func(s *scene) { s.view.Pods[0].Outdated, s.view.Pods[1].Outdated = true, true }, Complete, ActionDeletePod, "replace pod p-1"},
		"the leader is outdated":                                         {func(s *scene) { s.view.Pods[0].Outdated = true }, Complete, ActionMoveLeader, "let p-1 lead"},
		"a pod is outdated, and another is down":                         {func(s *scene) { s.view.Pods[0].Outdated = true; s.down(1) }, Degraded, ActionWait, "no further pod is replaced"},
		"the pod that is down is outdated":                               {func(s *scene) { s.view.Pods[1].Outdated = true; s.down(1) }, Degraded, ActionDeletePod, "it does not answer"},
		"a pod cannot be scheduled":                                      {pending, Complete, ActionWait, "p-3: 0/3 nodes are available; p-3 cannot join yet"},
		"a pod cannot be scheduled, and another is outdated":             {then(pending, func(s *scene) { s.view.Pods[1].Outdated = true }), Complete, ActionDeletePod, "replace pod p-1"},
		"a pod cannot be scheduled, and new authorities are wanted":      {then(pending, trusting), Complete, ActionRotate, "make new certificate authorities"},
		"a pod cannot be scheduled, and a member trusts the former ones": {then(pending, trusting, func(s *scene) { s.view.Pods[2].Answer.Trust.Latest = false }), Complete, ActionDeletePod, "replace pod p-2"},
		"a pod cannot be scheduled, and much is unused":                  {then(pending, func(s *scene) { s.unused(1) }), Complete, ActionDefrag, "rewrite the database of p-1"},
		"a pod cannot be scheduled, and another patch is wanted":         {then(pending, func(s *scene) { s.want.Version = "3.6.17" }), Complete, ActionRecord, "bring etcd to 3.6.17"},
		"a pod cannot be scheduled, and another minor is wanted":         {then(func(s *scene) { s.versions("3.5.35") }, pending), Complete, ActionWait, "etcd is upgraded to 3.6.16 when the pod with ordinal 3 has joined"},
		"the third of three cannot be scheduled": {then(pendingOf3(2), func(s *scene) { s.view.Pods[1].Outdated = true }), Complete, ActionWait,
			"p-1 is not replaced by a pod of the latest revision yet: without it the other voters form no quorum, so the pod with ordinal 2 must join first; or set spec.replicas to 2"},
		"the third of three, and two are enough": {then(pendingOf3(2), func(s *scene) {
			s.view.Pods[1].Outdated, s.want.Replicas, s.view.Record.Replicas, s.view.Live = true, 2, 2, 2
		}),
			Complete, ActionDeletePod, "replace pod p-1"},
		"the third of three, and it is outdated itself":      {then(pendingOf3(2), func(s *scene) { s.view.Pods[1].Outdated, s.view.Pods[2].Outdated = true, true }), Complete, ActionDeletePod, "delete pod p-2"},
		"the third of three, and new authorities are wanted": {then(pendingOf3(2), trusting), Complete, ActionRotate, "make new certificate authorities"},
		"the third of three, and much is unused":             {then(pendingOf3(2), func(s *scene) { s.unused(1) }), Complete, ActionWait, "no database is rewritten now"},
		"the third of three, and the space is used up": {then(pendingOf3(2), func(s *scene) {
			s.unused(1)
			s.view.Pods[0].Answer.Alarms, s.view.Pods[0].Answer.Compacted = []Alarm{{2, AlarmNoSpace}}, true
		}),
			Complete, ActionDefrag, "rewrite the database of p-1"},
		"an unwanted pod is still being deleted, and another is outdated": {func(s *scene) {
			s.view.Pods[1].Outdated = true
			s.view.Pods = append(s.view.Pods, Pod{Name: "p-3", Ordinal: 3, UID: podUIDs[3], Terminating: true})
		}, Complete, ActionDeletePod, "replace pod p-1"},
		"it is unknown which pods are outdated": {func(s *scene) { s.view.Pods[1].Outdated, s.view.Lagging = true, true }, Complete, "", ""},
		"the next minor":                        {func(s *scene) { s.versions("3.4.23"); s.want.Version = "3.6.16" }, Complete, ActionRecord, "bring etcd from 3.4.23 to 3.5.35"},
		"the last minor":                        {func(s *scene) { s.versions("3.5.35"); s.want.Version = "3.6.16" }, Complete, ActionRecord, "from 3.5.35 to 3.6.16"},
		"a patch that comes first":              {func(s *scene) { s.versions("3.5.9"); s.want.Version = "3.6.16" }, Complete, ActionRecord, "bring etcd from 3.5.9 to 3.5.35"},
		"a member runs an older version":        {then(func(s *scene) { s.versions("3.5.35"); s.view.Pods[1].Answer.Version = "3.4.44" }, func(s *scene) { s.want.Version = "3.6.16" }), Complete, ActionMarkClaim, ""},
		"a downgrade is refused":                {func(s *scene) { s.want.Version = "3.5.35" }, Complete, ActionWait, "cannot go back from 3.6.16 to 3.5.35"},
		"no space, with history":                {func(s *scene) { s.noSpace(false) }, Complete, ActionCompact, "drop the history before revision 50"},
		"no space, history dropped":             {func(s *scene) { s.noSpace(true); s.unused(1) }, Complete, ActionDefrag, "rewrite the database of p-1"},
		"no space, only the leader is left":     {func(s *scene) { s.noSpace(true); s.unused(0) }, Complete, ActionMoveLeader, "the database of the present leader must be rewritten"},
		"there is space again":                  {func(s *scene) { s.noSpace(true) }, Complete, ActionDisarm, "there is space again"},
		"the quota is full":                     {func(s *scene) { s.noSpace(true); s.view.Pods[2].Answer.Quota = 1000 }, Complete, ActionWait, "raise spec.config.quota-backend-bytes"},
		"no consent to drop history":            {func(s *scene) { s.noSpace(false); s.want.Maintenance.Compact = false }, Complete, ActionWait, "refuses writes"},
		"much is unused":                        {func(s *scene) { s.view.Pods[2].Answer.Used = 100 }, Complete, ActionDefrag, "rewrite the database of p-2"},
		"the resource was created again":        {func(s *scene) { s.view.Record = Record{Replicas: 1, Version: "3.6.16"} }, Complete, ActionRecord, "this is cluster c1, with 3 pods"},
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

// In addition to any other step, the operator writes the last log entry of a member's data to the member's claim,
// because the other step may keep failing. It does not write to the claim that the other step changes. It writes to no
// claim if the cluster has no quorum, or if two clusters exist.
func TestPositionsAreMarkedNextToAnyStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*scene)
		action Action // action of the first step; none: settled
		claim  int    // ordinal of the marked claim; -1: none
	}{
		"at rest":                               {func(*scene) {}, "", 1},
		"a pod is replaced":                     {func(s *scene) { s.view.Pods[2].Outdated = true }, ActionDeletePod, 1},
		"the pod of the claim is replaced":      {func(s *scene) { s.view.Pods[1].Outdated = true }, ActionDeletePod, 1},
		"a member is removed":                   {func(s *scene) { s.empty(2) }, ActionRemove, 1},
		"a member is down":                      {func(s *scene) { s.down(2) }, ActionWait, 1},
		"the step marks another claim":          {func(s *scene) { s.view.Claims[2].Member = 0 }, ActionMarkClaim, 1},
		"the step marks this claim":             {func(s *scene) { s.view.Claims[1].Version = "3.5.35" }, ActionMarkClaim, -1},
		"the claim has this position already":   {func(s *scene) { s.view.Claims[1].Position.Index = 200 }, "", -1},
		"the claim was marked a moment ago":     {func(s *scene) { s.view.Claims[1].MarkedFor = time.Second }, "", -1},
		"the member still reads its log":        {func(s *scene) { s.view.Pods[1].Answer.Applied = 50 }, "", -1},
		"the claim names another member":        {func(s *scene) { s.view.Claims[1].Member = 9 }, ActionMarkClaim, -1},
		"the quorum is lost":                    {func(s *scene) { s.down(0, 2) }, ActionWait, -1},
		"two clusters":                          {func(s *scene) { s.view.Claims[2].Cluster = 0xc2 }, ActionWait, -1},
		"the end of a recovery is not recorded": {func(s *scene) { s.view.Record.Survivor = "p-1"; s.view.Record.Tokens = "t" }, ActionRecord, -1},
		"no pod is wanted, but pods still run":  {func(s *scene) { s.want.Replicas = 0 }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			s.view.Pods[1].Answer.Applied, s.view.Pods[1].Answer.Index, s.view.Claims[1].MarkedFor = 200, 200, markEvery
			c.change(s)
			d := s.decide()
			if c.action == "" {
				assert.Assert(t, d.Model.Settled, "%+v", d.Steps)
			} else {
				assert.Equal(t, d.Steps[0].Action, c.action, d.Steps[0].Message)
			}
			if c.claim < 0 {
				assert.Equal(t, len(d.Positions), 0, "%+v", d.Positions)
				return
			}
			assert.Equal(t, len(d.Positions), 1)
			step := d.Positions[0]
			assert.Equal(t, step.Action, ActionMarkClaim)
			assert.Equal(t, step.Ordinal, c.claim)
			assert.Equal(t, step.Mark.Position, Position{Term: 2, Index: 200})
			assert.Equal(t, d.LookAgain <= afterRefusal, true, d.LookAgain.String())
		})
	}
}

// Decide accepts every view: any part may be missing or invalid.
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
		assert.Assert(t, reflect.DeepEqual(first, second))
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
		{"3.4.23", "3.6.16", "3.5.35", ""},
		{"3.4.23", "3.7.3", "3.5.35", ""},
		{"3.5.35", "3.7.3", "3.6.16", ""},
		{"3.6.16", "3.7.1", "", "not known to be safe"},
		{"3.6.5", "3.7.3", "", "not known to be safe"},
		{"3.7.1", "3.7.3", "3.7.3", ""},
		{"3.5.9", "3.6.16", "3.5.35", ""},
		{"3.7.3", "3.6.16", "", "cannot go back"},
		{"3.7.3", "3.9.1", "", "no version of etcd 3.8 is known"},
		{"3.6.16", "4.0.0", "", "there is no upgrade path"},
		{"3.6", "3.7.3", "", "is no version"},
	} {
		next, why := NextVersion(c.from, c.to, path)
		assert.Equal(t, next, c.next, "%s to %s: %s", c.from, c.to, why)
		assert.Assert(t, strings.Contains(why, c.why), why)
		assert.Equal(t, why == "", c.why == "")
	}
}

// The message begins with the pod and its problem, cut to 120 characters. The rest follows.
func TestCauseComesFirst(t *testing.T) {
	t.Parallel()
	out := "CrashLoopBackOff: container etcd ended with exit code 137 (OOMKilled)"
	for name, c := range map[string]struct {
		change func(*scene)
		phase  string
		begins string
	}{
		"a roll that a pod blocks":       {func(s *scene) { s.down(2); s.view.Pods[1].Outdated = true; s.view.Pods[2].Problem = out }, PhaseDegraded, "p-2: " + out + "; no further pod"},
		"one is silent, one has a cause": {func(s *scene) { s.down(0, 2); s.view.Pods[0].Problem = NotListening; s.view.Pods[2].Problem = out }, PhaseQuorumLost, "p-2: " + out + "; "},
		"a long cause":                   {func(s *scene) { s.down(2); s.view.Pods[2].Problem = strings.Repeat("x", 500) }, PhaseDegraded, "p-2: xxx"},
		"etcd refuses the operator": {func(s *scene) {
			for i := range s.view.Pods {
				s.view.Pods[i].Answer, s.view.Pods[i].Locked, s.view.Pods[i].Problem = nil, true, "etcd's own authentication is on"
			}
		}, PhaseDegraded, "p-0: etcd's own authentication is on; no member answers"},
	} {
		s := newScene()
		c.change(s)
		d := s.decide()
		assert.Assert(t, strings.HasPrefix(d.Model.Reason, c.begins), "%s: %s", name, d.Model.Reason)
		assert.Equal(t, d.Model.Phase, c.phase, name)
	}
}

// Without a quorum, a version that has never run is replaced by the wanted version, but only within the minor version
// of the data.
func TestVersionIsCorrectedWithoutAQuorum(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*scene){"3.6.16": func(*scene) {}, "3.5.35": nil} {
		s := newScene()
		s.want.Version, s.view.Record.Version = want, "3.6.99"
		for i := range s.view.Pods {
			s.view.Pods[i].Answer, s.view.Pods[i].Running, s.view.Pods[i].Problem = nil, false, "ImagePullBackOff"
		}
		d := s.decide()
		assert.Equal(t, d.Model.Verdict, QuorumLost)
		assert.Equal(t, d.Steps[0].Action == ActionRecord && d.Steps[0].Record.Version == want, change != nil, "%s: %+v", want, d.Steps[0])
		if change != nil { // the pods of the revision that did not start are deleted
			s.view.Record.Version = want
			s.view.Pods[0].Outdated = true
			assert.Equal(t, s.decide().Steps[0].Action, ActionDeletePod)
		}
	}
}

func TestKnownFaults(t *testing.T) {
	t.Parallel()
	for version, broken := range map[string]bool{"3.4.13": true, "3.4.14": false, "3.5.4": true, "3.5.19": true, "3.5.20": false, "3.6.0": true, "3.6.2": true, "3.6.3": false, "3.7.0": false} {
		assert.Equal(t, knownFault(version) != "", broken, version)
	}
	s := newScene()
	s.versions("3.6.1")
	s.want.Version = "3.6.1"
	assert.Assert(t, strings.Contains(strings.Join(s.decide().Model.Notes, ";"), "etcd 3.6.1 is known to be broken"))
}
