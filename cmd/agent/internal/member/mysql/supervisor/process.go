// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Server describes the program of the server.
type Server struct {
	// Program is mysqld. Config is its option file. If Config is empty, the server reads no option file.
	Program, Config string
	// Options are the user's options. The options that keep a member safe override them.
	Options []string
	// Host and Port are the address on which the server listens. If Host is empty, it listens on all addresses.
	Host string
	Port int
	// Run is a folder for sockets and process IDs that lives as long as the pod.
	Run string
}

// process is a started server.
type process struct {
	cmd    *exec.Cmd
	socket string
	began  time.Time
	done   chan struct{} // closed when the process has ended
	words  *server.Tail
}

// common returns the options of every server on a folder. The caller appends the options for the server's purpose, which override these
// options.
func (s Server) common(folder string) []string {
	args := []string{"--no-defaults"}
	if s.Config != "" {
		args[0] = "--defaults-file=" + s.Config
	}
	args = append(append(args, s.Options...), "--datadir="+folder, "--skip-grant-tables=OFF", "--offline-mode=OFF", "--daemonize=OFF", "--performance-schema=ON")
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return args
}

// arguments returns the options of a server on a folder. They disable persisted variables: CLONE does not copy these
// variables, so the members would have different settings.
func (s Server) arguments(ordinal int, folder, socket string, more []string) []string {
	args := append(s.common(folder), mysql.Arguments(ordinal)...)
	if s.scheduler() == schedulerDisabled {
		args = append(args, "--event-scheduler="+schedulerDisabled)
	}
	args = append(args, "--socket="+socket, "--pid-file="+socket+".pid", "--bind-address="+cmp.Or(s.Host, "*"), fmt.Sprintf("--port=%d", s.Port), "--log-bin=binlog",
		"--persisted-globals-load=OFF", "--mysqlx=OFF")
	return append(args, more...)
}

// start starts a server on a folder. The server inherits the lock of the volume, and does not end with the context. The server ends with
// the agent: the kernel sends Pdeathsig to the server when the thread that started the server ends. Go ends a thread only if a goroutine
// ends while it is locked to the thread. The agent has no such goroutine.
func (s Server) start(ctx context.Context, ordinal int, folder, name string, lock *os.File, log io.Writer, more ...string) (*process, error) {
	p := &process{socket: filepath.Join(s.Run, name), began: time.Now(), done: make(chan struct{}), words: &server.Tail{}}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), s.Program, s.arguments(ordinal, folder, p.socket, more)...)
	p.cmd.Stdout, p.cmd.Stderr = io.MultiWriter(log, p.words), io.MultiWriter(log, p.words)
	p.cmd.ExtraFiles = []*os.File{lock}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Program, err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState has the exit code
		close(p.done)
	}()
	return p, nil
}

// initialize creates an empty database in a folder. Its account root has no password.
func (s Server) initialize(ctx context.Context, folder string, lock *os.File) error {
	words := &server.Tail{}
	args := append(s.common(folder), "--initialize-insecure") // only the common options, because the other options load plugins
	cmd := exec.CommandContext(ctx, s.Program, args...)
	cmd.Stdout, cmd.Stderr = words, words
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return contract.Errorf(contract.ReasonFailed, "make an empty database in %s: %w: %s", folder, err, server.ExplainServer(words.String()))
	}
	return nil
}

func (p *process) signal(s os.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// kill kills the server, and waits for its end.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL) // it may have ended already
	<-p.done
}

func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure returns the reason why the process ended.
func (p *process) failure() error {
	return contract.Errorf(contract.ReasonFailed, "%s (the server ended: %s)", server.ExplainServer(p.words.String()), p.cmd.ProcessState)
}

// connect waits until the server answers.
func (p *process) connect(ctx context.Context, user, password string) (*server.Conn, error) {
	for {
		c, err := server.Connect(ctx, server.Options{Address: p.socket, User: user, Password: password})
		if err == nil || contract.ReasonOf(err) == contract.ReasonAccessDenied {
			return c, err
		}
		select {
		case <-p.done:
			return nil, p.failure()
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop stops the server cleanly. It fails if the process ends before it has written all data.
func (p *process) stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		return ctx.Err()
	}
	if !p.cmd.ProcessState.Success() {
		return p.failure()
	}
	return nil
}
