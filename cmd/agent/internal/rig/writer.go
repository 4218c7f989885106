// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// Ack is a transaction whose commit the server acknowledged.
type Ack struct {
	// Key is the key of the row that was written to shop.orders. Began is the time at which the commit was sent, and Done the time at which
	// it was answered.
	Key         int64
	Began, Done time.Time
}

// Load is a group of writers.
type Load struct {
	server *Server
	cancel context.CancelFunc
	group  sync.WaitGroup
	pause  atomic.Int64
	mu     sync.Mutex
	acks   []Ack
}

// Tables creates the tables of the writers. Their names and contents are difficult for dumps.
func (s *Server) Tables() {
	s.T.Helper()
	s.Exec("CREATE DATABASE shop CHARACTER SET utf8mb4", "CREATE DATABASE `od``d name`",
		"CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, writer INT, body VARCHAR(2000)) ENGINE=InnoDB",
		"CREATE TABLE shop.items (id BIGINT PRIMARY KEY, amount INT) ENGINE=InnoDB",
		"CREATE TABLE `od``d name`.`t;--' (x) VALUES` (id BIGINT PRIMARY KEY, body VARCHAR(200)) ENGINE=InnoDB COMMENT='INSERT INTO `x` VALUES (1),(2);'",
		"CREATE TABLE shop.empty (id BIGINT PRIMARY KEY) ENGINE=InnoDB",
		"CREATE VIEW shop.large AS SELECT id, 'a;(' AS c FROM shop.items WHERE amount > 10",
		"CREATE TRIGGER shop.guard BEFORE INSERT ON shop.empty FOR EACH ROW BEGIN\nINSERT INTO `orders` VALUES (-1, 0, '(((');\nEND",
		"CREATE PROCEDURE shop.p() BEGIN\nINSERT INTO `items` VALUES (-1, 0);\nEND",
		"INSERT INTO `od``d name`.`t;--' (x) VALUES` VALUES (1, 'it''s; (a) \\\\'), (2, '\\n-- Dump completed\\n'), (3, '\"''`),(')")
}

// Write starts writers: each transaction writes to two tables, and sometimes changes or removes older rows. A pause before each
// transaction lets other processes use the machine.
func (s *Server) Write(seed int64, writers int, pause ...time.Duration) *Load {
	seed = chance.Seed(s.T, seed)
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{server: s, cancel: cancel}
	l.Slow(append(pause, 0)[0])
	for w := range writers {
		l.group.Go(func() { l.write(ctx, rand.New(rand.NewSource(seed+int64(w))), int64(w)) })
	}
	return l
}

// Slow sets the pause of each writer before a transaction.
func (l *Load) Slow(pause time.Duration) { l.pause.Store(int64(pause)) }

func (l *Load) write(ctx context.Context, random *rand.Rand, writer int64) {
	var conn *server.Conn
	for seq := int64(1); ctx.Err() == nil; seq++ {
		if conn == nil {
			var err error
			if conn, err = server.Connect(ctx, l.server.Root()); err != nil {
				select { // the server was killed and is being restarted
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
				continue
			}
		}
		time.Sleep(time.Duration(l.pause.Load())) // no test depends on the number of writes
		id := writer*1_000_000_000 + seq
		body := strings.Repeat(fmt.Sprintf(`%d'\%c"(;`, random.Int63(), rune('a'+random.Intn(26))), 1+random.Intn(40))
		steps := []string{"BEGIN", fmt.Sprintf("INSERT INTO shop.orders VALUES (%d, %d, '%s')", id, writer, strings.NewReplacer(`\`, `\\`, "'", "''").Replace(body)),
			fmt.Sprintf("INSERT INTO shop.items VALUES (%d, %d)", id, seq)}
		switch random.Intn(4) {
		case 0:
			steps = append(steps, fmt.Sprintf("UPDATE shop.items SET amount = amount + 1 WHERE id = %d", id-1-random.Int63n(seq)))
		case 1:
			steps = append(steps, fmt.Sprintf("DELETE FROM shop.items WHERE id = %d", id-1-random.Int63n(seq)))
		}
		var err error
		for _, step := range steps {
			if err = conn.Do(step); err != nil {
				break
			}
		}
		began := time.Now()
		if err == nil {
			err = conn.Do("COMMIT")
		}
		if err != nil {
			conn.Close()
			conn = nil
			continue
		}
		l.mu.Lock()
		l.acks = append(l.acks, Ack{Key: id, Began: began, Done: time.Now()})
		l.mu.Unlock()
	}
	if conn != nil {
		conn.Close()
	}
}

// Acks returns the transactions that were acknowledged until now.
func (l *Load) Acks() []Ack {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Ack(nil), l.acks...)
}

// Stop ends the writers.
func (l *Load) Stop() []Ack {
	l.cancel()
	l.group.Wait()
	return l.Acks()
}
