// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/internal/contract"
)

// Prepare records that the volume belongs to the pod, and removes incomplete new data.
func (v *Volume) Prepare() error {
	if err := v.mayReplace(); err != nil {
		return err
	}
	if err := v.change(func(*Notes) error { return nil }); err != nil {
		return err
	}
	at("before the removal")
	for _, folder := range []string{v.New(), v.Scratch()} {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove incomplete new data: %w", err)
		}
		at("after a removal")
	}
	return nil
}

// mayReplace returns an error if the volume belongs to another pod, has the data of a single server, or already has complete new data.
func (v *Volume) mayReplace() error {
	c, err := v.Look()
	switch {
	case err != nil:
		return err
	case c.Kind == Foreign:
		return contract.Errorf(contract.ReasonRefused, "make new data: %s", c.Why)
	case c.Kind == Single:
		return contract.Errorf(contract.ReasonRefused, "make new data: the volume has the data of one server, with the mark %s", c.Mark)
	case c.Notes.Next != "":
		return contract.Errorf(contract.ReasonRefused, "make new data: the data of server %s is complete and not yet in use", c.Notes.Next)
	}
	return nil
}

// Replace records the ticket, and that the new folder has the complete data of a server. It then replaces the present
// data by the new data. From then on, orders of older revisions are refused.
func (v *Volume) Replace(server, ticket string, revision int64) error {
	if err := v.mayReplace(); err != nil {
		return err
	}
	has, err := ServerOf(v.New())
	if err != nil || has != server || server == "" {
		return errors.Join(contract.Errorf(contract.ReasonFailed, "replace the data by the data of server %q: the new data is of server %q", server, has), err)
	}
	if err := syncTree(v.New()); err != nil {
		return fmt.Errorf("write the new data to the disk: %w", err)
	}
	at("new data synced")
	err = v.change(func(n *Notes) error {
		if revision < n.Revision {
			return contract.Errorf(contract.ReasonRefused, "replace the data by the ticket %s: this member has orders of revision %d", ticket, n.Revision)
		}
		n.Next, n.Ticket, n.Revision = server, ticket, revision
		return nil
	})
	if err != nil {
		return err
	}
	return v.Settle()
}

// Settle replaces the data by complete new data. It does nothing if no new data was recorded.
func (v *Volume) Settle() error {
	n, err := v.Notes()
	if err != nil || n.Next == "" {
		return err
	}
	if has, err := ServerOf(v.folder()); err != nil || has != n.Next {
		has, err := ServerOf(v.New())
		if err != nil || has != n.Next {
			return errors.Join(contract.Errorf(contract.ReasonRefused, "replace the data by the data of server %s: the new data is of server %q", n.Next, has), err)
		}
		if err := v.setAside(n.Server); err != nil {
			return err
		}
		at("set aside")
		if err := v.rename(v.New(), v.folder()); err != nil {
			return fmt.Errorf("replace the data by the data of server %s: %w", n.Next, err)
		}
		at("renamed")
	}
	return v.change(func(n *Notes) error {
		n.Server, n.Next = n.Next, ""
		return nil
	})
}

// setAside renames the folder of the data. It removes nothing.
func (v *Volume) setAside(server string) error {
	if _, err := os.Lstat(v.folder()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if server == "" {
		server = "unknown"
	}
	for i := 0; ; i++ {
		to := fmt.Sprintf("%s.set-aside-%s-%d", v.folder(), server, i)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if err := v.rename(v.folder(), to); err != nil {
			return fmt.Errorf("set the data aside: %w", err)
		}
		return nil
	}
}

// rename renames a folder of the volume. When it returns, the new name is on the disk.
func (v *Volume) rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncOne(v.Root)
}

// syncTree flushes all files and folders below a folder to the disk.
func syncTree(root string) error {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		return syncOne(path)
	})
	if err != nil {
		return err
	}
	return syncOne(filepath.Dir(root))
}

func syncOne(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
