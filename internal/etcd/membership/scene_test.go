// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"time"
)

// scene is a healthy cluster of three members, which tests modify. Pod i runs member i+1. Member 1 leads.
type scene struct {
	want Want
	view View
	list []Member
}

func newScene() *scene {
	s := &scene{want: Want{
		Replicas: 3, Version: "3.6.16", Path: []string{"3.4.44", "3.5.35", "3.6.16", "3.7.3"}, PeerURLs: allURLs[:MaxReplicas], ReplaceAfter: 5 * time.Minute,
		Maintenance: Maintenance{Compact: true, DefragPercent: 45, DefragAtLeast: 100},
	}}
	s.view.Record, s.view.Live = Record{Cluster: clusterID, Replicas: 3, Version: "3.6.16"}, 3
	for i := range 3 {
		s.list = append(s.list, Member{ID: ID(i + 1), Name: names[i], PeerURLs: allURLs[i : i+1]})
		s.view.Claims = append(s.view.Claims, Claim{Name: claimNames[i], Ordinal: i, UID: claimUIDs[i], Cluster: clusterID, Member: ID(i + 1), Version: "3.6.16", Position: Position{Term: 2, Index: 100}})
		s.view.Pods = append(s.view.Pods, Pod{Name: names[i], Ordinal: i, UID: podUIDs[i], IP: ips[i], Running: true, Ready: true, Answer: &Answer{
			Cluster: clusterID, Member: ID(i + 1), Leader: 1, Version: "3.6.16", Linear: true, Term: 2, Index: 100, Applied: 100, Revision: 50, Size: 1000, Used: 900,
		}})
	}
	return s
}

func (s *scene) decide() Decision {
	for i := range s.view.Pods {
		if a := s.view.Pods[i].Answer; a != nil && !a.Learner {
			a.Members = s.list
		}
	}
	return Decide(s.want, s.view)
}

// then applies changes one after the other.
func then(changes ...func(*scene)) func(*scene) {
	return func(s *scene) {
		for _, change := range changes {
			change(s)
		}
	}
}

func consents(from, token string) func(*scene) {
	return func(s *scene) { s.want.Recovery = Recovery{from, token} }
}

// down makes pods stop answering, and sets the reason as their Problem.
func (s *scene) down(pods ...int) {
	for _, i := range pods {
		s.view.Pods[i].Answer, s.view.Pods[i].Ready, s.view.Pods[i].Problem = nil, false, "no answer within 2s"
	}
	if answering := 3 - len(pods); answering < 2 {
		for i := range s.view.Pods {
			if a := s.view.Pods[i].Answer; a != nil {
				a.Linear, a.Leader = false, 0
			}
		}
	} else if s.view.Pods[0].Answer == nil {
		for i := range s.view.Pods[1:] {
			if a := s.view.Pods[i+1].Answer; a != nil {
				a.Leader = 2
			}
		}
	}
}

// empty makes the agents of pods report volumes without data.
func (s *scene) empty(pods ...int) {
	s.down(pods...)
	for _, i := range pods {
		s.view.Pods[i].Problem = ""
		s.view.Pods[i].Report = &Report{Volume: VolumeEmpty, Waiting: "the volume is empty"}
	}
}

// damaged makes the agents of pods report damaged data of their members.
func (s *scene) damaged(pods ...int) {
	s.down(pods...)
	for _, i := range pods {
		s.view.Pods[i].Problem = ""
		s.view.Pods[i].Report = &Report{Volume: VolumeData, Cluster: clusterID, Member: ID(i + 1), Damage: "a checksum", Waiting: "the data is damaged"}
	}
}

// fresh returns a scene without a cluster, with a report of the agent in its first pod.
func fresh(report *Report) func(*scene) {
	return func(s *scene) {
		s.view.Pods, s.view.Claims, s.list = s.view.Pods[:1], s.view.Claims[:1], nil
		s.view.Pods[0].Answer, s.view.Pods[0].Report = nil, report
		s.view.Claims[0] = Claim{Name: claimNames[0], UID: claimUIDs[0]}
		s.view.Record, s.view.Live = Record{Replicas: 1, Version: "3.6.16"}, 1
	}
}

