// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package jdbc_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/harness/process"
)

// The password of the services' account has characters that are special in urls, shells and files of settings.
const (
	account  = "d3os"
	password = `p&a?s=s #1%26$w"d\`
	root     = "root-password"
)

// server is a server on an address of this machine. Its port is the one of the rendered my.cnf.
type server struct {
	address string
	program string // path of mysqld
	folder  string // has the data and the socket
	guard   *process.Guard
	process *process.Process
}

// newServer creates an empty database as the image's entrypoint does, with the tools of a flavour, mysql or mariadb. The server does not run.
func newServer(t *testing.T, flavour string) *server {
	t.Helper()
	program, err := process.Program(strings.ToUpper(flavour), flavour, "mysqld")
	assert.NilError(t, err)
	network, err := process.ClaimNetwork()
	assert.NilError(t, err)
	folder, err := os.MkdirTemp("", "jdbc-") // the path of a socket must be short
	assert.NilError(t, err)
	guard, err := process.NewGuard(folder)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, errors.Join(guard.End(), network.Release())) })
	s := &server{address: network.Next(), program: program, folder: folder, guard: guard}
	// Case of names is a property of the data, and the rendered file sets it.
	install := exec.CommandContext(t.Context(), program, "--no-defaults", "--initialize-insecure", "--lower-case-table-names=1", "--datadir="+s.data(), "--user="+owner(t))
	if flavour == "mariadb" {
		install = exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(program), "mysql_install_db"), "--datadir="+s.data(), "--user="+owner(t))
	}
	out, err := install.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.NilError(t, os.WriteFile(filepath.Join(folder, ".my.cnf"), []byte("[client]\nsocket="+s.socket()+"\n"), 0o600))
	return s
}

func owner(t *testing.T) string {
	t.Helper()
	me, err := user.Current()
	assert.NilError(t, err)
	return me.Username
}

func (s *server) data() string   { return filepath.Join(s.folder, "data") }
func (s *server) socket() string { return filepath.Join(s.folder, "socket") }

// restart starts the server with a rendered my.cnf, after it has ended the former process. At its first start, the server gets the accounts of
// the image's entrypoint.
func (s *server) restart(t *testing.T, r rendered) {
	t.Helper()
	isFirst := s.process == nil
	if !isFirst {
		assert.NilError(t, s.process.Signal(syscall.SIGTERM))
		<-s.process.Done
	}
	config, log, start := filepath.Join(s.folder, "my.cnf"), filepath.Join(s.folder, "log"), filepath.Join(s.folder, "init.sql")
	assert.NilError(t, os.WriteFile(config, []byte(r.config), 0o600))
	statements := ""
	if isFirst {
		statements = fmt.Sprintf("ALTER USER 'root'@'localhost' IDENTIFIED BY '%s';\nCREATE USER '%s'@'%%' IDENTIFIED BY '%s';\n", root, account, strings.ReplaceAll(password, `\`, `\\`))
	}
	assert.NilError(t, os.WriteFile(start, []byte(statements), 0o600))
	file, err := os.Create(log)
	assert.NilError(t, err)
	defer file.Close()
	// The options replace what an image and a pod provide. A busy machine takes long for a handshake.
	s.process, err = s.guard.Start([]string{s.program, "--defaults-file=" + config, "--datadir=" + s.data(), "--socket=" + s.socket(), "--pid-file=" + s.socket() + ".pid",
		"--bind-address=" + s.address, "--connect-timeout=600", "--innodb-buffer-pool-size=64M", "--init-file=" + start, "--user=" + owner(t)}, os.Environ(), s.folder, file)
	assert.NilError(t, err)
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) { // only a hang exceeds the time limit
		conn, err := net.Dial("unix", s.socket()) // the server opens it after the port
		if err == nil {
			assert.NilError(t, conn.Close())
			break
		}
		if !s.process.Runs() || time.Now().After(end) {
			text, _ := os.ReadFile(log)
			t.Fatalf("the server does not answer: %v\n%s", err, text)
		}
	}
	if isFirst {
		s.run(t, "bash", "-c", r.schemas)
	}
}

// sql runs statements as root.
func (s *server) sql(t *testing.T, statements string) {
	t.Helper()
	s.run(t, "mysql", "--user=root", "--execute="+statements)
}

// run runs a program with the environment of the image's scripts. The file in HOME overrides the socket of this machine's own clients.
func (s *server) run(t *testing.T, name string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "env", append([]string{name}, arguments...)...) // env finds the program in the new PATH
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(s.program)+":"+os.Getenv("PATH"), "HOME="+s.folder, "MYSQL_PWD="+root, "MYSQL_ROOT_PASSWORD="+root, "MYSQL_USER="+account)
	out, err := command.CombinedOutput()
	assert.NilError(t, err, "%s", out)
}

// client is a Java program that logs in.
type client struct {
	isOther bool // JDBC_DRIVER names the driver
	in      io.Writer
	out     *bufio.Reader
	errors  *bytes.Buffer
}

func newClient(t *testing.T) *client {
	t.Helper()
	java, err := process.Program("JAVA", "java", "java")
	assert.NilError(t, err)
	c := &client{errors: &bytes.Buffer{}}
	driver := os.Getenv("JDBC_DRIVER")
	if c.isOther = driver != ""; !c.isOther {
		driver = filepath.Join(filepath.Dir(java), "mariadb-java-client.jar")
	}
	command := exec.CommandContext(t.Context(), java, "-cp", driver, "testdata/Login.java")
	command.Env = append(os.Environ(), "MYSQL_USERNAME="+account, "MYSQL_PASSWORD="+password)
	command.Stderr = c.errors
	c.in, err = command.StdinPipe()
	assert.NilError(t, err)
	out, err := command.StdoutPipe()
	assert.NilError(t, err)
	c.out = bufio.NewReader(out)
	assert.NilError(t, command.Start())
	t.Cleanup(func() { _ = command.Wait() }) // the context of the test ends the program
	return c
}

// logIn returns the program's answer for a url.
func (c *client) logIn(t *testing.T, url string) string {
	t.Helper()
	_, err := fmt.Fprintln(c.in, url)
	assert.NilError(t, err)
	answer, err := c.out.ReadString('\n')
	assert.NilError(t, err, "%s", c.errors)
	return strings.TrimSuffix(answer, "\n")
}

// adapted returns a url with which MariaDB's driver does what MySQL's own driver does. MySQL's driver decodes the values. By default, it uses
// TLS without a check of the certificate.
func (c *client) adapted(url string, tls bool) string {
	if c.isOther {
		return url
	}
	if tls && !strings.Contains(url, "useSSL=") {
		url += "&useSSL=true&trustServerCertificate=true"
	}
	return strings.ReplaceAll(url, "%2B", "+")
}
