// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
)

// A snapshot is valid if it is complete and its hash is right. The sizes of the received pieces do not matter.
func TestTrailer(t *testing.T) {
	t.Parallel()
	random := chance.New(t, 1)
	pages := make([]byte, 64<<10)
	for i := range pages {
		pages[i] = byte(random.Uint32())
	}
	sum := sha256.Sum256(pages)
	whole := append(bytes.Clone(pages), sum[:]...)
	flipped := bytes.Clone(whole)
	flipped[12345] ^= 1
	other := bytes.Clone(whole)
	other[len(other)-1] ^= 1
	for name, c := range map[string]struct {
		text []byte
		good bool
	}{
		"whole": {whole, true}, "nothing": {nil, false}, "without its hash": {pages, false}, "cut": {whole[:len(whole)-1], false},
		"a page short": {whole[4096:], false}, "a bit flipped": {flipped, false}, "another hash": {other, false},
	} {
		for _, size := range []int{1, 31, 32, 33, 4096, 1 << 20} {
			check := newTrailer()
			for piece := c.text; len(piece) > 0; {
				n := min(size, len(piece))
				_, _ = check.Write(piece[:n]) // cannot fail
				piece = piece[n:]
			}
			if err := check.verify(); (err == nil) != c.good {
				t.Errorf("%s, in pieces of %d bytes: %v", name, size, err)
			}
		}
	}
}
