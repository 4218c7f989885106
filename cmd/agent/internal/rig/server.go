// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rig provides fixtures for the agent's tests: real database servers, a bucket whose requests can fail, writers that record their
// commits, and the rows that a server must have at a position. Only tests import it.
package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Password contains characters that are special in configuration files and shells.
const Password = `p"w'\ #1$`

// Account makes backups. ArchiveAccount archives the binary log.
const (
	Account        = "d3os_backup"
	ArchiveAccount = "d3os_archive"
)

// Long skips a test in `make test` (go test -short). `make verify` runs the test, which takes seconds of processor time or depends on the
// clock. A shorter test of the same package covers the same code.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is long: make verify runs it, and go test without -short")
	}
}

// Patience limits waits. A wait exceeds it only in a hang.
const Patience = 5 * time.Minute

// Until waits for a condition.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	UntilWithin(t, Patience, what, condition)
}

// UntilWithin waits for a condition with a time limit.
func UntilWithin(t testing.TB, patience time.Duration, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s until %s", patience, what)
		}
	}
}

// Promptly makes a test of `make verify` fail if more time than promised has passed. In `make test` it checks nothing, because the
// machine may be busy.
func Promptly(t testing.TB, began time.Time, promised time.Duration, what string) {
	t.Helper()
	if took := time.Since(began); took > promised && !testing.Short() {
		t.Errorf("%s took %s", what, took)
	}
}

// Full reports whether the long forms of tests are selected (make verify FORM=long).
func Full() bool { return os.Getenv("BACKUP_TESTS") == "full" }

// Seeds returns the number of seeds for a test: BACKUP_SEEDS if it is set; otherwise full in the full form, and short in other forms.
func Seeds(short, full int) int {
	n := 0
	if _, err := fmt.Sscan(os.Getenv("BACKUP_SEEDS"), &n); err == nil && n > 0 {
		return n
	}
	if Full() {
		return full
	}
	return short
}

// Redis is the name of Redis in Tools.
const Redis = "redis"

// Tools returns the folder with a flavour's programs: the value of MARIADB, MYSQL or REDIS in the environment, or else a folder of
// bin/tools. Tests that need MySQL run only in `make verify`, because their MySQL is the current one of Debian's unstable release.
func Tools(t testing.TB, flavour string) string {
	t.Helper()
	switch flavour {
	case Redis:
		return tools(t, "REDIS", Redis, "redis-server")
	case server.MySQL:
		Long(t)
	}
	return tools(t, map[string]string{server.MariaDB: "MARIADB", server.MySQL: "MYSQL"}[flavour], flavour, "mysqld")
}

// tools returns the folder that an environment variable names, or else a folder of bin/tools. The folder must contain a program.
func tools(t testing.TB, variable, name, program string) string {
	t.Helper()
	folder := os.Getenv(variable)
	if folder == "" {
		folder = filepath.Join(root(), "bin/tools", name)
	}
	if _, err := os.Stat(filepath.Join(folder, program)); err != nil {
		t.Fatalf("the tests need %s: run `make tools`, or name its folder in %s: %v", program, variable, err)
	}
	return folder
}

// root returns the folder of the repository. With -trimpath, the source path is unknown. Therefore root starts from the test's working
// directory, which is the folder of the test's package.
func root() string {
	folder, _ := os.Getwd()
	for filepath.Base(folder) != "cmd" && folder != "/" {
		folder = filepath.Dir(folder)
	}
	return filepath.Dir(folder)
}

// Programs returns a flavour's programs.
func Programs(t testing.TB, flavour string) restore.Programs {
	t.Helper()
	folder := Tools(t, flavour)
	p := restore.Programs{Server: filepath.Join(folder, "mysqld"), Client: filepath.Join(folder, "mysql"), Config: os.DevNull}
	if flavour == server.MariaDB {
		p.Install = filepath.Join(folder, "mysql_install_db")
	}
	var err error
	if p.Version, err = server.ProgramVersion(t.Context(), p.Server); err != nil {
		t.Fatal(err)
	}
	return p
}

// Server is a real database server on a port of this machine.
type Server struct {
	T       testing.TB
	Flavour string
	Tools   string
	Data    string
	Port    int
	// More are additional options, or environment variables such as TZ=UTC.
	More []string
	// DefaultLog leaves the options of the binary log at the server's defaults from the next Up.
	DefaultLog bool

	cmd  *exec.Cmd
	done <-chan struct{}
	log  *server.Tail
}

