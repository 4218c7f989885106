// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
	"d3os.com/d3os-operator/cmd/agent/internal/member/etcd"
	"d3os.com/d3os-operator/internal/contract"
)

// startMember runs the agent of a database member. For etcd, the process becomes the server as soon as the server may start; see package
// member.
func startMember(args []string) int {
	if len(args) > 0 && args[0] == "mysql" {
		return runMySQL(args[1:])
	}
	if len(args) == 0 || args[0] != "etcd" {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	flags := flag.NewFlagSet("agent member etcd", flag.ContinueOnError)
	server := etcd.Server{Pod: os.Getenv("POD_NAME"), Namespace: os.Getenv("POD_NAMESPACE"), UID: os.Getenv("POD_UID"), IP: os.Getenv("POD_IP")}
	a := member.Agent{PodUID: server.UID, Log: os.Stderr}
	flags.StringVar(&a.Volume, "volume", "", "root of the volume")
	flags.StringVar(&a.Data, "data", "etcd", "folder of the data within the volume")
	flags.StringVar(&a.Ticket, "ticket", "", "file with the pod's ticket")
	flags.StringVar(&a.Notes, "notes", "", "folder that is kept as long as the pod exists")
	flags.StringVar(&a.Record, "record", "", "folder with a file for each pod with the last known position of its data")
	flags.StringVar(&server.Domain, "domain", "", "suffix of the pods' names in DNS")
	flags.IntVar(&server.Pods, "pods", 9, "maximum number of pods of the StatefulSet")
	flags.StringVar(&server.ServerTLS, "server-tls", "", "folder with the certificate for clients: tls.crt, tls.key, ca.crt")
	flags.StringVar(&server.PeerTLS, "peer-tls", "", "folder with the certificate for other members: tls.crt, tls.key, ca.crt")
	flags.StringVar(&server.Program, "server", "etcd", "the server's program")
	wanted := flags.String("version", "", "version of etcd that the image must have, such as 3.6.16; its patch may differ. Empty: any")
	report := flags.String("report", "", "file for the reason why this program ends, such as /dev/termination-log")
	watched := flags.Int("watch", 0, "only watch the server with this process id; for internal use")
	if err := flags.Parse(args[1:]); err != nil || a.Volume == "" || a.Ticket == "" || a.Notes == "" {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	server.Flags = flags.Args()
	s, err := etcd.New(server)
	if err != nil {
		return lastWords(*report, err)
	}
	a.Pod, a.Server, a.StateAddress = s.Namespace+"/"+s.Pod, s, s.StateAddress()
	a.WatchAddress = s.WatchAddress()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if *watched != 0 {
		return code(a.Watch(ctx, *watched))
	}
	if *wanted != "" {
		if err := s.CheckVersion(*wanted); err != nil {
			return lastWords(*report, contract.Errorf("WrongVersion", "%w", err))
		}
	}
	if err := s.CheckCertificates(); err != nil {
		return lastWords(*report, contract.Errorf("CertificateWrong", "%w", err))
	}
	self, err := os.Executable()
	if err != nil {
		return lastWords(*report, fmt.Errorf("find this program: %w", err))
	}
	a.Watcher = func(server int) *exec.Cmd {
		beside := exec.CommandContext(context.Background(), self, append([]string{"member", "etcd", fmt.Sprintf("--watch=%d", server)}, args[1:]...)...) //nolint:gosec // this program, with other arguments
		beside.Stdout, beside.Stderr = os.Stdout, os.Stderr
		return beside
	}
	return lastWords(*report, a.Run(ctx))
}

// lastWords prints an error and leaves it as the container's termination message.
func lastWords(file string, err error) int {
	if err != nil && file != "" {
		text, _ := json.Marshal(map[string]string{"reason": string(contract.ReasonOf(err)), "message": err.Error()})
		_ = os.WriteFile(file, text, 0o600) // the log also contains the text
	}
	return code(err)
}
