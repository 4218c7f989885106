// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Options selects the data to dump.
type Options struct {
	Server server.Options
	// Schemas are the schemas to dump, all at one position.
	Schemas []string
	// Zones dumps the rows of ZoneTables instead of Schemas.
	Zones bool
	// Ignored lists views to omit, as schema.name. History adds the former versions of rows.
	Ignored []string
	History bool
	// Position records the position in the binary log. For that, the server locks all tables for a moment.
	Position bool
	// Version is the version of the server.
	Version server.Version
	// Begun is called once, after the dump's position is fixed and before the program reads definitions and rows. An error of Begun ends
	// the dump. Begun may be nil.
	Begun func() error
	// limit replaces longestStatement; 0 for the default.
	limit int64
	// Conn is a connection to the server, or nil. Run uses it to read the global variables that apply to the dump program, and to detect
	// whether the program must use TLS.
	Conn *server.Conn
}

// arguments returns the arguments of the dump program. The program's version may differ from the server's. help is the program's list of
// options.
func (o Options) arguments(tool server.Version, help string) []string {
	// LOCK TABLES is omitted: a locked table whose defaults come from a sequence cannot be loaded.
	args := []string{"--single-transaction", "--skip-add-locks", "--quick", "--hex-blob", "--order-by-primary", "--dump-date=0", "--default-character-set=utf8mb4", "--max-allowed-packet=1G", "--no-tablespaces"}
	if o.Position {
		args = append(args, tool.Words().DumpPosition)
	}
	if tool.Flavour == server.MySQL {
		args = append(args, "--set-gtid-purged=OFF")
		if tool.AtLeast(8, 0, 0) {
			args = append(args, "--column-statistics=0")
		}
	}
	// MySQL's program uses TLS if the server offers TLS. MariaDB's program needs an option for that. Its newer versions also verify the
	// certificate.
	if tool.Flavour == server.MariaDB && o.Conn != nil && o.Conn.TLS() != nil && o.Server.CA == "" {
		args = append(args, "--ssl", "--skip-ssl-verify-server-cert")
	}
	if hasInitCommand(tool, help) {
		args = append(args, "--init-command="+o.session())
	}
	if o.Zones {
		return append(append(args, "--no-create-info", "--complete-insert", "--skip-triggers", "--skip-disable-keys", "--", "mysql"), ZoneTables...)
	}
	if o.History && strings.Contains(help, "--dump-history") {
		args = append(args, "--dump-history")
	}
	for _, view := range o.Ignored {
		args = append(args, "--ignore-table="+view)
	}
	return append(append(args, "--routines", "--triggers", "--events", "--databases", "--"), o.Schemas...)
}

// hasInitCommand reports whether the dump program has the option --init-command, a statement that it runs before it reads.
func hasInitCommand(tool server.Version, help string) bool {
	return tool.Flavour == server.MySQL && strings.Contains(help, "--init-command=")
}

// whole lists the values of variables that a complete dump needs. With other values, a SELECT returns only a part of a table, or SHOW
// CREATE returns only a part of a definition.
var whole = []struct{ name, value string }{
	{"sql_select_limit", "18446744073709551615"}, {"system_versioning_asof", "DEFAULT"}, {"show_gipk_in_create_table_and_information_schema", "ON"},
}

// session returns the statement that a session of MySQL's dump program runs first. It sets the values of whole that the
// server has, and removes the time limit of statements.
func (o Options) session() string {
	statement := "SET SESSION max_execution_time = 0, " + whole[0].name + " = " + whole[0].value
	if o.Version.AtLeast(8, 0, 30) {
		statement += ", " + whole[2].name + " = " + whole[2].value
	}
	return statement
}

// readsWhole refuses a server on which the dump program would omit a part of the data: no later check can detect that.
func (o Options) readsWhole() error {
	for _, v := range whole {
		value, err := o.Conn.Variable(v.name)
		if err != nil {
			return err
		}
		if value != "" && value != v.value {
			return contract.Errorf(contract.ReasonRefused, "the global variable %s of server %s is %s: a dump would silently lack data. Set the variable to %s", v.name, o.Server.Address, value, v.value)
		}
	}
	return nil
}

// ZoneTables are the tables of the schema mysql that hold the named time zones.
var ZoneTables = []string{"time_zone", "time_zone_leap_second", "time_zone_name", "time_zone_transition", "time_zone_transition_type"}

