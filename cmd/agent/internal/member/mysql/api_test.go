// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// taken records orders.
type taken struct {
	orders []string
	err    error
}

func (k *taken) note(format string, args ...any) error {
	k.orders = append(k.orders, fmt.Sprintf(format, args...))
	return k.err
}
func (k *taken) State(context.Context) (mysqlmember.State, error) {
	return mysqlmember.State{Server: "uuid"}, nil
}
func (k *taken) Promise(_ context.Context, epoch int64) error { return k.note("promise %d", epoch) }
func (k *taken) Heartbeat(_ context.Context, o mysqlmember.Order) error {
	return k.note("heartbeat %v", o)
}
func (k *taken) Demote(_ context.Context, o mysqlmember.Order) error { return k.note("demote %v", o) }
func (k *taken) Events(context.Context) ([]mysqlmember.Event, error) {
	return []mysqlmember.Event{{Schema: "d", Name: "e", Status: "ENABLED"}}, k.err
}
func (k *taken) Follow(_ context.Context, o mysqlmember.Order, s mysqlmember.Source, acknowledge bool) error {
	return k.note("follow %v %v %v", o, s, acknowledge)
}

func (k *taken) Renew(_ context.Context, o mysqlmember.Order, s mysqlmember.Source) error {
	return k.note("renew %v %v", o, s)
}

func (k *taken) Serve(_ context.Context, o mysqlmember.Order, demands int, voters, others []int, servers map[int]string) error {
	return k.note("serve %v %d %v %v %v", o, demands, voters, others, servers)
}

