// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

// The phase stays the same from the first step of a change to its last step, although different changes consist of the same steps.
func TestPhaseOfAChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*scene)
		previous string
		action   Action
		phase    string
	}{
		"the last member is lost":                                       {func(s *scene) { s.empty(2) }, PhaseRunning, ActionRemove, PhaseRecovering},
		"the claim of a lost member is deleted":                         {func(s *scene) { s.vacate(2); s.view.Pods[2].Report.Volume = VolumeData }, PhaseRecovering, ActionDeleteClaim, PhaseRecovering},
		"a new member is added at the same ordinal":                     {func(s *scene) { s.vacate(2) }, PhaseRecovering, ActionAddLearner, PhaseRecovering},
		"the new member starts":                                         {learner(&Report{Volume: VolumeEmpty}, nil), PhaseRecovering, ActionMarkClaim, PhaseRecovering},
		"the new member becomes a voter":                                {learner(nil, &Answer{Learner: true, Applied: 100}), PhaseRecovering, ActionPromote, PhaseRecovering},
		"a claim is annotated with its member":                          {func(s *scene) { s.view.Claims[2].Member = 0 }, PhaseRecovering, ActionMarkClaim, PhaseRecovering},
		"more members are wanted":                                       {func(s *scene) { s.want.Replicas = 4 }, PhaseRunning, ActionRecord, PhaseScaling},
		"a member is added":                                             {func(s *scene) { s.vacate(2) }, PhaseScaling, ActionAddLearner, PhaseScaling},
		"the added member starts":                                       {learner(&Report{Volume: VolumeEmpty}, nil), PhaseScaling, ActionMarkClaim, PhaseScaling},
		"the added member becomes a voter":                              {learner(nil, &Answer{Learner: true, Applied: 100}), PhaseScaling, ActionPromote, PhaseScaling},
		"the added member becomes a voter in a new cluster":             {learner(nil, &Answer{Learner: true, Applied: 100}), PhaseCreating, ActionPromote, PhaseCreating},
		"a member with a lower ordinal is replaced during a change":     {func(s *scene) { s.vacate(1) }, PhaseScaling, ActionAddLearner, PhaseRecovering},
		"a wanted pod cannot be scheduled":                              {pending, PhaseScaling, ActionWait, PhaseScaling},
		"a wanted pod cannot be scheduled, and another is replaced":     {then(pending, func(s *scene) { s.view.Pods[1].Outdated = true }), PhaseScaling, ActionDeletePod, PhaseScaling},
		"the new pod of a lost member cannot be scheduled":              {pendingOf3(1), PhaseRecovering, ActionWait, PhaseRecovering},
		"a wanted pod cannot be scheduled, and a database is rewritten": {then(pending, func(s *scene) { s.unused(1) }), PhaseScaling, ActionDefrag, PhaseScaling},
		"an unwanted pod is being deleted": {func(s *scene) {
			s.view.Pods = append(s.view.Pods, Pod{Name: "p-3", Ordinal: 3, UID: podUIDs[3], Terminating: true})
		}, PhaseScaling, ActionWait, PhaseScaling},
		"an unwanted claim is deleted": {func(s *scene) {
			s.vacate(2)
			s.want.Replicas, s.view.Record.Replicas, s.view.Live, s.view.Pods = 2, 2, 2, s.view.Pods[:2]
			s.view.Claims[2].Member = 3
		}, PhaseScaling, ActionDeleteClaim, PhaseScaling},
		"an upgraded member":              {func(s *scene) { s.view.Claims[1].Version = "3.5.35" }, PhaseUpgrading, ActionMarkClaim, PhaseUpgrading},
		"the pod of a member is replaced": {func(s *scene) { s.replaced(1, time.Second) }, PhaseUpgrading, ActionWait, PhaseUpgrading},
		"the pod of the only member is replaced": {func(s *scene) {
			s.replaced(0, time.Second)
			s.want.Replicas, s.view.Record.Replicas, s.view.Live = 1, 1, 1
			s.view.Pods, s.view.Claims, s.list = s.view.Pods[:1], s.view.Claims[:1], s.list[:1]
		}, PhaseUpgrading, ActionWait, PhaseUpgrading},
		"the pod of the only member ends, and closes the operator's connection": {then(ends(0), (*scene).only), PhaseUpgrading, ActionWait, PhaseUpgrading},
		"the pod of one of three members ends":                                  {ends(1), PhaseUpgrading, ActionWait, PhaseUpgrading},
		"the pod of the only member ends for longer than a restart may take": {then(ends(0), (*scene).only, func(s *scene) {
			s.view.Pods[0].NotReadyFor = time.Minute
		}), PhaseUpgrading, ActionWait, PhaseQuorumLost},
		"the pod of the only member ends after a report of damaged data": {then(ends(0), (*scene).only, func(s *scene) {
			s.view.Pods[0].Report = &Report{Volume: VolumeData, Cluster: clusterID, Member: 1, Damage: "a checksum"}
		}), PhaseUpgrading, ActionWait, PhaseQuorumLost},
		"a parked cluster starts again": {func(s *scene) { s.replaced(0, 1); s.replaced(1, 1); s.replaced(2, 1) }, PhaseParked, ActionWait, PhaseScaling},
		"a parked cluster starts again, and a pod cannot start": {func(s *scene) {
			s.replaced(0, 1)
			s.replaced(1, 1)
			s.replaced(2, 1)
			s.view.Pods[1].Problem = "ImagePullBackOff"
		}, PhaseParked, ActionWait, PhaseQuorumLost},
		"the new pod does not serve in time": {func(s *scene) { s.replaced(1, time.Minute) }, PhaseUpgrading, ActionWait, PhaseDegraded},
		"two new pods do not serve":          {func(s *scene) { s.replaced(1, 1); s.replaced(2, 1) }, PhaseUpgrading, ActionWait, PhaseDegraded},
		"the new pod cannot start":           {func(s *scene) { s.replaced(1, 1); s.view.Pods[1].Problem = "ImagePullBackOff" }, PhaseUpgrading, ActionWait, PhaseDegraded},
		"another program deletes a pod":      {func(s *scene) { s.replaced(1, time.Second) }, PhaseRunning, ActionWait, PhaseDegraded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			c.change(s)
			d := s.decide()
			assert.Assert(t, len(d.Steps) > 0, d.Model.Reason)
			assert.Equal(t, d.Steps[0].Action, c.action, d.Steps[0].Message)
			assert.Equal(t, PhaseAfter(c.previous, d.Model), c.phase, d.Steps[0].Message)
		})
	}
}

