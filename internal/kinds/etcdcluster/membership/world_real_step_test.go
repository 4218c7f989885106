// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func (p *pair) add(place int) {
	p.t.Helper()
	var id uint64
	if p.change(fmt.Sprintf("add a learner at place %d", place), mStep{action: ActionAddLearner, peerURL: urls()[place]}, func(ctx context.Context, c *clientv3.Client) error {
		added, err := c.MemberAddAsLearner(ctx, []string{p.peerURL(place)})
		switch {
		case errors.Is(err, rpctypes.ErrMemberNotFound):
			// An id is made of the address and the second. One that was removed in the same second is told so; one that is there, as ErrMemberExist.
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
		return // the agent waits
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
			return nil // it was done, and the answer lost
		}
		return err
	}) {
		p.wipe(int(m.place))
		p.pods[m.place], p.volumes[m.place] = mPod{}, mVolume{}
		p.elect()
		p.agrees("a member was removed")
	}
}

// lead moves the leader to a member.
func (p *pair) lead(m mMember) {
	p.t.Helper()
	from := p.leads()
	if from == 0 {
		return
	}
	p.leader = from
	if p.change(fmt.Sprintf("move the leader to member %d", m.id), mStep{action: ActionMoveLeader, via: Place{Member: ID(from)}, member: ID(m.id)},
		func(ctx context.Context, c *clientv3.Client) error { // one of them leads, and does it
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

// leads returns the member that leads, by the word of one that has a quorum; 0 for none.
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

// kill ends a member, and again starts it on its data.
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
