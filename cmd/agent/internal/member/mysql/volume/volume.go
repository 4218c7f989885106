// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Volume is the volume of a member's pod.
type Volume struct {
	// Root is the mount point. Data is the name of the folder in it with the server's data.
	Root, Data string
	// Pod is the pod to which the volume must belong, as NAMESPACE/NAME.
	Pod string

	mu   sync.Mutex // one change at a time
	kept member.Kept
}

// lockFile is locked while an agent or its server uses the volume.
const lockFile = "d3os-mysql.lock"

// Lock locks the volume, because two pods may have the same volume for a moment. The server must inherit the file, so that the volume is
// locked until both processes have ended. Lock waits until the lock is free or the context ends.
func (v *Volume) Lock(ctx context.Context) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(v.Root, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the volume: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return nil, errors.Join(fmt.Errorf("lock the volume: %w", err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(contract.Errorf(contract.ReasonBusy, "lock the volume: another agent or its server uses it: %w", ctx.Err()), file.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Kind classifies the data on a volume.
type Kind = mysqlmember.Volume

// The kinds. Package mysqlmember documents each.
const (
	Empty   = mysqlmember.VolumeEmpty
	Lost    = mysqlmember.VolumeLost
	Own     = mysqlmember.VolumeOwn
	Foreign = mysqlmember.VolumeForeign
	Single  = mysqlmember.VolumeSingle
)

// Contents describe the data on a volume.
type Contents struct {
	Kind  Kind
	Notes Notes
	// Mark identifies data of the kind Single.
	Mark string
	// Why is the reason why the kind is Foreign; empty for other kinds.
	Why string
}

// Look reads the volume and changes nothing.
func (v *Volume) Look() (Contents, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	foreign := func(format string, args ...any) (Contents, error) {
		return Contents{Kind: Foreign, Why: fmt.Sprintf(format, args...)}, nil
	}
	n, err := read(v.Root)
	if err != nil {
		return foreign("%v", err)
	}
	exists, err := hasEntries(v.folder())
	if err != nil {
		return Contents{}, err
	}
	fresh, err := hasEntries(v.New())
	if err != nil {
		return Contents{}, err
	}
	if n == nil {
		return v.unnoted(exists, fresh)
	}
	switch {
	case n.Pod != v.Pod:
		return foreign("the volume belongs to pod %s", n.Pod)
	case n.Next != "":
		return v.replacing(*n)
	case n.Server == "" && exists:
		return foreign("the folder %s has data, but this member never had data", v.Data)
	case n.Server == "":
		return Contents{Kind: Empty, Notes: *n}, nil
	case !exists:
		return Contents{Kind: Lost, Notes: *n}, nil
	}
	has, err := ServerOf(v.folder())
	if err != nil || has != n.Server {
		return foreign("the folder %s has data of server %q, but this member's data is of server %s (%v)", v.Data, has, n.Server, err)
	}
	return Contents{Kind: Own, Notes: *n}, nil
}

// unnoted describes a volume without notes. exists and fresh report whether the volume has data and new data.
func (v *Volume) unnoted(exists, fresh bool) (Contents, error) {
	if !exists && !fresh {
		return Contents{Kind: Empty}, nil
	}
	mark, err := v.mark()
	if err == nil && (fresh || mark == "") {
		return Contents{Kind: Foreign, Why: fmt.Sprintf("the volume has data, but no file %s that names the pod of the volume", File)}, nil
	}
	return Contents{Kind: Single, Mark: mark}, err
}

// replacing describes a volume on which complete new data was recorded. It finds this data in one of the two folders,
// wherever Settle was interrupted.
func (v *Volume) replacing(n Notes) (Contents, error) {
	for _, folder := range []string{v.folder(), v.New()} {
		if has, err := ServerOf(folder); err == nil && has == n.Next {
			return Contents{Kind: Own, Notes: n}, nil
		}
	}
	return Contents{Kind: Foreign, Notes: n, Why: fmt.Sprintf("the data of server %s is in neither %s nor %s", n.Next, v.Data, filepath.Base(v.New()))}, nil
}

func (v *Volume) folder() string { return filepath.Join(v.Root, v.Data) }

// Folder returns the folder of the data.
func (v *Volume) Folder() string { return v.folder() }

// New returns the folder in which new data is created.
func (v *Volume) New() string { return v.folder() + ".new" }

// Scratch returns the folder of the helper server that creates new data.
func (v *Volume) Scratch() string { return v.folder() + ".scratch" }

// hasEntries reports whether a folder exists and is not empty.
func hasEntries(folder string) (bool, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the volume: %w", err)
	}
	return len(entries) > 0, nil
}

// ServerOf returns the UUID of the server that wrote the data in a folder.
func ServerOf(folder string) (string, error) {
	file, err := os.Open(filepath.Join(folder, "auto.cnf"))
	if err != nil {
		return "", fmt.Errorf("read the server's UUID: %w", err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		if strings.ReplaceAll(strings.TrimSpace(key), "_", "-") == "server-uuid" {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("read the server's UUID: %s names none", file.Name())
}
