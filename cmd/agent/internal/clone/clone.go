// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clone copies the data of a running MySQL server by CLONE, and runs servers on copies.
package clone

import (
	"context"
	"errors"
	"fmt"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Quiet are the options of every server of this package: no binary log, no new GTIDs, no replication and no events.
var Quiet = []string{"--skip-log-bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--loose-skip-replica-start=ON", "--relay-log=relay", "--event-scheduler=OFF", "--performance-schema=ON",
	"--plugin-load-add=mysql_clone.so"}

// Scratch are the options of servers on data that is deleted with the pod. These servers do not flush to the disk,
// because the data is read from the page cache. files.Put flushes the data once, and reports failed writes. The
// servers neither load nor save a buffer pool, and create no keys.
var Scratch = []string{"--innodb-flush-method=nosync", "--loose-innodb-log-writer-threads=OFF", "--innodb-use-native-aio=OFF",
	"--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF",
	"--loose-auto-generate-certs=OFF", "--loose-sha256-password-auto-generate-rsa-keys=OFF", "--loose-caching-sha2-password-auto-generate-rsa-keys=OFF"}

// Small are the options of a server without data that only receives a copy.
var Small = []string{"--loose-innodb-redo-log-capacity=32M", "--innodb-buffer-pool-size=16M"}

// On starts a server on a copy, calls do with a connection of a temporary account, removes the account, and stops the server cleanly.
func On(ctx context.Context, i *restore.Instance, do func(*server.Conn) error) error {
	defer i.Kill()
	if err := i.Enter(ctx, Quiet...); err != nil {
		return err
	}
	c, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := Bounded(ctx, i, func() error { return do(c) }); err != nil {
		return err
	}
	if err := c.Do("DROP USER " + server.TemporaryAccount + "@localhost"); err != nil {
		return fmt.Errorf("drop the temporary account: %w", err)
	}
	return i.Stop(ctx)
}

// Bounded calls do, and kills the server when the context ends.
func Bounded(ctx context.Context, i *restore.Instance, do func() error) error {
	result := make(chan error, 1)
	go func() { result <- do() }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		i.Kill()
		return errors.Join(ctx.Err(), <-result)
	}
}

// Donor is a running server to copy.
type Donor struct {
	// Name names the server in messages.
	Name string
	Host string
	Port int
	// User is an account with BACKUP_ADMIN.
	User, Password string
	// HasTLS makes the copy fail if the connection to the donor does not use TLS.
	HasTLS bool
	// Answers returns an error while the server does not answer.
	Answers func(context.Context) error
}

const (
	// looks is the interval between queries of the server during a copy. silence is the time without an answer after which the copy fails:
	// a frozen server does not close its connections.
	looks   = 5 * time.Second
	silence = 2 * time.Minute
)

// silent returns when the server has not answered for the time silence, or when the context ends.
func (d Donor) silent(ctx context.Context) error {
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(looks):
		}
		switch err := d.Answers(ctx); {
		case err == nil:
			last = time.Now()
		case time.Since(last) > silence:
			return contract.Errorf(contract.ReasonServerUnreachable, "copy the data of %s: its server has not answered for %s: %w", d.Name, silence, err)
		}
	}
}

// codeNoRoom is the server's error for a volume that is too small for a copy.
const codeNoRoom = 3873

// Copy copies the donor to a new folder. helper is the server that copies; it runs on other data. It first compares the size of the donor's
// data with the free space of the volume. ready is called when the helper runs, before anything is copied.
func (d Donor) Copy(ctx context.Context, helper *restore.Instance, folder string, ready func(*server.Conn) error) error {
	defer helper.Kill()
	if err := helper.Init(ctx); err != nil {
		return err
	}
	if err := helper.Start(ctx, Quiet...); err != nil {
		return err
	}
	conn, err := helper.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := ready(conn); err != nil {
		return err
	}
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(d.silent(watched)) }()
	err = Bounded(watched, helper, func() error {
		if err := conn.Do("SET GLOBAL clone_valid_donor_list = " + server.Literal(fmt.Sprintf("%s:%d", d.Host, d.Port))); err != nil {
			return err
		}
		secure := ""
		if d.HasTLS {
			secure = " REQUIRE SSL"
		}
		return conn.Do(fmt.Sprintf("CLONE INSTANCE FROM %s@%s:%d IDENTIFIED BY %s DATA DIRECTORY = %s%s", server.Literal(d.User), server.Literal(d.Host), d.Port,
			server.Literal(d.Password), server.Literal(folder), secure))
	})
	switch {
	case err == nil:
		return nil // the copy is complete, so later errors of the helper do not matter
	case watched.Err() != nil:
		return context.Cause(watched)
	case server.Code(err) == codeNoRoom:
		return contract.Errorf(contract.ReasonRefused, "copy the data of %s: the volume of this pod has no room for the data, and nothing was copied: raise storage.size: %w", d.Name, err)
	}
	return contract.Errorf(contract.ReasonServerUnreachable, "copy the data of %s: %w", d.Name, err)
}
