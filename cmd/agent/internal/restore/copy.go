// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/guard"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/snapshot"
	"d3os.com/d3os-operator/internal/contract"
)

// ErrBeginAgain reports that an import cannot continue its copy, for example because the transactions in the copy are unknown. The caller
// must make another copy.
var ErrBeginAgain = errors.New("the copy must begin again")

// beginAgain returns an ErrBeginAgain with its cause.
func beginAgain(reason contract.Reason, format string, args ...any) error {
	return contract.Errorf(reason, "%w: %w", ErrBeginAgain, fmt.Errorf(format, args...))
}

// CopyState describes a copy. A file on the volume stores it and is replaced after each batch.
type CopyState struct {
	// Backup is the dump that was loaded. Warnings lists the dump's objects that could not be created.
	Backup   string   `json:"backup"`
	Warnings []string `json:"warnings,omitempty"`
	// User and Password belong to the agent's account.
	User     string `json:"user"`
	Password string `json:"password"`
	// Timeline is the archive's timeline that the copy applies; "" before the first batch.
	Timeline string `json:"timeline,omitempty"`
	// Position is the end of the transactions that the copy has; nil for a server without a log.
	Position *contract.Position `json:"position,omitempty"`
	// GTID is Position as a GTID of MariaDB.
	GTID string `json:"gtid,omitempty"`
	// Transactions is the number of transactions applied since the dump.
	Transactions int64 `json:"transactions,omitempty"`
	// Prepared are the XA transactions that are prepared at Position.
	Prepared []string `json:"prepared,omitempty"`
	// Events are the statuses that scheduled events have on the source: schema, name and status; nil before the first batch.
	Events [][3]string `json:"events,omitempty"`
	// IsRunning reports whether the server was started and was not stopped cleanly since. Batch describes the transactions that the server
	// is applying; nil for none.
	IsRunning bool   `json:"isRunning,omitempty"`
	Batch     *Batch `json:"batch,omitempty"`
	// Refused is the reason why the copy must not be used; "" for none.
	Refused string `json:"refused,omitempty"`
}

// Batch is a part of the log that the server applies in one run.
type Batch struct {
	To contract.Position `json:"to"`
	// IsAtomic reports whether the server stores its position in each transaction of the batch.
	IsAtomic bool `json:"isAtomic,omitempty"`
	// From (MySQL) and Note (MariaDB) are the applier's position, which recover reads after the agent was killed. If both
	// are empty, the applier was at the start of the batch.
	From *RelayPoint `json:"from,omitempty"`
	Note string      `json:"note,omitempty"`
}

// Copy is an unfinished copy of a running server's database. The volume also contains the source's backup and archive.
type Copy struct {
	CopyState

	source Source
	target Target
	i      *Instance
	volume guard.Volume
	file   string // the file of the CopyState
	only   []string
	seen   contract.Position // the end of the transactions that the copy has
}

// NewCopy returns a Copy. For an existing copy, call ReadState. lock is the lock of the volume. file is the path of the
// state. only is the list of the schemas to copy. If it is empty, all schemas are copied.
func NewCopy(ctx context.Context, s Source, p Programs, t Target, lock *os.File, file string, only []string) (*Copy, error) {
	settings, err := Configure(ctx, s.Backup, p, t.Arguments, false)
	if err != nil {
		return nil, err
	}
	i := &Instance{Programs: p, Data: filepath.Join(t.Volume, t.Data), More: t.Arguments, Lock: lock, Settings: settings}
	return &Copy{source: s, target: t, i: i, file: file, only: only}, nil
}

// Close ends the server. If the server applies no batch, Close stops it cleanly.
func (c *Copy) Close(ctx context.Context) {
	if c.i.cmd != nil && c.Batch == nil && c.User != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		_ = c.stop(ctx) // after a failure, the next start recovers the server
	}
	c.i.Kill()
}

