// Command node-init is process 1 of the node's namespaces: all other processes end with it. It reaps orphans, and makes new volumes
// writable for every user.
//
//	node-init VOLUMES
//
// For each volume, the controller manager's hostpath provisioner creates a folder that belongs to root. The kubelet does not apply fsGroup
// to this folder. Without this command, a pod that does not run as root could not write there.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"unsafe"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: node-init VOLUMES")
		os.Exit(2)
	}
	go reap()
	if err := open(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "node-init:", err)
		os.Exit(1)
	}
}

func reap() {
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, syscall.SIGCHLD)
	for range orphans {
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
	}
}

// open makes each new folder in volumes writable for every user. It returns only if it fails.
func open(volumes string) error {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	if _, err := syscall.InotifyAddWatch(fd, volumes, syscall.IN_CREATE|syscall.IN_ONLYDIR); err != nil {
		return fmt.Errorf("watching %s: %w", volumes, err)
	}
	events := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(fd, events)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading events: %w", err)
		}
		for at := 0; at+syscall.SizeofInotifyEvent <= n; {
			event := (*syscall.InotifyEvent)(unsafe.Pointer(&events[at])) //nolint:gosec // as inotify(7) lays it out
			from := at + syscall.SizeofInotifyEvent
			at = from + int(event.Len)
			name := string(bytes.TrimRight(events[from:at], "\x00"))
			if err := os.Chmod(filepath.Join(volumes, name), 0o777); err != nil { //nolint:gosec // the kernel returns the name, and the volumes belong to the test node
				fmt.Fprintln(os.Stderr, "node-init:", err)
			}
		}
	}
}