// ends marks a pod as being deleted. Its etcd shuts down, and closes connections without an answer.
func ends(pod int) func(*scene) {
	return func(s *scene) {
		s.down(pod)
		s.view.Pods[pod].Terminating, s.view.Pods[pod].Problem = true, "connection reset by peer before any answer"
	}
}

// replaced makes a pod new: it was created some time ago and does not serve yet.
func (s *scene) replaced(pod int, age time.Duration) {
	s.down(pod)
	s.view.Pods[pod].Problem, s.view.Pods[pod].Silent, s.view.Pods[pod].Ready, s.view.Pods[pod].NotReadyFor = "", false, false, age
}

// vacate removes a member. Its pod waits with an empty volume.
func (s *scene) vacate(pod int) {
	s.empty(pod)
	s.list = append(s.list[:pod:pod], s.list[pod+1:]...)
	s.view.Pods[pod].Report.Cluster, s.view.Pods[pod].Report.Member = clusterID, ID(pod+1)
}

// Certificate authorities are replaced in phases. The next phase begins only when every member has completed the
// present one.
func TestAuthoritiesAreReplacedInPhases(t *testing.T) {
	t.Parallel()
	at := func(phase AuthorityPhase) func(*scene) {
		return func(s *scene) { s.view.Authorities = &Authorities{Phase: phase, Held: true} }
	}
	wanted := then(at(AuthoritiesAtRest), func(s *scene) { s.view.Authorities.Wanted = true })
	refuses := func(s *scene) { s.view.Pods[1].Answer.Trust = &Trust{Refuses: true} }
	next, known := Fingerprint{"c", "m"}, func(s *scene) { s.view.Record.Authority = Fingerprint{"c", "m"} }
	named := func(change func(*scene)) func(*scene) {
		return then(change, func(s *scene) { s.view.Authorities.Fingerprint = next })
	}
	parked := func(s *scene) { s.want.Replicas, s.view.Pods, s.view.Claims, s.view.Live = 0, nil, nil, 0 }
	former := func(pod int) func(*scene) { return func(s *scene) { s.view.Pods[pod].Answer.Trust.Latest = false } }
	for name, c := range map[string]struct {
		change func(*scene)
		action Action // action of the first step; none: settled
		pod    string // name of the deleted pod
	}{
		"no new authorities are wanted":                                        {at(AuthoritiesAtRest), "", ""},
		"new authorities are wanted":                                           {wanted, ActionRotate, ""},
		"new authorities are wanted, and a member is down":                     {then(wanted, func(s *scene) { s.down(2) }), ActionWait, ""},
		"new authorities are wanted, and a pod is outdated":                    {then(wanted, func(s *scene) { s.view.Pods[1].Outdated = true }), ActionDeletePod, "p-1"},
		"new authorities are wanted, and a member shows no certificate":        {then(wanted, func(s *scene) { s.view.Pods[1].Answer.Trust = nil }), "", ""},
		"the Secrets are not written yet":                                      {func(s *scene) { s.view.Authorities = nil }, "", ""},
		"no member trusts the new authorities":                                 {then(at(AuthoritiesTrust), former(0), former(1), former(2)), ActionDeletePod, "p-1"},
		"only the leader does not trust the new authorities":                   {then(at(AuthoritiesTrust), former(0)), ActionMoveLeader, ""},
		"a member does not trust the new authorities, and another is down":     {then(at(AuthoritiesTrust), former(1), func(s *scene) { s.down(2) }), ActionWait, ""},
		"all members trust the new authorities":                                {at(AuthoritiesTrust), ActionRotate, ""},
		"clients need time to read their Secret":                               {then(at(AuthoritiesTrust), func(s *scene) { s.view.Authorities.Held = false }), "", ""},
		"a member shows a former certificate":                                  {then(at(AuthoritiesSign), func(s *scene) { s.view.Pods[1].Answer.Trust.Signed = false }), "", ""},
		"all members show new certificates":                                    {at(AuthoritiesSign), ActionRotate, ""},
		"a member still trusts removed authorities":                            {then(at(AuthoritiesAtRest), former(2)), ActionDeletePod, "p-2"},
		"a member has no pod of this cluster":                                  {then(at(AuthoritiesTrust), func(s *scene) { s.list = append(s.list, Member{ID: 9, PeerURLs: []string{"http://elsewhere"}}) }), ActionWait, ""},
		"unknown authorities are recorded":                                     {named(at(AuthoritiesAtRest)), ActionRecord, ""},
		"the authorities are recorded already":                                 {then(named(at(AuthoritiesAtRest)), known), "", ""},
		"a member refuses the authorities":                                     {then(named(at(AuthoritiesAtRest)), refuses), ActionWait, ""},
		"a member also trusts other authorities":                               {then(named(at(AuthoritiesAtRest)), known, former(2)), ActionDeletePod, "p-2"},
		"a member shows a certificate of another signer":                       {then(named(at(AuthoritiesAtRest)), func(s *scene) { s.view.Pods[1].Answer.Trust.Signed = false }), "", ""},
		"a member shows no certificate":                                        {then(named(at(AuthoritiesAtRest)), func(s *scene) { s.view.Pods[1].Answer.Trust = nil }), "", ""},
		"a member is down":                                                     {then(named(at(AuthoritiesAtRest)), func(s *scene) { s.down(2) }), ActionWait, ""},
		"the next authorities are recorded first":                              {named(at(AuthoritiesTrust)), ActionRecord, ""},
		"clients need time before the next authorities are recorded":           {then(named(at(AuthoritiesTrust)), func(s *scene) { s.view.Authorities.Held = false }), "", ""},
		"all members must trust the next authorities before they are recorded": {then(named(at(AuthoritiesTrust)), former(1)), ActionDeletePod, "p-1"},
		"the next authorities are recorded already":                            {then(named(at(AuthoritiesTrust)), known), ActionRotate, ""},
		"parked: the recorded authorities are removed":                         {then(known, parked), ActionRecord, ""},
		"parked, and a pod is left":                                            {then(known, func(s *scene) { s.want.Replicas, s.view.Live = 0, 0 }), "", ""},
		"parked, and a pod may still start":                                    {then(known, parked, func(s *scene) { s.view.Live = 3 }), "", ""},
		"no pod exists":                                                        {then(known, func(s *scene) { s.view.Pods, s.view.Live = nil, 0 }), ActionRecord, ""},
		"parked, and no authorities are recorded":                              {parked, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			for i := range s.view.Pods {
				s.view.Pods[i].Answer.Trust = &Trust{Latest: true, Signed: true}
			}
			c.change(s)
			d := s.decide()
			if c.action == "" {
				assert.Assert(t, d.Model.Settled, "%+v", d.Steps)
				return
			}
			assert.Assert(t, len(d.Steps) > 0, d.Model.Notes)
			assert.Equal(t, d.Steps[0].Action, c.action, d.Steps[0].Message)
			assert.Equal(t, d.Steps[0].Pod.Pod, c.pod)
			if c.action == ActionRecord {
				assert.Assert(t, d.Steps[0].Quiet, "the step is shown to users")
				want := Fingerprint{}
				if a := s.view.Authorities; a != nil {
					want = a.Fingerprint
				}
				assert.Equal(t, d.Steps[0].Record.Authority, want)
			}
			if c.action == ActionRotate {
				assert.Equal(t, d.Steps[0].Authorities, s.view.Authorities.Phase)
			}
			if c.action == ActionRotate || c.action == ActionRecord && len(s.view.Pods) > 0 {
				assert.Equal(t, len(d.Steps[0].Healthy), 3)
				assert.DeepEqual(t, d.Steps[0].Expect, s.list)
			}
		})
	}
}

