// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// Tap intercepts the commands of steps. Tests use it to interrupt a step at every command.
type Tap interface {
	// Send is called before a pipeline of commands is sent to a node. It returns the number of commands to send. If
	// that number is smaller than len(commands), or Send returns an error, the step is interrupted after these commands.
	Send(node topology.Place, commands []string) (int, error)
	// Received is called after all commands were answered. An error interrupts the step.
	Received(node topology.Place, commands []string) error
}

// ErrBrokenOff reports that a Tap interrupted a step.
var ErrBrokenOff = errors.New("broken off")

// link is one connection to one node, which has proved its id on this connection. A link is never reopened.
type link struct {
	place topology.Place
	conn  *redis.Conn
	tap   Tap
}

// command is a command with its arguments.
type command []any

// String returns the command without the arguments of AUTH, AUTH2 and EVAL, and without keys.
func (c command) String() string {
	words := make([]string, 0, len(c))
	for _, word := range c {
		text := fmt.Sprint(word)
		if len(words) > 0 && (text == "AUTH" || text == "AUTH2" || text == "KEYS" || words[0] == "EVAL") {
			break
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// all sends commands in one pipeline while this replica of the operator holds the lease, and returns their replies in order. The error is
// an error of the connection; an error reply of Redis is among the replies.
func (l *link) all(ctx context.Context, commands []command) ([]*redis.Cmd, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	if err := reconcile.Held(ctx); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", commands[0], l.place.Pod, err)
	}
	texts := make([]string, 0, len(commands))
	for _, c := range commands {
		texts = append(texts, c.String())
	}
	send, broken := len(commands), error(nil)
	if l.tap != nil {
		send, broken = l.tap.Send(l.place, texts)
	}
	pipe := l.conn.Pipeline()
	answers := make([]*redis.Cmd, 0, len(commands))
	for _, c := range commands[:send] {
		answers = append(answers, pipe.Do(ctx, c...))
	}
	if send > 0 {
		_, err := pipe.Exec(ctx)
		for _, answer := range answers {
			if err == nil || isAnswer(err) {
				err = answer.Err()
			}
		}
		if err != nil && !isAnswer(err) {
			return nil, fmt.Errorf("%s of %s: %w", texts[0], l.place.Pod, err)
		}
	}
	if broken == nil && send < len(commands) {
		broken = ErrBrokenOff
	}
	if broken == nil && l.tap != nil {
		broken = l.tap.Received(l.place, texts)
	}
	if broken != nil {
		return nil, fmt.Errorf("%s of %s: %w", texts[0], l.place.Pod, broken)
	}
	return answers, nil
}

// do sends commands in one pipeline. It returns an error of the connection, or the first error reply.
func (l *link) do(ctx context.Context, commands ...command) ([]*redis.Cmd, error) {
	answers, err := l.all(ctx, commands)
	if err != nil {
		return nil, err
	}
	for i, c := range commands[:len(answers)] {
		if err := answers[i].Err(); err != nil {
			return answers, fmt.Errorf("%s of %s (%s): %w", c, l.place.Pod, l.place.ID, err)
		}
	}
	return answers, nil
}

// isAnswer reports whether an error is a reply of Redis, and not an error of the connection.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// self returns the node's view of the cluster, and its own line in it.
func (l *link) self(ctx context.Context) (own topology.Entry, all []topology.Entry, err error) {
	answers, err := l.do(ctx, command{"CLUSTER", "NODES"})
	if err != nil {
		return own, nil, err
	}
	return l.parse(answers[0])
}

func (l *link) parse(answer *redis.Cmd) (own topology.Entry, all []topology.Entry, err error) {
	text, err := answer.Text()
	if err != nil {
		return own, nil, fmt.Errorf("CLUSTER NODES of %s: %w", l.place.Pod, err)
	}
	if all, err = topology.ParseNodes(text); err != nil {
		return own, nil, fmt.Errorf("CLUSTER NODES of %s: %w", l.place.Pod, err)
	}
	for _, entry := range all {
		if entry.Myself {
			if entry.ID != l.place.ID {
				return own, nil, steps.Refuse("%s has become node %s, but the step was decided for node %s", l.place.Pod, entry.ID, l.place.ID)
			}
			return entry, all, nil
		}
	}
	return own, nil, fmt.Errorf("CLUSTER NODES of %s: it does not name the node itself", l.place.Pod)
}
