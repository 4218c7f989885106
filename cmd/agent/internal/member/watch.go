// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// watchPoll is the interval of the watcher.
const watchPoll = 500 * time.Millisecond

// Watch runs as a separate process next to the server that this program has become, until the server ends. It completes the mark after the
// server has created its data. It ends the server if a ticket requires another start: only the start of the container can act on a ticket
// to force a new cluster.
func (a *Agent) Watch(ctx context.Context, server int) error {
	ticker := time.NewTicker(watchPoll)
	defer ticker.Stop()
	noter := &noter{follow: a.Server.Follow(filepath.Join(a.Volume, a.Data))}
	var said string
	for os.Getppid() == server {
		forced, err := a.watchOnce(noter)
		if forced {
			if err := syscall.Kill(server, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end the server: %w", err)
			}
			return nil
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			_, _ = fmt.Fprintln(a.Log, "next to the server:", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	return nil
}

// watchOnce completes the mark, notes how far the data goes, and reports whether the server has to start again.
func (a *Agent) watchOnce(noter *noter) (bool, error) {
	mark, err := ReadMark(a.Volume)
	if err != nil || mark == nil || mark.Pod != a.Pod {
		return false, err
	}
	if !mark.started() {
		data := a.Server.Data(filepath.Join(a.Volume, a.Data))
		if !data.Exists || !belongs(mark, data.Identity) {
			return false, nil
		}
		mark.Cluster, mark.Member = data.Identity.Cluster, data.Identity.Member
		if err := mark.Write(a.Volume); err != nil {
			return false, err
		}
		_, _ = fmt.Fprintf(a.Log, "the volume has the data of member %s of cluster %s\n", mark.Member, mark.Cluster)
	}
	failed := noter.note(a.Notes, Identity{Cluster: mark.Cluster, Member: mark.Member})
	ticket, err := a.ticket()
	if err != nil || ticket.Verb != Force {
		return false, errors.Join(err, failed)
	}
	used, err := ReadUsed(a.Notes)
	if err != nil || (Situation{Mark: mark, Ticket: ticket, Used: used, PodUID: a.PodUID}).used() {
		return false, err
	}
	_, _ = fmt.Fprintf(a.Log, "the ticket %s asks for a new start: ending the server\n", ticket.Text)
	return true, nil
}
