// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"fmt"
	"io"
	"runtime"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

const (
	// frameSize is the size of a frame's content. Larger frames compress slightly better and need more memory.
	frameSize = 8 << 20
	// mostFrames limits the number of frames that are compressed in parallel, and therefore the memory.
	mostFrames = 4
)

// NewFramed returns a Writer that compresses on all processors. The output is a sequence of zstd frames, which every zstd decoder reads as
// one stream.
func NewFramed(w io.Writer, recipients []age.Recipient) (*Writer, error) {
	s, next, err := newWriter(w, recipients)
	if err != nil {
		return nil, err
	}
	atOnce := min(runtime.GOMAXPROCS(0), mostFrames)
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(atOnce), zstd.WithWindowSize(frameSize), zstd.WithZeroFrames(true))
	if err != nil {
		return nil, fmt.Errorf("begin to compress: %w", err)
	}
	f := &frames{to: next, encoder: encoder}
	for range atOnce + 1 { // one frame is being filled while the others are compressed
		f.free = append(f.free, &frame{plain: make([]byte, 0, frameSize), done: make(chan struct{}, 1)})
	}
	s.zstd = f
	return s, nil
}

// frames compresses a stream in independent frames and writes them in order. It returns the errors of the underlying writer.
type frames struct {
	to      io.Writer
	encoder *zstd.Encoder
	// free are frames to fill; the first one is being filled. pending are the frames that are being compressed or wait to be compressed,
	// oldest first.
	free, pending []*frame
}

type frame struct {
	plain, packed []byte
	done          chan struct{}
}

func (f *frames) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if len(f.free) == 0 {
			if err := f.emit(); err != nil {
				return n, err
			}
		}
		one := f.free[0]
		part := min(len(p), frameSize-len(one.plain))
		one.plain = append(one.plain, p[:part]...)
		p, n = p[part:], n+part
		if len(one.plain) == frameSize {
			f.begin()
		}
	}
	return n, nil
}

// begin compresses the first frame in the background.
func (f *frames) begin() {
	one := f.free[0]
	f.free, f.pending = f.free[1:], append(f.pending, one)
	go func() {
		one.packed = f.encoder.EncodeAll(one.plain, one.packed[:0])
		one.done <- struct{}{}
	}()
}

// emit writes the oldest frame.
func (f *frames) emit() error {
	one := f.pending[0]
	<-one.done
	_, err := f.to.Write(one.packed)
	one.plain = one.plain[:0]
	f.free, f.pending = append(f.free, one), f.pending[1:]
	return err
}

// Close writes the remaining frames. If there was no content, it writes an empty frame, because a zstd stream must have a frame.
func (f *frames) Close() error {
	if len(f.free) > 0 && (len(f.free[0].plain) > 0 || len(f.pending) == 0) {
		f.begin()
	}
	for len(f.pending) > 0 {
		if err := f.emit(); err != nil {
			return err
		}
	}
	return nil
}
