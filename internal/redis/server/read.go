// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/internal/workers"
)

// impatience is the divisor of the time limit for a node that did not answer an earlier read in time. So an unreachable
// cluster does not block a worker of the operator for long. Each fifth read has the full time limit again.
const impatience = 4

// Read fills in the fields of each node that come from its Redis: all fields from Reached on in topology.Node. It queries all nodes in parallel, so
// that a silent node delays no other. It takes at most Options.ReadTimeout, or twice that while slots are open, because Read then also counts the
// keys of these slots. settings names the configuration parameters to read. Read closes connections to pods of the cluster that are not among nodes.
func (s *Servers) Read(ctx context.Context, cluster string, access Access, nodes []topology.Node, settings []string) {
	s.keep(cluster, nodes)
	var all workers.Group
	for i := range nodes {
		node := &nodes[i]
		if node.UID == "" {
			continue
		}
		on := s.peer(cluster, access, node.UID, node.IP)
		node.Failures, node.Sent = s.failures(on), s.sent(on)
		if node.IP == "" {
			node.Problem = "the pod has no address"
			continue
		}
		all.Go(func() { s.read(ctx, on, node, settings) })
	}
	all.Wait()
	s.countOpen(ctx, cluster, access, nodes)
	s.readSeen(ctx, cluster, access, nodes)
}

// readSeen reads marks if a master has started without a proof that its volume is in its latest state. It queries every reached node for the
// marks of other volumes that the node has noted, and then these masters for the marks that they have made since their start. In the other
// order, a node could note a mark that was made in between, and this note would wrongly prove that the volume is old.
func (s *Servers) readSeen(ctx context.Context, cluster string, access Access, nodes []topology.Node) {
	isDoubted := func(n topology.Node) bool { return n.Reached && n.Closed && !n.Used.IsZero() }
	if !slices.ContainsFunc(nodes, isDoubted) {
		return
	}
	within, cancel := context.WithTimeout(ctx, s.options.ReadTimeout)
	defer cancel()
	read := func(node *topology.Node, kind string) map[string]time.Time {
		user, err := s.peer(cluster, access, node.UID, node.IP).client.Do(within, "ACL", "GETUSER", "d3os-marks").Slice()
		if err != nil && !errors.Is(err, redis.Nil) { // an older start.sh makes no marks, and no such user
			node.Reached, node.Problem = false, err.Error()
		}
		return parseMarks(user, kind)
	}
	var noted, made workers.Group
	for i := range nodes {
		if nodes[i].Reached {
			noted.Go(func() { nodes[i].Seen = read(&nodes[i], "seen") })
		}
	}
	noted.Wait()
	for i := range nodes {
		if isDoubted(nodes[i]) {
			made.Go(func() {
				if own := read(&nodes[i], "own")[nodes[i].ID]; own.After(nodes[i].Used) {
					nodes[i].Used = own
				}
			})
		}
	}
	made.Wait()
}

// parseMarks reads the marks of a kind in an answer to ACL GETUSER, by node id. Redis 6.2 lists the patterns, and newer versions answer one text.
func parseMarks(user []any, kind string) map[string]time.Time {
	all := map[string]time.Time{}
	for i := 0; i+1 < len(user); i += 2 {
		if user[i] != "keys" {
			continue
		}
		for _, m := range marks.FindAllStringSubmatch(fmt.Sprint(user[i+1]), -1) {
			if n, err := strconv.ParseInt(m[3], 10, 64); err == nil && m[1] == kind {
				all[m[2]] = time.Unix(n, 0)
			}
		}
	}
	return all
}

// marks matches a mark in the key patterns of the user d3os-marks.
var marks = regexp.MustCompile(`\b(own|seen):([0-9a-f]{40})=([0-9]{1,12})\b`)

// countOpen queries every reached master for its number of keys in each slot that is open on any node.
func (s *Servers) countOpen(ctx context.Context, cluster string, access Access, nodes []topology.Node) {
	open := map[int]bool{}
	for _, node := range nodes {
		for _, entry := range node.View {
			for slot := range entry.Migrating {
				open[slot] = true
			}
			for slot := range entry.Importing {
				open[slot] = true
			}
		}
	}
	if len(open) == 0 {
		return
	}
	slots := slices.Sorted(maps.Keys(open))
	within, cancel := context.WithTimeout(ctx, s.options.ReadTimeout)
	defer cancel()
	var all workers.Group
	for i := range nodes {
		node := &nodes[i]
		if !node.Reached || !node.Replication.Master {
			continue
		}
		all.Go(func() {
			pipe := s.peer(cluster, access, node.UID, node.IP).client.Pipeline()
			var counts []*redis.IntCmd
			for _, slot := range slots {
				counts = append(counts, pipe.ClusterCountKeysInSlot(within, slot))
			}
			if _, err := pipe.Exec(within); err != nil {
				return // a missing count prevents decisions about its slot
			}
			node.SlotKeys = map[int]int64{}
			for i, slot := range slots {
				node.SlotKeys[slot] = counts[i].Val()
			}
		})
	}
	all.Wait()
}

func (s *Servers) read(ctx context.Context, p *peer, node *topology.Node, settings []string) {
	s.mu.Lock()
	patience := s.options.ReadTimeout
	if p.failed%(impatience+1) != 0 {
		patience /= impatience
	}
	s.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := ask(within, p.client, node, settings)
	node.Reached = err == nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, value := range p.settled {
		if node.Settings[name] == value.has && err == nil {
			node.Settings[name] = value.given
		}
	}
	p.failed++
	if err == nil || !isTimeout(err) {
		p.failed = 0
	}
	if err != nil {
		node.Problem, node.Loading = problem(err, patience)
	}
}

