// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"context"
	"fmt"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Scan reads a server's binary log from the beginning of a file to a position. It calls visit with each event and the position after it.
func Scan(ctx context.Context, conn *server.Conn, o server.Options, file string, to contract.Position, visit func(contract.Position, Event)) error {
	const silence = 30 * time.Second
	a := &archive{Options: Options{Server: o, Interval: silence}, conn: conn}
	a.file, a.tracker = file, Tracker{Offset: FirstOffset}
	syncer, streamer, err := a.stream()
	if err != nil {
		return err
	}
	defer syncer.Close()
	for Before(a.position(), to) {
		wait, cancel := context.WithTimeout(ctx, silence)
		event, err := streamer.GetEvent(wait)
		cancel()
		if err != nil {
			return a.failed(err)
		}
		e, err := a.tracker.Next(event.RawData)
		if err != nil {
			return fmt.Errorf("read %s of server %s: %w", a.file, o.Address, err)
		}
		if !e.Artificial {
			visit(a.position(), e)
		}
		if e.Next != "" && e.Next != a.file {
			a.file, a.tracker = e.Next, Tracker{Offset: FirstOffset}
		}
	}
	return nil
}
