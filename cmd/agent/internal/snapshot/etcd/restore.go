// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
	"d3os.com/d3os-operator/cmd/agent/internal/member/etcd"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/snapshot"
	"d3os.com/d3os-operator/internal/contract"
)

// revisionGap is added to the revision of a restored cluster. It exceeds the number of changes that the old cluster can have made since the
// backup. Because of the gap, clients that watched the old cluster list again. Without the gap, the clients would see other changes under
// revisions that they know (https://etcd.io/docs/v3.6/op-guide/recovery/).
const revisionGap = 1_000_000_000

// Target is the volume of the first member of a new cluster.
type Target struct {
	// Volume is the root of the volume. Data is the folder in it with the data. Notes is a folder that lives as long as the pod.
	Volume, Data, Notes string
	// Server is the etcd of the pod.
	Server *etcd.Server
	// UID is the pod's UID. The IDs of the new cluster and its member are derived from it.
	UID string
}

// IsTaken reports whether a member has written to a volume. In that case, nothing may be restored to the volume.
func (t Target) IsTaken() (bool, error) {
	free, err := member.IsFree(t.Volume, t.Server.Namespace+"/"+t.Server.Pod, t.Server.Data(filepath.Join(t.Volume, t.Data)))
	return !free, err
}

// IsRestored reports whether the volume has restored data that no member has used yet. If so, IsRestored also allows the member to use the
// data.
func (t Target) IsRestored() (bool, error) {
	if _, err := os.Stat(member.Restored(t.Volume)); err != nil {
		return false, nil //nolint:nilerr // the restore creates the data again
	}
	return true, member.NoteRestored(t.Notes)
}

// Restore creates the data of the first member of a new cluster from a backup. It creates the data in the folder for
// restored data, which appears atomically. During the restore, the volume also needs space for the snapshot.
func Restore(ctx context.Context, s restore.Source, t Target) error {
	program, err := findProgram(ctx, s)
	if err != nil {
		return err
	}
	work := filepath.Join(t.Volume, "restoring")
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("remove the leftovers of an earlier restore: %w", err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return fmt.Errorf("make a folder for the restore: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // otherwise the next restore removes the folder
	file := filepath.Join(work, object)
	if err := fetch(ctx, s, file); err != nil {
		return err
	}
	made := filepath.Join(work, "data")
	if err := program.restore(ctx, file, made, t); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("remove the snapshot: %w", err)
	}
	if err := snapshot.Flush(t.Volume); err != nil {
		return err
	}
	if err := os.Rename(made, member.Restored(t.Volume)); err != nil {
		return fmt.Errorf("move the restored data into place: %w", err)
	}
	if err := snapshot.Flush(t.Volume); err != nil {
		return err
	}
	return member.NoteRestored(t.Notes)
}

// fetch writes the snapshot to a file, and verifies its hash.
func fetch(ctx context.Context, s restore.Source, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make a file for the snapshot: %w", err)
	}
	defer file.Close()
	if err := s.Copy(ctx, s.Backup.Objects[0], file); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

// program is the image's program for restores: etcdutl, or etcdctl before etcd 3.5.
type program struct {
	path string
	// raises reports whether the program can raise the revision.
	raises bool
}

// findProgram returns an error unless the image can read the backup: etcd does not start on the data of a newer etcd.
func findProgram(ctx context.Context, s restore.Source) (program, error) {
	b := s.Backup
	if b.Server.Flavour != Flavour || len(b.Objects) != 1 {
		return program{}, contract.Errorf(contract.ReasonRefused, "backup %s is of %s, not of etcd: give the folder of an EtcdCluster's backups", b.ID, b.Server.Flavour)
	}
	path, err := server.Find("etcdutl", "etcdctl")
	if err != nil {
		return program{}, err
	}
	if newer, image := isNewer(ctx, b.Server.Version, path); newer {
		return program{}, contract.Errorf(contract.ReasonRefused, "backup %s is of etcd %s, but the image has etcd %s: use an image of that version, or a newer one", b.ID, b.Server.Version, image)
	}
	help, _ := exec.CommandContext(ctx, path, "snapshot", "restore", "--help").CombinedOutput() // if the program fails, it counts as a program without the flag
	return program{path, strings.Contains(string(help), "--bump-revision")}, nil
}

// restore runs the program to create the data of a cluster with one member.
func (p program) restore(ctx context.Context, from, to string, t Target) error {
	peer := t.Server.PeerURL()
	args := []string{
		"snapshot", "restore", from, "--data-dir=" + to, "--name=" + t.Server.Pod,
		"--initial-cluster=" + t.Server.Pod + "=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster-token=" + t.Server.Namespace + "/" + t.Server.Set + "/" + t.UID,
	}
	if p.raises {
		args = append(args, fmt.Sprintf("--bump-revision=%d", revisionGap), "--mark-compacted")
	}
	words := &server.Tail{}
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = []string{"ETCDCTL_API=3"} // required by etcdctl of 3.4 and older
	cmd.Stdout, cmd.Stderr = words, words
	if err := cmd.Run(); err != nil {
		return contract.Errorf(contract.ReasonLoadFailed, "make the data of a member with %s: %w: %s", p.path, err, words)
	}
	return nil
}

// isNewer reports whether a backup has a newer release series than a program. It also returns the program's version.
func isNewer(ctx context.Context, backup, path string) (bool, string) {
	words, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return false, ""
	}
	for line := range strings.Lines(string(words)) {
		name, version, ok := strings.Cut(line, " version: ")
		if ok && strings.HasPrefix(name, "etcd") {
			version = strings.TrimSpace(version)
			return snapshot.Series(backup) > snapshot.Series(version), version
		}
	}
	return false, ""
}
