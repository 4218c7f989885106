// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Agent runs the server of a member.
type Agent struct {
	Volume *volume.Volume
	Server Server
	// Ordinal is this member's number. Members is the maximum number of members.
	Ordinal, Members int
	// Host returns the name or the address of a member's pod.
	Host func(ordinal int) string
	// Ticket is the file in which the downward API shows the ticket.
	Ticket string
	// Secrets is a folder with the files root-password, agent-password and replication-password. If clients have an account, it also has
	// the files username and password.
	Secrets string
	// Restores reports whether the first data must come from a backup.
	Restores bool
	// Databases is a file with the names of databases to create; empty for none.
	Databases string
	// Users is a file with further accounts, one per line: a name and its databases. Passwords is the folder with their passwords. Both are
	// empty for none.
	Users, Passwords string
	// Port is the port of the API. TLS is the folder with the API's certificates.
	Port int
	TLS  string
	// Health is the address of the probes; empty for none.
	Health string
	Log    io.Writer

	lock    *os.File
	secrets secrets

	mu              sync.Mutex
	run             *running // nil while no server runs
	making, failed  string   // the texts of the ticket in use and of the last ticket that failed
	problem         string
	accountsProblem string
	heard           heard
	start           string // ID of this start of the agent
}

// running is a server that runs on the member's data.
type running struct {
	*mysql.Member
	*process
	instance string

	mu       sync.Mutex
	state    mysqlmember.State // the result of the last read
	isKnown  bool
	answered time.Time
}

// Demote ends the primary's epoch.
func (r *running) Demote(ctx context.Context, o mysqlmember.Order) error {
	return r.Member.Demote(ctx, o, r.signal)
}

func (r *running) latest() (mysqlmember.State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.isKnown
}

// secrets are the passwords of accounts.
type secrets struct{ root, agent, replication string }

func (a *Agent) readSecrets() error {
	for name, to := range map[string]*string{"root-password": &a.secrets.root, "agent-password": &a.secrets.agent, "replication-password": &a.secrets.replication} {
		var err error
		if *to, err = a.secret(name); err != nil {
			return err
		}
	}
	return nil
}

func (a *Agent) address(ordinal int) string {
	return net.JoinHostPort(a.Host(ordinal), strconv.Itoa(a.Server.Port))
}

const (
	// poll is the interval at which the agent reads the ticket and checks the server.
	poll = 100 * time.Millisecond
	// pause is the wait after a failure.
	pause = 2 * time.Second
	// brief is a running time. If the server ran for a shorter time, the agent waits before it starts the server again.
	brief = 10 * time.Second
)

// Run runs the server until the context ends, and then stops it.
func (a *Agent) Run(ctx context.Context) error {
	a.start = rand.Text()
	if err := a.readSecrets(); err != nil {
		return err
	}
	stop, err := a.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if a.lock, err = a.Volume.Lock(ctx); err != nil {
		return err
	}
	defer a.lock.Close()
	for ctx.Err() == nil {
		wait := poll
		if err := a.pass(ctx); err != nil && ctx.Err() == nil {
			a.say(err.Error())
			wait = pause
		}
		a.sleep(ctx, wait)
	}
	return a.end(context.WithoutCancel(ctx))
}

// sleep waits for a time. It returns early if the context ends, the ticket changes, or the running server ends.
func (a *Agent) sleep(ctx context.Context, wait time.Duration) {
	before, _ := a.ticket()
	for end := time.Now().Add(wait); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(poll):
		}
		if now, err := a.ticket(); err == nil && now != before {
			return
		}
		if r := a.current(); r != nil && r.hasEnded() {
			return
		}
	}
}

// say stores a problem for the report, "" for none, and logs a new problem.
func (a *Agent) say(problem string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if problem != a.problem && problem != "" {
		_, _ = fmt.Fprintln(a.Log, "waiting:", problem)
	}
	a.problem = problem
}

// current returns the running server, or nil.
func (a *Agent) current() *running {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run
}

// ticket reads the pod's ticket. Until the downward API has written the file, there is no ticket.
func (a *Agent) ticket() (mysql.Ticket, error) {
	text, err := os.ReadFile(a.Ticket)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return mysql.Ticket{}, fmt.Errorf("read the ticket: %w", err)
	}
	return mysql.ParseTicket(string(text))
}