// ask sends all queries in one pipeline and reads the replies.
func ask(ctx context.Context, client *redis.Client, node *topology.Node, settings []string) error {
	pipe := client.Pipeline()
	id, view, state := pipe.ClusterMyID(ctx), pipe.ClusterNodes(ctx), pipe.ClusterInfo(ctx)
	info, clock, marks := pipe.Info(ctx), pipe.Time(ctx), pipe.ConfigGet(ctx, "syslog-ident")
	values := map[string]*redis.MapStringStringCmd{}
	for _, name := range settings {
		// One by one, because Redis 6.2 accepts only one name.
		values[name] = pipe.ConfigGet(ctx, name)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	entries, err := topology.ParseNodes(view.Val())
	if err != nil {
		return fmt.Errorf("its reply to CLUSTER NODES cannot be parsed: %w", err)
	}
	said, err := parseInfo(info.Val())
	if err != nil {
		return err
	}
	node.ID, node.View, node.At = id.Val(), topology.SelfFirst(entries), clock.Val()
	node.StateOK = strings.Contains(state.Val(), "cluster_state:ok")
	said.fill(node)
	node.Settings = map[string]string{}
	for name, value := range values {
		if v, ok := value.Val()[name]; ok {
			node.Settings[name] = v
		}
	}
	if err := askWrites(ctx, client, node, said); err != nil {
		return err
	}
	if err := askAdmission(ctx, client, node); err != nil {
		return err
	}
	readMarks(marks.Val()["syslog-ident"], node)
	// A replica gets the functions of its master. With replica-serve-stale-data no, it refuses FUNCTION DUMP while it has no link (MASTERDOWN).
	if !node.Replication.Master || said.number("number_of_libraries") == 0 {
		return nil
	}
	dump, err := client.FunctionDump(ctx).Result()
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(dump))
	node.Functions = hex.EncodeToString(digest[:])
	return nil
}

// askWrites sets node.Refuses if the server refuses writes: its disk fails, or too few replicas are in sync.
func askWrites(ctx context.Context, client *redis.Client, node *topology.Node, said info) error {
	if said.is("aof_last_write_status", "err") || said.is("rdb_last_bgsave_status", "err") {
		// A master with a failing disk answers PING with the cause.
		if err := client.Ping(ctx).Err(); err != nil && strings.HasPrefix(err.Error(), "MISCONF") {
			_, cause, _ := strings.Cut(err.Error(), ": ")
			if cause == "" {
				cause = "its last snapshot failed (its log has the cause); the volume may be full"
			}
			node.Refuses = fmt.Sprintf("it refuses writes, its disk fails: %.100s", cause)
		}
	}
	if good := said["min_slaves_good_slaves"]; good != "" && node.Replication.Master {
		least, err := client.ConfigGet(ctx, "min-replicas-to-write").Result()
		if err != nil {
			return err
		}
		if n, err := strconv.ParseInt(least["min-replicas-to-write"], 10, 64); err == nil && said.number("min_slaves_good_slaves") < n {
			node.Refuses = fmt.Sprintf("it refuses writes: %s of %d replicas are in sync (min-replicas-to-write)", good, n)
		}
	}
	return nil
}

// askAdmission sets node.Closed if a master without replicas would accept none: its user for replication is disabled.
func askAdmission(ctx context.Context, client *redis.Client, node *topology.Node) error {
	if !node.Replication.Master || node.Replication.Replicas > 0 {
		return nil
	}
	named, err := client.ConfigGet(ctx, "masteruser").Result()
	if err != nil || named["masteruser"] == "" {
		return err
	}
	user, err := client.Do(ctx, "ACL", "GETUSER", named["masteruser"]).Slice()
	if errors.Is(err, redis.Nil) {
		return nil // this server has no such user
	}
	for i := 0; err == nil && i+1 < len(user); i += 2 {
		if flags, ok := user[i+1].([]any); ok && user[i] == "flags" {
			node.Closed = slices.Contains(flags, any("off"))
		}
	}
	return err
}

// readMarks reads the notes that start.sh made about the volume: the size of kept files, and the last mark. readMarks
// sets the mark only for a master that accepts no replica.
func readMarks(text string, node *topology.Node) {
	for mark := range strings.SplitSeq(text, "/") {
		name, digits, _ := strings.Cut(mark, "=")
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil || n <= 0:
		case name == "kept":
			node.Kept = n
		case name == "used" && node.Closed:
			node.Used = time.Unix(n, 0)
		}
	}
}

// NotLetIn is the problem of a node that refuses the password.
const NotLetIn = "it does not accept the password of the cluster"

// problem describes to users why a node was not read, and reports whether it is loading its data.
func problem(err error, patience time.Duration) (text string, loading bool) {
	switch {
	case redis.IsLoadingError(err):
		return "it is loading its data", true
	case redis.IsAuthError(err), strings.Contains(err.Error(), "WRONGPASS"), strings.Contains(err.Error(), "without any password configured"):
		return NotLetIn, false
	case strings.Contains(err.Error(), "max number of clients"):
		return "it accepts no more connections: maxclients is reached; raise maxclients, or close connections of clients", false
	case isTimeout(err):
		return fmt.Sprintf("no answer within %s", patience), false
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", false
	}
	return err.Error(), false
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}
