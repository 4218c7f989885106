// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command layer rewrites the tar archive of an image's layer, from standard input to standard output. The output depends only on names,
// modes and contents: different versions of buildah, tar and Debian write slightly different headers.
package main

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

func main() {
	if err := rewrite(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "layer:", err)
		os.Exit(1)
	}
}

type entry struct {
	header  *tar.Header
	content []byte
}

func rewrite(in io.Reader, out io.Writer) error {
	var entries []entry
	for r := tar.NewReader(in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeDir {
			return fmt.Errorf("%s is neither a file nor a folder", header.Name)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		entries = append(entries, entry{header, content})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.header.Name, b.header.Name) })

	w := tar.NewWriter(out)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{
			Typeflag: e.header.Typeflag,
			Name:     e.header.Name,
			Mode:     e.header.Mode & 0o777,
			Size:     e.header.Size,
			ModTime:  time.Unix(0, 0),
		}); err != nil {
			return err
		}
		if _, err := w.Write(e.content); err != nil {
			return err
		}
	}
	return w.Close()
}