// The agent accepts orders only from the operator, and only if an order names the present Report.Instance and the server's UUID.
func TestAPI(t *testing.T) {
	t.Parallel()
	folder, ours, others := t.TempDir(), rig.NewAuthority(t), rig.NewAuthority(t)
	ours.Write(t, folder, "mysql-0")
	k := &taken{}
	report, orders, heard := mysqlmember.Report{Instance: "i1", Server: "uuid", Volume: volume.Own}, Orders(k), map[bool]int{}
	s := httptest.NewUnstartedServer(&API{Member: func() (mysqlmember.Report, Orders) { return report, orders }, Heard: func(operator bool) { heard[operator]++ }})
	s.TLS, s.Config.ErrorLog = TLS(folder), log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	send := func(c *http.Client, method, path, body string) (int, mysqlmember.Answer, error) {
		request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
		assert.NilError(t, err)
		response, err := c.Do(request)
		if err != nil {
			return 0, mysqlmember.Answer{}, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		assert.NilError(t, err)
		var answer mysqlmember.Answer
		_ = json.NewDecoder(bytes.NewReader(text)).Decode(&answer) // some errors are plain text
		return response.StatusCode, answer, nil
	}
	operator, member := ours.Client(t, ours, "mysql-0", mysqlmember.Operator), ours.Client(t, ours, "mysql-0", "mysql-1")
	for name, c := range map[string]*http.Client{"no certificate": ours.Client(t, ours, "mysql-0", ""), "another authority": others.Client(t, ours, "mysql-0", mysqlmember.Operator)} {
		if code, _, err := send(c, "GET", "/state", ""); err == nil {
			t.Errorf("%s: %d", name, code)
		}
	}
	code, answer, err := send(member, "GET", "/state", "")
	assert.NilError(t, err)
	if code != 200 || answer.Instance != "i1" || answer.State == nil || answer.State.Server != "uuid" {
		t.Errorf("%d %+v", code, answer)
	}
	if code, answer, err = send(member, "GET", "/events", ""); err != nil || code != 200 || len(answer.Events) != 1 || answer.Events[0] != (mysqlmember.Event{Schema: "d", Name: "e", Status: "ENABLED"}) {
		t.Errorf("%d %+v %v", code, answer, err)
	}
	const for1 = `"instance":"i1","server":"uuid","epoch":4,"revision":9`
	for _, c := range []struct {
		client             *http.Client
		method, path, body string
		code               int
		reason             contract.Reason
		order              string
	}{
		{operator, "POST", "/promise", "{" + for1 + "}", 200, "", "promise 4"},
		{operator, "POST", "/follow", "{" + for1 + `,"source":{"ordinal":1,"host":"h","port":3306},"acknowledge":true}`, 200, "", "follow {4 9} {1 h 3306  false} true"},
		{operator, "POST", "/follow", "{" + for1 + `,"source":{"ordinal":1,"host":"h","port":3306},"renew":true}`, 200, "", "renew {4 9} {1 h 3306  false}"},
		{operator, "POST", "/serve", "{" + for1 + `,"demands":1,"cutVoters":[1],"cutOthers":[2],"servers":{"2":"u"}}`, 200, "", "serve {4 9} 1 [1] [2] map[2:u]"},
		{operator, "POST", "/heartbeat", "{" + for1 + "}", 200, "", "heartbeat {4 9}"},
		{operator, "POST", "/demote", "{" + for1 + "}", 200, "", "demote {4 9}"},
		{member, "POST", "/promise", "{" + for1 + "}", 403, "", ""},
		{operator, "GET", "/promise", "", 405, "", ""},
		{operator, "POST", "/state", "{" + for1 + "}", 404, "", ""},
		{operator, "POST", "/promise", `{"instance":"i0","server":"uuid","epoch":4,"revision":9}`, 409, contract.ReasonRefused, ""},
		{operator, "POST", "/promise", `{"instance":"i1","server":"other","epoch":4,"revision":9}`, 409, contract.ReasonRefused, ""},
		{operator, "POST", "/promise", `{"instance":"i1","epoch":4,"revision":9}`, 409, contract.ReasonRefused, ""},
		{operator, "POST", "/promise", "{" + for1 + `,"force":true}`, 409, contract.ReasonUsage, ""},
		{operator, "POST", "/promise", `{"server":"` + strings.Repeat("x", maxRequest) + `"}`, 409, contract.ReasonUsage, ""},
	} {
		k.orders = nil
		code, answer, err := send(c.client, c.method, c.path, c.body)
		assert.NilError(t, err)
		if code != c.code || answer.Reason != c.reason || strings.Join(k.orders, ";") != c.order {
			t.Errorf("%s %s %.80s: %d %+v %v", c.method, c.path, c.body, code, answer, k.orders)
		}
	}
	k.err = contract.Errorf(contract.ReasonBusy, "busy")
	if code, answer, err = send(operator, "POST", "/promise", "{"+for1+"}"); err != nil || code != 409 || answer.Reason != contract.ReasonBusy || answer.Message != "busy" || answer.State == nil {
		t.Errorf("%d %+v %v", code, answer, err)
	}

	// Heard is called for the operator and for a voter's ping. It is not called for other requests of a member, or for the ping of a voter
	// of another server.
	clear(heard)
	for _, c := range []struct {
		client *http.Client
		path   string
	}{{member, "/ping"}, {member, PingPath("uuid")}, {member, PingPath("other")}, {member, "/state"}, {operator, "/state"}} {
		code, _, err := send(c.client, "GET", c.path, "")
		assert.NilError(t, err)
		assert.Equal(t, code, 200)
	}
	assert.DeepEqual(t, heard, map[bool]int{false: 2, true: 1})

	// Without a server, the API serves a report and refuses orders.
	orders = nil
	if code, answer, err = send(operator, "GET", "/state", ""); err != nil || code != 200 || answer.State != nil || answer.Report != report {
		t.Errorf("%d %+v %v", code, answer, err)
	}
	if code, answer, err = send(operator, "POST", "/promise", "{"+for1+"}"); err != nil || code != 409 || answer.Reason != contract.ReasonServerUnreachable {
		t.Errorf("%d %+v %v", code, answer, err)
	}
	orders = k

	// New certificates of another CA are used without a restart.
	others.Write(t, folder, "mysql-0")
	if _, _, err := send(others.Client(t, others, "mysql-0", "mysql-1"), "GET", "/state", ""); err != nil {
		t.Error(err)
	}
	if code, _, err := send(others.Client(t, others, "mysql-0", mysqlmember.Operator), "POST", "/heartbeat", "{"+for1+"}"); err != nil || code != 409 {
		t.Error(code, err)
	}
	if _, _, err := send(operator, "GET", "/state", ""); err == nil {
		t.Error("certificates of the old CA are still accepted")
	}
}