// A recovery may continue with a pod that was about to be removed for a smaller cluster. In that case, the recorded
// number of pods includes this pod, so that the StatefulSet does not remove the pod.
func TestRecoveryKeepsThePodOfTheSurvivor(t *testing.T) {
	t.Parallel()
	s := newScene()
	s.want.Replicas, s.view.Record.Replicas, s.view.Live = 1, 1, 1
	s.empty(0)
	s.list = s.list[:1]
	s.view.Pods, s.view.Claims = s.view.Pods[:2], s.view.Claims[:2]
	s.view.Pods[1].Answer, s.view.Pods[1].Report = nil, &Report{Volume: VolumeData, Cluster: clusterID, Member: 2, Waiting: "removed"}
	s.want.Recovery = Recovery{RecoverBest, "t"}
	d := s.decide()
	assert.Equal(t, d.Steps[0].Action, ActionRecord, d.Steps[0].Message)
	assert.Equal(t, d.Steps[0].Record.Survivor, "p-1")
	assert.Equal(t, d.Steps[0].Record.Replicas, 2)
	pods, _ := Planned(s.want, *d.Steps[0].Record, s.view.Live, s.view.Claims)
	assert.Equal(t, pods, 2)
}

// The step that replaces a pod requires the member list of the decision. If a voter has been added since, the other
// voters may not be a quorum.
func TestReplacedPodNeedsTheMemberList(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*scene){func(s *scene) { s.view.Pods[1].Outdated = true }, func(s *scene) { s.view.Pods[1].Outdated = true; s.down(1) }} {
		s := newScene()
		change(s)
		d := s.decide()
		assert.Equal(t, d.Steps[0].Action, ActionDeletePod, d.Steps[0].Message)
		assert.DeepEqual(t, d.Steps[0].Expect, s.list)
		assert.Assert(t, d.Steps[0].Via.Pod != "" && d.Steps[0].Via.Member != 0)
	}
}

