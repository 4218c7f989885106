// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Server is the database that the agent starts.
type Server interface {
	// Data reads the server's own files in a folder, which may not exist.
	Data(folder string) Data
	// Inspect returns the evidence that the data differs from what the server wrote, "" for none, and the end of the log. It reads all
	// files that the server reads when it starts.
	Inspect(folder string) (damage string, last Position)
	// Follow returns a function that returns two positions in the log of a running server: the last position on which members have agreed,
	// and the log's end. Unknown positions are zero.
	Follow(folder string) func() (agreed, last Position)
	// Peers queries the other members for the member list. It omits members that do not answer within a time limit.
	Peers(ctx context.Context) Peers
	// PeerURL returns the address at which other members reach this member.
	PeerURL() string
	// Command returns the program that is started, with its arguments and environment.
	Command(decision Decision, ticket Ticket, folder string) (program string, argv, env []string, err error)
}

// Agent starts a server when Decide allows it.
type Agent struct {
	// Pod is the pod's NAMESPACE/NAME. PodUID is the pod's UID.
	Pod, PodUID string
	// Volume is the mount point of the volume. Data is the folder in it with the server's data.
	Volume, Data string
	// Ticket is the file in which the downward API shows the ticket.
	Ticket string
	// Notes is a folder that lives as long as the pod.
	Notes string
	// Record is a folder with a file for each pod. The file contains the last known position of the pod's data. Record is empty if there
	// are no such files.
	Record string
	// StateAddress is the address at which the agent serves the Report while the server does not run; empty for none.
	StateAddress string
	// WatchAddress is the address at which the agent serves the Report while the server runs; empty for none.
	WatchAddress string
	Server       Server
	Log          io.Writer
	// Watcher returns the command of a process that calls Watch for the server's process; nil for none.
	Watcher func(server int) *exec.Cmd

	inspected *inspection // nil until the data is inspected
	kept      Kept

	exec func(program string, argv, env []string) error
}

// ticketPoll is the interval at which the agent reads the ticket's file. fullPoll is the interval at which it reads all inputs.
const (
	ticketPoll = 100 * time.Millisecond
	fullPoll   = time.Second
)

// Run replaces this program by the server when Decide allows the start. It returns when the context ends. It returns an error if the server
// cannot be started.
func (a *Agent) Run(ctx context.Context) error {
	report := newReporter(a.StateAddress, a.Log)
	defer report.close()
	ticker := time.NewTicker(ticketPoll)
	defer ticker.Stop()
	for {
		s, err := a.look(ctx)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		d := Decide(s)
		r := reportOf(s, d)
		r.Kept = a.kept.MiB(filepath.Join(a.Volume, a.Data))
		report.say(r) //nolint:contextcheck // the report is served until the server starts
		if d.Reason == "" {
			report.close()
			return a.start(s, d)
		}
		if !a.awaitChange(ctx, ticker.C, s.Ticket.Text) {
			return nil
		}
	}
}

// awaitChange waits until the ticket changes, but at most for fullPoll. It returns false if the context ends.
func (a *Agent) awaitChange(ctx context.Context, tick <-chan time.Time, ticket string) bool {
	for range fullPoll / ticketPoll {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
		}
		if now, err := a.ticket(); err == nil && now.Text != ticket {
			return true
		}
	}
	return true
}

// ticket reads the pod's ticket. Until the downward API has written the file, there is no ticket.
func (a *Agent) ticket() (Ticket, error) {
	text, err := os.ReadFile(a.Ticket)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Ticket{}, fmt.Errorf("read the ticket: %w", err)
	}
	return ParseTicket(string(text))
}

// look reads all inputs of a decision.
func (a *Agent) look(ctx context.Context) (Situation, error) {
	s := Situation{Pod: a.Pod, PodUID: a.PodUID, PeerURL: a.Server.PeerURL(), Data: a.Server.Data(filepath.Join(a.Volume, a.Data))}
	if s.Data.Exists {
		if a.inspected == nil {
			a.inspected = &inspection{}
			a.inspected.damage, a.inspected.last = a.Server.Inspect(filepath.Join(a.Volume, a.Data))
		}
		s.Data.Damage, s.Data.Last = a.inspected.damage, a.inspected.last
	}
	a.known(&s)
	var err error
	if s.Mark, err = ReadMark(a.Volume); err != nil {
		s.MarkProblem = err.Error()
	}
	if s.Used, err = ReadUsed(a.Notes); err != nil {
		return s, err
	}
	if s.Ticket, err = a.ticket(); err != nil {
		_, _ = fmt.Fprintln(a.Log, "read the ticket in file", a.Ticket+":", err) // an unreadable ticket counts as none
	}
	if asksPeers(s) {
		s.Peers = a.Server.Peers(ctx)
	}
	return s, nil
}

