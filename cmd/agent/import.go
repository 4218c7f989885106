// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/importer"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

func importServer(arguments []string) int {
	c := newConfig("import")
	c.server()
	o := importer.Options{SkipAccounts: []string{"d3os_backup", "d3os_archive"}}
	c.StringVar(&o.Server.CA, "server-ca", "", "file with PEM certificates of trusted authorities; without it, TLS is used if the server offers it, and no certificate is verified")
	c.Var((*list)(&o.Schemas), "database", "database to copy; may be given several times; none: all")
	c.DurationVar(&o.MaxLockWait, "max-lock-wait", 10*time.Second, "maximum time for which the dump waits for its lock of all tables, and other statements wait for the dump")
	c.DurationVar(&o.Interval, "interval", time.Second, "time between two queries of the server")
	c.StringVar(&o.Target.Volume, "volume", "", "root of the empty volume")
	c.StringVar(&o.Target.Data, "data", "mysql", "folder of the data within the volume")
	more := c.configured()
	birth := c.Bool("birth", false, "succeed without an import if the volume has or had a database, or if --record expects one")
	expected := c.String("record", "", "folder with the operator's record, for --birth")
	cutOver := c.String("cut-over", "", "file that ends the import when it has the word cut-over; the accepted loss of the source may follow that word")
	listen := c.String("listen", "", "host:port at which /state has the progress of the import")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		done, err := c.imports(ctx, &o, *more, *birth, *expected)
		if done || err != nil {
			return err
		}
		o.CutOver = func() bool { isCutOver, _ := readTicket(*cutOver); return isCutOver }
		o.Accepted = func() string { _, accepted := readTicket(*cutOver); return accepted }
		state := &atomic.Pointer[contract.Import]{}
		state.Store(&contract.Import{Phase: contract.ImportConnecting})
		if *listen != "" {
			stop, err := serveState(ctx, *listen, state)
			if err != nil {
				return err
			}
			defer stop()
		}
		o.Report = reportImport(state)
		made, err := importer.Run(ctx, o)
		if made != nil {
			made.Result(result)
		}
		return err
	})
}

// readTicket reads the request to end the import, and the loss that the user accepts.
func readTicket(file string) (isCutOver bool, accepted string) {
	text, _ := os.ReadFile(file) // without the annotation on the pod, the file is empty
	word, accepted, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return word == contract.TicketCutOver, accepted
}

// imports completes the options. It returns true if nothing is to be imported: with --birth, if the volume has or had a database, or if
// the record expects one.
func (c *config) imports(ctx context.Context, o *importer.Options, more list, birth bool, record string) (bool, error) {
	t := &o.Target
	if t.Volume == "" || t.Data != filepath.Base(t.Data) || strings.HasPrefix(t.Data, ".") || t.Data == "/" {
		return false, contract.Errorf(contract.ReasonUsage, "--volume is required, and --data must be the name of a folder in it")
	}
	if o.Interval < 100*time.Millisecond {
		return false, contract.Errorf(contract.ReasonUsage, "--interval must be 100ms or more")
	}
	var err error
	if t.Volume, err = filepath.Abs(t.Volume); err != nil { // a database server changes its working directory, so paths must be absolute
		return false, contract.Errorf(contract.ReasonUsage, "--volume: %w", err)
	}
	if birth {
		if taken, err := isTaken(*t, record); taken || err != nil {
			if err == nil {
				err = importer.Remove(t.Volume)
			}
			return true, err
		}
	}
	ca := o.Server.CA
	if c.user == "" {
		if c.user, err = secret(contract.EnvUser); err != nil {
			return false, err
		}
	}
	if o.Server, err = c.login(); err != nil {
		return false, err
	}
	o.Server.CA, t.Arguments = ca, more
	for name, value := range map[string]*string{"AGENT_ROOT_PASSWORD": &t.RootPassword, "AGENT_ACCOUNT": &t.Account, "AGENT_ACCOUNT_PASSWORD": &t.AccountPassword} {
		if *value, err = secret(name); err != nil {
			return false, err
		}
	}
	if o.DumpProgram, err = server.Find("mysqldump", "mariadb-dump"); err != nil {
		return false, err
	}
	o.Programs, err = restore.FindPrograms(ctx)
	o.Programs.Config = c.serverConfig
	return false, err
}

// reportImport returns a function that stores the state of the import. The function prints the state if its phase or message has changed,
// or if ten seconds have passed.
func reportImport(state *atomic.Pointer[contract.Import]) func(contract.Import) {
	var last string
	var at time.Time
	return func(s contract.Import) {
		state.Store(&s)
		now := string(s.Phase) + s.Message
		if now == last && time.Since(at) < 10*time.Second {
			return
		}
		last, at = now, time.Now()
		if text, err := json.Marshal(s); err == nil {
			fmt.Println(string(text))
		}
	}
}

// serveState answers requests for the state until stop is called.
func serveState(ctx context.Context, address string, state *atomic.Pointer[contract.Import]) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, contract.Errorf(contract.ReasonUsage, "listen at %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+contract.PathState, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(state.Load()) // fails if the client has disconnected
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	go func() { _ = s.Serve(listener) }() // returns when the listener is closed
	return func() { _ = s.Close() }, nil
}
