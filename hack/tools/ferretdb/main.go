// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Ferretdb serves MongoDB's protocol, for tests. Its name in the command line selects what it does:
//
//	ferretdb ADDRESS FOLDER   serves at a TCP address, with the data in a folder
//	mongo-ping URI            succeeds when the server of a connection string answers the protocol
//	nc [OPTION...] HOST PORT  succeeds when a TCP port accepts a connection
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/FerretDB/FerretDB/ferretdb"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// patience bounds a check.
const patience = 3 * time.Second

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch name := filepath.Base(args[0]); {
	case name == "nc" && len(args) > 2:
		connection, err := net.DialTimeout("tcp", net.JoinHostPort(args[len(args)-2], args[len(args)-1]), patience)
		if err != nil {
			return err
		}
		return connection.Close()
	case name == "mongo-ping" && len(args) == 2:
		return ping(ctx, args[1])
	case name == "ferretdb" && len(args) == 3:
		return serve(ctx, args[1], args[2])
	}
	return errors.New("usage: ferretdb ADDRESS FOLDER, mongo-ping URI, or nc HOST PORT")
}

func ping(ctx context.Context, uri string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := mongo.Connect(ctx, options.Client().ApplyURI(uri).SetServerSelectionTimeout(patience))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", uri, err)
	}
	return errors.Join(client.Ping(ctx, nil), client.Disconnect(ctx))
}

func serve(ctx context.Context, address, folder string) error {
	server, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: address}, Handler: "sqlite", SQLiteURL: "file:" + folder + "/",
	})
	if err != nil {
		return fmt.Errorf("serve at %s: %w", address, err)
	}
	return server.Run(ctx)
}
