// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Programs and servers quote failed statements and values of rows in their output. Reports, verdicts, statuses and logs must not contain
// this content of a database. They contain only the error's number, a sentence for the number, and names of objects.

// mariaNames maps error numbers of MariaDB to sentences.
var mariaNames = map[uint16]string{
	1901: "the expression of a column cannot be used there", 1950: "the GTID is not known", 1959: "the role is not valid", 1961: "the role cannot be used",
	4025: "a CHECK constraint failed", 4031: "a referenced trigger or function does not exist", 4084: "the sequence is not valid", 4086: "the table is no sequence",
	4151: "the account has expired", 4161: "the data type is not known",
}

var verbs = regexp.MustCompile(`%-?[.*0-9]*(?:ll|l|z)?[a-zA-Z]`)

// Sentence returns a sentence for an error number, without details; "" for an unknown number.
func Sentence(code uint16) string {
	if text, ok := mariaNames[code]; ok {
		return text
	}
	return verbs.ReplaceAllString(mysql.MySQLErrName[code], "…")
}

var (
	clientError = regexp.MustCompile(`ERROR (\d+) \((\w+)\)(?: at line (\d+))?`)
	dumpErrors  = []*regexp.Regexp{regexp.MustCompile(`(?i)error:? (\d{4,5})\b`), regexp.MustCompile(`\((\d{4,5})\)\s*$`)}
	dumpPlace   = regexp.MustCompile("when dumping table (`(?:[^`]|``)*`)(?: at row: (\\d+))?")
	dumpShow    = regexp.MustCompile("Couldn't execute '((?:SHOW|LOCK TABLES|FLUSH|SELECT @@)[^'\"]*)'")
	ownLine     = regexp.MustCompile(`^\S*(?:mysql|mariadb|mysqld|mariadbd|mysqldump|mariadb-dump|ld\.so|loading shared libraries)\S*: `)
	quoted      = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	notMember   = regexp.MustCompile(`(?i)slave|replica|query|statement|IDENTIFIED`)
	errorCode   = regexp.MustCompile(`(?:Error_code: |Error code: |MY-0*|error code: )(\d+)`)
	eventTable  = regexp.MustCompile(`Could not execute (\w+) event on table ([^;' ]+);`)
	eventEnd    = regexp.MustCompile(`end_log_pos (\d+)`)
	operation   = regexp.MustCompile(`Operation ((?:CREATE|DROP|ALTER|RENAME) (?:USER|ROLE)) failed for ('(?:[^']*)'@'(?:[^']*)')`)
)

// Explain returns the cause of a failure from the last output of a client or dump program.
func Explain(words string) string {
	if all := clientError.FindAllStringSubmatch(words, -1); all != nil {
		last := all[len(all)-1]
		text := describe(last[1]) + " (" + last[2] + ")"
		if last[3] != "" {
			text += " at line " + last[3]
		}
		return text + sentence(last[1])
	}
	lines := strings.Split(strings.TrimSpace(words), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		for _, pattern := range dumpErrors {
			if found := pattern.FindStringSubmatch(lines[i]); found != nil && ownLine.MatchString(lines[i]) {
				return describe(found[1]) + place(lines[i]) + sentence(found[1])
			}
		}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if ownLine.MatchString(lines[i]) {
			return short(quoted.ReplaceAllString(lines[i], "'…'"))
		}
	}
	return "it gave no reason"
}

func describe(code string) string { return "error " + code }

func sentence(code string) string {
	n, err := strconv.ParseUint(code, 10, 16)
	if text := Sentence(uint16(n)); err == nil && text != "" {
		return ": " + text
	}
	return ""
}

// place returns the object that a line of a dump program names.
func place(line string) string {
	if found := dumpShow.FindStringSubmatch(line); found != nil {
		return " in '" + short(found[1]) + "'"
	}
	if found := dumpPlace.FindStringSubmatch(line); found != nil {
		return " in table " + found[1]
	}
	return ""
}

// limits maps errors of the operating system in a server's log to the exceeded limit. The first match counts.
var limits = []struct{ says, limit string }{
	{"No space left on device", "no space left on the volume"},
	{"io_setup() failed with EAGAIN", "the node allows no more asynchronous I/O (fs.aio-max-nr)"},
	{"Too many open files", "the server may open no more files (nofile)"},
	{"Cannot allocate memory for the", "the server's memory is not enough"},
}

// consequence matches errors that a server prints after the error that caused its end.
var consequence = regexp.MustCompile(`Aborting$|Plugin initialization aborted|Failed to initialize DD Storage Engine|[Dd]ata [Dd]ictionary initialization failed|` +
	`Plugin 'InnoDB' (?:init function returned error|registration as a STORAGE ENGINE failed)|unsupported storage engine: InnoDB`)

// ExplainServer returns the last errors of a server's log. It omits errors that quote statements, and errors that are caused by other
// errors. An exceeded limit comes first in the result.
func ExplainServer(words string) string {
	var kept, followed []string
	for line := range strings.Lines(words) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.Contains(line, "[ERROR]") && !ownLine.MatchString(line) && !strings.Contains(line, "error while loading shared libraries"):
		case notMember.MatchString(line):
			if found := errorCode.FindStringSubmatch(line); found != nil {
				kept = append(kept, describe(found[1])+sentence(found[1]))
			}
		case consequence.MatchString(line):
			followed = append(followed, short(line))
		default:
			kept = append(kept, short(line))
		}
	}
	if len(kept) == 0 {
		kept = followed
	}
	if len(kept) == 0 {
		return "its log names no error"
	}
	text := strings.Join(kept[max(0, len(kept)-3):], "; ")
	for _, l := range limits {
		if strings.Contains(text, l.says) {
			return l.limit + ": " + text
		}
	}
	return text
}

// ExplainReplay describes the error that stopped an applier, from the number and the text of its last error.
func ExplainReplay(code, text string) string {
	if all := errorCode.FindAllStringSubmatch(text, -1); all != nil {
		code = strings.TrimLeft(all[len(all)-1][1], "0")
	}
	says := describe(code) + sentence(code)
	if found := eventTable.FindStringSubmatch(text); found != nil {
		says += " (" + found[1] + " of table " + found[2] + ")"
	}
	if found := operation.FindStringSubmatch(text); found != nil {
		says += " (" + found[1] + " " + found[2] + ")"
	}
	if all := eventEnd.FindAllStringSubmatch(text, -1); all != nil {
		says += ", in the event that ends at " + all[len(all)-1][1]
	}
	return says
}

func short(text string) string {
	if runes := []rune(text); len(runes) > 300 {
		return string(runes[:300]) + "…"
	}
	return text
}

// silent is a server's error about a statement with a password or with rows. The message omits the error's text, because the
// text may quote the password or the rows.
type silent struct{ error }

func (s silent) Error() string {
	var e *mysql.MyError
	if !errors.As(s.error, &e) {
		return s.error.Error()
	}
	code := strconv.Itoa(int(e.Code))
	return fmt.Sprintf("%s (%s)%s", describe(code), e.State, sentence(code))
}

func (s silent) Unwrap() error { return s.error }

// Refusal returns the error of a refused statement, without possible secrets in it.
func Refusal(statement string, err error) string {
	return brief(statement) + ": " + silent{err}.Error()
}

// about adds the statement to its error. It omits parts that may contain a password.
func about(statement string, err error) error {
	if strings.Contains(strings.ToUpper(statement), "IDENTIFIED") || strings.Contains(statement, "PASSWORD") {
		return fmt.Errorf("%s: %w", brief(statement), silent{err})
	}
	return fmt.Errorf("%s: %w", brief(statement), err)
}
