// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"d3os.com/d3os-operator/internal/contract"
)

// Find returns the path of the first of these programs that is installed.
func Find(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", contract.Errorf(contract.ReasonFailed, "the image has no program %s: the command needs the server's own tools", strings.Join(names, " or "))
}

// ProgramVersion returns the version of a program.
func ProgramVersion(ctx context.Context, program string) (Version, error) {
	text, err := exec.CommandContext(ctx, program, "--no-defaults", "--version").Output()
	if err != nil {
		return Version{}, fmt.Errorf("run %s --version: %w", program, err)
	}
	v, ok := ParseVersion(string(text))
	if !ok {
		return v, fmt.Errorf("%s reports no version: %q", program, text)
	}
	return v, nil
}

// Command prepares a client program of the server's image. The program reads the password from a pipe: other processes could read it from
// arguments or environment variables.
func (o Options) Command(ctx context.Context, program string, arguments ...string) (*exec.Cmd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("hand the password to %s: %w", program, err)
	}
	quote := func(text string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
	}
	text := "[client]\nuser=" + quote(o.User) + "\npassword=" + quote(o.Password) + "\n"
	if o.IsSocket() {
		text += "protocol=socket\nsocket=" + quote(o.Address) + "\n"
	} else {
		host, port, _ := strings.Cut(o.Address, ":")
		if i := strings.LastIndex(o.Address, ":"); i >= 0 {
			host, port = strings.Trim(o.Address[:i], "[]"), o.Address[i+1:]
		}
		text += "protocol=tcp\nhost=" + quote(host) + "\nport=" + port + "\n"
	}
	if o.CA != "" { // the second option is for MySQL, the third for MariaDB
		text += "ssl-ca=" + quote(o.CA) + "\nloose-ssl-mode=VERIFY_IDENTITY\nloose-ssl-verify-server-cert\n"
	}
	// A pipe holds 64 KiB, so the write needs no concurrent reader.
	if _, err = w.WriteString(text); err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("hand the password to %s: %w", program, err)
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--defaults-file=/dev/fd/3"}, arguments...)...)
	cmd.ExtraFiles = []*os.File{r}
	return cmd, nil
}

// Started closes this process's end of the password pipe. Call it after each attempt to start the command.
func Started(cmd *exec.Cmd) {
	for _, file := range cmd.ExtraFiles {
		_ = file.Close() // the child process has a copy
	}
}

// Tail keeps the end of the written text, for messages.
type Tail struct{ text []byte }

func (t *Tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > 2048 {
		t.text = t.text[len(t.text)-2048:]
	}
	return len(p), nil
}

func (t *Tail) String() string { return strings.TrimSpace(string(t.text)) }
