// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slowdisk makes the disks of programs slow or full. It needs no privileges and no separate file system.
package slowdisk

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disks delay the system calls fsync and fdatasync of a program. Main installs a seccomp filter before the program begins. The filter sends
// each such call to the test before the kernel runs the call. No other call is delayed.
type Disks struct {
	t      *testing.T
	listen *net.UnixListener
	done   chan struct{}

	mu    sync.Mutex
	delay map[string]time.Duration // by pod
	syncs map[string]int           // the number of delayed calls
	full  map[string]bool          // by pod
}

// The environment variables of a wrapped program: the program to run, and the socket on which the wrapper waits for the permission to run
// it.
const (
	program = "SLOW_DISK_PROGRAM"
	socket  = "SLOW_DISK_SOCKET"
)

// New returns disks that are as fast as the machine's until Slow is called.
func New(t *testing.T) *Disks {
	t.Helper()
	dir, err := os.MkdirTemp("", "d3os-disks-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	listen, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	d := &Disks{t: t, listen: listen, done: make(chan struct{}), delay: map[string]time.Duration{}, syncs: map[string]int{}, full: map[string]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listen.AcceptUnix()
			if err != nil {
				return
			}
			serving.Go(func() { d.serve(conn) })
		}
	})
	t.Cleanup(func() {
		close(d.done)
		_ = listen.Close()
		serving.Wait()
		_ = os.RemoveAll(dir)
	})
	return d
}

// Program returns the path of a program that runs another program on these disks. The host name of the process selects its disk.
func (d *Disks) Program(path string) string {
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' %s='%s' exec '%s' \"$@\"\n", program, path, socket, d.listen.Addr(), self)
	wrapper := filepath.Join(d.t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		d.t.Fatal(err)
	}
	return wrapper
}

// Slow sets the delay before each further sync of a pod.
func (d *Disks) Slow(pod string, delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay[pod], d.syncs[pod] = delay, 0
}

// Fill sets whether each further sync of a pod fails as on a full volume (ENOSPC).
func (d *Disks) Fill(pod string, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full[pod] = full
}

// Delayed returns the number of a pod's delayed syncs.
func (d *Disks) Delayed(pod string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs[pod]
}

// notification and answer are the kernel's struct seccomp_notif and seccomp_notif_resp.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		call       [64]byte
	}
	answer struct {
		id    uint64
		value int64
		err   int32
		flags uint32
	}
)

// serve answers the syncs of one process, each after the delay of its pod.
func (d *Disks) serve(conn *net.UnixConn) {
	defer conn.Close()
	pod, listener, err := receive(conn)
	if err != nil {
		d.t.Errorf("a program with a slow disk: %v", err)
		return
	}
	defer unix.Close(listener)
	var pending sync.WaitGroup
	defer pending.Wait()
	for {
		select {
		case <-d.done:
			return
		default:
		}
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, 200); n == 0 || errors.Is(err, unix.EINTR) {
			continue
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return // the process has ended
		}
		var asked notification
		if err := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&asked)); err != nil {
			continue // the process was killed in the meantime
		}
		pending.Go(func() { d.answer(listener, pod, asked.id) })
	}
}

func (d *Disks) answer(listener int, pod string, id uint64) {
	d.mu.Lock()
	delay, full := d.delay[pod], d.full[pod]
	if delay > 0 {
		d.syncs[pod]++
	}
	d.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-d.done:
	}
	leave := answer{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if full {
		leave = answer{id: id, err: -int32(unix.ENOSPC)}
	}
	_ = control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&leave)) // the process may have been killed
}

func control(fd int, request uintptr, what unsafe.Pointer) error {
	if _, _, code := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(what)); code != 0 {
		return code
	}
	return nil
}

// receive receives the name of a pod and the listener of its filter, and permits the process to continue.
func receive(conn *net.UnixConn) (pod string, listener int, err error) {
	text, rights := make([]byte, 256), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := conn.ReadMsgUnix(text, rights)
	if err != nil {
		return "", 0, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil || len(messages) != 1 {
		return "", 0, fmt.Errorf("%d messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return "", 0, err
	}
	_, err = conn.Write([]byte{1})
	return string(text[:n]), fds[0], err
}

// Main runs the wrapped program if a script of Disks.Program started this process. TestMain must call Main first.
func Main() {
	if os.Getenv(program) == "" {
		return
	}
	runtime.LockOSThread() // a filter applies to one thread, and this thread executes the program
	err := handOver()
	if err == nil {
		err = syscall.Exec(os.Getenv(program), os.Args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "start with a slow disk:", err)
	os.Exit(1)
}

func handOver() error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: os.Getenv(socket), Net: "unix"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // loads the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jt: 2},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
	}
	code := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&code)))
	if errno != 0 {
		return fmt.Errorf("install a filter: %w", errno)
	}
	if _, _, err := conn.WriteMsgUnix([]byte(os.Getenv("HOSTNAME")), unix.UnixRights(int(listener)), nil); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}
