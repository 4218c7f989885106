// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
	"d3os.com/d3os-operator/internal/mysql/replication"
)

const (
	// LookTime limits a query of a member.
	LookTime = 2 * time.Second
	// RetryTime limits the queries after a failed query.
	RetryTime = 750 * time.Millisecond
	// silentTime limits a query of a silent member, because each observation during a failover waits for the silent primary.
	silentTime = 250 * time.Millisecond
	// orderTime limits an order, which may wait for a lock in the server.
	orderTime = 15 * time.Second
	// maxAnswer bounds the body of an answer.
	maxAnswer = 1 << 20
)

// Client sends requests to the agents of a database's members.
type Client struct {
	// HTTP presents the operator's certificate, and trusts the CA of the members.
	HTTP *http.Client
	// URL returns the address of a member's agent, such as https://10.0.0.7:3307.
	URL func(ordinal int) string
	// Source returns the address at which members reach the server of a member.
	Source func(ordinal int) (host string, port int)
}

// Look returns the answer of a member's agent.
func (c *Client) Look(ctx context.Context, ordinal int) (mysqlmember.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, LookTime)
	defer cancel()
	answer, err := c.send(ctx, http.MethodGet, ordinal, mysqlmember.PathState, http.NoBody)
	if err != nil {
		return answer, fmt.Errorf("read the state of member %d: %w", ordinal, err)
	}
	return answer, nil
}

// paths are the paths of the orders, by action. Actions without a path are not orders.
var paths = map[replication.Action]string{
	replication.ActionPromise: mysqlmember.PathPromise, replication.ActionFollow: mysqlmember.PathFollow, replication.ActionServe: mysqlmember.PathServe,
	replication.ActionDemote: mysqlmember.PathDemote, replication.ActionHeartbeat: mysqlmember.PathHeartbeat,
}

// IsOrder reports whether a step is an order to a member.
func IsOrder(s replication.Step) bool { return paths[s.Action] != "" }

// Order sends the order of a step to a member. The agent refuses the order if its server has restarted or its data has
// changed since the observation.
func (c *Client) Order(ctx context.Context, s replication.Step) error {
	path := paths[s.Action]
	if path == "" {
		return fmt.Errorf("order member %d: action %s is not an order", s.Member.Ordinal, s.Action)
	}
	o := mysqlmember.Request{
		Order: mysqlmember.Order{Epoch: s.Epoch, Revision: s.Revision}, Instance: s.Member.Instance, Server: s.Member.Server,
		Acknowledge: s.Acknowledge, Demands: s.Demands, CutVoters: s.CutVoters, CutOthers: s.CutOthers, Servers: s.Servers,
	}
	if s.Action == replication.ActionFollow {
		host, port := c.Source(s.Source.Ordinal)
		o.Source = mysqlmember.Source{Ordinal: s.Source.Ordinal, Host: host, Port: port, Personal: s.Personal}
		o.Renew = s.Renew
		if s.Member.Orders >= 1 { // an older agent refuses an order with this field
			o.Source.Server = s.Source.Server
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("order member %d to %s: %w", s.Member.Ordinal, path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	if _, err := c.send(ctx, http.MethodPost, s.Member.Ordinal, path, bytes.NewReader(text)); err != nil {
		return fmt.Errorf("order member %d to %s: %w", s.Member.Ordinal, path[1:], err)
	}
	return nil
}

// send sends a request. If the agent refuses an order, the error contains the agent's message.
func (c *Client) send(ctx context.Context, method string, ordinal int, path string, body io.Reader) (answer mysqlmember.Answer, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.URL(ordinal)+path, body)
	if err != nil {
		return answer, err
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return answer, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("the agent answers %s: %.200q", response.Status, text)
	}
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("the agent answers %s: %.500s", answer.Reason, answer.Message)
	}
	return answer, nil
}
