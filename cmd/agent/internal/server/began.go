// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// Began returns the time at which a server began a file of its binary log, from the file's first event. This time distinguishes two logs of
// one server with the same file names. The account needs the right to read the log.
func (c *Conn) Began(ctx context.Context, file string) (time.Time, error) {
	o := c.options
	host, portText, err := net.SplitHostPort(o.Address)
	port, _ := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		host, port = o.Address, 0 // Address is a socket
	}
	random := make([]byte, 4)
	_, _ = rand.Read(random) // cannot fail
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{ServerID: 1<<31 | binary.BigEndian.Uint32(random)>>1, Flavor: c.Version.Flavour, Host: host, Port: uint16(port),
		User: o.User, Password: o.Password, RawModeEnabled: true, DisableRetrySync: true, EventCacheCount: 16, Localhost: "d3os-began", ReadTimeout: 20 * time.Second, TLSConfig: c.secure,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	defer syncer.Close()
	const first, header, format = 4, 19, 15
	streamer, err := syncer.StartSync(mysql.Position{Name: file, Pos: first})
	if err != nil {
		return time.Time{}, failed(o, "read the binary log of", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		event, err := streamer.GetEvent(ctx)
		if err != nil {
			return time.Time{}, failed(o, "read the binary log of", fmt.Errorf("the first event of %s: %w", file, err))
		}
		if raw := event.RawData; len(raw) > header && raw[4] == format {
			return time.Unix(int64(binary.LittleEndian.Uint32(raw)), 0).UTC(), nil
		}
	}
}
