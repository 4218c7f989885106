// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// files are the contents of files by their paths.
type files map[string]string

// proxy is a folder with modules, as GOPROXY reads it.
type proxy string

// add adds version v1.0.0 of a module.
func (p proxy) add(t *testing.T, module string, of files) {
	t.Helper()
	folder := filepath.Join(string(p), module, "@v")
	assert.NilError(t, os.MkdirAll(folder, 0o700))
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, text := range of {
		file, err := w.Create(module + "@v1.0.0/" + name)
		assert.NilError(t, err)
		_, err = file.Write([]byte(text))
		assert.NilError(t, err)
	}
	assert.NilError(t, w.Close())
	for suffix, content := range map[string]string{".info": `{"Version": "v1.0.0"}`, ".mod": "module " + module + "\n", ".zip": archive.String()} {
		assert.NilError(t, os.WriteFile(filepath.Join(folder, "v1.0.0"+suffix), []byte(content), 0o600))
	}
}

// use makes this process and the commands that it runs download all modules from the proxy.
func (p proxy) use(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"GOPROXY": "file://" + string(p), "GOMODCACHE": t.TempDir(), "GOFLAGS": "-modcacherw -trimpath", "GOSUMDB": "off", "GONOPROXY": "none", "GOTOOLCHAIN": "local", "GOWORK": "off",
	} {
		t.Setenv(name, value)
	}
}

// build returns a binary with three modules of the proxy, and with a module that has no version.
func build(t *testing.T) string {
	t.Helper()
	all := proxy(t.TempDir())
	for _, module := range []string{"example.com/a", "example.com/b", "golang.org/x/sys"} {
		all.add(t, module, files{"go.mod": "module " + module + "\n", "a.go": "package a\n"})
	}
	all.use(t)
	folder := t.TempDir()
	for name, text := range (files{
		"go.mod": "module example.com/main\n\nrequire (\n\texample.com/a v1.0.0\n\texample.com/b v1.0.0\n\texample.com/own v0.0.0\n\tgolang.org/x/sys v1.0.0\n)\n\n" +
			"replace example.com/own => ./own\n",
		"main.go":    "package main\n\nimport (\n\t_ \"example.com/a\"\n\t_ \"example.com/b\"\n\t_ \"example.com/own\"\n\t_ \"golang.org/x/sys\"\n)\n\nfunc main() {}\n",
		"own/go.mod": "module example.com/own\n",
		"own/own.go": "package own\n",
	}) {
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		assert.NilError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	command := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", "binary", ".")
	command.Dir = folder
	out, err := command.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	return filepath.Join(folder, "binary")
}

// The notices have the texts of each module in the binary, except the modules of the repository. A module without a licence is an error.
func TestNotices(t *testing.T) {
	binary := build(t)
	sys := "======== Go " + runtime.Version() + ": LICENSE\n======== golang.org/x/sys v1.0.0: LICENSE\n\nlicence of Go\n\n"
	for name, c := range map[string]struct {
		b         files
		want, err string
	}{
		"a licence":    {files{"LICENSE": "licence of b\n"}, sys + "======== example.com/a v1.0.0: LICENSE\n\nlicence of a\n\n======== example.com/b v1.0.0: LICENSE\n\nlicence of b\n\n", ""},
		"equal texts":  {files{"Copying.md": "licence of a\n"}, sys + "======== example.com/a v1.0.0: LICENSE\n======== example.com/b v1.0.0: Copying.md\n\nlicence of a\n\n", ""},
		"more notices": {files{"LICENCE-MIT": "one", "c/NOTICE.txt": "two", "license.go": "package b", "testdata/LICENSE": "three"}, sys + "======== example.com/a v1.0.0: LICENSE\n\nlicence of a\n\n======== example.com/b v1.0.0: LICENCE-MIT\n\none\n\n======== example.com/b v1.0.0: c/NOTICE.txt\n\ntwo\n\n", ""},
		"no licence":   {files{"README.md": "b", "license.go": "package b", "examples/LICENSE": "three"}, "", "example.com/b v1.0.0 has no file with a licence"},
	} {
		t.Run(name, func(t *testing.T) {
			modules := proxy(t.TempDir())
			modules.add(t, "example.com/a", files{"LICENSE": "licence of a\n"})
			modules.add(t, "example.com/b", c.b)
			modules.add(t, "golang.org/x/sys", files{"LICENSE": "licence of Go\n"})
			modules.use(t)
			var out strings.Builder
			err := run(binary, &out)
			if c.err != "" {
				assert.Error(t, err, c.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, out.String(), c.want)
		})
	}
}