// learner adds a fourth member as a learner.
func learner(report *Report, answer *Answer) func(*scene) {
	return func(s *scene) {
		s.want.Replicas, s.view.Record.Replicas, s.view.Live = 4, 4, 4
		m := Member{ID: 4, PeerURLs: allURLs[3:4], Learner: true}
		claim := Claim{Name: claimNames[3], Ordinal: 3, UID: claimUIDs[3]}
		if answer != nil {
			m.Name = "p-3"
			answer.Cluster, answer.Member, answer.Version = clusterID, 4, "3.6.16"
			claim.Cluster, claim.Member, claim.Version, claim.Position = clusterID, 4, "3.6.16", answer.Position()
		}
		s.list = append(s.list, m)
		s.view.Claims = append(s.view.Claims, claim)
		s.view.Pods = append(s.view.Pods, Pod{Name: "p-3", Ordinal: 3, UID: podUIDs[3], IP: ips[3], Running: true, Report: report, Answer: answer})
	}
}

func (s *scene) crashing(pod int, since time.Duration) {
	s.view.Pods[pod].Running, s.view.Pods[pod].Crashing, s.view.Pods[pod].NotReadyFor = false, true, since
}

func (s *scene) leads(id ID) {
	for i := range s.view.Pods {
		s.view.Pods[i].Answer.Leader = id
	}
}

func (s *scene) versions(version string) {
	s.view.Record.Version = version
	for i := range s.view.Pods {
		s.view.Pods[i].Answer.Version, s.view.Claims[i].Version = version, version
	}
}

func (s *scene) noSpace(compacted bool) {
	for i := range s.view.Pods {
		s.view.Pods[i].Answer.Alarms, s.view.Pods[i].Answer.Compacted, s.view.Pods[i].Answer.Used = []Alarm{{2, AlarmNoSpace}}, compacted, 990
	}
}

// unused makes half of a large database file unused space.
func (s *scene) unused(pod int) {
	s.view.Pods[pod].Answer.Size, s.view.Pods[pod].Answer.Used = 8<<20, 4<<20
}

// corrupt raises CORRUPT for a member, and sets the hashes of the voters' keys; 0 means no hash.
func corrupt(named ID, sums ...uint32) func(*scene) {
	return func(s *scene) {
		for i, sum := range sums {
			a := s.view.Pods[i].Answer
			a.Alarms = []Alarm{{named, AlarmCorrupt}}
			if sum != 0 {
				a.Hash = &Hash{Revision: 50, At: 50, Compacted: 1, Sum: sum}
			}
		}
	}
}

// neverStarted raises the alarm CORRUPT while two voters have different keys. Only the keys of the third voter can show
// which of them is wrong. The third voter's pod cannot start, but the template of the StatefulSet has been corrected.
func neverStarted(s *scene) {
	s.down(2)
	corrupt(2, 7, 8)(s)
	s.view.Pods[2].Outdated, s.view.Pods[2].Running, s.view.Pods[2].Problem = true, false, "ImagePullBackOff"
}

// leaves marks claims as being deleted while their pods still exist.
func (s *scene) leaves(claims ...int) {
	for _, i := range claims {
		s.view.Claims[i].Terminating = true
	}
}

// killed stops the containers of pods.
func (s *scene) killed(pods ...int) {
	for _, i := range pods {
		s.view.Pods[i].Answer, s.view.Pods[i].Running, s.view.Pods[i].Ready = nil, false, false
	}
}

// only removes all members except the first.
func (s *scene) only() {
	s.want.Replicas, s.view.Record.Replicas, s.view.Live = 1, 1, 1
	s.list, s.view.Pods, s.view.Claims = s.list[:1], s.view.Pods[:1], s.view.Claims[:1]
}

