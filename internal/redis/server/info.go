// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/internal/redis/topology"
)

// info holds the fields of INFO by name.
type info map[string]string

// parseInfo parses the reply to INFO. It rejects a reply without the fields that decisions need.
func parseInfo(text string) (info, error) {
	said := info{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
			said[name] = value
		}
	}
	for _, name := range []string{"redis_version", "role", "used_memory", "maxmemory"} {
		if said[name] == "" {
			return nil, fmt.Errorf("its INFO lacks %s", name)
		}
	}
	if version := said["valkey_version"]; version != "" || said.is("server_name", "valkey") {
		return nil, fmt.Errorf("it is Valkey %s, which is not supported: set spec.version and the image to Redis, such as 7.0.15", version)
	}
	if role := said["role"]; role != "master" && role != "slave" {
		return nil, fmt.Errorf("its INFO has the unknown role %q", role)
	}
	return said, nil
}

// number returns a field as a number, or 0 if it is missing.
func (i info) number(name string) int64 {
	n, err := strconv.ParseInt(i[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (i info) is(name, value string) bool { return i[name] == value }

// keys returns the number of keys; a cluster has only database 0.
func (i info) keys() int64 {
	for field := range strings.SplitSeq(i["db0"], ",") {
		if count, ok := strings.CutPrefix(field, "keys="); ok {
			n, err := strconv.ParseInt(count, 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// refuses describes the requests of clients that the server refuses, with the reason, according to INFO. It returns "" if there are none.
func (i info) refuses() string {
	master, most := i.is("role", "master"), i.number("maxmemory")
	used := i.number("used_memory") - i.number("mem_not_counted_for_evict")
	connections := i.number("connected_clients") + i.number("connected_slaves") + i.number("cluster_connections")
	switch limit := i.number("maxclients"); {
	case i.is("aof_last_write_status", "err"):
		return "it cannot write its append-only file: its volume may be full"
	case master && most > 0 && used > most && !strings.HasPrefix(i["maxmemory_policy"], "allkeys-"):
		return fmt.Sprintf("it refuses writes, its memory is full: %d of %d MiB (maxmemory, maxmemory-policy %s)", used>>20, most>>20, i["maxmemory_policy"])
	case limit > 0 && connections >= limit:
		return fmt.Sprintf("it refuses connections: it has %d of at most %d (maxclients)", connections, limit)
	}
	return ""
}

func (i info) fill(node *topology.Node) {
	node.Version, node.RunID, node.Uptime = i["redis_version"], i["run_id"], time.Duration(i.number("uptime_in_seconds"))*time.Second
	node.Keys, node.UsedMemory, node.MaxMemory = i.keys(), i.number("used_memory"), i.number("maxmemory")
	node.Refuses, node.Unsaved = i.refuses(), i.is("aof_last_write_status", "err")
	node.Evicts = strings.HasPrefix(i["maxmemory_policy"], "allkeys-")
	node.Saving = i.is("rdb_bgsave_in_progress", "1") || i.is("aof_rewrite_in_progress", "1") || i.is("aof_rewrite_scheduled", "1")
	node.Replication = topology.Replication{
		Master: i.is("role", "master"), Offset: i.number("master_repl_offset"), Replicas: int(i.number("connected_slaves")),
		ID: i["master_replid"], FormerID: strings.TrimLeft(i["master_replid2"], "0"),
	}
	if !node.Replication.Master {
		node.Replication.MasterHost, node.Replication.MasterPort = i["master_host"], int(i.number("master_port"))
		node.Replication.LinkUp, node.Replication.Syncing = i.is("master_link_status", "up"), i.is("master_sync_in_progress", "1")
		node.Replication.Offset = i.number("slave_repl_offset")
		node.Replication.LinkDown = i.linkDown()
	}
}

// linkDown returns the time since a replica lost its link, or 0 while the link is up.
func (i info) linkDown() time.Duration {
	seconds, err := strconv.ParseInt(i["master_link_down_since_seconds"], 10, 64)
	switch {
	case i.is("master_link_status", "up"):
		return 0
	case err != nil || seconds < 0 || seconds > i.number("uptime_in_seconds")+10: // Redis 6.2 counts from 1970
		return topology.NeverLinked
	}
	return time.Duration(seconds) * time.Second
}
