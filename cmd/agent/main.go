// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/guard"
	"d3os.com/d3os-operator/internal/contract"
)

const usage = `usage:
  agent install FILE    copy this program to FILE
  agent guard FLAGS     decide whether a database server may start on a volume
  agent member etcd FLAGS [-- SERVER FLAGS]
                        become a member of a database as soon as it may start on its volume
  agent member mysql FLAGS [-- SERVER FLAGS]
                        run the server of a member of a replicated database
  agent backup FLAGS    back up a database server
  agent backup etcd|mysql|redis FLAGS
                        back up a cluster
  agent archive FLAGS   archive the binary log of a database server continuously
  agent list FLAGS      show backups, and which points in time can be restored
  agent restore FLAGS   restore a database to an empty volume from a backup, up to a point in time
  agent restore etcd|mysql|redis FLAGS
                        create the data of a member of a new cluster from a backup
  agent import FLAGS    copy a running server to an empty volume, and follow that server until the cut-over
  agent fence FLAGS     report whether a server accepts writes, or stop or allow the writes of all accounts
  agent verify FLAGS    restore a backup to a scratch folder, and check it
  agent prune FLAGS     remove old backups
  agent ping            log in to the database server of CHECK_URL, and end the session
  agent volume FLAGS    report the use of a volume
  agent cron FLAGS -- COMMAND
                        start a command at each tick of a schedule with seconds

agent COMMAND -h shows the flags; docs/backup.md explains them.
`

// Exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3 // a person must decide
)

func main() {
	limitFiles()
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 2 && args[0] == "install" {
		return code(install(args[1]))
	}
	if len(args) > 0 && args[0] == "guard" {
		return guardVolume(args[1:])
	}
	if len(args) > 0 && args[0] == "member" {
		return startMember(args[1:])
	}
	if len(args) > 0 && args[0] == "cron" {
		return runCron(args[1:])
	}
	if len(args) > 0 && args[0] == "volume" {
		return reportVolume(args[1:])
	}
	if len(args) > 0 && args[0] == "ping" {
		return pingServer(args[1:])
	}
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](args[1:])
	}
	fmt.Fprint(os.Stderr, usage)
	return exitUsage
}

func code(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return exitFailed
	}
	return 0
}

// install copies this program, and writes limitsFile next to it. It replaces an earlier copy atomically: if the container is killed during
// the copy, no incomplete program remains.
func install(to string) error {
	from, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	program, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	for file, content := range map[string][]byte{to: program, filepath.Join(filepath.Dir(to), limitsFile): []byte(limitsScript)} {
		fresh := file + ".new"
		if err := os.WriteFile(fresh, content, 0o755); err != nil {
			return fmt.Errorf("install %s: %w", file, err)
		}
		if err := os.Rename(fresh, file); err != nil {
			return fmt.Errorf("install %s: %w", file, err)
		}
	}
	return nil
}

func guardVolume(args []string) int {
	flags := flag.NewFlagSet("agent guard", flag.ContinueOnError)
	var q guard.Question
	volume := flags.String("volume", "", "root of the volume")
	data := flags.String("data", "mysql", "folder of the data within the volume")
	record := flags.String("record", "", "folder with the operator's record")
	termination := flags.String("report", "/dev/termination-log", "file for the report")
	server := flags.String("server", "mysqld", "the server's program, whose version is read")
	members := flags.Bool("members", false, "check whether the data, which a server may be using, can become the data of a MySQLCluster's first member; write nothing")
	flags.StringVar(&q.Declared, "declared", "", "release series that the spec declares, such as 5.7")
	flags.StringVar(&q.Component, "component", "spec.mysql", "the spec's field, for messages")
	flags.StringVar(&q.Claim, "claim", "", "name of the volume's claim, for messages")
	flags.StringVar(&q.RecordName, "record-name", "", "name of the record's ConfigMap, for messages")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *volume == "" {
		return exitUsage
	}
	look := judge
	if *members {
		look = judgeMember
	}
	mark, refusal, err := look(&q, *volume, *data, *record, *server)
	if err != nil {
		refusal = &guard.Refusal{Reason: guard.ReasonUnreadable, Message: err.Error()}
	}
	if refusal != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", refusal.Reason, refusal.Message)
		return max(exitRefused, code(writeTermination(*termination, refusal)))
	}
	if mark == nil {
		mark = &guard.Mark{}
	}
	return code(writeTermination(*termination, contract.Guarded{ID: mark.ID, FirstStart: q.Volume.IsEmpty}))
}

func judge(q *guard.Question, root, data, record, server string) (*guard.Mark, *guard.Refusal, error) {
	var err error
	if q.Volume, err = guard.ReadVolume(root, data); err != nil {
		return nil, nil, err
	}
	if record != "" {
		if q.Record, err = guard.ReadRecord(record); err != nil {
			return nil, nil, err
		}
	}
	var aside string
	if q.Volume, aside, err = q.Volume.StartOver(root, data, q.Record); err != nil {
		return nil, nil, err
	}
	if aside != "" {
		fmt.Fprintf(os.Stderr, "the first start of the server was interrupted before a database was created: the server starts over; its former files are in %s\n", aside)
	}
	if q.Server, err = serverVersion(server); err != nil {
		fmt.Fprintln(os.Stderr, "the version of the server is unknown and is not compared:", err)
	}
	if refusal := guard.Judge(*q); refusal != nil {
		return nil, refusal, nil
	}
	mark, err := q.Volume.Remember(root, q.Server, q.Record)
	if err != nil {
		// The guard may be unable to write although the server can write. Without a mark, only the claim identifies the volume.
		fmt.Fprintln(os.Stderr, err)
	}
	return mark, nil, nil
}

// judgeMember checks whether the data of a single server can become the data of a MySQLCluster's first member.
func judgeMember(q *guard.Question, root, data, record, server string) (*guard.Mark, *guard.Refusal, error) {
	var err error
	if q.Volume, err = guard.ReadVolume(root, data); err != nil {
		return nil, nil, err
	}
	if q.Record, err = guard.ReadRecord(record); err != nil {
		return nil, nil, err
	}
	if q.Server, err = serverVersion(server); err != nil {
		return nil, nil, err
	}
	if refusal := guard.Judge(*q); refusal != nil {
		return nil, refusal, nil
	}
	if why := q.Volume.NoMember(q.Server); why != "" {
		return nil, &guard.Refusal{Reason: guard.ReasonNoMember, Message: why}, nil
	}
	return q.Volume.Mark, nil, nil
}

// serverVersion returns the version of the image's server.
func serverVersion(program string) (*guard.Version, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, program, "--no-defaults", "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("run %s --version: %w", program, err)
	}
	version, ok := guard.ParseVersion(string(text))
	if !ok {
		return nil, errors.New("no version in: " + string(text))
	}
	return version, nil
}

// writeTermination writes the termination message, as JSON.
func writeTermination(file string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
