// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/supervisor"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// runMySQL runs the server of a member of a replicated MySQL database; see package supervisor.
func runMySQL(args []string) int {
	flags := flag.NewFlagSet("agent member mysql", flag.ContinueOnError)
	pod := os.Getenv("POD_NAME")
	v := &volume.Volume{Pod: os.Getenv("POD_NAMESPACE") + "/" + pod}
	a := &supervisor.Agent{Volume: v, Log: os.Stderr}
	flags.StringVar(&v.Root, "volume", "", "root of the volume")
	flags.StringVar(&v.Data, "data", "mysql", "folder of the data within the volume")
	flags.StringVar(&a.Ticket, "ticket", "", "file with the pod's ticket")
	flags.StringVar(&a.Secrets, "secrets", "", "folder with the passwords: root-password, agent-password, replication-password, and for clients username and password")
	flags.StringVar(&a.Databases, "databases", "", "file with the names of databases to create")
	flags.StringVar(&a.Users, "users", "", "file with further accounts to create, one a line: its name, and the databases on which it has all rights")
	flags.StringVar(&a.Passwords, "user-secrets", "", "folder with the passwords of the further accounts, a file for each account")
	flags.BoolVar(&a.Restores, "restore", false, "create no empty database: another container must first restore a backup to the volume")
	flags.StringVar(&a.TLS, "tls", "", "folder with the certificate of members: tls.crt, tls.key, ca.crt")
	flags.IntVar(&a.Port, "port", mysqlmember.Port, "port for the operator and other members")
	listen := flags.String("listen", "*", "address to listen on; * for all")
	health := flags.Int("health-port", 3308, "port of the probes")
	flags.IntVar(&a.Members, "members", 5, "maximum number of members")
	flags.StringVar(&a.Server.Program, "server", "mysqld", "the server's program")
	flags.StringVar(&a.Server.Config, "config", "", "file of the server's options")
	flags.IntVar(&a.Server.Port, "server-port", 3306, "port of the server")
	flags.StringVar(&a.Server.Run, "run", "/var/run/mysqld", "folder for sockets, which is kept as long as the pod exists")
	domain := flags.String("domain", "", "suffix of the pods' DNS names, such as my-db-headless.default.svc")
	report := flags.String("report", "", "file for the reason why this program ends, such as /dev/termination-log")
	i := strings.LastIndex(pod, "-")
	ordinal, err := strconv.Atoi(pod[i+1:])
	if flags.Parse(args) != nil || v.Root == "" || a.Ticket == "" || a.Secrets == "" || a.TLS == "" || *domain == "" {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	if err != nil || i < 1 || ordinal < 0 || ordinal >= a.Members {
		return lastWords(*report, fmt.Errorf("pod %q is no pod of a StatefulSet with at most %d members", pod, a.Members))
	}
	if *listen != "*" {
		a.Server.Host = *listen
	}
	a.Health = net.JoinHostPort(a.Server.Host, strconv.Itoa(*health))
	a.Ordinal, a.Server.Options = ordinal, flags.Args()
	a.Host = func(ordinal int) string { return fmt.Sprintf("%s-%d.%s", pod[:i], ordinal, *domain) }
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return lastWords(*report, a.Run(ctx))
}
