// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore creates a database from the content of a store. It uses the server of the image. No other client can connect to that
// server during the restore.
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Programs are the database programs of the image.
type Programs struct {
	// Server is mysqld; Client is mysql; Install is MariaDB's program that creates an empty database, "" for MySQL.
	Server, Client, Install string
	// Config is the server's configuration file; "" for the server's default files.
	Config string
	// Version is the server's version.
	Version server.Version
}

// config returns the option for the configuration file. It must be the first option.
func (p Programs) config() []string {
	if p.Config == "" {
		return nil
	}
	return []string{"--defaults-file=" + p.Config}
}

// FindServer looks for the server in the image.
func FindServer(ctx context.Context) (p Programs, err error) {
	if p.Server, err = server.Find("mysqld", "mariadbd"); err == nil {
		p.Version, err = server.ProgramVersion(ctx, p.Server)
	}
	return p, err
}

// FindPrograms looks for the programs in the image.
func FindPrograms(ctx context.Context) (Programs, error) {
	p, err := FindServer(ctx)
	if err != nil {
		return p, err
	}
	if p.Client, err = server.Find("mysql", "mariadb"); err != nil {
		return p, err
	}
	if p.Version.Flavour == server.MariaDB {
		p.Install, err = server.Find("mariadb-install-db", "mysql_install_db")
	}
	return p, err
}

// Instance is a server on a data directory that listens only on a socket.
type Instance struct {
	Programs
	// Data is the data directory.
	Data string
	// More are additional options of the caller.
	More []string
	// Settings are the settings of the backup's server.
	Settings
	// Lock is a file that the processes which write to Data inherit; nil for none.
	Lock *os.File

	user, password string // the account of the connections; until admit sets it, root without a password

	cmd    *exec.Cmd
	folder string // folder of the socket, whose path must be short
	done   chan struct{}
	words  *server.Tail
}

// Options returns the options for connections to the instance.
func (i *Instance) Options() server.Options {
	return server.Options{Address: filepath.Join(i.folder, "s"), User: cmp.Or(i.user, "root"), Password: i.password}
}

// As makes Connect log in with another account.
func (i *Instance) As(user, password string) { i.user, i.password = user, password }