// Run streams a dump to w and to a Scanner. It fails unless the dump is complete: the program has exited with 0, its
// output was read to the end, and the last line marks the end of the dump.
func Run(ctx context.Context, o Options, program string, w io.Writer) (*Scanner, error) {
	tool, err := server.ProgramVersion(ctx, program)
	if err != nil {
		return nil, contract.Errorf(contract.ReasonDumpFailed, "dump server %s: %w", o.Server.Address, err)
	}
	help, err := exec.CommandContext(ctx, program, "--no-defaults", "--help").Output()
	if err != nil {
		return nil, contract.Errorf(contract.ReasonDumpFailed, "read the options of program %s: %w", program, err)
	}
	if o.Conn != nil && !hasInitCommand(tool, string(help)) {
		if err := o.readsWhole(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd, err := o.Server.Command(ctx, program, o.arguments(tool, string(help))...)
	if err != nil {
		return nil, err
	}
	defer server.Started(cmd)
	words := &server.Tail{}
	cmd.Stderr = words
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r, pipe, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("dump server %s: %w", o.Server.Address, err)
	}
	defer r.Close()
	cmd.Stdout = pipe
	widen(r)
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Start()
	_ = pipe.Close() // the child process has its own descriptor
	if err != nil {
		return nil, contract.Errorf(contract.ReasonDumpFailed, "run %s: %w", program, err)
	}
	server.Started(cmd)
	scanner := NewScanner()
	scanner.LacksHistory = o.History && !strings.Contains(string(help), "--dump-history")
	if o.limit > 0 {
		scanner.limit = o.limit
	}
	copyErr := relay(r, &begins{Scanner: scanner, options: o, cancel: cancel}, w)
	if copyErr != nil {
		cancel(copyErr)
	}
	waitErr := cmd.Wait()
	switch {
	case copyErr != nil:
		return nil, copyErr
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case waitErr != nil:
		return nil, refused(o.Server, words.String(), waitErr)
	case !scanner.Complete:
		return nil, contract.Errorf(contract.ReasonDumpFailed, "dump server %s: the dump ends before its last line", o.Server.Address)
	case scanner.TooLong != "":
		return nil, contract.Errorf(contract.ReasonDumpFailed, "dump server %s: a row of table %s is too long: its statement in the dump is longer than %d MiB, which no server loads. Make its values shorter than %d MiB",
			o.Server.Address, scanner.TooLong, longestStatement>>20, longestStatement>>21)
	case o.Position && scanner.Position == nil:
		return nil, contract.Errorf(contract.ReasonDumpFailed, "dump server %s: the dump does not name its position", o.Server.Address)
	}
	return scanner, nil
}

// ErrChanged reports that a schema object changed during the dump. Another attempt may succeed.
var ErrChanged = errors.New("tables or other objects were made, changed or dropped during the dump")

// ErrCrashed reports that the dump program crashed. Crashes depend on concurrent changes, so another attempt may succeed.
var ErrCrashed = errors.New("the program crashed")

// refused converts the output of the dump program to an error with a reason.
func refused(o server.Options, words string, err error) error {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && isCrash(exit.ProcessState):
		return contract.Errorf(contract.ReasonDumpFailed, "dump server %s: %w: %s: %w", o.Address, ErrCrashed, server.Explain(words), err)
	case strings.Contains(words, "error: 1045"), strings.Contains(words, "Access denied"):
		return contract.Errorf(contract.ReasonAccessDenied, "dump server %s: the server refuses account %s: correct the password in the Secret, or the account's rights: %s", o.Address, o.User, server.Explain(words))
	case strings.Contains(words, "1412"), strings.Contains(words, "1146"), strings.Contains(words, "Error in field count"):
		return contract.Errorf(contract.ReasonDumpFailed, "dump server %s: %w: %s", o.Address, ErrChanged, server.Explain(words))
	case strings.Contains(words, "error: 2002"), strings.Contains(words, "error: 2003"), strings.Contains(words, "error: 2013"), strings.Contains(words, "error 2013"),
		strings.Contains(words, "2006"):
		return contract.Errorf(contract.ReasonServerUnreachable, "dump server %s: the connection broke: %s", o.Address, server.Explain(words))
	}
	return contract.Errorf(contract.ReasonDumpFailed, "dump server %s: %s: %w", o.Address, server.Explain(words), err)
}

// isCrash reports whether a process ended because of a fault in its code. A kill by the kernel for lack of memory is no crash, because it
// would happen again.
func isCrash(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && slices.Contains([]syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGABRT, syscall.SIGFPE, syscall.SIGILL}, status.Signal())
}

// begins is a scanner that calls Begun when it has read the dump's position. The program writes the position before it reads
// definitions.
type begins struct {
	*Scanner
	options Options
	cancel  context.CancelCauseFunc
}

func (b *begins) Write(text []byte) (int, error) {
	n, err := b.Scanner.Write(text)
	if b.options.Begun != nil && (b.Position != nil || !b.options.Position) {
		if begunErr := b.options.Begun(); begunErr != nil {
			b.cancel(begunErr)
		}
		b.options.Begun = nil
	}
	return n, err
}

const blockSize = 512 << 10

// relay copies r to scanner and then to w, block by block. Reading, scanning and writing run concurrently. It stops reading after an error
// of w.
func relay(r io.Reader, scanner io.Writer, w io.Writer) error {
	free, full, scanned := make(chan []byte, 6), make(chan []byte, 6), make(chan []byte, 6)
	for range cap(free) {
		free <- make([]byte, blockSize)
	}
	readErr := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		defer close(full)
		for {
			var block []byte
			select {
			case block = <-free:
			case <-stop:
				readErr <- nil
				return
			}
			n, err := r.Read(block[:blockSize])
			if n > 0 {
				full <- block[:n]
			}
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				readErr <- err
				return
			}
		}
	}()
	go func() {
		defer close(scanned)
		for block := range full {
			_, _ = scanner.Write(block) // cannot fail
			scanned <- block
		}
	}()
	var err error
	for block := range scanned {
		if err == nil {
			if _, err = w.Write(block); err != nil {
				close(stop)
			}
		}
		free <- block
	}
	if err != nil {
		return err
	}
	return <-readErr
}
