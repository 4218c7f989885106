// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/clone"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Cluster holds the options for connections to the members of a database.
type Cluster struct {
	// Host returns the host name of a member's pod. Members is the maximum number of members.
	Host    func(ordinal int) string
	Members int
	// Port is the port of the agents, and ServerPort the port of the servers.
	Port, ServerPort int
	// TLS is a folder with a client certificate for the agents: tls.crt, tls.key and ca.crt.
	TLS string
	// Password is the password of the account that may copy a member.
	Password string
}

// patience limits each request to an agent.
const patience = 10 * time.Second

// maxAnswer limits the size of an agent's answer. The answer to PathEvents lists all events of the MySQL database, possibly thousands.
const maxAnswer = 16 << 20

// member is a member that has answered with the state of its server.
type member struct {
	ordinal int
	mysqlmember.Answer
}

// ask sends a request to a member's agent.
func (c Cluster) ask(ctx context.Context, ordinal int, path string) (answer mysqlmember.Answer, err error) {
	config, err := mysql.ClientTLS(c.TLS)
	if err != nil {
		return answer, contract.Errorf(contract.ReasonUsage, "%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(c.Host(ordinal), strconv.Itoa(c.Port))+path, http.NoBody)
	if err != nil {
		return answer, err
	}
	// Members are inside the cluster, so the store's proxy is not used.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return answer, contract.Errorf(contract.ReasonServerUnreachable, "query the agent of member %d for %s: %w", ordinal, path, err)
	}
	defer response.Body.Close()
	err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer)
	switch {
	case err != nil:
		err = fmt.Errorf("HTTP %s: %w", response.Status, err)
	case answer.Message != "":
		err = errors.New(answer.Message)
	default:
		return answer, nil
	}
	return answer, contract.Errorf(contract.ReasonServerUnreachable, "query the agent of member %d for %s: %w", ordinal, path, err)
}

// look returns the members whose servers answer, by ordinal, and the reasons why other members do not answer.
func (c Cluster) look(ctx context.Context) (members []member, problem error) {
	answers, errs := make([]mysqlmember.Answer, c.Members), make([]error, c.Members)
	var all sync.WaitGroup
	for i := range c.Members {
		all.Go(func() { answers[i], errs[i] = c.ask(ctx, i, mysqlmember.PathState) })
	}
	all.Wait()
	for i := range answers {
		if errs[i] == nil && answers[i].State != nil {
			members = append(members, member{ordinal: i, Answer: answers[i]})
		}
	}
	return members, errors.Join(errs...)
}

// primaryOf returns the primary: the writable member, unless a member has promised a newer epoch.
func primaryOf(members []member) (member, error) {
	var found member
	newest := int64(0)
	for _, m := range members {
		newest = max(newest, m.State.Promised, m.State.Epoch)
		if m.State.Role == mysqlmember.RolePrimary && m.State.Writable && !m.State.Unprotected && (found.State == nil || found.State.Epoch < m.State.Epoch) {
			found = m
		}
	}
	switch {
	case found.State == nil:
		return found, contract.Errorf(contract.ReasonServerUnreachable, "no member is a writable primary: a backup begins when a primary is writable")
	case found.State.Epoch < newest:
		return found, contract.Errorf(contract.ReasonServerUnreachable, "member %d is the primary of epoch %d, but another member is becoming the primary: a backup begins when the new primary serves", found.ordinal, found.State.Epoch)
	}
	return found, nil
}

// votersOf returns the members that follow a primary and whose acknowledgements count, sorted by lag.
func votersOf(members []member, primary member) (voters []member) {
	for _, m := range members {
		s := m.State
		if s.Role == mysqlmember.RoleReplica && s.Acknowledges && s.Connected && s.Source == primary.ordinal && s.Problem == "" &&
			s.Promised <= primary.State.Epoch && !slices.Contains(primary.State.Cut, m.ordinal) {
			voters = append(voters, m)
		}
	}
	slices.SortStableFunc(voters, func(a, b member) int { return a.State.Lag - b.State.Lag })
	return voters
}

// donorOf returns the member to copy: the voter with the least lag, or a primary without other members. A voter has every
// acknowledged transaction, and no transaction that can be lost.
func donorOf(members []member) (donor, primary member, err error) {
	if primary, err = primaryOf(members); err != nil {
		return donor, primary, err
	}
	voters := votersOf(members, primary)
	switch {
	case len(voters) > 0:
		return voters[0], primary, nil
	case primary.State.Demands == 0:
		return primary, primary, nil
	}
	return donor, primary, contract.Errorf(contract.ReasonServerUnreachable, "no voter follows the primary, member %d: a backup begins when a voter follows the primary", primary.ordinal)
}

// greet logs in to a member's server. It fails if the server is not the one whose agent answered.
func (c Cluster) greet(ctx context.Context, m member) error {
	conn, err := server.Connect(ctx, server.Options{Address: net.JoinHostPort(c.Host(m.ordinal), strconv.Itoa(c.ServerPort)), User: mysql.CloneAccount, Password: c.Password})
	if err != nil {
		return fmt.Errorf("copy the data of member %d: %w", m.ordinal, err)
	}
	defer conn.Close()
	id, err := conn.Value("SELECT @@GLOBAL.server_uuid")
	if err == nil && id != m.State.Server {
		err = contract.Errorf(contract.ReasonServerUnreachable, "its address leads to server %s, but its agent runs server %s", id, m.State.Server)
	}
	if err != nil {
		return fmt.Errorf("copy the data of member %d: %w", m.ordinal, err)
	}
	return nil
}

// source returns a member as the donor of a copy.
func (c Cluster) source(ordinal int) clone.Donor {
	return clone.Donor{
		Name: fmt.Sprintf("member %d", ordinal), Host: c.Host(ordinal), Port: c.ServerPort, User: mysql.CloneAccount, Password: c.Password, HasTLS: true,
		Answers: func(ctx context.Context) error {
			answer, err := c.ask(ctx, ordinal, mysqlmember.PathState)
			if err == nil && answer.State == nil {
				err = errors.New("its agent runs no server")
			}
			return err
		},
	}
}
