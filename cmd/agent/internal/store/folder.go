// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"d3os.com/d3os-operator/internal/contract"
)

// partial is the prefix of the names of files that are being written.
const partial = ".partial-"

// Folder stores objects as files. After Put has returned, the object survives a power failure.
type Folder struct{ root string }

// NewFolder returns a store in a folder. It fails if the folder is missing, because the volume of a missing folder may not be mounted.
func NewFolder(root string) (*Folder, error) {
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, folderError("open folder "+root, err)
	}
	return &Folder{root: root}, nil
}

func (f *Folder) String() string { return "folder " + f.root }

func (f *Folder) path(name string) string { return filepath.Join(f.root, filepath.FromSlash(name)) }

// Put writes to a temporary file next to the object, and renames it.
func (f *Folder) Put(ctx context.Context, name string, content io.Reader) error {
	return f.put(ctx, name, content, os.Rename)
}

// Replace writes a small object, and replaces an existing object of that name. It writes like Put.
func (f *Folder) Replace(ctx context.Context, name string, content []byte) error {
	return f.Put(ctx, name, reader(content))
}

// Create hard-links the written file to its name, which fails if a file of that name exists.
func (f *Folder) Create(ctx context.Context, name string, content []byte) error {
	return f.put(ctx, name, reader(content), func(from, to string) error {
		err := os.Link(from, to)
		if errors.Is(err, fs.ErrExist) {
			return ErrExists
		}
		if err != nil { // the file system may not support hard links
			if _, err := os.Lstat(to); err == nil {
				return ErrExists
			}
			return os.Rename(from, to)
		}
		return os.Remove(from)
	})
}

func (f *Folder) put(ctx context.Context, name string, content io.Reader, move func(from, to string) error) (err error) {
	what, target := fmt.Sprintf("write %s in %s", name, f), f.path(name)
	folder := filepath.Dir(target)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return folderError(what, err)
	}
	file, err := os.CreateTemp(folder, partial+filepath.Base(name)+"-")
	if err != nil {
		return folderError(what, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
			err = folderError(what, err)
		}
	}()
	_, err = io.Copy(file, &withContext{ctx, content})
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = move(file.Name(), target); err != nil {
		return err
	}
	return f.sync(folder)
}

// sync flushes a folder and its parents, so that the names in them are durable.
func (f *Folder) sync(folder string) error {
	for ; strings.HasPrefix(folder, f.root); folder = filepath.Dir(folder) {
		open, err := os.Open(folder)
		if err != nil {
			return err
		}
		err = open.Sync()
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
			err = nil // the file system does not support fsync of folders
		}
		if err = errors.Join(err, open.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Get opens a file.
func (f *Folder) Get(_ context.Context, name string, offset int64) (io.ReadCloser, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, folderError(fmt.Sprintf("read %s in %s", name, f), err)
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, folderError(fmt.Sprintf("read %s in %s", name, f), errors.Join(err, file.Close()))
	}
	return file, nil
}

// Stat describes a file.
func (f *Folder) Stat(_ context.Context, name string) (Info, error) {
	info, err := os.Stat(f.path(name))
	if err != nil {
		return Info{}, folderError(fmt.Sprintf("look for %s in %s", name, f), err)
	}
	return Info{Name: name, Size: info.Size(), Modified: info.ModTime()}, nil
}

// List returns the files whose names begin with the prefix.
func (f *Folder) List(ctx context.Context, prefix string) ([]Info, error) {
	var found []Info
	err := f.walk(ctx, prefix, func(name string, entry fs.DirEntry) error {
		if strings.HasPrefix(entry.Name(), partial) {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			found = append(found, Info{Name: name, Size: info.Size(), Modified: info.ModTime()})
		}
		return err
	})
	return found, err
}

func (f *Folder) walk(ctx context.Context, prefix string, visit func(name string, entry fs.DirEntry) error) error {
	start := f.path(prefix[:strings.LastIndex(prefix, "/")+1])
	err := filepath.WalkDir(start, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != f.root {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(f.root, path)
		if name = filepath.ToSlash(name); err != nil || !strings.HasPrefix(name, prefix) {
			return err
		}
		return visit(name, entry)
	})
	if err != nil {
		return folderError(fmt.Sprintf("list %s in %s", prefix, f), err)
	}
	return nil
}

// Delete removes a file, and then each folder that has become empty.
func (f *Folder) Delete(_ context.Context, name string) error {
	path := f.path(name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return folderError(fmt.Sprintf("remove %s from %s", name, f), err)
	}
	for folder := filepath.Dir(path); len(folder) > len(filepath.Clean(f.root)) && os.Remove(folder) == nil; {
		folder = filepath.Dir(folder) // the parent may also be empty now
	}
	return nil
}

// Sweep removes partial files, and folders without files.
func (f *Folder) Sweep(ctx context.Context, prefix string) ([]string, error) {
	return f.SweepIf(ctx, prefix, func(string) bool { return true })
}

// SweepIf removes folders without files, and each partial file for whose name the function may returns true.
func (f *Folder) SweepIf(ctx context.Context, prefix string, may func(name string) bool) ([]string, error) {
	var names []string
	err := f.walk(ctx, prefix, func(name string, entry fs.DirEntry) error {
		if !strings.HasPrefix(entry.Name(), partial) || !may(name) {
			return nil
		}
		names = append(names, name)
		return f.Delete(ctx, name)
	})
	if err != nil {
		return names, err
	}
	return names, f.sweepFolders(f.path(prefix))
}

func (f *Folder) sweepFolders(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if entry.IsDir() {
			path := filepath.Join(folder, entry.Name())
			err = errors.Join(err, f.sweepFolders(path))
			_ = os.Remove(path) // fails unless the folder is empty
		}
	}
	if err != nil {
		return folderError("remove empty folders of "+f.String(), err)
	}
	return nil
}

func folderError(what string, err error) error {
	reason := contract.ReasonFailed
	var known *contract.Error
	switch {
	case errors.As(err, &known), errors.Is(err, ErrExists), errors.Is(err, context.Canceled):
		return err // an error of the content, not of the folder
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return contract.Errorf(contract.ReasonStoreFull, "%s: there is no room left: make the volume larger, or keep fewer backups: %w", what, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		if strings.HasPrefix(what, "open folder") {
			return contract.Errorf(contract.ReasonStoreMissing, "%s: the folder does not exist: is its volume mounted? %w", what, err)
		}
		return fmt.Errorf("%s: %w: %w", what, ErrNotFound, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		reason = contract.ReasonStoreDenied
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.EHOSTDOWN):
		reason = contract.ReasonStoreUnreachable
	}
	return contract.Errorf(reason, "%s: %w", what, err)
}

// withContext is a reader that fails when its context ends.
type withContext struct {
	ctx context.Context
	io.Reader
}

func (r *withContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
