// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// server replaces the mysql client: it answers the query for the server's state with the text of the file "state", and writes each other
// statement to a separate file.
const server = `#!/bin/sh
for argument; do
  case $argument in *hunter2*) echo "a password among the arguments" >&2; exit 1 ;; esac
done
[ "$MYSQL_PWD" = hunter2 ] || { echo "not root" >&2; exit 1; }
[ "$1" = --no-defaults ] || exit 1
statements=$(cat; echo .)
case $statements in
*skip_networking*) cat "$FAKE/state" ;;
*INSTALL*) printf '%s' "${statements%.}" >"$FAKE/plugin"; [ ! -e "$FAKE/without" ] || { echo "ERROR 1126" >&2; exit 1; } ;;
*) echo run >>"$FAKE/runs"; printf '%s' "${statements%.}" >"$FAKE/sql"; [ ! -e "$FAKE/broken" ] || { echo "ERROR 1045" >&2; exit 1; } ;;
esac
`

func TestAccountsScript(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, text string) {
		t.Helper()
		assert.NilError(t, os.MkdirAll(filepath.Dir(file(name)), 0o700))
		assert.NilError(t, os.WriteFile(file(name), []byte(text), 0o600))
	}
	read := func(name string) string {
		data, _ := os.ReadFile(file(name))
		return string(data)
	}
	is := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(5 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) { // only a hang exceeds the time limit
			assert.Assert(t, time.Now().Before(end), "%s; standard error:\n%s", what, read("stderr"))
		}
	}
	ready := func() bool { _, err := os.Stat(file("ready")); return err == nil }
	runs := func() int { return strings.Count(read("runs"), "run") }
	// Each iteration of the script's loop ends with sleep.
	turns := func() int { return strings.Count(read("turns"), "turn") }
	says := func(text string) func() bool {
		return func() bool { return !ready() && strings.Contains(read("stderr"), text) }
	}

	write("bin/mysql", server)
	write("bin/sleep", "#!/bin/sh\necho turn >>\"$FAKE/turns\"\nexec /bin/sleep 0.05\n")
	assert.NilError(t, os.Chmod(file("bin/mysql"), 0o700))
	assert.NilError(t, os.Chmod(file("bin/sleep"), 0o700))
	write("ready", "of the last run")
	write("list", "database a_b\nuser u a_b c\nuser v\nbackup b\narchive c\n")
	write("passwords/b", "p")
	write("passwords/c", "p")
	password := "it's \\ \"$(x)`  two"
	write("passwords/u", password+"\n") // the newline is not part of the password
	stderr, err := os.Create(file("stderr"))
	assert.NilError(t, err)
	command := exec.CommandContext(t.Context(), "/bin/sh", "mysql/files/accounts.sh", file("list"), file("passwords"), "socket", file("ready"))
	command.Env = []string{"PATH=" + file("bin") + ":" + os.Getenv("PATH"), "FAKE=" + folder, "MYSQL_ROOT_PASSWORD=hunter2", "MYSQL_USER=o'brien"}
	command.Stderr = stderr
	assert.NilError(t, command.Start())

	is("a password is missing", says("user v: its password is not used: it is empty"))
	write("passwords/v", "p\tq")
	is("a password is refused", says("user v: its password is not used: it has a control character"))
	write("passwords/v", "p")
	write("state", "1\t1\n")
	is("the server of a first start is not it", says("the server is being set up"))
	write("state", "0\t0\n")
	is("the account is not there yet", says("the account 'o'brien'@'%' does not exist"))
	assert.Equal(t, runs(), 0)
	write("state", "0\t1\n")
	is("all is done", ready)
	assert.Equal(t, runs(), 1)
	quoted := `'it''s \\ "$(x)` + "`  two'"
	assert.Equal(t, read("sql"), "SET SESSION sql_mode = '';\n"+
		"CREATE DATABASE IF NOT EXISTS `a_b` DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;\n"+
		"GRANT ALL PRIVILEGES ON `a\\_b`.* TO 'o''brien'@'%';\n"+
		"CREATE USER IF NOT EXISTS 'u'@'%' IDENTIFIED BY "+quoted+";\nALTER USER 'u'@'%' IDENTIFIED BY "+quoted+";\n"+
		"GRANT ALL PRIVILEGES ON `a\\_b`.* TO 'u'@'%';\nGRANT ALL PRIVILEGES ON `c`.* TO 'u'@'%';\n"+
		"CREATE USER IF NOT EXISTS 'v'@'%' IDENTIFIED BY 'p';\nALTER USER 'v'@'%' IDENTIFIED BY 'p';\n"+
		"CREATE USER IF NOT EXISTS 'b'@'%' IDENTIFIED BY 'p';\nALTER USER 'b'@'%' IDENTIFIED BY 'p';\n"+
		"GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES, RELOAD, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT /*!80011 , XA_RECOVER_ADMIN, RESOURCE_GROUP_USER */ /*!80017 , BACKUP_ADMIN */ ON *.* TO 'b'@'%';\n"+
		"CREATE USER IF NOT EXISTS 'c'@'%' IDENTIFIED BY 'p';\nALTER USER 'c'@'%' IDENTIFIED BY 'p';\nGRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'c'@'%';\n")
	before := turns()
	is("it looks again", func() bool { return turns() >= before+3 })
	assert.Equal(t, runs(), 1, "nothing changed")

	write("broken", "")
	write("passwords/v", "changed")
	is("the server refuses", says("ERROR 1045"))
	assert.NilError(t, os.Remove(file("broken")))
	is("a new password is set", func() bool { return ready() && strings.Contains(read("sql"), "IDENTIFIED BY 'changed'") })
	assert.Equal(t, read("plugin"), "", "backups are dumps")
	write("without", "")
	write("list", "backup b files\n")
	is("a server without the plugin has its accounts", func() bool {
		return ready() && strings.Contains(read("stderr"), "the server has no plugin clone") && strings.Contains(read("sql"), "GRANT SELECT")
	})
	assert.Assert(t, strings.Contains(read("plugin"), "INSTALL PLUGIN clone"))

	before = runs()
	write("list", "database a_b\nuser o'brien a_b\n")
	is("the services' account is not a user's", says("that account has its password from elsewhere"))
	assert.Equal(t, runs(), before)
	assert.Assert(t, !strings.Contains(read("stderr"), "changed") && !strings.Contains(read("stderr"), "hunter2"), "no password is printed")

	assert.NilError(t, command.Process.Signal(syscall.SIGTERM))
	assert.NilError(t, command.Wait(), "it ends on TERM")
}
