// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// Environment of a probe, as chart third-party sets it.
const (
	envCheckURL      = "CHECK_URL"
	envCheckPort     = "CHECK_PORT"
	envCheckUser     = "MYSQL_USERNAME"
	envCheckPassword = "MYSQL_PASSWORD"
)

// pingServer executes the readiness probe of a MySQL or MariaDB server that runs elsewhere, and returns the exit code. It logs in with
// the account of the services, and ends the session.
func pingServer(arguments []string) int {
	flags := flag.NewFlagSet("ping", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 7*time.Second, "maximum time for the connection and the login")
	if err := flags.Parse(arguments); err != nil {
		return exitUsage
	}
	address, err := serverAddress(os.Getenv(envCheckURL), os.Getenv(envCheckPort))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	return code(server.Ping(ctx, server.Options{Address: address, User: os.Getenv(envCheckUser), Password: os.Getenv(envCheckPassword)}))
}

// serverAddress returns host:port of a URL such as mysql://host:3306. A host without a port has the default port.
func serverAddress(text, port string) (string, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", envCheckURL, err)
	}
	if parsed.Hostname() == "" {
		return "", fmt.Errorf("read %s: %q names no host", envCheckURL, text)
	}
	return net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), port)), nil
}