var templates = map[string]func(testing.TB) string{server.MariaDB: once(server.MariaDB), server.MySQL: once(server.MySQL)}

// once creates an empty database of a flavour. Servers start with copies of it.
func once(flavour string) func(testing.TB) string {
	var (
		one    sync.Once
		folder string
		err    error
	)
	return func(t testing.TB) string {
		t.Helper()
		one.Do(func() {
			if folder, err = os.MkdirTemp("", "rig-"+flavour+"-"); err != nil {
				return
			}
			i := &restore.Instance{Programs: Programs(t, flavour), Data: filepath.Join(folder, "data")}
			err = i.Init(t.Context())
			atEnd = append(atEnd, func() { _ = os.RemoveAll(folder) })
		})
		assert.NilError(t, err)
		return filepath.Join(folder, "data")
	}
}

var atEnd []func()

// AtEnd runs a function after all tests of the package.
func AtEnd(f func()) { atEnd = append(atEnd, f) }

// Main runs a package's tests and removes their shared state.
func Main(m *testing.M) {
	code := m.Run()
	for _, f := range atEnd {
		f()
	}
	os.Exit(code)
}

// Start starts a server with a binary log and the accounts for backups and the archive.
func Start(t testing.TB, flavour string, more ...string) *Server {
	t.Helper()
	s := &Server{T: t, Flavour: flavour, Tools: Tools(t, flavour), Data: filepath.Join(t.TempDir(), "data"), Port: FreePort(t), More: more}
	assert.NilError(t, exec.Command("cp", "-a", templates[flavour](t), s.Data).Run())
	_ = os.Remove(filepath.Join(s.Data, "auto.cnf")) // contains MySQL's UUID, which must differ for each server
	s.Up()
	t.Cleanup(s.Kill)
	s.accounts()
	return s
}

// grant matches the rights that the chart's script accounts.sh grants to a kind of account.
var grant = regexp.MustCompile(`(?m)^(\w+)\(\) \{\n  user "\$1" \|\| return 1\n  printf "(GRANT .+);\\n" "\$1"\n\}`)

// accounts creates the accounts of accounts.sh with the same rights.
func (s *Server) accounts() {
	s.T.Helper()
	script, err := os.ReadFile(filepath.Join(root(), "helm-charts/mysql/files/accounts.sh"))
	assert.NilError(s.T, err)
	names := map[string]string{"backup": Account, "archive": ArchiveAccount}
	statements := []string{"SET SQL_LOG_BIN = 0"}
	for _, found := range grant.FindAllStringSubmatch(string(script), -1) {
		name := names[found[1]]
		statements = append(statements, "CREATE USER '"+name+"'@'%' IDENTIFIED BY 'p\"w''\\\\ #1$'", fmt.Sprintf(found[2], name))
	}
	assert.Equal(s.T, len(statements), 1+2*len(names), "accounts.sh makes other accounts: %q", statements)
	s.Exec(statements...)
}

// Lose replaces this server by an empty one, as a restart of a pod without a volume does.
func (s *Server) Lose() {
	s.T.Helper()
	s.Kill()
	assert.NilError(s.T, os.RemoveAll(s.Data))
	i := &restore.Instance{Programs: Programs(s.T, s.Flavour), Data: s.Data}
	assert.NilError(s.T, i.Init(s.T.Context()))
	s.Up()
	s.accounts()
}

// ports counts the ports that FreePort has tried.
var ports atomic.Int64

