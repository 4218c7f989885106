// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"filippo.io/age"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
)

// A Reader opens content that was compressed in frames, for any size of the content and of the written parts.
func TestFrames(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	assert.NilError(t, err)
	for _, size := range []int{0, 1, frameSize - 1, frameSize, frameSize + 1, 7*frameSize + 5} {
		for _, part := range []int{1000, frameSize, 3*frameSize + 7} {
			t.Run(fmt.Sprintf("%d in parts of %d", size, part), func(t *testing.T) {
				content := make([]byte, size)
				random := chance.New(t, 1)
				for at := 0; at < size; at += 64 << 10 { // half of the content is compressible
					_, _ = random.Read(content[at:min(at+32<<10, size)])
				}
				out := &bytes.Buffer{}
				sealed, err := NewFramed(out, []age.Recipient{identity.Recipient()})
				assert.NilError(t, err)
				for at := 0; at < size; at += part {
					n, err := sealed.Write(content[at:min(at+part, size)])
					assert.NilError(t, err)
					assert.Equal(t, n, min(part, size-at))
				}
				assert.NilError(t, sealed.Close())
				opened, err := NewReader(out, sealed.Object("files.tar.zst.age"), []age.Identity{identity})
				assert.NilError(t, err)
				defer opened.Close()
				got, err := io.ReadAll(opened)
				assert.NilError(t, err)
				assert.Assert(t, bytes.Equal(got, content))
			})
		}
	}
}

type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

// A failure of the underlying writer ends the writing.
func TestFramesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	sealed, err := NewFramed(full{}, nil)
	assert.NilError(t, err)
	_, err = sealed.Write(make([]byte, 2*mostFrames*frameSize))
	assert.ErrorIs(t, err, errFull)
	sealed, err = NewFramed(full{}, nil)
	assert.NilError(t, err)
	_, err = sealed.Write([]byte("little"))
	assert.NilError(t, err)
	assert.ErrorIs(t, sealed.Close(), errFull)
}