// asksPeers reports whether a decision depends on the answers of running members.
func asksPeers(s Situation) bool {
	return s.Data.Exists || s.Ticket.Verb == Join && !s.used()
}

// start prepares the volume and becomes the server. The first step records the ticket as used. So if the machine fails between two later
// steps, this pod does not use the ticket again.
func (a *Agent) start(s Situation, d Decision) error {
	folder := filepath.Join(a.Volume, a.Data)
	restored := false
	if d.Start == Seed {
		var err error
		if restored, err = a.findRestored(); err != nil {
			return err
		}
	}
	if d.Start != "" {
		if err := NoteUsed(a.Notes, s.Ticket.Text); err != nil {
			return err
		}
	}
	at("noted")
	if err := a.mark(s, d, folder); err != nil {
		return err
	}
	at("marked")
	if restored {
		if err := a.takeRestored(folder); err != nil {
			return err
		}
	}
	at("restored data taken")
	if err := noteEnd(a.Notes, s.Data.Last); err != nil {
		return err
	}
	program, argv, env, err := a.Server.Command(d, s.Ticket, folder)
	if err != nil {
		return fmt.Errorf("prepare the start of the server: %w", err)
	}
	_, _ = fmt.Fprintln(a.Log, "starting:", program, argv[1:])
	if a.Watcher != nil {
		if err := a.Watcher(os.Getpid()).Start(); err != nil {
			return fmt.Errorf("start the watcher of the server: %w", err)
		}
	}
	run := a.exec
	if run == nil {
		run = syscall.Exec
	}
	if err := run(program, argv, env); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	return nil
}

// mark writes the mark for the coming start to the volume. If d.SetAside is true, it first renames the folder of the present data.
func (a *Agent) mark(s Situation, d Decision, folder string) error {
	next := Mark{Pod: a.Pod, Scheme: schemeOf(s.PeerURL)}
	if s.Mark != nil {
		next.Ticket, next.PodUID, next.Token, next.Waived = s.Mark.Ticket, s.Mark.PodUID, s.Mark.Token, s.Mark.Waived
	}
	if d.Start != "" {
		next.Ticket, next.PodUID = s.Ticket.Text, s.PodUID
	}
	if d.Start == Force {
		next.Token, next.Waived = s.Ticket.Argument, s.furthest()
	}
	if d.Start == Join || d.Start == Seed {
		next.Waived = Position{} // the new data has no lost entries
	}
	if d.Start == "" || d.Start == Force {
		next.Cluster, next.Member = s.identity().Cluster, s.identity().Member
	}
	if d.SetAside {
		if err := setAside(folder, s); err != nil {
			return err
		}
	}
	at("set aside")
	if s.Mark != nil && withFormat(next) == *s.Mark {
		return nil
	}
	return next.Write(a.Volume)
}

func withFormat(m Mark) Mark {
	m.Format = markFormat
	return m
}

// setAsideInfix follows the name of the data folder in the names of folders that were set aside.
const setAsideInfix = ".set-aside-"

// setAside renames the folder of the data, so that a user can inspect it. It deletes nothing.
func setAside(folder string, s Situation) error {
	whose := s.identity().Member
	if whose == "" {
		whose = "unfinished"
	}
	var to string
	for i := 0; ; i++ {
		to = fmt.Sprintf("%s%s%s-%d", folder, setAsideInfix, whose, i)
		if _, err := os.Lstat(to); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	at("before setting aside")
	if err := os.Rename(folder, to); err != nil {
		return fmt.Errorf("set the data in %s aside: %w", folder, err)
	}
	if err := syncFolder(filepath.Dir(folder)); err != nil {
		return fmt.Errorf("set the data in %s aside: %w", folder, err)
	}
	return nil
}

// at is called between the steps of a start. Tests end the process there.
var at = func(string) {}