// A cluster can be parked while a claim with data of a removed member is being deleted. If a new learner has started at
// the ordinal of that claim, the cluster is not parked, because the volume has the learner's data.
func TestLearnerWithoutDataKeepsNoClaim(t *testing.T) {
	t.Parallel()
	for name, started := range map[string]string{"never started": "", "started": "p-3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			learner(nil, nil)(s)
			s.want.Replicas, s.list[3].Name = 0, started
			s.view.Claims[3].Terminating, s.view.Claims[3].Cluster, s.view.Claims[3].Member = true, clusterID, 9
			d := s.decide()
			deletes := len(d.Steps) > 0 && d.Steps[0].Action == ActionDeletePod && d.Steps[0].Pod.Pod == "p-3"
			assert.Equal(t, deletes, started == "", "%+v", d.Steps)
		})
	}
}

// The cause in a status has at most 120 characters, in any language, and one ellipsis where it was cut.
func TestCauseIsCutOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"short":              {"p-0: OOMKilled", "p-0: OOMKilled"},
		"cut before":         {"p-0: a message…", "p-0: a message…"},
		"long":               {strings.Repeat("a", 130), strings.Repeat("a", 119) + "…"},
		"at a separator":     {strings.Repeat("a", 116) + "; more words", strings.Repeat("a", 116) + "; m…"},
		"after a separator":  {strings.Repeat("a", 117) + "; more", strings.Repeat("a", 117) + "…"},
		"long and cut":       {"p-0: " + strings.Repeat("a", 60) + "… (exit code 1): " + strings.Repeat("b", 60), "p-0: " + strings.Repeat("a", 60) + "…"},
		"cut past the limit": {strings.Repeat("a", 118) + "…bcd", strings.Repeat("a", 118) + "…"},
		"Chinese":            {strings.Repeat("盘", 120), strings.Repeat("盘", 120)},
		"long Chinese":       {strings.Repeat("盘", 121), strings.Repeat("盘", 119) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := short(c.text)
			assert.Equal(t, got, c.want)
			assert.Assert(t, utf8.RuneCountInString(got) <= causeLength)
		})
	}
}

