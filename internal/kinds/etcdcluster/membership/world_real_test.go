// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// pair is the model and real etcd, to both of which the same happens.
type pair struct {
	*processes
	world
	rand     *rand.Rand
	refusals map[string]int
	most     int // voters at a time
}

// What the model says of etcd is so: whatever etcd does when it is asked, the model does, too, and members and quorum are then
// the same; so the exploration leaves nothing out that can happen. What etcd refuses for a while it does in the end where all
// members run, as the model has it; so the exploration waits for nothing that never comes.
func TestTheModelIsAsEtcd(t *testing.T) {
	t.Parallel()
	walks, steps := 1, 25
	if os.Getenv("ETCD_MODEL") == "full" {
		walks, steps = 20, 60
	}
	for seed := range walks {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := &pair{processes: newProcesses(t), world: newWorld(1, budget{}), rand: rand.New(rand.NewPCG(uint64(seed), 1)), refusals: map[string]int{}}
			p.seed()
			for range steps {
				p.step()
			}
			t.Logf("seed %d: %d steps, up to %d voters, etcd refused %v", seed, steps, p.most, p.refusals)
		})
	}
}

func (p *pair) all() int { all, _, _ := p.voters(); return all }

// seed forms a cluster of one.
func (p *pair) seed() {
	p.put(0, TicketSeed)
	p.start(0, "new", names[0]+"="+p.peerURL(0))
	p.until("a cluster of one", func() error {
		list, err := p.places[0].client.MemberList(p.t.Context())
		if err == nil {
			p.etcdIDs[1] = list.Members[0].ID
		}
		return err
	})
	p.agrees("seed")
}

// put has a pod come to a place of the model, on the volume that is there or a new one.
func (p *pair) put(place int, ticket string) {
	if p.volumes[place].uid == 0 {
		p.uids++
		p.volumes[place] = mVolume{uid: p.uids}
	}
	p.uids++
	p.pods[place] = mPod{phase: starting, uid: p.uids, ticket: ticket}
	if _, err := p.startPod(place); err != nil {
		p.t.Fatal(err)
	}
	for p.publish(place) {
		continue
	}
}

// step does one of the things that can be done.
func (p *pair) step() {
	p.t.Helper()
	var there []mMember
	for _, m := range p.members {
		if m.id != 0 {
			there = append(there, m)
		}
	}
	m := there[p.rand.IntN(len(there))]
	small := p.all() < 3
	p.most = max(p.most, p.all())
	switch do := p.rand.IntN(12); {
	case do < 5:
		p.add(p.rand.IntN(spots))
	case m.learner && !m.named:
		p.join(m)
	case m.learner && do < 11:
		p.promote(m)
	case !p.runs(m.id):
		p.again(m)
	case do < 7 && (!small || p.rand.IntN(4) == 0):
		p.kill(m)
	case do < 10 && !m.learner:
		p.lead(m)
	case m.learner || !small || do == 11 && p.all() > 1 && p.rand.IntN(4) == 0: // the operator never removes the last voter
		p.remove(m)
	}
}

// answered is how long etcd has to answer. It gives up by itself after 7 s, and what it did then is not known.
const answered = 10 * time.Second

// change asks both for a change. One that etcd does is done in the model, or else the model is wrong.
func (p *pair) change(what string, s mStep, ask func(context.Context, *clientv3.Client) error) bool {
	p.t.Helper()
	next := p.world
	err := errRefused
	if p.world.quorate() { // take looks first
		err = next.effect(s)
	}
	allowed := !errors.Is(err, errRefused)
	refused := p.any(answered, &p.world, ask)
	if refused != nil && allowed && p.complete() {
		began := time.Now()
		p.until(what+": all members run, and the model does it", func() error { return p.any(answered, &p.world, ask) })
		p.refusals[fmt.Sprintf("%v, for less than %s", refused, time.Since(began).Round(5*time.Second)+5*time.Second)]++
		refused = nil
	}
	switch {
	case refused == nil && !allowed:
		p.t.Fatalf("%s: etcd does it, the model does not", what)
	case refused != nil:
		p.refusals[refused.Error()]++
		p.known(what, refused)
		p.agrees(what + ", refused")
		return false
	}
	p.world = next
	p.elect()
	return true
}

// complete reports whether all members run and have their data.
func (p *pair) complete() bool {
	for _, m := range p.members {
		if m.id != 0 && (!m.caught || !p.runs(m.id)) {
			return false
		}
	}
	return true
}

// known fails the test when etcd refuses for a reason that nothing here knows.
func (p *pair) known(what string, refused error) {
	p.t.Helper()
	for _, reason := range []error{
		rpctypes.ErrTooManyLearners, rpctypes.ErrPeerURLExist, rpctypes.ErrMemberExist, rpctypes.ErrUnhealthy,
		rpctypes.ErrMemberNotEnoughStarted,
		rpctypes.ErrMemberLearnerNotReady, rpctypes.ErrBadLeaderTransferee, rpctypes.ErrNotLeader, rpctypes.ErrLeaderChanged,
		rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrNoLeader, context.DeadlineExceeded,
	} {
		if errors.Is(refused, reason) || refused.Error() == reason.Error() {
			return
		}
	}
	if p.world.quorate() {
		p.t.Errorf("%s: etcd refuses: %v", what, refused)
	}
}

// agrees waits until members and quorum of etcd are those of the model.
func (p *pair) agrees(after string) {
	p.t.Helper()
	if !p.world.quorate() {
		if p.processes.quorate(2*time.Second, &p.world) {
			p.t.Fatalf("%s: etcd has a quorum, the model has none", after)
		}
		return
	}
	p.until(after+": the model is another one", func() error {
		got, err := p.processes.list(&p.world)
		if want := key(p.world.list()); err == nil && got != want {
			return fmt.Errorf("members %q, in the model %q", got, want)
		}
		if err == nil && !p.processes.quorate(2*time.Second, &p.world) {
			return errors.New("etcd has no quorum, the model has one")
		}
		return err
	})
}
