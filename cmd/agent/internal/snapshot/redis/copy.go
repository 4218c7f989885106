// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// stepTime is the time in which a replica must receive everything that its master had when the backup began. silenceTime is the longest
// time without activity of a server that is being copied.
const (
	stepTime    = 30 * time.Second
	silenceTime = time.Minute
)

// source returns the server to copy a shard from, and reports whether it is a replica. It selects a replica that has all writes which the
// master had in the layout, or else the master. It fails with errChanged if a replica has another master.
func (s *servers) source(ctx context.Context, l *layout, of shard) (node, bool, error) {
	wanted := l.answers[of.master.id].info.offset("master_repl_offset")
	for end := time.Now().Add(stepTime); len(of.replicas) > 0 && time.Now().Before(end); {
		answers, err := s.askAll(ctx, of.replicas)
		if err != nil {
			return node{}, false, err
		}
		for _, a := range answers {
			switch {
			case a.own.master != of.master.id:
				return node{}, false, errChanged
			case follows(a, of, l.history(of)) && a.info.isLinked() && a.info.offset("slave_repl_offset") >= wanted:
				return a.own, true, nil
			}
		}
		select {
		case <-ctx.Done():
			return node{}, false, ctx.Err()
		case <-time.After(pause):
		}
	}
	return of.master, false, nil
}

// follows reports whether a server is a shard's master or the master's replica, with the same replication history.
func follows(a answer, of shard, history string) bool {
	return (a.own.id == of.master.id || a.own.is("slave") && a.own.master == of.master.id) && a.info["master_replid"] == history
}

// copier runs redis-cli.
type copier struct {
	*servers
	program string
}

// copy writes the RDB file of a server. It fails with DumpFailed if the file is incomplete.
func (c copier) copy(ctx context.Context, from node, to io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.watch(ctx, from, cancel)
	host, port, err := net.SplitHostPort(from.address)
	if err != nil {
		return contract.Errorf(contract.ReasonFailed, "copy redis at %s: %w", from.address, err)
	}
	words := &server.Tail{}
	cmd := exec.CommandContext(ctx, c.program, "-h", host, "-p", port, "--rdb", "-")
	cmd.Env = []string{"HOME=/", "PATH=" + os.Getenv("PATH")}
	if c.Password != "" {
		cmd.Env = append(cmd.Env, "REDISCLI_AUTH="+c.Password)
	}
	cmd.Stderr, cmd.SysProcAttr = words, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return contract.Errorf(contract.ReasonFailed, "run %s: %w", c.program, err)
	}
	check := &rdb{to: to}
	_, copyErr := io.CopyBuffer(struct{ io.Writer }{check}, out, make([]byte, 256<<10))
	if copyErr != nil {
		_ = cmd.Process.Kill() // otherwise the program would wait for a reader
	}
	err = cmd.Wait()
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return cause
	case copyErr != nil:
		return copyErr // an error of the store
	case err != nil && isDenied(words.String()):
		return contract.Errorf(contract.ReasonAccessDenied, "copy redis at %s with %s: %w: %s", from.address, c.program, err, words)
	case err != nil:
		return contract.Errorf(contract.ReasonDumpFailed, "copy redis at %s with %s: %w: %s", from.address, c.program, err, words)
	}
	var broken partial
	if err = check.Close(); errors.As(err, &broken) {
		return contract.Errorf(contract.ReasonDumpFailed, "copy redis at %s with %s: %w: %s", from.address, c.program, err, words)
	}
	return err // an error of the store
}

// watch ends a copy if the server shows no activity for too long: redis-cli would wait forever. Activity is not only sent data: a server
// with much data first writes the data to its disk.
func (c copier) watch(ctx context.Context, from node, end context.CancelCauseFunc) {
	for alive := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(answerTime):
		}
		err := c.client(from.address).Ping(ctx).Err()
		if err == nil {
			alive = time.Now()
		} else if time.Since(alive) > silenceTime {
			end(failed("copy", from.address, err))
			return
		}
	}
}
