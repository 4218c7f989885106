// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/stateful/proof"
)

// Tap stands between steps and the nodes. Tests break a step off with it, at every command.
type Tap interface {
	// Send is called before commands go to a node in one go. It returns how many of them are sent. Fewer than all,
	// or an error, break the step off after these.
	Send(node topology.Place, commands []string) (int, error)
	// Received is called when all have been answered. An error breaks the step off.
	Received(node topology.Place, commands []string) error
}

// ErrBrokenOff says that a Tap broke a step off.
var ErrBrokenOff = errors.New("broken off")

// link is one connection to one node, which has proved its id on it. It is never made anew.
type link struct {
	place topology.Place
	conn  *redis.Conn
	tap   Tap
}

// command is a command with its arguments.
type command []any

// String returns the command without what comes after AUTH, AUTH2 and EVAL, and without keys.
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

// all sends commands in one go, while the replica that takes the step holds the lease, and returns their answers in order. The error is that of the connection; an error
// that Redis answers is in its answer.
func (l *link) all(ctx context.Context, commands []command) ([]*redis.Cmd, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	if err := day2.Held(ctx); err != nil {
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

// do sends commands in one go. The error is that of the connection, or the first that Redis answers.
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

// isAnswer reports whether an error is one that Redis answered, and not one of the connection.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// self returns what the node says of the cluster, and its own line of that.
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
				return own, nil, proof.Refuse("%s has become node %s, and the step is for node %s", l.place.Pod, entry.ID, l.place.ID)
			}
			return entry, all, nil
		}
	}
	return own, nil, fmt.Errorf("CLUSTER NODES of %s: it does not name the node itself", l.place.Pod)
}
