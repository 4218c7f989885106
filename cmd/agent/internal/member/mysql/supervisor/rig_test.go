// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// settings configure an agent in another process.
type settings struct {
	Root, Ticket, Secrets, Databases, Users, TLS, Program, Run string
	// Config is the file of the server's options; empty for none.
	Config   string
	Hosts    []string
	Ordinal  int
	Restores bool
	// Point names a call of the hook at, as NAME#NUMBER. In that call, the agent kills itself (Kill is "agent") or a program that it has
	// started ("server").
	Point, Kill string
}

// inFullForm skips a test in the short form of make verify, to save time.
func inFullForm(t *testing.T) {
	t.Helper()
	if os.Getenv("MYSQL_TESTS") != "full" {
		t.Skip("make suite-mysql-agent FORM=long runs it")
	}
}

// TestMain runs an agent if the environment has settings, and otherwise the tests.
func TestMain(m *testing.M) {
	text := os.Getenv("SUPERVISOR_TEST_AGENT")
	if restore := os.Getenv("SUPERVISOR_TEST_RESTORE"); restore != "" {
		if err := restoresOnce(restore); err != nil {
			fmt.Println("ended:", err)
			os.Exit(1)
		}
		return
	}
	if text == "" {
		rig.Main(m)
		return
	}
	s := settings{}
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = s.agent().Run(ctx)
	}
	if err != nil {
		fmt.Println("ended:", err)
		os.Exit(1)
	}
}

func (s settings) volume() *volume.Volume {
	return &volume.Volume{Root: s.Root, Data: "mysql", Pod: fmt.Sprint("data/mysql-", s.Ordinal)}
}

// agent returns the agent of this process. When it reaches Point, it kills itself or its server.
func (s settings) agent() *Agent {
	var calls atomic.Int32
	name, number, _ := strings.Cut(s.Point, "#")
	kill := func() {
		if s.Kill == "agent" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
		tasks, _ := filepath.Glob("/proc/self/task/*/children")
		for _, task := range tasks {
			more, _ := os.ReadFile(task)
			children = append(append(children, ' '), more...)
		}
		for _, pid := range strings.Fields(string(children)) {
			var n int
			_, _ = fmt.Sscan(pid, &n)
			fmt.Println("killing", n, syscall.Kill(n, syscall.SIGKILL))
		}
	}
	copying := func() {
		for {
			if _, err := os.Stat(filepath.Join(s.volume().New(), "ibdata1")); err == nil {
				kill()
				return
			}
			time.Sleep(time.Millisecond) // polling interval
		}
	}
	at = func(point string) {
		if point == name && fmt.Sprint(calls.Add(1)) == number {
			kill()
		}
		if name == "copying" && point == "helper answers" && calls.Add(1) == 1 {
			go copying()
		}
	}
	return &Agent{
		Volume: s.volume(), Ordinal: s.Ordinal, Members: 3, Host: func(i int) string { return s.Hosts[i] }, Ticket: s.Ticket, Secrets: s.Secrets, Databases: s.Databases, Users: s.Users, Passwords: s.Secrets, TLS: s.TLS, Port: 3307, Restores: s.Restores,
		Health: s.Hosts[s.Ordinal] + ":3308", Log: os.Stdout,
		Server: Server{
			Program: s.Program, Config: s.Config, Host: s.Hosts[s.Ordinal], Port: 3306, Run: s.Run,
			Options: []string{"--innodb-buffer-pool-size=16M", "--innodb-redo-log-capacity=8M", "--performance-schema-max-table-instances=200", "--max-connections=60"},
		},
	}
}

// pod is a member with an agent in another process.
type pod struct {
	settings
	t         *testing.T
	authority *rig.Authority
	operator  *http.Client
	other     *http.Client // with the certificate of a member
	cmd       *exec.Cmd
	done      chan struct{}
	log       string
}

var networks atomic.Int32

