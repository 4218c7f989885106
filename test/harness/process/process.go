// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs programs as processes of this machine for tests, and assigns loopback addresses to them. When the test process ends,
// even by SIGKILL, a guard process kills all of them.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/cluster"
)

// Process is a running program. Its process group contains all processes that the program starts.
type Process struct {
	cmd    *exec.Cmd
	Began  metav1.Time
	Code   int           // its exit code, or 128 plus the signal that ended it; set when Done is closed
	Done   chan struct{} // closed when the program has ended
	mu     sync.Mutex
	reaped bool // another process may have the process ID now
}

// Start runs a program. It adds a mark to the program's environment, by which the guard finds the processes that it must kill.
func (g *Guard) Start(argv, env []string, dir string, out *os.File) (*Process, error) {
	if len(argv) == 0 {
		return nil, errors.New("there is no command")
	}
	path, err := lookPath(argv[0], env)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: path, Args: argv, Env: append(env, g.mark), Dir: dir, Stdout: out, Stderr: out, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	p := &Process{cmd: cmd, Began: metav1.Now().Rfc3339Copy(), Done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go p.wait()
	return p, nil
}

// lookPath finds a program in the PATH of an environment.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, variable := range env {
		for _, folder := range filepath.SplitList(strings.TrimPrefix(variable, "PATH=")) {
			if path := filepath.Join(folder, name); strings.HasPrefix(variable, "PATH=") && unix.Access(path, unix.X_OK) == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("executable %q is neither in the image nor on the machine's PATH", name)
}

// wait waits for the program's end, and then kills its remaining processes, as the end of a container does.
func (p *Process) wait() {
	for errors.Is(unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	p.mu.Lock()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.reaped = true
	_ = p.cmd.Wait() // ProcessState contains the result
	p.mu.Unlock()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.Code = 128 + int(status.Signal())
	} else {
		p.Code = p.cmd.ProcessState.ExitCode()
	}
	close(p.Done)
}

// Signal sends a signal to the program and to all processes that it has started.
func (p *Process) Signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return syscall.Kill(-p.cmd.Process.Pid, signal)
}

// Kill ends the program and waits until it has ended.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // the program may have ended already
	<-p.Done
}

// Guard is a process that outlives the test process. Only the test process has the write end of the guard's pipe, so the pipe closes when
// the test process ends. The guard then kills every process whose environment contains the guard's mark, and removes the files.
type Guard struct {
	mark     string
	cmd      *exec.Cmd
	lifeline io.WriteCloser
}

const guardScript = `cat >/dev/null
for i in 1 2 3 4 5; do
	found=$(grep -lsazxF -- "$0" /proc/[0-9]*/environ)
	[ "$found" ] || break
	for f in $found; do
		f=${f#/proc/}
		kill -9 "${f%/environ}" 2>/dev/null
	done
done; rm -rf "$1"`

// NewGuard starts a guard for the processes that Guard.Start starts, and for a folder of files.
func NewGuard(dir string) (*Guard, error) {
	g := &Guard{mark: "D3OS_EMULATOR=" + dir}
	g.cmd = exec.Command("sh", "-c", guardScript, g.mark, dir)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard must not end the guard
	var err error
	if g.lifeline, err = g.cmd.StdinPipe(); err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("guard processes: %w", err)
	}
	return g, nil
}

// End kills the processes that still run.
func (g *Guard) End() error {
	if err := errors.Join(g.lifeline.Close(), g.cmd.Wait()); err != nil {
		return fmt.Errorf("end processes: %w", err)
	}
	return nil
}

// Network holds the addresses of a test process: 127.x.0.0/16. Linux accepts connections to all of them without set-up.
type Network struct {
	second int
	claim  net.Listener // while a process listens here, the network belongs to that process
	mu     sync.Mutex
	last   int
}

// claimPort is outside the range of ports that Linux assigns.
const claimPort = 61397

// ClaimNetwork returns a network that no other test process of this machine uses.
func ClaimNetwork() (*Network, error) {
	var last error
	for try := range 253 {
		second := 2 + (os.Getpid()*31+try)%253
		claim, err := net.Listen("tcp", fmt.Sprintf("127.%d.0.1:%d", second, claimPort))
		if err == nil {
			return &Network{second: second, claim: claim, last: 1}, nil
		}
		last = err
	}
	return nil, fmt.Errorf("find free loopback addresses: %w", last)
}

// Host returns an address of the network that Next never returns.
func (n *Network) Host() string { return fmt.Sprintf("127.%d.0.1", n.second) }

// Next returns the next address of the network. After the last address, it returns the first again.
func (n *Network) Next() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = max(2, (n.last+1)%(255*256))
	return fmt.Sprintf("127.%d.%d.%d", n.second, n.last/256, n.last%256)
}

// Release makes the network available to other processes.
func (n *Network) Release() error { return n.claim.Close() }

// Program returns the path of a program that make builds. The program's folder is the value of an environment variable that make test
// sets. If the variable is not set, Program uses the folder below bin/tools in which make builds the program.
func Program(variable, tools, name string) (string, error) {
	folder := os.Getenv(variable)
	if folder == "" {
		folder = filepath.Join(cluster.Root(), "bin", "tools", tools)
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s not found: run `make tools`, or set %s to its folder: %w", name, variable, err)
	}
	return path, nil
}

// Runs reports whether p is a running program. p may be nil.
func (p *Process) Runs() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Wait waits until holds returns nil. When the time is up, it returns the last error of holds.
func Wait(ctx context.Context, within time.Duration, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