// Load creates the database from the dump. Before that, it removes the files of an earlier attempt.
func (c *Copy) Load(ctx context.Context, name string) (err error) {
	if err := Compatible(c.source, c.i.Programs); err != nil {
		return err
	}
	if c.volume, err = claim(c.target, name); err != nil {
		return err
	}
	warnings, err := c.source.fill(ctx, c.i)
	if err != nil {
		return err
	}
	if err := check(ctx, c.i, c.source, c.source.Backup.Tables, &Outcome{}); err != nil {
		return err
	}
	b := c.source.Backup
	c.CopyState = CopyState{Backup: b.ID, Warnings: append(append(c.i.Warnings, b.Warnings...), warnings...), User: c.i.user, Password: c.i.password, Position: b.Position}
	return c.stop(ctx)
}

// ReadState reads the state of an existing copy. It returns false if there is none.
func (c *Copy) ReadState() (bool, error) {
	text, err := os.ReadFile(c.file)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the state of the copy: %w", err)
	}
	if err := json.Unmarshal(text, &c.CopyState); err != nil {
		return false, beginAgain(contract.ReasonFailed, "read the state of the copy: %w", err)
	}
	if c.volume, err = guard.ReadVolume(c.target.Volume, c.target.Data); err != nil {
		return false, err
	}
	if !c.volume.Restoring() || !c.volume.HasData || c.Backup != c.source.Backup.ID {
		return false, beginAgain(contract.ReasonFailed, "the data on volume %s is not the data of the copy", c.target.Volume)
	}
	c.i.As(c.User, c.Password)
	return true, nil
}

// save replaces the state atomically: after a crash, the file has the old or the new state.
func (c *Copy) save() error {
	text, err := json.Marshal(c.CopyState) //nolint:gosec // the volume also contains the account
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(c.file), ".state-")
	if err != nil {
		return fmt.Errorf("write the state of the copy: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), c.file)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(c.file))
	}
	if err != nil {
		return fmt.Errorf("write the state of the copy: %w", err)
	}
	return nil
}

func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Refuse records the reason why the copy must not be used; "" removes the reason.
func (c *Copy) Refuse(why string) error {
	c.Refused = why
	return c.save()
}

// durable holds the options with which a server survives a kill. Without them, the server could lose its last
// transactions and the position of these transactions.
var durable = []string{"--innodb-doublewrite=ON"}

// start starts the server unless it runs already.
func (c *Copy) start(ctx context.Context, more ...string) error {
	if c.i.cmd != nil {
		return nil
	}
	c.IsRunning = true
	if err := c.save(); err != nil {
		return err
	}
	if err := c.i.Start(ctx, append(durable, more...)...); err != nil {
		return err
	}
	return c.i.fillMemory(ctx)
}

// stop ends the server, and records that it needs no recovery.
func (c *Copy) stop(ctx context.Context) error {
	if c.i.cmd != nil {
		if err := errors.Join(c.i.keepMemory(ctx), c.i.Stop(ctx)); err != nil {
			return err
		}
	}
	if err := snapshot.Flush(c.target.Volume); err != nil {
		return err
	}
	c.IsRunning = false
	return c.save()
}

// Connect starts the copy's server and opens a connection to it.
func (c *Copy) Connect(ctx context.Context) (*server.Conn, error) {
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	conn, err := c.i.Connect(ctx)
	if err == nil {
		conn.Only(c.only)
	}
	return conn, err
}

// Finish makes the copy the database of the volume. After that, a server may start on the volume.
func (c *Copy) Finish(ctx context.Context) error {
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if c.Events != nil {
		if err := c.statuses().settle(conn); err != nil {
			return err
		}
	}
	if conn.Version.Flavour == server.MariaDB && c.GTID != "" { // remove the GTID of the source
		if err := conn.Do("SET GLOBAL gtid_slave_pos = ''"); err != nil {
			return err
		}
	}
	conn.Close()
	if err := secure(ctx, c.i, c.target, c.source.Backup.TemporaryAccounts); err != nil {
		return err
	}
	if err := errors.Join(c.i.Stop(ctx), snapshot.Flush(c.target.Volume)); err != nil {
		return err
	}
	return c.volume.Restored(c.target.Volume, c.i.Version.Text)
}