// FreePort returns an unused port of this machine. The port is above the kernel's ephemeral ports. Each test process begins at another
// port, so that the returned port remains free until it is used.
func FreePort(t testing.TB) int {
	t.Helper()
	const first, end = 61000, 1 << 16
	for range end - first {
		port := first + int(int64(os.Getpid())*61+ports.Add(1))%(end-first)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close() // the caller's program will listen there
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// Up starts the server's process and waits until it answers.
func (s *Server) Up() {
	s.T.Helper()
	var log []string
	if !s.DefaultLog {
		log = []string{"--log-bin=binlog", "--binlog-format=ROW", "--server-id=7"}
	}
	args := append([]string{"--no-defaults", "--datadir=" + s.Data, "--socket=" + s.socket(), "--port=" + fmt.Sprint(s.Port), "--bind-address=127.0.0.1",
		"--pid-file=" + s.Data + ".pid", "--tmpdir=" + filepath.Dir(s.Data), "--user=root", "--innodb-buffer-pool-size=64M",
		"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--max-allowed-packet=64M"}, append(log, s.options()...)...)
	if s.Flavour == server.MySQL {
		args = append(args, "--mysqlx=OFF")
	}
	s.log = &server.Tail{}
	s.cmd = exec.Command(filepath.Join(s.Tools, "mysqld"), args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.Env = append(os.Environ(), slices.DeleteFunc(slices.Clone(s.More), isOption)...)
	s.done = start(s.T, s.cmd)
	for end := time.Now().Add(Patience); ; {
		conn, err := server.Connect(context.Background(), s.Root())
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-s.done:
			s.T.Fatalf("the server ended: %s", s.log)
		case <-time.After(20 * time.Millisecond):
			if time.Now().After(end) {
				s.T.Fatalf("the server does not answer: %v: %s", err, s.log)
			}
		}
	}
}

func isOption(text string) bool { return strings.HasPrefix(text, "--") }

func (s *Server) options() []string {
	return slices.DeleteFunc(slices.Clone(s.More), func(text string) bool { return !isOption(text) })
}

// Config writes the server's options as the configuration file of the restoring server.
func (s *Server) Config() string {
	text := "[mysqld]\nmax_allowed_packet=64M\n"
	for _, option := range s.options() {
		text += strings.TrimPrefix(option, "--") + "\n"
	}
	file := filepath.Join(s.T.TempDir(), "my.cnf")
	assert.NilError(s.T, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// On starts a server with this server's options on another data folder.
func (s *Server) On(data string) *Server {
	other := &Server{T: s.T, Flavour: s.Flavour, Tools: s.Tools, Data: data, Port: FreePort(s.T), More: s.More}
	other.Up()
	s.T.Cleanup(other.Kill)
	return other
}

func (s *Server) socket() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("rig-%d.sock", s.Port))
}

// Kill ends the server's process immediately, as a power failure does.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
	_ = os.Remove(s.socket())
	_ = os.Remove(s.socket() + ".lock")
}

// Ended returns a channel that closes when the server's process has ended.
func (s *Server) Ended() <-chan struct{} { return s.done }

// Freeze stops the server's process. The returned function continues the process.
func (s *Server) Freeze() (thaw func()) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
}

// Root returns the options for a connection as root.
func (s *Server) Root() server.Options { return server.Options{Address: s.socket(), User: "root"} }

// Options returns the options for a connection as the agent that makes backups.
func (s *Server) Options() server.Options { return s.as(Account) }

// ArchiveOptions returns the options for a connection as the agent that archives the binary log.
func (s *Server) ArchiveOptions() server.Options { return s.as(ArchiveAccount) }

func (s *Server) as(account string) server.Options {
	return server.Options{Address: fmt.Sprintf("127.0.0.1:%d", s.Port), User: account, Password: Password}
}

// session logs in as root.
func (s *Server) session() *server.Conn {
	s.T.Helper()
	conn, err := server.Connect(context.Background(), s.Root())
	assert.NilError(s.T, err)
	return conn
}

// Exec runs statements as root in one session.
func (s *Server) Exec(statements ...string) {
	s.T.Helper()
	conn := s.session()
	defer conn.Close()
	for _, statement := range statements {
		assert.NilError(s.T, conn.Do(statement))
	}
}

// Try runs one statement as root, and returns its rows.
func (s *Server) Try(statement string) ([][]string, error) {
	conn, err := server.Connect(context.Background(), s.Root())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Rows(statement)
}

// Signal sends a signal to the server's process.
func (s *Server) Signal(signal os.Signal) { _ = s.cmd.Process.Signal(signal) }

// Ask runs a query as root, and returns the rows, one per line.
func (s *Server) Ask(query string) string {
	s.T.Helper()
	conn := s.session()
	defer conn.Close()
	rows, err := conn.Rows(query)
	assert.NilError(s.T, err)
	var lines []string
	for _, row := range rows {
		lines = append(lines, strings.Join(row, "|"))
	}
	return strings.Join(lines, "\n")
}

// LogEnd returns the end of the server's binary log.
func (s *Server) LogEnd() contract.Position {
	s.T.Helper()
	conn := s.session()
	defer conn.Close()
	end, err := conn.Position()
	if err != nil || end == nil {
		s.T.Fatalf("ask for the end of the binary log: %v, %v", end, err)
	}
	return *end
}

// DumpProgram returns the path of the flavour's dump program.
func (s *Server) DumpProgram() string { return filepath.Join(s.Tools, "mysqldump") }
