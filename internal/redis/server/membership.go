// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// on checks the pod and the id of the step's node (prove), and sends commands to the node.
func (t *executor) on(ctx context.Context, commands ...command) error {
	node, err := t.prove(ctx, t.Step.Node)
	if err != nil {
		return err
	}
	_, err = node.do(ctx, commands...)
	return err
}

func (t *executor) setEpoch(ctx context.Context) error {
	return t.on(ctx, command{"CLUSTER", "SET-CONFIG-EPOCH", t.Step.Epoch})
}

// bumpEpoch gives a master the highest config epoch of the cluster, so that all nodes accept its slots. If the master already has the highest
// epoch, nothing changes.
func (t *executor) bumpEpoch(ctx context.Context) error {
	return t.on(ctx, command{"CLUSTER", "BUMPEPOCH"})
}

// meet introduces the step's node to the target. The target has accepted the password and returned its id. These checks are necessary
// because the cluster bus has no password: a node of another cluster that has taken over the address would join.
func (t *executor) meet(ctx context.Context) error {
	links, err := t.proveAll(ctx, t.Step.Node, t.Step.Target)
	if err != nil {
		return err
	}
	_, err = links[0].do(ctx, command{"CLUSTER", "MEET", t.Step.Target.IP, Port})
	return err
}

func (t *executor) addSlots(ctx context.Context) error {
	// ADDSLOTSRANGE needs Redis 7. Both commands add all slots or none.
	add := command{"CLUSTER", "ADDSLOTS"}
	for slot := range t.Step.Slots.All {
		add = append(add, slot)
	}
	if len(add) == 2 {
		return steps.Refuse("the step names no slots")
	}
	return t.on(ctx, add)
}

// dropSlots makes a node give up slots. Each of these slots must belong to another node in that other node's own view.
func (t *executor) dropSlots(ctx context.Context) error {
	node, err := t.prove(ctx, t.Step.Node)
	if err != nil {
		return err
	}
	owners, err := t.proveAll(ctx, t.Step.On...)
	if err != nil {
		return err
	}
	rest := t.Step.Slots
	for _, owner := range owners {
		own, _, err := owner.self(ctx)
		if err != nil {
			return err
		}
		rest = rest.Minus(own.Owned)
	}
	if len(rest) > 0 || owners == nil {
		return steps.Refuse("%s does not drop slots %s: no other node owns them", t.Step.Node.Pod, rest)
	}
	drop := command{"CLUSTER", "DELSLOTS"}
	for slot := range t.Step.Slots.All {
		drop = append(drop, slot)
	}
	_, err = node.do(ctx, drop)
	return err
}

func (t *executor) replicate(ctx context.Context) error {
	links, err := t.proveAll(ctx, t.Step.Node, t.Step.Target)
	if err != nil {
		return err
	}
	target, _, err := links[1].self(ctx)
	if err != nil {
		return err
	}
	if !target.Master {
		return steps.Refuse("%s cannot replicate %s, which is not a master", t.Step.Node.Pod, t.Step.Target.Pod)
	}
	if err := t.proveStart(ctx); err != nil {
		return err
	}
	if err := t.admit(ctx, links[0], links[1]); err != nil {
		return err
	}
	_, err = links[0].do(ctx, command{"CLUSTER", "REPLICATE", t.Step.Target.ID})
	return err
}

// admitAlone enables replication from a master whose volume was reset to an earlier state, after the user has accepted the loss.
func (t *executor) admitAlone(ctx context.Context) error {
	links, err := t.proveAll(ctx, t.Step.Node)
	if err != nil {
		return err
	}
	if err := t.proveStart(ctx); err != nil {
		return err
	}
	return t.admit(ctx, links...)
}

// admit enables replication between nodes of a shard. The pods of each shard have a separate replication user (start.sh). So if a node of
// another shard takes over the address of a master, the master's replicas cannot copy from that node. On a new node the user is disabled.
func (t *executor) admit(ctx context.Context, links ...*link) error {
	users := make([]string, len(links))
	for i, l := range links {
		user, err := l.replicationUser(ctx)
		if err != nil {
			return err
		}
		users[i] = user
	}
	for i, l := range links {
		if users[i] != users[0] {
			return steps.Refuse("%s replicates as user %q, and %s as user %q: they do not belong to one shard", l.place.Pod, users[i], links[0].place.Pod, users[0])
		}
		if users[i] == "" {
			continue
		}
		if _, err := l.do(ctx, command{"ACL", "SETUSER", users[i], "on"}); err != nil {
			return err
		}
	}
	return nil
}

// dismiss disables replication from an empty node until it joins: see admit.
func (t *executor) dismiss(ctx context.Context, node *link) error {
	user, err := node.replicationUser(ctx)
	if err == nil && user != "" {
		_, err = node.do(ctx, command{"ACL", "SETUSER", user, "off"})
	}
	return err
}

// replicationUser returns the user with which a node replicates: the user of its shard.
func (l *link) replicationUser(ctx context.Context) (string, error) {
	answers, err := l.do(ctx, command{"CONFIG", "GET", "masteruser"})
	if err != nil {
		return "", err
	}
	pair, err := answers[0].StringSlice()
	if err != nil || len(pair) != 2 {
		return "", fmt.Errorf("CONFIG GET masteruser of %s: %q (%w)", l.place.Pod, pair, err)
	}
	return pair[1], nil
}

// forget removes a node from the views of all other nodes at the same time. If one view still contained the node, the other nodes would
// add it again after a minute. So forget sends nothing unless it reaches all nodes.
func (t *executor) forget(ctx context.Context) error {
	links, err := t.proveAll(ctx, t.Step.On...)
	if err != nil {
		return err
	}
	if t.Step.Mode == "" {
		if err := t.ownsNothing(ctx, links); err != nil {
			return err
		}
	}
	return each(len(links), func(i int) error {
		_, err := links[i].do(ctx, command{"CLUSTER", "FORGET", t.Step.ID})
		if err != nil && isAnswer(err) && strings.Contains(err.Error(), "Unknown node") {
			return nil
		}
		return err
	})
}

