// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ballast is the name of the file with which FillVolume fills a volume.
const ballast = "ballast"

// bounded holds the sizes in bytes of file systems that are mounted on the folders of claims.
type bounded struct {
	mu    sync.Mutex
	sizes map[types.UID]int64
}

// mount mounts a file system of a claim's size on the claim's folder, unless one is mounted already.
func (b *bounded) mount(claim *corev1.PersistentVolumeClaim, folder string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sizes[claim.UID] != 0 {
		return nil
	}
	size := claim.Spec.Resources.Requests.Storage().Value()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", size)); err != nil {
		return fmt.Errorf("mount the volume of claim %s: %w", claim.Name, err)
	}
	b.sizes[claim.UID] = size
	return nil
}

// grow resizes the file system of a claim whose capacity has grown.
func (b *bounded) grow(claim *corev1.PersistentVolumeClaim, folder string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := claim.Status.Capacity.Storage().Value()
	if has := b.sizes[claim.UID]; has == 0 || size <= has {
		return
	}
	if syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)) == nil { // after an error, the test waits until its time limit
		b.sizes[claim.UID] = size
	}
}

// unmount unmounts the file system of a claim, if there is one.
func (b *bounded) unmount(claim types.UID, folder string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sizes[claim] != 0 {
		_ = syscall.Unmount(folder, syscall.MNT_DETACH) // a process may still use the file system
		delete(b.sizes, claim)
	}
}

// FillVolume writes zeros to a file in a claim's volume until the volume is full. It needs Options.Bounded.
func (e *Emulator) FillVolume(ctx context.Context, claim string) error {
	folder, err := e.claim(ctx, claim)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(folder, ballast), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("fill the volume of claim %s: %w", claim, err)
	}
	defer file.Close()
	for zeros := make([]byte, 1<<20); len(zeros) > 0; {
		n, err := file.Write(zeros)
		switch {
		case err == nil:
		case n == 0:
			zeros = zeros[:len(zeros)/2] // smaller pieces, down to a byte
		default:
		}
	}
	return nil
}