// pass does one step: it uses the ticket, creates data, or starts the server. The caller retries after an error.
func (a *Agent) pass(ctx context.Context) error {
	t, err := a.ticket()
	if err != nil {
		a.say(err.Error()) // without a valid ticket, the server runs read-only
	}
	if r := a.current(); r != nil {
		if !r.hasEnded() {
			return a.attend(ctx, r, t)
		}
		isStopped := r.IsStopped()
		a.forget(r)
		switch {
		case isStopped:
		case time.Since(r.began) < brief:
			return r.failure()
		default:
			a.say(r.failure().Error())
		}
	}
	c, err := a.Volume.Look()
	switch {
	case err != nil:
		return err
	case c.Kind == volume.Foreign:
		return contract.Errorf(contract.ReasonRefused, "no server is started: %s. Put the right volume under the claim, or delete the claim and the pod", c.Why)
	case c.Kind == volume.Single && t.Verb == mysql.Adopt && t.Mark == c.Mark:
		return a.makeData(ctx, t, a.adopt)
	case c.Kind == volume.Single:
		a.say("the volume has the data of one server, with the mark " + c.Mark + ": waiting for the operator's ticket")
		return nil
	case c.Notes.Next != "":
		return a.Volume.Settle()
	case t.Verb == mysql.Join && a.mayJoin(t, c):
		return a.makeData(ctx, t, a.join)
	case c.Kind == volume.Own:
		return a.startServer(ctx)
	case c.Kind == volume.Lost:
		return contract.Errorf(contract.ReasonRefused, "the data of server %s is missing on the volume: waiting for the operator's ticket to copy the data of another member", c.Notes.Server)
	case t.Verb == mysql.Seed && c.Notes.Revision == 0 && c.Notes.Promised == 0:
		return a.makeData(ctx, t, a.seed)
	}
	a.say("the volume has no data: waiting for the operator's ticket")
	return nil
}

// mayJoin reports whether a ticket to join is valid: it is unused, not older than the last order that the member accepted, and names
// another member.
func (a *Agent) mayJoin(t mysql.Ticket, c volume.Contents) bool {
	return t.Text != c.Notes.Ticket && t.Order.Revision >= c.Notes.Revision && t.Source != a.Ordinal
}

// makeData creates new data by calling do. It stops if the ticket changes.
func (a *Agent) makeData(ctx context.Context, t mysql.Ticket, do func(context.Context, mysql.Ticket) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	a.making, a.problem = t.Text, ""
	a.mu.Unlock()
	_, _ = fmt.Fprintln(a.Log, "creating new data with the ticket", t.Text)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(poll):
			}
			if now, err := a.ticket(); err == nil && now != t {
				cancel()
			}
		}
	}()
	err := do(ctx, t)
	a.mu.Lock()
	a.making = ""
	if err != nil {
		a.failed = t.Text
	}
	a.mu.Unlock()
	if err != nil {
		return fmt.Errorf("use the ticket %s: %w", t.Text, err)
	}
	return nil
}

// startServer starts a read-only server on the member's data.
func (a *Agent) startServer(ctx context.Context) error {
	instance := rand.Text()
	p, err := a.Server.start(ctx, a.Ordinal, a.Volume.Folder(), "mysqld.sock", a.lock, a.Log)
	if err != nil {
		return err
	}
	m := &mysql.Member{
		Root:   server.Options{Address: p.socket, User: mysql.AgentAccount, Password: a.secrets.agent},
		Volume: a.Volume, Ordinal: a.Ordinal, Members: a.Members, Password: a.secrets.replication,
	}
	r := &running{Member: m, process: p, instance: instance}
	a.mu.Lock()
	a.run = r
	a.mu.Unlock()
	go a.watch(context.WithoutCancel(ctx), r)
	return nil
}

// forget removes an ended server, so that no order for it reaches the next server.
func (a *Agent) forget(r *running) {
	r.End()
	a.mu.Lock()
	a.run = nil
	a.mu.Unlock()
}

// attend executes a ticket while the server runs.
func (a *Agent) attend(ctx context.Context, r *running, t mysql.Ticket) error {
	state, isKnown := r.latest()
	if !isKnown {
		return nil
	}
	n, err := a.Volume.Notes()
	if err != nil {
		return err
	}
	switch {
	case t.Verb == mysql.Fence && state.Role == mysqlmember.RolePrimary:
		a.killServer(r, "the ticket is fence")
	case t.Verb == mysql.Primary && t.Text != n.Ticket:
		a.heardAll()
		if err := r.Promote(ctx, t); err != nil {
			return fmt.Errorf("use the ticket %s: %w", t.Text, err)
		}
		_, _ = fmt.Fprintln(a.Log, "the server is the primary by the ticket", t.Text)
	case t.Verb == mysql.Join && state.Role != mysqlmember.RolePrimary && a.mayJoin(t, volume.Contents{Notes: n}):
		return a.stopServer(ctx, r)
	}
	a.say("")
	return nil
}

// end stops the running server before the agent ends.
func (a *Agent) end(ctx context.Context) error {
	r := a.current()
	if r == nil {
		return nil
	}
	return a.stopServer(ctx, r)
}

func (a *Agent) stopServer(ctx context.Context, r *running) error {
	with, err := r.Stop(ctx, r.signal)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(a.Log, "stopping the server with", with)
	<-r.done
	a.forget(r)
	return nil
}
