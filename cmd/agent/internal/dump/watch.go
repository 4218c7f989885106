// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// silence is the maximum time without an answer of the server during a dump. The dump program has no such limit, and waits forever for a
// server that hangs.
const silence = 30 * time.Second

// Watch fails if the server does not answer. It also fails if the dump waits too long for its lock of all tables, because all other
// statements then also wait. After an error, the caller must end the dump. Watch returns nil when ctx ends.
func Watch(ctx context.Context, c *server.Conn, most time.Duration) error {
	var since time.Time
	tick := time.NewTicker(min(time.Second, most/4+time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var rows [][]string
		err := c.Limit(time.Now().Add(silence))
		if err == nil {
			rows, err = c.Rows("SHOW FULL PROCESSLIST")
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		id, others := waiting(rows)
		switch {
		case id == "":
			since = time.Time{}
			continue
		case since.IsZero():
			since = time.Now()
		}
		if time.Since(since) < most {
			continue
		}
		// The statement may continue to wait in the server after its client has disconnected.
		_ = c.Do("KILL " + id)
		return contract.Errorf(contract.ReasonLockWait, "the dump waited %s for a lock of all tables. The lock waits for long queries (%s), and all other statements wait for the lock: "+
			"the backup was ended: run it at a time without such queries, or end these queries", most, strings.Join(others, "; "))
	}
}

// Calm waits until every running query is younger than most, the time for which the dump may wait for its lock. It
// fails after that time. In MySQL, the lock waits for an old query. Other statements wait for that query even after the
// dump has released the lock. So the dump must not request the lock while an old query runs.
func Calm(ctx context.Context, c *server.Conn, most time.Duration) error {
	for end := time.Now().Add(most); ; {
		rows, err := c.Rows("SHOW FULL PROCESSLIST")
		if err != nil {
			return err
		}
		old := running(rows, most)
		if len(old) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return contract.Errorf(contract.ReasonLockWait, "queries have run for longer than %s (%s): the dump would wait for these queries, and all other statements would wait for the dump: "+
				"the backup was not begun: run it at a time without such queries, or end these queries", most, strings.Join(old, "; "))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// running returns at most five queries that have run for the time most or longer.
func running(rows [][]string, most time.Duration) []string {
	var old []string
	for _, row := range rows {
		if len(row) < 8 || row[4] != "Query" && row[4] != "Execute" || row[7] == "" || row[1] == "system user" {
			continue
		}
		if seconds, err := strconv.Atoi(row[5]); err == nil && time.Duration(seconds)*time.Second >= most && len(old) < 5 {
			old = append(old, fmt.Sprintf("connection %s of %s, %s s", row[0], row[1], row[5]))
		}
	}
	return old
}

// waiting returns the connection that waits for a lock of all tables, and at most five other queries.
func waiting(rows [][]string) (id string, others []string) {
	for _, row := range rows {
		if len(row) > 7 && strings.HasPrefix(strings.ToUpper(row[7]), "FLUSH ") && strings.Contains(strings.ToUpper(row[7]), "TABLES") {
			id = row[0]
		}
	}
	for _, row := range rows {
		if len(row) > 7 && row[4] == "Query" && row[0] != id && row[7] != "" && !strings.HasPrefix(row[7], "SHOW FULL PROCESSLIST") && len(others) < 5 {
			others = append(others, fmt.Sprintf("connection %s of %s, %s s", row[0], row[1], row[5]))
		}
	}
	return id, others
}