// Init creates an empty database. Its root has no password. The data directory must be empty.
func (i *Instance) Init(ctx context.Context) error {
	var args []string
	program := i.Server
	if i.Install != "" {
		program = i.Install
		args = []string{"--auth-root-authentication-method=normal", "--skip-test-db"}
	} else {
		args = []string{"--initialize-insecure"}
	}
	args = append(append(append(i.config(), args...), i.forced()...), i.options()...)
	// Use a separate folder: a second server with the same folder would delete this server's files as its own leftovers.
	temporary, err := os.MkdirTemp("", "agent-")
	if err != nil {
		return fmt.Errorf("make a folder for temporary tables: %w", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	words := &server.Tail{}
	cmd := exec.CommandContext(ctx, program, append(args, asRoot()...)...)
	cmd.Env = append(i.environment(), "TMPDIR="+temporary)
	cmd.Stdout, cmd.Stderr = words, words
	cmd.ExtraFiles = i.extra()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return contract.Errorf(contract.ReasonFailed, "make an empty database in %s with %s: %w: %s", i.Data, program, err, words)
	}
	return nil
}

// forced returns the options that override the server's configuration. With these options, the server has no network and no events, commits
// each statement, writes only to the database's folder, and fits into the memory of the agent's container. With --symbolic-links=OFF,
// MariaDB ignores DATA DIRECTORY and INDEX DIRECTORY, even in statements of the applier.
func (i *Instance) forced() []string {
	args := []string{"--datadir=" + i.Data, "--skip-networking", "--skip-log-bin", "--event-scheduler=OFF", "--init-file=/dev/null", "--init-connect=", "--autocommit=ON", "--read-only=OFF", "--skip-grant-tables=OFF",
		"--general-log=OFF", "--slow-query-log=OFF", "--skip-log-error", "--default-time-zone=SYSTEM",
		"--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-force-recovery=0", "--innodb-buffer-pool-size=128M",
		"--loose-innodb-buffer-pool-instances=1", "--loose-innodb-buffer-pool-chunk-size=128M", "--loose-large-pages=OFF", "--max-allowed-packet=1G"}
	if i.Version.Flavour == server.MariaDB {
		return append(args, "--symbolic-links=OFF", "--loose-max-statement-time=0", "--loose-secure-timestamp=NO", "--loose-wsrep-on=OFF")
	}
	args = append(args, "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--loose-super-read-only=OFF", "--loose-offline-mode=OFF", "--loose-max-execution-time=0", "--loose-group-replication-start-on-boot=OFF")
	// A password policy in the backup would refuse roles, accounts without a password, and root's password.
	for _, rule := range []string{"policy=LOW", "number_count=0", "special_char_count=0", "mixed_case_count=0", "length=0", "check_user_name=OFF"} {
		args = append(args, "--loose-validate_password."+rule, "--loose-validate_password_"+rule)
	}
	if i.Version.AtLeast(8, 0, 0) {
		args = append(args, "--loose-innodb-dedicated-server=OFF", "--loose-persisted-globals-load=OFF", "--loose-sql-require-primary-key=OFF", "--loose-mysqlx=OFF")
	}
	return args
}

func (i *Instance) options() []string { return append(slices.Clone(i.Arguments), i.More...) }

func (i *Instance) environment() []string {
	if i.Zone == nil {
		return os.Environ()
	}
	return append(os.Environ(), "TZ="+*i.Zone)
}

func (i *Instance) extra() []*os.File {
	if i.Lock == nil {
		return nil
	}
	return []*os.File{i.Lock}
}

// asRoot returns the option that a server needs to run as root, if this process runs as root.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// Start starts the server and waits until it answers.
func (i *Instance) Start(ctx context.Context, more ...string) error {
	var err error
	if i.folder, err = os.MkdirTemp("", "agent-"); err != nil {
		return fmt.Errorf("make a folder for the server's socket: %w", err)
	}
	args := append(append(i.config(), i.forced()...), "--socket="+filepath.Join(i.folder, "s"), "--pid-file="+filepath.Join(i.folder, "pid"), "--tmpdir="+i.folder, i.Version.Words().SkipStart)
	args = append(append(append(args, i.options()...), more...), asRoot()...)
	i.words, i.done = &server.Tail{}, make(chan struct{})
	// ctx does not end the process: when ctx ends, the caller calls Stop, or the server ends with this process.
	i.cmd = exec.CommandContext(context.WithoutCancel(ctx), i.Server, args...)
	i.cmd.Stdout, i.cmd.Stderr = i.words, i.words
	i.cmd.Env = i.environment()
	i.cmd.ExtraFiles = i.extra()
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := i.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", i.Server, err)
	}
	go func() {
		_ = i.cmd.Wait() // ProcessState has the exit code
		close(i.done)
	}()
	for {
		conn, err := server.Connect(ctx, i.Options())
		if err == nil {
			conn.Close()
			return nil
		}
		if contract.ReasonOf(err) == contract.ReasonAccessDenied {
			return nil // the server answers
		}
		select {
		case <-i.done:
			return contract.Errorf(contract.ReasonFailed, "start %s on %s: the server ended (%s): %s", i.Server, i.Data, i.cmd.ProcessState, server.ExplainServer(i.words.String()))
		case <-ctx.Done():
			i.Kill()
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Connect opens a connection to the started server.
func (i *Instance) Connect(ctx context.Context) (*server.Conn, error) {
	return server.Connect(ctx, i.Options())
}

// Stop ends the server cleanly, and waits until it has written all data.
func (i *Instance) Stop(ctx context.Context) error {
	if i.cmd == nil {
		return nil
	}
	_ = i.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended already
	select {
	case <-i.done:
	case <-ctx.Done():
		i.Kill()
		return ctx.Err()
	}
	state := i.cmd.ProcessState
	i.forget()
	if !state.Success() {
		return contract.Errorf(contract.ReasonFailed, "the server on %s did not end cleanly (%s): %s", i.Data, state, server.ExplainServer(i.words.String()))
	}
	return nil
}

// Kill ends the server immediately.
func (i *Instance) Kill() {
	if i.cmd == nil {
		return
	}
	_ = i.cmd.Process.Kill() // the process may have ended already
	<-i.done
	i.forget()
}

func (i *Instance) forget() {
	i.cmd = nil
	_ = os.RemoveAll(i.folder) // the folder has only the socket
}

// Empty removes everything in the data directory, but not the directory itself, which may be a mount.
func Empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if entry.Name() != "lost+found" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("empty %s: %w", folder, err)
	}
	return nil
}

// used reports whether a folder has files of a server or a user.
func used(folder string) (bool, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	for _, entry := range entries {
		if entry.Name() != "lost+found" && !strings.HasPrefix(entry.Name(), ".") {
			return true, nil
		}
	}
	return false, err
}
