// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// quiet are the options of each server of this program: it keeps no log, generates no GTIDs, replicates nothing and runs no events.
var quiet = []string{"--skip-log-bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--skip-replica-start=ON", "--relay-log=relay", "--event-scheduler=OFF", "--performance-schema=ON",
	"--plugin-load-add=mysql_clone.so"}

// scratch are the options of servers on data that is deleted with the pod. These servers write to the page cache, where the next reader
// finds the data, and do not wait for the disk: Run.store reports failed writes. They neither load nor save a buffer pool, and create no
// keys.
var scratch = []string{"--innodb-flush-method=nosync", "--innodb-log-writer-threads=OFF", "--innodb-use-native-aio=OFF",
	"--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF",
	"--loose-auto-generate-certs=OFF", "--loose-sha256-password-auto-generate-rsa-keys=OFF", "--loose-caching-sha2-password-auto-generate-rsa-keys=OFF"}

// begin starts a server on a copy, with the temporary account. The caller kills it if anything fails.
func begin(ctx context.Context, i *restore.Instance) error {
	folder, err := os.MkdirTemp("", "agent-")
	if err != nil {
		return fmt.Errorf("make a folder for the first statements of a server: %w", err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "init.sql")
	password, err := mysql.InitFile(file)
	if err != nil {
		return err
	}
	i.As(mysql.TemporaryAccount, password)
	if err := i.Start(ctx, append(append([]string{"--init-file=" + file}, quiet...), mysql.RelaxPasswords...)...); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("remove the first statements of a server: %w", err)
	}
	return nil
}

// on starts a server on a copy, runs statements with the temporary account, and stops the server cleanly. The account is removed at the
// end.
func on(ctx context.Context, i *restore.Instance, do func(*server.Conn) error) error {
	defer i.Kill()
	if err := begin(ctx, i); err != nil {
		return err
	}
	c, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := bounded(ctx, i, func() error { return do(c) }); err != nil {
		return err
	}
	if err := c.Do("DROP USER " + mysql.TemporaryAccount + "@localhost"); err != nil {
		return fmt.Errorf("drop the temporary account: %w", err)
	}
	return i.Stop(ctx)
}

// bounded runs statements, and ends their server when the context ends.
func bounded(ctx context.Context, i *restore.Instance, do func() error) error {
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

// greet logs in to a member's server. It fails if that is not the server of the agent that answered.
func (c Cluster) greet(ctx context.Context, m member) error {
	conn, err := server.Connect(ctx, server.Options{Address: net.JoinHostPort(c.Host(m.ordinal), strconv.Itoa(c.ServerPort)), User: mysql.CloneAccount, Password: c.Password})
	if err != nil {
		return fmt.Errorf("copy the data of member %d: %w", m.ordinal, err)
	}
	defer conn.Close()
	id, err := conn.Value("SELECT @@GLOBAL.server_uuid")
	if err == nil && id != m.State.Server {
		err = contract.Errorf(contract.ReasonServerUnreachable, "its address leads to server %s, and its agent runs server %s", id, m.State.Server)
	}
	if err != nil {
		return fmt.Errorf("copy the data of member %d: %w", m.ordinal, err)
	}
	return nil
}

const (
	// looks is the interval between queries of a member that is being copied. silence is the time without an answer after which the copy is
	// given up: a frozen server does not end a connection.
	looks   = 5 * time.Second
	silence = 2 * time.Minute
)

// silent returns when a member's server has not answered its agent for a time, or the context ends.
func (c Cluster) silent(ctx context.Context, ordinal int) error {
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(looks):
		}
		answer, err := c.ask(ctx, ordinal, mysqlmember.PathState)
		if err == nil && answer.State == nil {
			err = errors.New("its agent runs no server")
		}
		switch {
		case err == nil:
			last = time.Now()
		case time.Since(last) > silence:
			return contract.Errorf(contract.ReasonServerUnreachable, "copy the data of member %d: its server has not answered for %s: %w", ordinal, silence, err)
		}
	}
}

// codeNoRoom is the server's error for a volume that is too small for a copy.
const codeNoRoom = 3873

// clone copies a member to a folder that does not exist, by a server on other data. The server compares the size of the member's data with the
// room on the volume first. When ready is called, the server runs and nothing was copied.
func (c Cluster) clone(ctx context.Context, helper *restore.Instance, donor int, folder string, ready func(*server.Conn) error) error {
	defer helper.Kill()
	if err := helper.Init(ctx); err != nil {
		return err
	}
	if err := helper.Start(ctx, quiet...); err != nil {
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
	go func() { cancel(c.silent(watched, donor)) }()
	err = bounded(watched, helper, func() error {
		if err := conn.Do("SET GLOBAL clone_valid_donor_list = " + server.Literal(fmt.Sprintf("%s:%d", c.Host(donor), c.ServerPort))); err != nil {
			return err
		}
		return conn.Do(fmt.Sprintf("CLONE INSTANCE FROM %s@%s:%d IDENTIFIED BY %s DATA DIRECTORY = %s REQUIRE SSL", mysql.CloneAccount, server.Literal(c.Host(donor)), c.ServerPort,
			server.Literal(c.Password), server.Literal(folder)))
	})
	switch {
	case err == nil:
		return nil // the copy is complete, so other errors of this server do not matter
	case watched.Err() != nil:
		return context.Cause(watched)
	case server.Code(err) == codeNoRoom:
		return contract.Errorf(contract.ReasonRefused, "copy the data of member %d: the volume of this pod has no room for it, and nothing was copied: raise spec.storage.size: %w", donor, err)
	}
	return contract.Errorf(contract.ReasonServerUnreachable, "copy the data of member %d: %w", donor, err)
}