// pods creates members without starting their agents. Each member has its own address, so that all members can use the same ports.
func pods(t *testing.T, n int) []*pod {
	t.Helper()
	authority := rig.NewAuthority(t)
	network := os.Getpid()*8 + int(networks.Add(1))
	var hosts []string
	for i := range n {
		hosts = append(hosts, fmt.Sprintf("127.%d.%d.%d", 1+network>>8&0x7f, network&0xff, 10+i))
	}
	var all []*pod
	for i := range n {
		dir := t.TempDir()
		run, err := os.MkdirTemp("", "member-")
		assert.NilError(t, err)
		p := &pod{t: t, authority: authority, log: filepath.Join(dir, "log"), settings: settings{
			Root: filepath.Join(dir, "volume"), Ticket: filepath.Join(dir, "ticket"), Secrets: filepath.Join(dir, "secrets"), Databases: filepath.Join(dir, "databases"), Users: filepath.Join(dir, "users"), TLS: filepath.Join(dir, "tls"), Run: run,
			Program: filepath.Join(rig.Tools(t, server.MySQL), "mysqld"), Hosts: hosts, Ordinal: i,
		}}
		assert.NilError(t, errors.Join(os.Mkdir(p.Root, 0o755), os.Mkdir(p.Secrets, 0o755), os.Mkdir(p.TLS, 0o755)))
		for _, name := range []string{"root", "agent", "replication"} {
			assert.NilError(t, os.WriteFile(filepath.Join(p.Secrets, name+"-password"), []byte(name+rig.Password+"\n"), 0o600))
		}
		p.declare(p.Databases, "")
		p.declare(p.Users, "")
		authority.Write(t, p.TLS, hosts[i])
		p.operator, p.other = authority.Client(t, authority, hosts[i], mysqlmember.Operator), authority.Client(t, authority, hosts[i], "mysql-9")
		t.Cleanup(func() {
			p.kill()
			_ = os.RemoveAll(run)
			if text, err := os.ReadFile(p.log); err == nil && t.Failed() {
				t.Logf("member %d:\n%s", i, text[max(0, len(text)-6000):])
			}
		})
		all = append(all, p)
	}
	return all
}

// up starts the agent.
func (p *pod) up() {
	p.t.Helper()
	text, err := json.Marshal(p.settings)
	assert.NilError(p.t, err)
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	assert.NilError(p.t, err)
	defer log.Close()
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(os.Environ(), "SUPERVISOR_TEST_AGENT="+string(text))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NilError(p.t, cmd.Start())
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ProcessState has the exit code
		close(done)
	}()
	p.cmd, p.done = cmd, done
}

// kill ends the agent immediately.
func (p *pod) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// give writes the ticket of the pod.
func (p *pod) give(ticket string) {
	p.t.Helper()
	p.declare(p.Ticket, ticket)
}

// declare replaces a file in the same way as the kubelet.
func (p *pod) declare(file, text string) {
	p.t.Helper()
	assert.NilError(p.t, errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)))
}

// send sends a request with a certificate, and returns the answer.
func (p *pod) send(c *http.Client, method, path string, body any) (mysqlmember.Answer, error) {
	answer := mysqlmember.Answer{}
	text, err := json.Marshal(body)
	if err != nil {
		return answer, err
	}
	request, err := http.NewRequestWithContext(p.t.Context(), method, "https://"+p.Hosts[p.Ordinal]+":3307"+path, bytes.NewReader(text))
	if err != nil {
		return answer, err
	}
	response, err := c.Do(request)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(response.Body); err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil || response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s: %s", response.Status, text)
	}
	return answer, nil
}

// look returns the agent's report. It uses a member's certificate, not the operator's.
func (p *pod) look() mysqlmember.Answer {
	answer, _ := p.send(p.other, http.MethodGet, "/state", nil) // fails until the agent serves
	return answer
}

// until waits until the report satisfies a condition.
func (p *pod) until(what string, is func(mysqlmember.Answer) bool) mysqlmember.Answer {
	p.t.Helper()
	for end := time.Now().Add(rig.Patience); ; time.Sleep(30 * time.Millisecond) { // polling interval; only a hang exceeds the time limit
		answer := p.look()
		if is(answer) {
			return answer
		}
		if time.Now().After(end) {
			p.t.Fatalf("member %d: not within the time limit: %s: %+v, %+v", p.Ordinal, what, answer, answer.State)
		}
	}
}

