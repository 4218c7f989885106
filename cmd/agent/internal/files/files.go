// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files stores the files of a stopped MySQL server as objects of a backup. The objects are consecutive parts of one tar stream.
package files

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/snapshot"
	"d3os.com/d3os-operator/internal/contract"
)

// prefix is the prefix of the objects' names.
const prefix = "files-"

// maxObject bounds the size of an object: a store accepts 10,000 parts of 16 MiB.
const maxObject = 128 << 30

// IsPart reports whether an object of a backup is a part of the stream.
func IsPart(o manifest.Object) bool { return strings.HasPrefix(o.Name, prefix) }

// Put writes the files of a folder to the store, and returns the objects. It also flushes the files to their disk: only the flush reports a
// failed write, after which a read could return wrong content.
func Put(ctx context.Context, d *draft.Draft, folder string, onDisk *snapshot.Volume) ([]manifest.Object, error) {
	flushed := make(chan error, 1)
	go func() { flushed <- onDisk.Flush() }()
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(Pack(ctx, folder, writer)) }() // nil marks the end of the stream
	d.InFrames = true
	objects, err := stores(reader, maxObject, func(name string, write func(io.Writer) error) (manifest.Object, error) {
		return d.Put(ctx, name, write)
	})
	_ = reader.CloseWithError(io.ErrClosedPipe) // unblocks Pack after the store has failed
	return objects, errors.Join(err, <-flushed)
}

// isOfData reports whether a backup includes a file of the data folder. It excludes the server's UUID, persisted variables, keys and logs,
// and files that the server recreates at each start. It also excludes the doublewrite buffer, which is useless after a clean stop and may
// contain the replication password.
func isOfData(name string) bool {
	top, _, _ := strings.Cut(filepath.ToSlash(name), "/")
	switch {
	case top == "auto.cnf", top == "mysqld-auto.cnf", top == "#innodb_temp", top == "#clone", top == "lost+found":
		return false
	case strings.HasSuffix(top, ".pem"), strings.HasSuffix(top, ".dblwr"), strings.HasPrefix(top, "relay."), strings.HasPrefix(top, "binlog."):
		return false
	}
	return true
}

// Pack writes a folder as a tar stream.
func Pack(ctx context.Context, folder string, to io.Writer) error {
	stream := tar.NewWriter(to)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		name, relErr := filepath.Rel(folder, path)
		switch {
		case err != nil || relErr != nil:
			return errors.Join(err, relErr)
		case name == ".":
			return nil
		case !isOfData(name):
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		return packOne(stream, path, filepath.ToSlash(name))
	})
	if err != nil {
		return fmt.Errorf("read the copy: %w", err)
	}
	return stream.Close()
}

func packOne(stream *tar.Writer, path, name string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, name+"/", 0o750
		return stream.WriteHeader(header)
	case !info.Mode().IsRegular():
		return contract.Errorf(contract.ReasonFailed, "%s is neither a file nor a folder", name)
	}
	header.Typeflag, header.Mode, header.Size = tar.TypeReg, 0o640, info.Size()
	if err := stream.WriteHeader(header); err != nil {
		return err
	}
	_, err = copyExactly(stream, file, info.Size())
	return err
}

// copyExactly copies size bytes. It returns io.EOF if from has fewer. The pieces are larger than those of io.CopyN, because each piece
// passes between goroutines.
func copyExactly(to io.Writer, from io.Reader, size int64) (int64, error) {
	n, err := io.CopyBuffer(struct{ io.Writer }{to}, io.LimitReader(from, size), make([]byte, min(size, 1<<20)+1))
	if err == nil && n < size {
		err = io.EOF
	}
	return n, err
}

// Unpack writes the files of a tar stream below a folder. It reads the stream to its end.
func Unpack(from io.Reader, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("open the folder of the data: %w", err)
	}
	defer root.Close()
	for stream := tar.NewReader(from); ; {
		header, err := stream.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, from) // the checksum includes the bytes after the end of the tar stream
			return err
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, from) // at its end, the source compares the checksum and reports damage
			return err
		}
		if err := unpackOne(root, header, stream); err != nil {
			return fmt.Errorf("write %.200s: %w", header.Name, err)
		}
	}
}

func unpackOne(root *os.Root, header *tar.Header, content io.Reader) error {
	name := filepath.Clean(filepath.FromSlash(header.Name))
	switch {
	case !filepath.IsLocal(name) || !isOfData(name):
		return contract.Errorf(contract.ReasonDamaged, "no file of a database has this name")
	case header.Typeflag == tar.TypeDir:
		return root.Mkdir(name, 0o750)
	case header.Typeflag != tar.TypeReg:
		return contract.Errorf(contract.ReasonDamaged, "it is neither a file nor a folder")
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// objectOf returns the name of a part of the stream, without the suffixes of encryption and compression.
func objectOf(part int) string { return fmt.Sprintf(prefix+"%05d.tar", part) }

// stores writes a stream into objects of at most size bytes, because a store limits the size of an object.
func stores(from io.Reader, size int64, put func(name string, write func(io.Writer) error) (manifest.Object, error)) (objects []manifest.Object, err error) {
	for isLast := false; !isLast; {
		o, err := put(objectOf(len(objects)), func(w io.Writer) error {
			n, err := copyExactly(w, from, size)
			isLast = n < size
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}