// Planned derives the number of pods and the version from the claims with data of the recorded cluster. A claim with a
// malformed annotation may have data. Such a claim counts only while the record names no cluster.
func TestPlanned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*scene)
		replicas int
		version  string
	}{
		"parked":                       {func(s *scene) { s.want.Replicas = 0 }, 0, "3.6.16"},
		"unparked":                     {func(*scene) {}, 3, "3.6.16"},
		"unparked, with a stray claim": {stray, 3, "3.6.16"},
		"the record is lost, and a stray claim exists":         {then(stray, func(s *scene) { s.view.Record = Record{} }), 4, "3.6.16"},
		"a stray claim hides no version":                       {then(stray, func(s *scene) { s.view.Record.Version = "3.5.35" }), 3, "3.6.16"},
		"malformed":                                            {func(s *scene) { s.view.Claims = append(s.view.Claims, Claim{Ordinal: 3, Malformed: "x"}) }, 3, "3.6.16"},
		"the record is lost, and claims are malformed":         {then(malformed(1), malformed(2), func(s *scene) { s.view.Record = Record{} }), 3, "3.6.16"},
		"to be parked, and a malformed claim is being deleted": {then(malformed(1), func(s *scene) { s.want.Replicas, s.view.Live = 0, 3; s.leaves(1) }), 3, "3.6.16"},
	} {
		s := newScene()
		s.view.Live = 0
		c.change(s)
		replicas, version := Planned(s.want, s.view.Record, s.view.Live, s.view.Claims)
		assert.Equal(t, replicas, c.replicas, name)
		assert.Equal(t, version, c.version, name)
	}
}

// The notes name the claims that the operator does not change.
func TestClaimsAreNamed(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*scene){
		"claim data-p-3 has data of member 9 of cluster c2, and no pod uses the claim": stray,
		"claim data-p-1 has a malformed annotation: member-id is zz":                   malformed(1),
	} {
		s := newScene()
		change(s)
		s.down(1)
		notes := strings.Join(s.decide().Model.Notes, "; ")
		assert.Assert(t, strings.Contains(notes, want), notes)
	}
}
