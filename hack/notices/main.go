// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command notices prints the licences and notices of the modules in a Go binary, and of Go. Equal texts are printed once. The output depends
// only on the binary: the licence of Go is read from golang.org/x/sys, because distributions of Go have different files.
//
//	go run ./hack/notices BINARY
package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// run prints the texts, sorted by the first module that has the text.
func run(binary string, out io.Writer) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	folders, err := modules(info)
	if err != nil {
		return err
	}
	files := map[string][]string{} // text -> "module version: file"
	for name, folder := range folders {
		found := 0
		err := walk(folder, func(file string) error {
			text, err := fs.ReadFile(os.DirFS(folder), file)
			files[string(text)] = append(files[string(text)], name+": "+file)
			if strings.HasPrefix(name, "golang.org/x/sys ") {
				files[string(text)] = append(files[string(text)], "Go "+info.GoVersion+": "+file)
			}
			found++
			return err
		})
		if err != nil {
			return fmt.Errorf("read the licences of %s: %w", name, err)
		}
		if found == 0 {
			return fmt.Errorf("%s has no file with a licence", name)
		}
	}
	for _, of := range files {
		slices.Sort(of)
	}
	texts := slices.SortedFunc(maps.Keys(files), func(a, b string) int { return cmp.Compare(files[a][0], files[b][0]) })
	for _, text := range texts {
		if _, err := fmt.Fprintf(out, "======== %s\n\n%s\n\n", strings.Join(files[text], "\n======== "), strings.TrimSpace(text)); err != nil {
			return err
		}
	}
	return nil
}

// modules returns the folders of the modules in a binary, by module and version. It omits the modules of this repository, which have no
// version.
func modules(info *buildinfo.BuildInfo) (map[string]string, error) {
	folders := map[string]string{}
	command := exec.CommandContext(context.Background(), "go", "mod", "download", "-json")
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		if strings.HasPrefix(module.Version, "v") {
			command.Args = append(command.Args, module.Path+"@"+module.Version)
		}
	}
	command.Stderr = os.Stderr
	answer, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("find the modules: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(answer)); ; {
		var module struct{ Path, Version, Dir string }
		if err := decoder.Decode(&module); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, err
		}
		folders[module.Path+" "+module.Version] = module.Dir
	}
}

var (
	licence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-._].*)?$`)
	code    = regexp.MustCompile(`\.(go|sh|py|js|json|tmpl|ya?ml|html)$`)
	// omitted are folders whose content is in no binary.
	omitted = regexp.MustCompile(`^(testdata|vendor|_.*|\.git.*|examples?|node_modules|test)$`)
)

// walk calls visit with the path of each licence and notice in a folder, relative to the folder.
func walk(folder string, visit func(file string) error) error {
	return fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && omitted.MatchString(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !licence.MatchString(entry.Name()) || code.MatchString(entry.Name()):
			return nil
		}
		return visit(path)
	})
}
