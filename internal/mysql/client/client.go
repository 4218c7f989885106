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

	"d3os.com/d3os-operator/internal/mysql/replication"
)

const (
	// lookTime bounds a look at a member, and orderTime an order, which may wait for a lock in the server.
	lookTime  = 2 * time.Second
	orderTime = 15 * time.Second
	// maxAnswer bounds the body of an answer.
	maxAnswer = 1 << 20
)

// Client reaches the agents of a database's members.
type Client struct {
	// HTTP has the operator's certificate and the members' authority.
	HTTP *http.Client
	// URL returns the address of a member's agent, such as https://10.0.0.7:3307.
	URL func(ordinal int) string
	// Source returns where members reach the server of a member.
	Source func(ordinal int) (host string, port int)
}

// Answer is the answer of an agent. State is nil while no server answers.
type Answer struct {
	Instance string             `json:"instance"`
	Volume   replication.Volume `json:"volume"`
	Mark     string             `json:"mark"`
	Server   string             `json:"server"`
	Promised int64              `json:"promised"`
	Revision int64              `json:"revision"`
	Ticket   string             `json:"ticket"`
	Making   string             `json:"making"`
	Failed   string             `json:"failed"`
	Problem  string             `json:"problem"`
	Full     string             `json:"full"`
	Orders   int                `json:"orders"`
	Accounts string             `json:"accounts"`
	State    *State             `json:"state"`
	Reason   string             `json:"reason"`
	Message  string             `json:"message"`
}

// State is the state of a member's server.
type State struct {
	// Version is the server's, such as 8.4.9.
	Version  string           `json:"version"`
	Role     replication.Role `json:"role"`
	Executed string           `json:"executed"`
	Received string           `json:"received"`
	Writable bool             `json:"writable"`
	Purged   string           `json:"purged"`

	Epoch   int64                `json:"epoch"`
	Demands int                  `json:"demands"`
	Cut     []int                `json:"cut"`
	Servers map[int]string       `json:"servers"`
	CutEnd  replication.Position `json:"cutEnd"`
	End     replication.Position `json:"end"`
	Waiting int                  `json:"waiting"`
	Commits string               `json:"commits"`
	Stalled int64                `json:"stalled"`

	Source       int                  `json:"source"`
	SourceServer string               `json:"sourceServer"`
	Personal     bool                 `json:"personal"`
	Acknowledges bool                 `json:"acknowledges"`
	Connected    bool                 `json:"connected"`
	ReadTo       replication.Position `json:"readTo"`
	Lag          int                  `json:"lag"`
	Problem      string               `json:"problem"`
}

// Look returns the answer of a member's agent.
func (c *Client) Look(ctx context.Context, ordinal int) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	answer, err := c.send(ctx, http.MethodGet, ordinal, "/state", http.NoBody)
	if err != nil {
		return answer, fmt.Errorf("look at member %d: %w", ordinal, err)
	}
	return answer, nil
}

// order is the body of an order.
type order struct {
	Epoch       int64   `json:"epoch"`
	Revision    int64   `json:"revision"`
	Instance    string  `json:"instance"`
	Server      string  `json:"server"`
	Source      *source `json:"source,omitempty"`
	Acknowledge bool    `json:"acknowledge,omitempty"`
	Demands     int     `json:"demands,omitempty"`
	CutVoters   []int   `json:"cutVoters,omitempty"`
	CutOthers   []int   `json:"cutOthers,omitempty"`

	Servers map[int]string `json:"servers,omitempty"`
}

type source struct {
	Ordinal int    `json:"ordinal"`
	Host    string `json:"host"`
	Port    int    `json:"port"`
	Server  string `json:"server,omitempty"`

	Personal bool `json:"personal,omitempty"`
}

// paths are those of the actions that are orders to members.
var paths = map[replication.Action]string{
	replication.ActionPromise: "/promise", replication.ActionFollow: "/follow", replication.ActionServe: "/serve",
	replication.ActionDemote: "/demote", replication.ActionHeartbeat: "/heartbeat",
}

// IsOrder reports whether a step is an order to a member.
func IsOrder(s replication.Step) bool { return paths[s.Action] != "" }

// Order gives the order of a step to its member. The agent refuses it if the start of its server or its data is another one than observed.
func (c *Client) Order(ctx context.Context, s replication.Step) error {
	path := paths[s.Action]
	if path == "" {
		return fmt.Errorf("order member %d: %s is no order", s.Member.Ordinal, s.Action)
	}
	o := order{
		Epoch: s.Epoch, Revision: s.Revision, Instance: s.Member.Instance, Server: s.Member.Server,
		Acknowledge: s.Acknowledge, Demands: s.Demands, CutVoters: s.CutVoters, CutOthers: s.CutOthers, Servers: s.Servers,
	}
	if s.Action == replication.ActionFollow {
		host, port := c.Source(s.Source.Ordinal)
		o.Source = &source{Ordinal: s.Source.Ordinal, Host: host, Port: port, Personal: s.Personal}
		if s.Member.Orders >= 1 { // an older agent refuses the field
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

// send sends a request. A refused order is an error with the agent's message.
func (c *Client) send(ctx context.Context, method string, ordinal int, path string, body io.Reader) (answer Answer, err error) {
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