// ownsNothing proves that a node owns no slot in the views of other nodes.
func (t *executor) ownsNothing(ctx context.Context, links []*link) error {
	return each(len(links), func(i int) error {
		_, view, err := links[i].self(ctx)
		for _, e := range view {
			if e.ID == t.Step.ID && e.Owned.Len() > 0 {
				return steps.Refuse("node %s owns slots %s, as %s reports", t.Step.ID, e.Owned, links[i].place.Pod)
			}
		}
		return err
	})
}

// allServed proves that the nodes of Step.On own all slots in their own views. In that case, the keys of the step's
// node are only copies.
func (t *executor) allServed(ctx context.Context) error {
	links, err := t.proveAll(ctx, t.Step.On...)
	if err != nil {
		return err
	}
	owned := make([]topology.SlotSet, len(links))
	err = each(len(links), func(i int) error {
		own, _, err := links[i].self(ctx)
		if own.Master {
			owned[i] = own.Owned
		}
		return err
	})
	if err != nil {
		return err
	}
	rest := topology.AllSlots()
	for _, set := range owned {
		rest = rest.Minus(set)
	}
	if rest.Len() > 0 {
		return steps.Refuse("%s keeps its keys: no node reports that it owns slots %s", t.Step.Node.Pod, rest)
	}
	return nil
}

// slotless proves that the step's node owns no slot in its own view. It returns the link to the node, and how many
// keys the node has. If a user gave up the data of this node (ModeConsent), slotless skips the proof.
func (t *executor) slotless(ctx context.Context) (*link, int64, error) {
	node, err := t.prove(ctx, t.Step.Node)
	if err != nil {
		return nil, 0, err
	}
	own, _, err := node.self(ctx)
	if err != nil {
		return nil, 0, err
	}
	if own.Owned.Len() > 0 && t.Step.Mode != topology.ModeConsent {
		return nil, 0, steps.Refuse("%s owns slots %s", t.Step.Node.Pod, own.Owned)
	}
	said, err := node.said(ctx) // a replica without a link may refuse DBSIZE
	return node, said.Keys, err
}

func (t *executor) reset(ctx context.Context) error {
	node, keys, err := t.slotless(ctx)
	if err != nil {
		return err
	}
	if own, _, err := node.self(ctx); err != nil {
		return err
	} else if own.Master && keys > 0 && t.Step.Mode != topology.ModeConsent {
		return steps.Refuse("%s holds %d keys", t.Step.Node.Pod, keys)
	}
	if keys > 0 && t.Step.Mode != topology.ModeConsent {
		if err := errors.Join(t.allServed(ctx), t.proveStart(ctx)); err != nil {
			return err
		}
	}
	if _, err = node.do(ctx, command{"CLUSTER", "RESET", "HARD"}); err != nil {
		return err
	}
	return t.dismiss(ctx, node)
}

func (t *executor) flush(ctx context.Context) error {
	node, _, err := t.slotless(ctx)
	if err != nil {
		return err
	}
	if own, _, err := node.self(ctx); err != nil {
		return err
	} else if !own.Master {
		return steps.Refuse("%s is a replica", t.Step.Node.Pod)
	}
	if t.Step.Mode != topology.ModeConsent {
		if err := errors.Join(t.allServed(ctx), t.proveStart(ctx)); err != nil {
			return err
		}
	}
	_, err = node.do(ctx, command{"FLUSHALL"})
	return err
}

func (t *executor) functions(ctx context.Context) error {
	links, err := t.proveAll(ctx, t.Step.Node, t.Step.Target)
	if err != nil {
		return err
	}
	answers, err := links[0].do(ctx, command{"FUNCTION", "DUMP"})
	if err != nil {
		return err
	}
	dump, err := answers[0].Text()
	if err != nil {
		return err
	}
	_, err = links[1].do(ctx, command{"FUNCTION", "RESTORE", dump, "REPLACE"})
	return err
}

func (t *executor) configure(ctx context.Context) error {
	var commands []command
	for _, name := range slices.Sorted(maps.Keys(t.Step.Settings)) {
		// CONFIG SET gets one name at a time, because Redis 6.2 accepts no more.
		commands = append(commands, command{"CONFIG", "SET", name, t.Step.Settings[name]})
	}
	if err := t.on(ctx, commands...); err != nil {
		return err
	}
	return t.readBack(ctx)
}

// readBack records settings that the server reports with another value than requested, such as hz, which it clamps. Without the record
// these settings would count as different forever.
func (t *executor) readBack(ctx context.Context) error {
	node, err := t.prove(ctx, t.Step.Node)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(t.Step.Settings))
	var commands []command
	for _, name := range names {
		commands = append(commands, command{"CONFIG", "GET", name})
	}
	answers, err := node.do(ctx, commands...)
	if err != nil {
		return err
	}
	p := t.servers.peer(t.Cluster, t.Access, t.Step.Node.UID, t.Step.Node.IP)
	t.servers.mu.Lock()
	defer t.servers.mu.Unlock()
	for i, name := range names {
		if pair, err := answers[i].StringSlice(); err == nil && len(pair) == 2 {
			p.settled[name] = settled{given: t.Step.Settings[name], has: pair[1]}
		}
	}
	return nil
}

// ids returns the ids of nodes.
func ids(places []topology.Place) map[string]bool {
	found := map[string]bool{}
	for _, place := range places {
		found[place.ID] = true
	}
	return found
}
