// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/redis/topology"
)

// Check compares the views of all nodes. It is stricter than redis-cli --cluster check, which accepts replicas with a
// broken link. All nodes must agree that each slot has one owner, that no slot is open, and that each node is a pod at
// its present address and is neither failing nor joining. Each shard must have one master. The other pods of the shard
// must be linked to the master's present address. Each pair of nodes must have connections of the cluster bus in both
// directions.
func Check(ctx context.Context, nodes []Node) error {
	said, err := views(ctx, nodes)
	if err != nil {
		return err
	}
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	first := said[0]
	owned := topology.SlotSet{}
	for _, v := range said {
		if !v.stateOK {
			fail("%s: cluster_state is not ok", v.pod.Name)
		}
		if len(v.view) != len(said) {
			fail("%s knows %d nodes, there are %d pods", v.pod.Name, len(v.view), len(said))
		}
		errs = append(errs, v.entries(said), v.same(first), v.replication(said))
		if n := v.own.Owned.Len(); n > 0 {
			if owned.Intersect(v.own.Owned).Len() > 0 {
				fail("%s owns slots that another node also owns", v.pod.Name)
			}
			owned = owned.Union(v.own.Owned)
		}
		if links := v.links; links != 2*(len(said)-1) {
			fail("%s has %d links of the bus, not %d", v.pod.Name, links, 2*(len(said)-1))
		}
	}
	if owned.Len() != topology.Slots {
		fail("%d slots are owned", owned.Len())
	}
	errs = append(errs, shards(said))
	return errors.Join(errs...)
}

// Node is a node of the checked cluster.
type Node struct {
	Name, IP string
	Shard    int
	Client   *redis.Client
}

// view is the report of one node about the cluster.
type view struct {
	pod     Node
	own     topology.Entry
	view    []topology.Entry
	stateOK bool
	links   int
	info    map[string]string
}

func views(ctx context.Context, nodes []Node) ([]*view, error) {
	var said []*view
	for _, pod := range nodes {
		pipe := pod.Client.Pipeline()
		all, state, links, info := pipe.ClusterNodes(ctx), pipe.ClusterInfo(ctx), pipe.ClusterLinks(ctx), pipe.Info(ctx, "replication")
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", pod.Name, err)
		}
		entries, err := topology.ParseNodes(all.Val())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pod.Name, err)
		}
		v := &view{pod: pod, view: entries, stateOK: strings.Contains(state.Val(), "cluster_state:ok"), info: map[string]string{}}
		for _, link := range links.Val() {
			if link.Node != "" {
				v.links++
			}
		}
		for line := range strings.Lines(info.Val()) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				v.info[name] = value
			}
		}
		for _, entry := range entries {
			if entry.Myself {
				v.own = entry
			}
		}
		said = append(said, v)
	}
	return said, nil
}

// entries checks each line of a view.
func (v *view) entries(all []*view) error {
	var errs []error
	for _, e := range v.view {
		if e.Fail || e.PossiblyFail || e.Handshake || e.NoAddress || !e.Connected && !e.Myself {
			errs = append(errs, fmt.Errorf("%s sees %s failing, joining, without address or unconnected: %+v", v.pod.Name, e.ID, e))
		}
		if len(e.Migrating)+len(e.Importing) > 0 {
			errs = append(errs, fmt.Errorf("%s has open slots: migrating %v, importing %v", v.pod.Name, e.Migrating, e.Importing))
		}
		pod := ""
		for _, other := range all {
			if other.own.ID == e.ID {
				if pod = other.pod.Name; other.pod.IP != e.IP {
					errs = append(errs, fmt.Errorf("%s sees %s at %s, it is at %s", v.pod.Name, pod, e.IP, other.pod.IP))
				}
			}
		}
		if pod == "" {
			errs = append(errs, fmt.Errorf("%s knows %s at %s, which is no pod", v.pod.Name, e.ID, e.IP))
		}
	}
	return errors.Join(errs...)
}

// same checks that two nodes see the same owners and the same roles.
func (v *view) same(first *view) error {
	text := func(v *view) string {
		lines := map[string]string{}
		for _, e := range v.view {
			lines[e.ID] = fmt.Sprint(e.Master, e.MasterID, e.Owned)
		}
		return fmt.Sprint(lines)
	}
	if text(v) != text(first) {
		return fmt.Errorf("%s sees %s, %s sees %s", v.pod.Name, text(v), first.pod.Name, text(first))
	}
	return nil
}

// replication checks that a replica's link to its master's present address is up.
func (v *view) replication(all []*view) error {
	if v.own.Master {
		return nil
	}
	for _, master := range all {
		if master.own.ID != v.own.MasterID {
			continue
		}
		if v.info["master_link_status"] != "up" || v.info["master_host"] != master.pod.IP || v.info["master_port"] != "6379" {
			return fmt.Errorf("%s is not linked to its master %s at %s: %s:%s, link %s", v.pod.Name, master.pod.Name, master.pod.IP,
				v.info["master_host"], v.info["master_port"], v.info["master_link_status"])
		}
		return nil
	}
	return fmt.Errorf("the master %s of %s is no pod", v.own.MasterID, v.pod.Name)
}

// shards checks that the pods of each shard are one master with slots and its replicas.
func shards(said []*view) error {
	var errs []error
	masters := map[int]*view{}
	for _, v := range said {
		if !v.own.Master {
			continue
		}
		if other := masters[v.pod.Shard]; other != nil {
			errs = append(errs, fmt.Errorf("%s and %s are both masters of shard %d", other.pod.Name, v.pod.Name, v.pod.Shard))
		}
		if masters[v.pod.Shard] = v; v.own.Owned.Len() == 0 {
			errs = append(errs, fmt.Errorf("%s is a master without slots", v.pod.Name))
		}
	}
	for _, v := range said {
		switch master := masters[v.pod.Shard]; {
		case master == nil:
			errs = append(errs, fmt.Errorf("shard %d has no master", v.pod.Shard))
		case v != master && v.own.MasterID != master.own.ID:
			errs = append(errs, fmt.Errorf("%s replicates %s, the master of its shard is %s", v.pod.Name, v.own.MasterID, master.pod.Name))
		}
	}
	return errors.Join(errs...)
}