// reads waits until the server runs read-only on the member's data.
func (p *pod) reads() mysqlmember.Answer {
	p.t.Helper()
	return p.until("it runs and only reads", func(a mysqlmember.Answer) bool {
		return a.Volume == volume.Own && a.State != nil && !a.State.Writable && a.Making == ""
	})
}

// leads writes a ticket to become the primary, and waits until the ticket is used.
func (p *pod) leads(epoch, revision int64, demands int) mysqlmember.Answer {
	p.t.Helper()
	ticket := fmt.Sprintf("primary:%d:%d:%d", epoch, revision, demands)
	p.give(ticket)
	return p.until("it is the primary", func(a mysqlmember.Answer) bool {
		return a.Ticket == ticket && a.State != nil && a.State.Role == mysqlmember.RolePrimary && a.State.Writable
	})
}

// joins writes a ticket to copy the data of another member, and waits until the ticket is used.
func (p *pod) joins(revision int64, from *pod) mysqlmember.Answer {
	p.t.Helper()
	ticket := fmt.Sprintf("join:%d:%d:%s", revision, from.Ordinal, from.look().Server)
	p.give(ticket)
	return p.until("it has a copy", func(a mysqlmember.Answer) bool { return a.Ticket == ticket && a.State != nil })
}

// order sends an order as the operator, until the agent accepts it.
func (p *pod) order(path string, q mysqlmember.Request) {
	p.t.Helper()
	var err error
	for end := time.Now().Add(rig.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // pause before the next attempt
		a := p.look()
		q.Instance, q.Server = a.Instance, a.Server
		if _, err = p.send(p.operator, http.MethodPost, path, q); err == nil {
			return
		}
	}
	p.t.Fatalf("member %d did not accept the order %s: %v", p.Ordinal, path, err)
}

func (p *pod) source() mysqlmember.Source {
	return mysqlmember.Source{Ordinal: p.Ordinal, Host: p.Hosts[p.Ordinal], Port: 3306}
}

// session logs in to the server as the agent does.
func (p *pod) session() (*server.Conn, error) {
	return server.Connect(p.t.Context(), server.Options{Address: filepath.Join(p.Run, "mysqld.sock"), User: mysql.AgentAccount, Password: "agent" + rig.Password})
}

func (p *pod) exec(statements ...string) {
	p.t.Helper()
	c, err := p.session()
	assert.NilError(p.t, err)
	defer c.Close()
	for _, statement := range statements {
		assert.NilError(p.t, c.Do(statement))
	}
}

// rows returns the IDs in the table, or the error of reading it.
func (p *pod) rows() string {
	c, err := p.session()
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	text, err := c.Value("SELECT COALESCE(GROUP_CONCAT(id ORDER BY id SEPARATOR ' '), '') FROM d.t")
	if err != nil {
		return err.Error()
	}
	return text
}

// serves reports whether the server answers at the member's address.
func (p *pod) serves() bool {
	c, err := server.Connect(p.t.Context(), server.Options{Address: p.Hosts[p.Ordinal] + ":3306", User: mysql.CloneAccount, Password: "replication" + rig.Password})
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// aside returns the folders with earlier data of the member.
func (p *pod) aside() []string {
	found, _ := filepath.Glob(filepath.Join(p.Root, "mysql.set-aside-*"))
	return found
}

// first makes a member the only member and the primary of new data. The data has a table with the rows 1 to 3.
func first(p *pod) mysqlmember.Answer {
	p.t.Helper()
	p.up()
	p.until("it waits for a ticket", func(a mysqlmember.Answer) bool { return a.Volume == volume.Empty && a.Problem != "" })
	p.give("seed")
	p.reads()
	a := p.leads(1, 1, 0)
	p.exec("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (2), (3)")
	return a
}
