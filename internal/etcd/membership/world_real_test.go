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

// pair applies the same events to the model and to real etcd.
type pair struct {
	*processes
	world
	rand     *rand.Rand
	refusals map[string]int
	most     int // maximum number of voters at a time
}

// The model behaves like etcd. (1) If etcd makes a requested change, the model also makes it, and then both have the
// same members and quorum: so the exploration omits no possible event. (2) If etcd refuses a change for a moment, it
// accepts the change later, after all members run: so the exploration waits for no impossible event. The members must
// elect a leader within 500 ms. A busy machine is slower, so make test omits this test.
func TestTheModelIsAsEtcd(t *testing.T) {
	leaveToVerify(t)
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

// seed forms a cluster of one member.
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

// put creates a pod at an ordinal of the model, on its existing volume or on a new one.
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

// step executes one random event.
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

// answered limits the time of a request to etcd. After 7 s, etcd itself ends the request, with an unknown result.
const answered = 10 * time.Second

// change requests a change from etcd and makes it in the model. The test fails if etcd accepts a change that the model
// refuses.
func (p *pair) change(what string, s mStep, ask func(context.Context, *clientv3.Client) error) bool {
	p.t.Helper()
	next := p.world
	err := errRefused
	if p.world.quorate() { // the operator checks this before a change
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

// known fails the test if etcd refuses a change for a reason that is not in the list.
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

// agrees waits until etcd's members and quorum equal those of the model.
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

func (p *pair) add(place int) {
	p.t.Helper()
	var id uint64
	if p.change(fmt.Sprintf("add a learner at place %d", place), mStep{action: ActionAddLearner, peerURL: urls()[place]}, func(ctx context.Context, c *clientv3.Client) error {
		added, err := c.MemberAddAsLearner(ctx, []string{p.peerURL(place)})
		switch {
		case errors.Is(err, rpctypes.ErrMemberNotFound):
			// etcd computes the ID of a new member from the address and the present second. If a member with that ID
			// was removed in the same second, etcd refuses the new member. If a present member has that ID, etcd
			// returns ErrMemberExist. In both cases, the caller tries again.
			return rpctypes.ErrMemberExist
		case err == nil:
			id = added.Member.ID
		}
		return err
	}) {
		p.etcdIDs[p.ids] = id
		p.agrees("a learner was added")
	}
}

// join starts a learner on an empty volume.
func (p *pair) join(m mMember) {
	p.t.Helper()
	if !p.world.quorate() {
		return // the agent waits for a ticket
	}
	members := []string{}
	for _, other := range p.members {
		if other.id != 0 && (other.named || other.id == m.id) {
			members = append(members, names[other.place]+"="+p.peerURL(int(other.place)))
		}
	}
	p.volumes[m.place] = mVolume{}
	p.wipe(int(m.place))
	p.start(int(m.place), "existing", members...)
	p.put(int(m.place), JoinTicket(ID(m.id)))
	p.agrees("a learner has joined")
}

func (p *pair) promote(m mMember) {
	p.t.Helper()
	if p.change(fmt.Sprintf("promote member %d", m.id), mStep{action: ActionPromote, member: ID(m.id)}, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.MemberPromote(ctx, p.etcdIDs[m.id])
		return err
	}) {
		p.agrees("a learner was promoted")
	}
}

func (p *pair) remove(m mMember) {
	p.t.Helper()
	if p.change(fmt.Sprintf("remove member %d", m.id), mStep{action: ActionRemove, member: ID(m.id)}, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.MemberRemove(ctx, p.etcdIDs[m.id])
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil // the change was made, but the answer was lost
		}
		return err
	}) {
		p.wipe(int(m.place))
		p.pods[m.place], p.volumes[m.place] = mPod{}, mVolume{}
		p.elect()
		p.agrees("a member was removed")
	}
}

// lead transfers the leadership to a member.
func (p *pair) lead(m mMember) {
	p.t.Helper()
	from := p.leads()
	if from == 0 {
		return
	}
	p.leader = from
	if p.change(fmt.Sprintf("move the leader to member %d", m.id), mStep{action: ActionMoveLeader, requestTarget: Place{Member: ID(from)}, member: ID(m.id)},
		func(ctx context.Context, c *clientv3.Client) error { // one of the members is the leader and executes the request
			_, err := c.MoveLeader(ctx, p.etcdIDs[m.id])
			return err
		}) {
		p.until("it leads", func() error {
			if now := p.leads(); now != m.id {
				return fmt.Errorf("member %d leads", now)
			}
			return nil
		})
		p.agrees("the leader was moved")
	}
}

// leads returns the leader according to a member with a quorum, or 0.
func (p *pair) leads() uint8 {
	leader := uint8(0)
	_ = p.any(3*time.Second, &p.world, func(ctx context.Context, c *clientv3.Client) error {
		status, err := c.Status(ctx, c.Endpoints()[0])
		if err != nil {
			return err
		}
		for id, is := range p.etcdIDs {
			if is == status.Leader {
				leader = id
			}
		}
		return nil
	})
	return leader
}

// kill stops a member. again starts the member on its data.
func (p *pair) kill(m mMember) {
	p.t.Helper()
	p.stop(int(m.place))
	p.pods[m.place] = mPod{}
	p.elect()
	p.agrees(fmt.Sprintf("member %d was killed", m.id))
}

func (p *pair) again(m mMember) {
	p.t.Helper()
	p.start(int(m.place), "existing", names[m.place]+"="+p.peerURL(int(m.place)))
	p.put(int(m.place), TicketNone)
	p.elect()
	p.agrees(fmt.Sprintf("member %d was started again", m.id))
}