// outdated makes the agent of a pod report outdated data: the data ends at the entry with the given index, before the position on the
// claim.
func (s *scene) outdated(pod int, index uint64) {
	s.down(pod)
	s.view.Pods[pod].Problem = ""
	s.view.Pods[pod].Report = &Report{
		Volume: VolumeData, Cluster: clusterID, Member: ID(pod + 1), Position: Position{Term: 2, Index: index}, Outdated: "it ends before entry 100", Waiting: "the data is of the past",
	}
}

func allOutdated(s *scene) {
	for i := range 3 {
		s.outdated(i, uint64(50+i))
	}
	s.list = nil
}

// stale leaves one member that answers. While it did not run, another member was replaced: the answering member does
// not know the new one.
func stale(s *scene) {
	s.empty(1)
	s.down(1, 2)
	s.view.Claims[2].Member = 6
	s.view.Pods[2].Problem = ""
	s.view.Pods[2].Report = &Report{Volume: VolumeData, Cluster: clusterID, Member: 6, Position: Position{Term: 3, Index: 200}, Waiting: "Removed"}
}

// pending wants five members instead of three. The pod of the fourth cannot be scheduled.
func pending(s *scene) {
	s.want.Replicas, s.view.Record.Replicas, s.view.Live = 5, 4, 4
	s.view.Pods = append(s.view.Pods, Pod{Name: "p-3", Ordinal: 3, UID: podUIDs[3], Problem: "0/3 nodes are available"})
}

// pendingOf3 removes the member of a pod from a cluster of three voters. Its new pod cannot be scheduled.
func pendingOf3(pod int) func(*scene) {
	return func(s *scene) {
		s.vacate(pod)
		s.view.Claims[pod].Cluster, s.view.Claims[pod].Member = 0, 0
		s.view.Pods[pod].Report, s.view.Pods[pod].Running, s.view.Pods[pod].Problem = nil, false, "0/3 nodes are available"
	}
}

// trusting makes all members trust the authorities in their Secrets. The spec wants new authorities.
func trusting(s *scene) {
	for i := range s.view.Pods {
		if a := s.view.Pods[i].Answer; a != nil {
			a.Trust = &Trust{Latest: true, Signed: true}
		}
	}
	s.view.Authorities = &Authorities{Phase: AuthoritiesAtRest, Wanted: true, Held: true}
}

// restarted restarts etcd in a pod without a quorum. So etcd answers no client, and the agent's watcher reports
// instead.
func (s *scene) restarted(pod int, index uint64) {
	p := &s.view.Pods[pod]
	p.Answer, p.Report, p.Ready, p.Silent, p.Problem = nil, nil, false, true, "no answer within 2s"
	p.Watched = &Report{Volume: VolumeData, Cluster: clusterID, Member: ID(pod + 1), Position: Position{Term: 2, Index: index}}
}

// survivorRestarted makes two of three members lose their volumes, and restarts etcd of the third.
func survivorRestarted(s *scene) {
	s.empty(1, 2)
	s.restarted(0, 100)
	s.list = nil
}

// used marks a token as used on all claims.
func (s *scene) used(token string) {
	for i := range s.view.Claims {
		s.view.Claims[i].Tokens = token
	}
}

// stray adds a claim with data of another cluster and of a lower version, at an ordinal without a pod.
func stray(s *scene) {
	s.view.Claims = append(s.view.Claims, Claim{Name: claimNames[3], Ordinal: 3, UID: claimUIDs[3], Cluster: 0xc2, Member: 9, Version: "3.4.44"})
}

// malformed makes the annotations of a claim unreadable.
func malformed(claim int) func(*scene) {
	return func(s *scene) {
		s.view.Claims[claim] = Claim{Name: claimNames[claim], Ordinal: claim, UID: claimUIDs[claim], Malformed: "member-id is zz"}
	}
}
