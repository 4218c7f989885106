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

	"d3os.com/d3os-operator/internal/contract/etcdmember"
)

// watchPoll is the interval of the watcher.
const watchPoll = 500 * time.Millisecond

// Watch runs in a separate process until the server ends. The server runs in the process that was the agent. Watch adds the IDs of the data
// to the mark after the server has created the data. It ends the server if the ticket requires another start: a ticket to force a new
// cluster takes effect only when the container starts.
func (a *Agent) Watch(ctx context.Context, server int) error {
	ticker := time.NewTicker(watchPoll)
	defer ticker.Stop()
	noter := &noter{follow: a.Server.Follow(filepath.Join(a.Volume, a.Data)), end: readEnd(a.Notes)}
	report := newReporter(a.WatchAddress, a.Log)
	defer report.close()
	var said string
	for os.Getppid() == server {
		forced, err := a.watchOnce(noter)
		report.publish(a.watchReport(noter)) //nolint:contextcheck // the report is served until the server ends
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

// watchReport returns the report about the data of a running server. It returns false until the mark has the IDs of the data.
func (a *Agent) watchReport(noter *noter) (etcdmember.Report, bool) {
	mark, err := ReadMark(a.Volume)
	if err != nil || !mark.started() || mark.Pod != a.Pod {
		return etcdmember.Report{}, false
	}
	return etcdmember.Report{
		Volume: etcdmember.VolumeData, Cluster: mark.Cluster, Member: mark.Member, Token: mark.Token, Position: noter.end, PeerURL: a.Server.PeerURL(),
		Kept: a.kept.MiB(filepath.Join(a.Volume, a.Data)),
	}, true
}

// watchOnce adds the IDs of new data to the mark, and writes the position of the data. It reports whether the server must restart.
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
	_, _ = fmt.Fprintf(a.Log, "the ticket %s requires a new start: ending the server\n", ticket.Text)
	return true, nil
}
